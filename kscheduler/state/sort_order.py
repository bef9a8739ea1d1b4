"""The order of a QueueSort plugin, made safe: keys that never raise and always compare.

The problem: `sort_key` is a user's code, called whenever a pod enters a queue, and its keys are compared in the middle
of a heap. One that raises, or does not compare with the others, must not cost a pod its place. The idea: a key is
wrapped, and what goes wrong with it is a fact about this one pod: **it goes behind all pods with a sound key, and among
its like in the order of PrioritySort**. Why behind: in front, a bad annotation would be a way to jump the queue; and if
everybody's order became another, one bad pod would switch the policy off for all.

    a                      b                    who goes first
    sound                  sound                as the keys say; equal ones by arrival
    sound                  unsound              a
    unsound                unsound              higher priority, then longer waiting, then arrival
    sound, but comparing raises                 whoever came later is unsound from then on

A key is unsound if making it raises, if it does not compare with itself (`None`, a coroutine), and if it is or holds a
NaN, which is neither before nor after anything. Limit: keys that compare and contradict themselves (a < b, b < c,
c < a) give some order, without loss. The key in-tree plugin PrioritySort gives needs none of this and is used bare.
"""

from collections.abc import Callable
from itertools import count
from time import perf_counter
from typing import Any

from kscheduler.framework.plugin import Point, QueueSortPlugin
from kscheduler.framework.plugin_answers import WrongAnswerError, shown
from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.queued_pod import QueuedPodInfo, priority_order

_THEN = "the pod is sorted behind all others, by priority and time"
_POINT = Point.QUEUE_SORT.label


class SortOrder:
    """Makes the keys of one plugin."""

    def __init__(
        self, plugin: QueueSortPlugin, listener: PluginListener, now: Callable[[], float] = perf_counter
    ) -> None:
        self._plugin = plugin
        self._listener = listener
        self._now = now
        self._serial = count()

    def __call__(self, queued: QueuedPodInfo, /) -> "OrderKey":
        """The pod's key. Never raises."""
        began, key, failure = self._now(), None, None
        try:
            key = _sound(self._plugin.sort_key(queued))
        except BaseException as problem:  # noqa: BLE001  a plugin call
            failure = problem
        seconds = self._now() - began
        if seconds > SLOW_CALL_SECONDS:
            self._listener.slow(self._plugin.name, _POINT, queued.pod, seconds)
        made = OrderKey(key, next(self._serial), queued, self._tell)
        if failure is not None:
            made.is_unsound(failure)
        return made

    def _tell(self, queued: QueuedPodInfo, failure: BaseException) -> None:
        self._listener.failed(self._plugin.name, _POINT, queued.pod, failure, _THEN)


class OrderKey:
    """A pod's place among others. `<` never raises."""

    __slots__ = ("_has_failed", "_in_priority_order", "_key", "_queued", "_serial", "_tell")

    def __init__(
        self, key: Any, serial: int, queued: QueuedPodInfo, tell: Callable[[QueuedPodInfo, BaseException], None]
    ) -> None:
        self._key = key
        self._serial = serial
        self._queued = queued
        self._in_priority_order = priority_order(queued)
        """As it is now: a pod's timestamp may move before its old entry has sunk out of a heap."""
        self._tell = tell
        self._has_failed = False

    def is_unsound(self, failure: BaseException) -> None:
        """The plugin's key is of no use: from now on the pod goes behind those whose key is."""
        self._has_failed = True
        self._key = None
        self._tell(self._queued, failure)

    def __lt__(self, other: "OrderKey") -> bool:
        if not (self._has_failed or other._has_failed):
            try:
                return self._is_before(other)
            except BaseException as failure:  # noqa: BLE001  a plugin call: keys may be of its own classes
                late = self if self._serial > other._serial else other
                late.is_unsound(failure)
        if self._has_failed is not other._has_failed:
            return other._has_failed
        return (self._in_priority_order, self._serial) < (other._in_priority_order, other._serial)

    def _is_before(self, other: "OrderKey") -> bool:
        """By the plugin's keys; equal ones by arrival. Raises what comparing them raises."""
        if self._key < other._key:
            return True
        return not other._key < self._key and self._serial < other._serial


def _sound(key: Any) -> Any:
    """The key, if it can be compared with its like. Raises what its own comparison raises, or `WrongAnswerError`."""
    try:
        is_before_itself = bool(key < key)
    except TypeError as failure:
        raise WrongAnswerError(f"it answered {shown(key)}, which does not compare with its like") from failure
    if is_before_itself or _holds_nan(key):
        raise WrongAnswerError(f"it answered {shown(key)}, which is neither before nor after its like")
    return key


def _holds_nan(key: Any) -> bool:
    if isinstance(key, tuple | list):
        return any(map(_holds_nan, key))
    return isinstance(key, float) and key != key
