"""Which requests leave together in one write, and whether the server takes it.

The problem: in a storm half a dozen Bindings become ready in the same turn of the event loop, and each pays for a TLS
record, a system call and a wake-up of its own: 13 us of CPU alone, 4 in fours. The idea: those that are ready in the
same turn leave in short pipelines, up to `depth` requests one after the other on one connection, over as few
connections as that needs. Nothing waits for company: while few requests are under way each leaves at once by itself.

A server handles a pipeline in order. So only requests of one kind and namespace share one (`HttpRequest.joins`): what
hangs delays only its like. Where answers take long, for example because of a webhook, side by side is better than one
after the other: as soon as a pipeline has taken a second, its like leave alone for a minute.

RFC 9112 (9.3.2) warns of writes in pipelines, since after a broken connection nobody knows which were carried out. Here
that is what it is for any write without an answer: its outcome is unknown, and the caller settles it (a Binding has a
UID, the pod is read; an Event has its name). A broken connection costs its pipeline.

    untried --first pipeline, of two--> probing --all answered--> taken --all answered--> taken
       ^                                   |                        |
       '------- broke, for the first time -+------------------------'
       '------- PAUSE_SECONDS later -- off <-- broke, for the second time in a row

It does not always pay. While our own process is the limit (answers wait for it), a Binding in fours costs a quarter to
a third less CPU: 27 us instead of 35, with answers that take 1 ms. While the server is the limit, its answers come one
by one instead of several at a time, and each wakes the loop: 86 us instead of 67, with answers that take 20 ms, and
0.54 ms a pod instead of 0.50 beside an API server on the same two cores. So it is off unless `--pipeline-depth` says
otherwise.

An API server that restarts breaks pipelines, too: so once is no proof, and after a pause it is tried again. One that
answers nothing in time has broken none. Pure.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from kscheduler.bounded import RecentlyUsed
from kscheduler.client.http.http1 import HttpRequest, Response

# Requests under way in a pool from which on others join: with fewer the server has room to answer them side by side.
BUSY: Final = 8
# Pipelines in a row that broke before the server is taken for one that does not take them.
MOST_BROKEN: Final = 2
PAUSE_SECONDS: Final = 600.0
# A pipeline that takes longer is slow, and its like leave alone for so long.
SLOW_SECONDS: Final = 1.0
ALONE_SECONDS: Final = 60.0
# Kinds of requests that are known to be slow; the one that was found longest ago is forgotten.
_MOST_SLOW: Final = 256


class ReadyRequest(msgspec.Struct):
    """A request that is to leave in this turn of the event loop."""

    request: HttpRequest
    data: bytes
    deadline: float
    """In seconds of the loop's clock."""
    answer: "asyncio.Future[Response | None]"
    """`None`: it could not join others, and leaves alone."""


class Pipeline(msgspec.Struct, frozen=True, gc=False):
    """Requests that have left together."""

    joins: str
    count: int
    sent_at: float
    """In seconds of the loop's clock."""
    generation: int
    """How often pipelines had broken when it left."""
    number: int


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
        self._numbers = 0
        self._under_way: dict[str, dict[int, float]] = {}
        """When those that are not answered left, by what they join and number, in that order."""
        self._alone_until: RecentlyUsed[str, float] = RecentlyUsed(_MOST_SLOW)
        """Whose pipelines were slow."""
        self.requests = 0
        """That left in pipelines since the start."""

    @property
    def is_wanted(self) -> bool:
        """Whether requests may leave together at all."""
        return self._depth > 1

    def split(self, ready: list[ReadyRequest], now: float) -> list[list[ReadyRequest]]:
        """Who leaves with whom, of those that may join each other; each keeps the order. `now` in monotonic seconds."""
        if self._is_slow(ready[0].request.joins, now):
            return [[one] for one in ready]
        if self._is_taken:
            count = -(-len(ready) // self._depth)
            return [ready[number::count] for number in range(count)]
        if self._is_probing or now < self._off_until:
            return [[one] for one in ready]
        return [ready[:2], *([one] for one in ready[2:])]

    def began(self, joins: str, count: int, now: float) -> Pipeline:
        """So many requests have left together."""
        self.requests += count
        self._is_probing = not self._is_taken
        self._numbers += 1
        self._under_way.setdefault(joins, {})[self._numbers] = now
        return Pipeline(joins, count, now, self._generation, self._numbers)

    def completed(self, pipeline: Pipeline, now: float) -> None:
        """All of its requests were answered."""
        self._end(pipeline, now)
        self._is_taken, self._is_probing, self._broken = True, False, 0

    def broke(self, pipeline: Pipeline, reason: str, now: float) -> None:
        """It ended before all were answered."""
        self._end(pipeline, now)
        if pipeline.generation != self._generation:
            return  # as another one that was under way at the same time
        self._generation += 1
        self._is_taken = self._is_probing = False
        self._broken += 1
        if self._broken >= MOST_BROKEN:
            self._off_until = now + PAUSE_SECONDS
            self._on_off(reason)

    def timed_out(self, pipeline: Pipeline, now: float) -> None:
        """Not even the first was answered in time, which says nothing of pipelines."""
        self._end(pipeline, now)
        self._is_probing = False

    def _is_slow(self, joins: str, now: float) -> bool:
        """Whether such requests leave alone, because pipelines of theirs take long."""
        under_way = self._under_way.get(joins)
        if under_way is not None and now - next(iter(under_way.values())) > SLOW_SECONDS:
            self._alone_until.put(joins, now + ALONE_SECONDS)
            return True
        return now < self._alone_until.get(joins, now)

    def _end(self, pipeline: Pipeline, now: float) -> None:
        under_way = self._under_way[pipeline.joins]
        del under_way[pipeline.number]
        if not under_way:
            del self._under_way[pipeline.joins]
        if now - pipeline.sent_at > SLOW_SECONDS:
            self._alone_until.put(pipeline.joins, now + ALONE_SECONDS)
