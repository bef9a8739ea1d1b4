"""Waiting for changes of certain pods without polling.

A preemptor waits until the watch shows its victims gone or terminating. That can only change with an event of these
pods, or when an attempt that was stopped in memory ends. So each wait names its pods, and its condition is checked
again when something happens to one of them. While nothing happens, no task wakes up, however many wait.

Limit: an event may never come (a version that cannot be decoded is not shown), so each wait ends after
`LONGEST_LAG_SECONDS` at the latest.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod

# After this time a preemptor is tried again even if the watch does not show its victims terminating. A watch that has
# fallen silent is replaced after 45 s.
LONGEST_LAG_SECONDS: Final = 120.0


class _Wait:
    """One wait: its condition, and the event that ends it."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over
        self.ended = asyncio.Event()


class PodChangeWaits:
    """All waits, by pod. Implements `informers.Handler`; must be called after the handler that updates the cache."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[str, list[_Wait]] = {}
        """By the keys (`namespace/name`) of the awaited pods."""

    async def until(self, is_over: Callable[[], bool], keys: Collection[str]) -> None:
        """Wait until `is_over()` is true, at most `LONGEST_LAG_SECONDS`. It is checked when one of the pods changes.

        The waiting task continues in a later turn of the event loop, after the event has been handled completely.
        """
        if is_over():
            return
        wait = _Wait(is_over)
        for key in keys:
            self._waits.setdefault(key, []).append(wait)
        limit = self._clock.call_later(LONGEST_LAG_SECONDS, wait.ended.set)
        try:
            await wait.ended.wait()
        finally:
            limit.cancel()
            for key in keys:
                self._leave(key, wait)

    def _leave(self, key: str, wait: _Wait) -> None:
        waits = self._waits[key]
        waits.remove(wait)
        if not waits:
            del self._waits[key]

    def look(self, key: str) -> None:
        """Something has happened to a pod: check the waits that name it."""
        for wait in self._waits.get(key, ()):
            if wait.is_over():
                wait.ended.set()

    # --- the watch ----------------------------------------------------------------------------------------------------

    def on_add(self, obj: Pod, initial: bool) -> None:
        """A pod has appeared, perhaps with the name of an awaited one."""
        del initial
        if self._waits:
            self.look(obj.key)

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod has changed."""
        del old
        if self._waits:
            self.look(new.key)

    def on_delete(self, obj: Pod) -> None:
        """A pod is gone."""
        if self._waits:
            self.look(obj.key)
