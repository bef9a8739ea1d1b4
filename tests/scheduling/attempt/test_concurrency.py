"""How many requests are on the wire: as many as bring something, fewer where they only queue up, half on 429."""

import heapq
import itertools
import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.scheduling.work.concurrency import LEAST_BY_LATENCY, AdaptiveLimit


def full(limit: AdaptiveLimit) -> None:
    """Take every place."""
    while limit.has_room():
        limit.begin()


def answer(limit: AdaptiveLimit, times: int, seconds: float) -> None:
    """So many answers after this time, with all places in use."""
    for _ in range(times):
        full(limit)
        limit.answered(seconds, limit.period)
        limit.end(limit.period)


@dataclass
class ModelServer:
    """Works on `capacity` requests at a time, `seconds` each (half to twice that); the others wait, or get a 429."""

    capacity: int
    seconds: float
    most_waiting: int = 1_000_000
    hanging: float = 0.0
    """The share of requests that a webhook holds for 30 s; those that it holds keep no others from being worked on."""
    answered: int = 0
    refused: int = 0
    longest_queue: int = 0

    def takes(self, rng: random.Random) -> float:
        """Seconds that a request will take."""
        return 30.0 if rng.random() < self.hanging else self.seconds * rng.uniform(0.5, 2.0)


@dataclass
class Loop:
    """Workers that always have another pod, in virtual time."""

    limit: AdaptiveLimit
    rng: random.Random
    now: float = 0.0
    waiting: deque[tuple[float, int]] = field(default_factory=deque)
    at_work: int = 0
    due: list[tuple[float, int, str, float, int]] = field(default_factory=list)
    order: "itertools.count[int]" = field(default_factory=itertools.count)

    def play(self, server: ModelServer, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self._send(server)
            self.now, _, what, began, period = heapq.heappop(self.due)
            if what == "answer":
                self.at_work -= 1
                server.answered += 1
                self.limit.answered(self.now - began, period)
                self.limit.end(period)
            elif what == "refusal":  # the pod keeps its place while it waits
                server.refused += 1
                self.limit.refused()
                self._later(0.1, "retry", began, period)
            else:
                self.limit.end(period)

    def _send(self, server: ModelServer) -> None:
        while self.limit.has_room():
            period = self.limit.begin()
            if len(self.waiting) >= server.most_waiting:
                self._later(0.001, "refusal", self.now, period)
            else:
                self.waiting.append((self.now, period))
        while self.waiting and self.at_work < server.capacity:
            self.at_work += 1
            self._later(server.takes(self.rng), "answer", *self.waiting.popleft())
        server.longest_queue = max(server.longest_queue, len(self.waiting))

    def _later(self, seconds: float, what: str, began: float, period: int) -> None:
        heapq.heappush(self.due, (self.now + seconds, next(self.order), what, began, period))


def places(limit: AdaptiveLimit) -> int:
    return limit.statistics().limit


# --- in small -------------------------------------------------------------------------------------------------------


def test_places_are_taken_and_given_back() -> None:
    limit = AdaptiveLimit(2, 8)
    full(limit)
    assert (limit.statistics().in_use, limit.has_room()) == (2, False)
    limit.end(limit.period)
    assert limit.has_room()


def test_idle_places_do_not_grow_it() -> None:
    limit = AdaptiveLimit(4, 100)
    limit.begin()
    for _ in range(1_000):
        limit.answered(0.01, limit.period)
    assert places(limit) == 4


def test_brisk_answers_with_all_places_taken_grow_it_to_the_most() -> None:
    limit = AdaptiveLimit(4, 100)
    answer(limit, 20_000, 0.01)
    assert places(limit) == 100


def test_a_few_answers_that_hang_are_not_taken_for_the_server() -> None:
    limit = AdaptiveLimit(16, 16)
    for _ in range(1_000):
        answer(limit, 9, 0.01)
        answer(limit, 1, 30.0)
    assert places(limit) == 16


def test_a_burst_of_refusals_is_one_cut() -> None:
    limit = AdaptiveLimit(16, 64)
    limit.refused()
    assert places(limit) == 8
    for _ in range(6):
        limit.refused()
    assert places(limit) == 8
    for _ in range(8):
        limit.answered(0.01, limit.period)
    limit.refused()
    assert places(limit) == 4


def test_refusals_alone_leave_one_place() -> None:
    limit = AdaptiveLimit(16, 64)
    for _ in range(1_000):
        limit.refused()
    assert places(limit) == 1


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6))), st.integers(1, 64), st.integers(1, 64))
def test_it_stays_between_one_and_the_most_and_somebody_may_always_go(
    answers: list[float | None], start: int, most: int
) -> None:
    limit = AdaptiveLimit(start, most)
    for seconds in answers:
        full(limit)
        assert limit.statistics().in_use >= 1
        if seconds is None:
            limit.refused()
        else:
            limit.answered(seconds, limit.period)
        limit.end(limit.period)
        assert 1 <= places(limit) <= max(start, most)


def test_a_calm_round_comes_after_every_twelve_rounds_that_are_compared_with_it() -> None:
    """Rarer, it would notice late that a server has slowed down; more often, it would cost more than a tenth."""
    limit = AdaptiveLimit(16, 16)
    answered: dict[int, int] = {}
    for _ in range(2_000):
        full(limit)
        answered[limit.period] = answered.get(limit.period, 0) + 1
        limit.answered(0.3, limit.period)
        limit.end(limit.period)
    settling, calm, compared, last = 4, 8, 12 * 16, 16
    whole = [answered[period] for period in range(1, max(answered))]
    assert whole == [settling + calm + compared + last] * len(whole)
    assert len(whole) >= 5


# --- against a server -----------------------------------------------------------------------------------------------

SEEDS = [pytest.param(seed, id=f"seed-{seed}") for seed in range(5)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_with_room_gets_all_it_can(seed: int) -> None:
    limit = AdaptiveLimit(16, 64)
    Loop(limit, random.Random(seed)).play(ModelServer(capacity=1_000, seconds=0.02), 1.0)
    assert places(limit) == 64


@pytest.mark.parametrize("seed", SEEDS)
def test_a_queue_that_nobody_notices_is_left_alone(seed: int) -> None:
    limit = AdaptiveLimit(16, 64)
    Loop(limit, random.Random(seed)).play(ModelServer(capacity=4, seconds=0.01), 20.0)
    assert places(limit) == 64


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_for_long_inside_the_server_is_taken_back_and_little_is_lost_by_it(seed: int) -> None:
    limit, server = AdaptiveLimit(64, 64), ModelServer(capacity=8, seconds=0.1)
    loop = Loop(limit, random.Random(seed))
    loop.play(server, 50.0)
    server.answered = server.longest_queue = 0
    loop.play(server, 100.0)
    assert server.longest_queue <= 40, "of 56 that would wait with all places in use"
    assert server.answered >= 0.9 * 100.0 * server.capacity / (1.25 * server.seconds)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_slows_down_is_spared_and_gets_more_again_when_it_is_well(seed: int) -> None:
    limit = AdaptiveLimit(16, 64)
    loop, well = Loop(limit, random.Random(seed)), ModelServer(capacity=1_000, seconds=0.02)
    loop.play(well, 10.0)
    loop.play(ModelServer(capacity=4, seconds=0.1), 100.0)
    assert LEAST_BY_LATENCY <= places(limit) <= 24
    loop.play(well, 10.0)
    assert places(limit) == 64


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_is_slow_by_itself_gets_no_less(seed: int) -> None:
    """Each write takes twenty times as long, as behind a slow webhook, however few there are."""
    limit = AdaptiveLimit(16, 64)
    loop = Loop(limit, random.Random(seed))
    loop.play(ModelServer(capacity=1_000, seconds=0.02), 10.0)
    loop.play(ModelServer(capacity=1_000, seconds=0.4), 200.0)
    assert places(limit) == 64


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_refuses_what_is_too_much_is_hardly_made_to(seed: int) -> None:
    limit, server = AdaptiveLimit(64, 64), ModelServer(capacity=16, seconds=0.02, most_waiting=4)
    loop = Loop(limit, random.Random(seed))
    loop.play(server, 5.0)
    server.answered = server.refused = 0
    loop.play(server, 20.0)
    assert server.refused < server.answered / 10
    loop.play(ModelServer(capacity=1_000, seconds=0.02), 10.0)
    assert places(limit) == 64, "it recovers when nothing is refused any more"


@pytest.mark.parametrize("seed", range(3))
def test_binds_that_hang_in_a_webhook_hold_up_nobody_else(seed: int) -> None:
    """They had the places of the round with few of them, and for half a minute nothing was sent."""
    server = ModelServer(capacity=1_000, seconds=0.3, hanging=0.02)
    loop = Loop(AdaptiveLimit(16, 64), random.Random(seed))
    loop.play(server, 60.0)
    for _ in range(240):
        before = server.answered
        loop.play(server, 2.0)
        assert server.answered > before + 10


@pytest.mark.parametrize("seed", SEEDS)
def test_with_other_bounds_it_adapts_from_the_new_start(seed: int) -> None:
    """As after a restart with that parallelism, but requests in flight keep their places."""
    limit, server = AdaptiveLimit(16, 64), ModelServer(capacity=1_000, seconds=0.02)
    loop = Loop(limit, random.Random(seed))
    loop.play(server, 10.0)
    in_use = limit.statistics().in_use
    assert in_use > 8
    limit.restart(2, 8)
    assert places(limit) == 2
    assert limit.statistics().in_use == in_use
    assert not limit.has_room()
    loop.play(server, 10.0)
    assert places(limit) == 8
    assert limit.statistics().in_use <= 8
    limit.restart(32, 128)
    loop.play(server, 10.0)
    assert places(limit) == 128
