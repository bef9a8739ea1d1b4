"""Waiting until something shows on certain pods, without asking again and again.

A preemptor waits until the watch shows its victims gone or going. What tells so are the events of these pods, and the
end of an attempt that was stopped in memory; so whoever waits names the pods, and its question is put again when one of
them is heard of. While nothing happens nobody wakes up, however many wait.

Limit: an event may never come (a version that cannot be decoded is not shown), so each wait ends after
`LONGEST_LAG_SECONDS` by itself.
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod

LONGEST_LAG_SECONDS: Final = 120.0
"""After so long a preemptor looks again even if the watch has not shown its victims going. A watch that has fallen
silent is found out and replaced well before."""


class _Wait:
    """Somebody who waits."""

    def __init__(self, is_over: Callable[[], bool]) -> None:
        self.is_over = is_over
        self.ended = asyncio.Event()


class Sightings:
    """Who waits for which pods. Implements `informers.Handler`, and stands behind the handler that feeds the cache."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waits: dict[str, list[_Wait]] = {}
        """By the keys (`namespace/name`) of the pods that are waited for."""

    async def until(self, is_over: Callable[[], bool], keys: Collection[str]) -> None:
        """Return when `is_over` says so after a look at one of these pods; at the latest after `LONGEST_LAG_SECONDS`.

        Whoever waits goes on in a turn of the loop of its own, when all that the event moves has been moved.
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
        """Something has happened to a pod: ask those who wait for it whether that was all."""
        for wait in self._waits.get(key, ()):
            if wait.is_over():
                wait.ended.set()

    # --- the watch ----------------------------------------------------------------------------------------------------

    def on_add(self, obj: Pod, initial: bool) -> None:
        """A pod has appeared; perhaps under the name of one that is waited for."""
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
