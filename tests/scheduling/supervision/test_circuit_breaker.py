"""The circuit of a plugin: who opens it, who closes it, and who is held back."""

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.scheduling.supervision.circuit_breaker import (
    ANSWERS_SECONDS,
    GRACE_SECONDS,
    CircuitBreaker,
    CircuitState,
)
from kscheduler.scheduling.supervision.holds import FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS, NO_NAMESPACE, Caller


class Timed:
    """A circuit, and its clock."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self.clock = VirtualClock()
        self.breaker = CircuitBreaker(lambda: self.clock.monotonic() + self._ahead)

    def passes(self, seconds: float) -> None:
        self._ahead += seconds

    def fails(self, *namespaces: str, point: str = "Filter") -> bool:
        """One new pod of each namespace fails; returns whether the last one has opened the circuit."""
        opened = False
        for namespace in namespaces:
            self._ahead += 0.001
            opened = self.breaker.failed(point, Caller(namespace, f"{namespace}-{self._ahead}"))
        return opened

    def open(self) -> None:
        assert self.fails("a", "b", "c")


def test_failures_of_several_namespaces_with_nothing_right_in_between_open_it() -> None:
    timed = Timed()
    assert not timed.fails("a", "b")
    assert timed.breaker.is_watched
    assert timed.fails("a")
    assert timed.breaker.state is CircuitState.OPEN


@pytest.mark.parametrize("pods", [3, 1000])
def test_failures_of_one_namespace_never_do(pods: int) -> None:
    timed = Timed()
    assert not timed.fails(*["evil"] * pods)
    assert timed.breaker.state is CircuitState.CLOSED


def test_retries_of_one_pod_never_do() -> None:
    timed = Timed()
    for _ in range(100):
        assert not timed.breaker.failed("Filter", Caller("a", "p"))
        assert not timed.breaker.failed("Filter", Caller("b", "q"))


def test_a_right_answer_in_between_begins_anew_and_costs_nothing_afterwards() -> None:
    timed = Timed()
    timed.fails("a", "b")
    assert not timed.breaker.answered("Filter")
    assert not timed.breaker.is_watched
    assert not timed.fails("a", "b", "c", "d"), "it has answered just now"
    timed.passes(ANSWERS_SECONDS)
    assert timed.fails("a")


def test_a_right_answer_elsewhere_is_none_here() -> None:
    timed = Timed()
    timed.fails("a", "b")
    timed.breaker.answered("PreFilter")
    assert timed.fails("c")


def test_a_half_open_circuit_is_decided_by_one_call() -> None:
    timed = Timed()
    timed.open()
    waits = []
    for _ in range(7):
        wait = timed.breaker.seconds_to_trial()
        waits.append(round(wait))
        assert not timed.breaker.is_due()
        timed.passes(wait)
        assert timed.breaker.is_due()
        timed.breaker.half_open()
        assert timed.fails("d"), "one failure opens it again"
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    timed.passes(LONGEST_BACKOFF_SECONDS)
    timed.breaker.half_open()
    assert timed.breaker.answered("Filter")
    assert timed.breaker.state is CircuitState.CLOSED
    timed.passes(ANSWERS_SECONDS)
    timed.open()
    assert round(timed.breaker.seconds_to_trial()) == FIRST_BACKOFF_SECONDS


def test_who_has_failed_lets_others_decide_first() -> None:
    timed = Timed()
    timed.open()
    timed.passes(FIRST_BACKOFF_SECONDS)
    timed.breaker.half_open()
    assert "is tried again" in timed.breaker.refusal("X", Caller("a", "always first"))
    assert not timed.breaker.refusal("X", Caller("sound", "p"))
    timed.passes(GRACE_SECONDS)
    assert not timed.breaker.refusal("X", Caller("a", "always first")), "nobody else came"


def test_a_namespace_that_has_not_failed_need_not_wait_for_the_back_off() -> None:
    timed = Timed()
    timed.open()
    assert timed.breaker.asks_for("a") is None
    assert timed.breaker.asks_for("sound") == 0.0
    timed.breaker.half_open()
    timed.fails("sound")
    wait = timed.breaker.asks_for("another")
    assert wait is not None
    assert 0.9 < wait <= 1.0, "however many namespaces there are, one trial a second"


def test_a_refresh_that_takes_too_long_opens_it_without_any_pod() -> None:
    timed = Timed()
    assert not timed.breaker.failed("Refresh", Caller(NO_NAMESPACE, "1"))
    assert not timed.breaker.failed("Refresh", Caller(NO_NAMESPACE, "2"))
    assert timed.breaker.failed("Refresh", Caller(NO_NAMESPACE, "3"))


def test_pods_that_kept_answers_have_placed_were_answered() -> None:
    """Of these the plugin is not asked again, perhaps for hours."""
    timed = Timed()
    timed.breaker.kept_answers += 1
    assert not timed.fails("a", "b", "c", "d"), "another pod was placed by them"
    timed.passes(ANSWERS_SECONDS)
    timed.breaker.kept_answers += 1
    assert not timed.fails("a", "b", "c", "d")
    timed.passes(ANSWERS_SECONDS)
    assert timed.fails("a"), "none since"


def test_of_a_namespace_that_has_failed_a_new_pod_is_tried_within_ten_seconds() -> None:
    timed = Timed()
    timed.open()
    for _ in range(5):
        timed.passes(timed.breaker.seconds_to_trial())
        timed.breaker.half_open()
        timed.fails("a")
    assert timed.breaker.seconds_to_trial() > 100
    wait = timed.breaker.asks_for("a", "new")
    assert wait is not None
    assert wait <= FIRST_BACKOFF_SECONDS
    timed.passes(wait)
    timed.breaker.half_open()
    assert "is tried again" in timed.breaker.refusal("X", Caller("a", "old"))
    assert not timed.breaker.refusal("X", Caller("a", "new"))
    timed.breaker.failed("Filter", Caller("a", "new"))
    assert timed.breaker.asks_for("a", "new") is None, "it fails for it, too"
    timed.breaker.asks_for("a", "newer")
    timed.breaker.asks_for("sound", "s")
    timed.breaker.half_open()
    assert timed.breaker.refusal("X", Caller("a", "newer")), "a pod of another namespace has come"
    assert not timed.breaker.refusal("X", Caller("sound", "s"))


def test_pods_of_one_namespace_open_nothing_however_many_and_however_long() -> None:
    timed = Timed()
    for number in range(200):
        timed.passes(60.0)
        assert not timed.breaker.failed("Filter", Caller("a", f"p{number}"))
    assert timed.breaker.state is CircuitState.CLOSED
