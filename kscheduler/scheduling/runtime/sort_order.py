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
from typing import Any

from kscheduler.framework.plugin import QueueSortPlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.queued_pod import QueuedPodInfo, priority_order
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import QUEUE_SORT, QUEUE_SORT_COMPARES


def sort_keys_of(
    plugin: QueueSortPlugin, traits: PluginTraits, listener: PluginListener
) -> Callable[[QueuedPodInfo], Any]:
    """What gives pods their keys; for PrioritySort itself bare, as it can neither fail nor be slow."""
    return plugin.sort_key if traits.is_in_tree else SortOrder(plugin, listener)


class SortOrder:
    """Makes the keys of one plugin."""

    def __init__(self, plugin: QueueSortPlugin, listener: PluginListener) -> None:
        self._plugin = plugin
        self._listener = listener
        self._serial = count()

    def __call__(self, queued: QueuedPodInfo, /) -> "OrderKey":
        """The pod's key. Never raises."""
        plugin, serial = self._plugin, next(self._serial)
        try:
            key = QUEUE_SORT.ask_and_tell(plugin.name, self._listener, queued.pod, plugin.sort_key, queued)
        except PluginFailure:
            return OrderKey(self, None, serial, queued, is_sound=False)
        return OrderKey(self, key, serial, queued)

    def is_before(self, one: Any, other: Any) -> bool:
        """Whether a key of the plugin's is smaller than another. Raises `PluginFailure`, unreported."""
        return QUEUE_SORT_COMPARES.ask(self._plugin.name, _is_smaller, one, other)

    def tell(self, failure: PluginFailure, queued: QueuedPodInfo) -> None:
        """Report that the pod's key does not compare."""
        failure.tell(self._listener, queued.pod)


def _is_smaller(one: Any, other: Any) -> bool:
    return bool(one < other)


class OrderKey:
    """A pod's place among others. `<` never raises."""

    __slots__ = ("_in_priority_order", "_is_sound", "_key", "_order", "_queued", "_serial")

    def __init__(
        self, order: SortOrder, key: Any, serial: int, queued: QueuedPodInfo, *, is_sound: bool = True
    ) -> None:
        self._order = order
        self._key = key
        self._serial = serial
        self._queued = queued
        self._in_priority_order = priority_order(queued)
        """As it is now: a pod's timestamp may move before its old entry has sunk out of a heap."""
        self._is_sound = is_sound

    def __lt__(self, other: "OrderKey") -> bool:
        if self._is_sound and other._is_sound:
            try:
                return self._is_before(other)
            except PluginFailure as failure:
                # of two that do not compare the later one gives way: the queue has lived with the earlier one
                late = self if self._serial > other._serial else other
                late._is_sound, late._key = False, None
                self._order.tell(failure, late._queued)
        if self._is_sound is not other._is_sound:
            return self._is_sound
        return (self._in_priority_order, self._serial) < (other._in_priority_order, other._serial)

    def _is_before(self, other: "OrderKey") -> bool:
        """By the plugin's keys; equal ones by arrival. Raises what comparing them raises."""
        if self._order.is_before(self._key, other._key):
            return True
        return not self._order.is_before(other._key, self._key) and self._serial < other._serial
