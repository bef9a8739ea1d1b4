"""The order of a QueueSort plugin, made safe: keys that never raise and can always be compared.

The problem: `sort_key` is a user's code, called whenever a pod enters a queue, and its keys are compared in the
middle of a heap operation. A key that raises, or that cannot be compared with the others, must not lose a pod. The
idea: each key is wrapped, and a key that fails affects its own pod only: **that pod sorts behind all pods with a
sound key, and among pods with unsound keys in the order of PrioritySort**. Why behind: in front, a bad annotation
would be a way to jump the queue; and if the order of all pods changed, one bad pod would switch the policy off for
everybody.

    a                      b                    which pod goes first
    sound                  sound                as the keys say; equal keys by arrival
    sound                  unsound              a
    unsound                unsound              higher priority, then longer waiting, then arrival
    sound, but comparing raises                 the later of the two is unsound from then on

A key is unsound if making it raises, if it cannot be compared with itself (`None`, a coroutine), or if it is or holds
a NaN, which is neither before nor after anything. Limit: keys that contradict themselves (a < b, b < c, c < a) give
some order, and no pod is lost. The keys of the in-tree plugin PrioritySort need none of this and are not wrapped.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from kscheduler.framework.plugin import QueueSortPlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.queued_pod import QueuedPodInfo, priority_order
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import (
    QUEUE_SORT,
    QUEUE_SORT_COMPARES,
)


def sort_keys_of(
    plugin: QueueSortPlugin, traits: PluginTraits, listener: PluginListener
) -> Callable[[QueuedPodInfo], Any]:
    """From a queued pod to its key; PrioritySort's is not wrapped, because it can neither fail nor be slow."""
    return plugin.sort_key if traits.is_in_tree else SortOrder(plugin, listener)


class SortOrder:
    """Makes the wrapped keys of one plugin."""

    def __init__(self, plugin: QueueSortPlugin, listener: PluginListener) -> None:
        self._plugin = plugin
        self._listener = listener
        self._serial = count()

    def __call__(self, queued: QueuedPodInfo, /) -> "OrderKey":
        """The pod's key. Never raises."""
        plugin, serial = self._plugin, next(self._serial)
        try:
            key = QUEUE_SORT.call_and_report(plugin.name, self._listener, queued.pod, plugin.sort_key, queued)
        except PluginFailure:
            return OrderKey(self, None, serial, queued, is_sound=False)
        return OrderKey(self, key, serial, queued)

    def is_before(self, key: Any, other_key: Any) -> bool:
        """Whether the plugin's `key` is smaller than `other_key`. Raises `PluginFailure` without reporting it."""
        return QUEUE_SORT_COMPARES.call(self._plugin.name, _is_smaller, key, other_key)

    def report(self, failure: PluginFailure, queued: QueuedPodInfo) -> None:
        """Report that the pod's key cannot be compared."""
        failure.report(self._listener, queued.pod)


def _is_smaller(key: Any, other_key: Any) -> bool:
    return bool(key < other_key)


class OrderKey:
    """A pod's wrapped key. `<` never raises."""

    __slots__ = ("_in_priority_order", "_is_sound", "_key", "_order", "_queued", "_serial")

    def __init__(
        self, order: SortOrder, key: Any, serial: int, queued: QueuedPodInfo, *, is_sound: bool = True
    ) -> None:
        self._order = order
        self._key = key
        self._serial = serial
        self._queued = queued
        self._in_priority_order = priority_order(queued)
        """Fixed at this moment: the pod's timestamp may change while an old entry of it is still in a heap."""
        self._is_sound = is_sound

    def __lt__(self, other: "OrderKey") -> bool:
        if self._is_sound and other._is_sound:
            try:
                return self._is_before(other)
            except PluginFailure as failure:
                # The later of the two becomes unsound: the earlier key has been compared with others before.
                late = self if self._serial > other._serial else other
                late._is_sound, late._key = False, None
                self._order.report(failure, late._queued)
        if self._is_sound is not other._is_sound:
            return self._is_sound
        return (self._in_priority_order, self._serial) < (other._in_priority_order, other._serial)

    def _is_before(self, other: "OrderKey") -> bool:
        """By the plugin's keys; equal keys by arrival. Raises `PluginFailure`."""
        if self._order.is_before(self._key, other._key):
            return True
        return not self._order.is_before(other._key, self._key) and self._serial < other._serial
