"""Which requests leave together in one write, and whether the server takes it.

The problem: in a storm half a dozen Bindings become ready in the same turn of the event loop, and each pays for a TLS
record, a system call and a wake-up of its own: 13 us of CPU alone, 4 in fours. The idea: those that are ready in the
same turn leave in short pipelines, up to `depth` requests one after the other on one connection, over as few
connections as that needs. Nothing waits for company: while few requests are under way each leaves at once by itself.

A server handles a pipeline in order. So only requests of one kind and namespace share one (`HttpRequest.joins`): what
hangs delays only its like. RFC 9112 (9.3.2) warns of writes in pipelines, since after a broken connection nobody knows
which were carried out. Here that is what it is for any write without an answer: its outcome is unknown, and the caller
settles it (a Binding has a UID, the pod is read; an Event has its name). A broken connection costs its pipeline.

    untried --first pipeline, of two--> probing --all answered--> taken --all answered--> taken
       ^                                   |                        |
       '------- broke, for the first time -+------------------------'
       '------- PAUSE_SECONDS later -- off <-- broke, for the second time in a row

An API server that restarts breaks pipelines, too: so once is no proof, and after a pause it is tried again. Pure.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from kscheduler.client.http.http1 import HttpRequest, Response

# Requests in one pipeline, where nothing else is said; the API server answers them one after the other.
DEPTH: Final = 4
# Requests under way in a pool from which on others join: with fewer the server has room to answer them side by side.
BUSY: Final = 8
# Pipelines in a row that broke before the server is taken for one that does not take them.
MOST_BROKEN: Final = 2
PAUSE_SECONDS: Final = 600.0


class ReadyRequest(msgspec.Struct):
    """A request that is to leave in this turn of the event loop."""

    request: HttpRequest
    data: bytes
    deadline: float
    """In seconds of the loop's clock."""
    answer: "asyncio.Future[Response | None]"
    """`None`: it could not join others, and leaves alone."""


class Pipelining:
    """Whether a server takes pipelines, as far as is known, and who leaves with whom."""

    def __init__(self, depth: int, on_off: Callable[[str], None] = lambda _reason: None) -> None:
        """`depth`: 1 means never. `on_off` hears when pipelines are given up for a while, and why."""
        self._depth = depth
        self._on_off = on_off
        self._is_taken = False
        self._is_probing = False
        self._broken = 0
        """Times in a row that pipelines broke. Those that were under way at the same time broke once."""
        self._generation = 0
        """Increased when pipelines break."""
        self._off_until = float("-inf")
        self.requests = 0
        """That left in pipelines since the start."""

    @property
    def is_wanted(self) -> bool:
        """Whether requests may leave together at all."""
        return self._depth > 1

    def split(self, ready: list[ReadyRequest], now: float) -> list[list[ReadyRequest]]:
        """Who leaves with whom, of those that may join each other; each keeps the order. `now` in monotonic seconds."""
        if self._is_taken:
            count = -(-len(ready) // self._depth)
            return [ready[number::count] for number in range(count)]
        if self._is_probing or now < self._off_until:
            return [[one] for one in ready]
        return [ready[:2], *([one] for one in ready[2:])]

    def began(self, count: int) -> int:
        """A pipeline of so many requests has left. Returns its generation, for `broke`."""
        self.requests += count
        self._is_probing = not self._is_taken
        return self._generation

    def completed(self) -> None:
        """All of a pipeline's requests were answered."""
        self._is_taken, self._is_probing, self._broken = True, False, 0

    def broke(self, generation: int, reason: str, now: float) -> None:
        """A pipeline ended before all were answered."""
        if generation != self._generation:
            return  # as another one that was under way at the same time
        self._generation += 1
        self._is_taken = self._is_probing = False
        self._broken += 1
        if self._broken >= MOST_BROKEN:
            self._off_until = now + PAUSE_SECONDS
            self._on_off(reason)
