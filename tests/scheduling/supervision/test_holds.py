"""For whom a plugin is not called for a while: the pod for which it was slow, or the namespace of many such pods."""

import pytest

from kscheduler.scheduling.supervision.holds import (
    EARLY_ENDS,
    FORGOTTEN_AFTER_SECONDS,
    LONGEST_BACKOFF_SECONDS,
    MANY_PODS,
    NO_NAMESPACE,
    SHORT_SECONDS,
    STRIKES,
    Caller,
    Holds,
)

GOOD = Caller("a", "good")


class Timed:
    """Holds, and their clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.holds = Holds(lambda: self.now, lambda: self.now)

    def slow(self, uid: str, namespace: str = "a") -> float:
        """A call for this pod took too long. Returns the seconds of the hold that begins."""
        held = self.holds.overran(Caller(namespace, uid), "Filter", f"{namespace}/{uid}", "TimeBudgetError (f.py:6)")
        return 0.0 if held is None else held.seconds

    def is_held(self, uid: str, namespace: str = "a", point: str = "Filter") -> bool:
        return self.holds.of(Caller(namespace, uid), point) is not None

    def hold_namespace(self, *uids: str) -> None:
        """Many pods are slow."""
        for uid in uids or [f"s{number}" for number in range(MANY_PODS)]:
            self.slow(uid)
        assert self.is_held("good")


def test_what_is_slow_for_one_pod_is_held_back_from_that_pod_for_longer_each_time() -> None:
    timed = Timed()
    waits = []
    for _ in range(9):
        seconds = timed.slow("loop")
        waits.append(seconds)
        assert timed.is_held("loop")
        assert not timed.is_held("loop", point="Score"), "there it may be quick"
        assert not timed.is_held("good")
        timed.now += seconds
        assert not timed.is_held("loop")
    assert waits == [1, 10, 20, 40, 80, 160, 300, 300, 300]
    timed.now += FORGOTTEN_AFTER_SECONDS + LONGEST_BACKOFF_SECONDS
    assert timed.slow("loop") == 1, "forgotten"


def test_a_few_slow_pods_of_a_namespace_never_hold_back_the_others() -> None:
    timed = Timed()
    for _ in range(1000):
        timed.now += 1
        for number in range(MANY_PODS - 1):
            if not timed.is_held(f"s{number}"):
                timed.slow(f"s{number}")
        assert not timed.is_held("good")


def test_many_different_slow_pods_within_a_short_time_hold_the_namespace_back_and_no_other() -> None:
    timed = Timed()
    timed.hold_namespace()
    assert not timed.is_held("good", "b")
    held = timed.holds.of(GOOD, "Score")
    assert held is not None
    assert held.subject.startswith("all pods of namespace a until 1970-01-01T00:16:50Z: it took longer")
    assert "5 of them, a/s0, a/s1, a/s2, a/s3, a/s4 (last: TimeBudgetError (f.py:6))" in held.subject
    seconds = 10.0
    for turn in range(7):
        timed.now += seconds
        seconds = min(2 * seconds, LONGEST_BACKOFF_SECONDS)
        assert not timed.is_held("good")
        for number in range(STRIKES):
            assert not timed.is_held("good")
            timed.slow(f"new {turn} {number}")
        assert timed.holds.seconds_left(GOOD) == seconds


def test_the_same_number_over_a_long_time_does_not() -> None:
    timed = Timed()
    for number in range(100):
        timed.slow(f"s{number}")
        timed.now += SHORT_SECONDS / (MANY_PODS - 1) + 1
        assert not timed.is_held("good")


@pytest.mark.parametrize("is_gone", [True, False], ids=["deleted", "edited"])
def test_the_hold_of_a_namespace_ends_when_few_of_its_slow_pods_are_left(is_gone: bool) -> None:
    timed = Timed()
    timed.hold_namespace()
    ended = [timed.holds.changed(Caller("a", f"s{number}"), is_gone=is_gone) for number in range(MANY_PODS)]
    assert ended == [False] * (MANY_PODS - STRIKES) + [True] + [False] * (STRIKES - 1)
    assert not timed.is_held("good")


def test_the_hold_of_a_pod_ends_when_it_is_edited() -> None:
    timed = Timed()
    timed.slow("loop")
    timed.holds.changed(Caller("a", "other"), is_gone=True)
    assert timed.is_held("loop")
    timed.holds.changed(Caller("a", "loop"), is_gone=False)
    assert not timed.is_held("loop")


def test_who_edits_a_slow_pod_or_makes_new_ones_again_and_again_ends_no_holds_without_end() -> None:
    edited, replaced = Timed(), Timed()
    edited_slow = replaced_slow = 0
    for number in range(600):
        edited.now += 1.0
        edited.holds.changed(Caller("a", "loop"), is_gone=False)
        if not edited.is_held("loop"):
            edited.slow("loop")
            edited_slow += 1
        replaced.now += 1.0
        if not replaced.is_held(f"loop-{number}"):
            replaced.slow(f"loop-{number}")
            replaced_slow += 1
        replaced.holds.changed(Caller("a", f"loop-{number}"), is_gone=True)
    assert edited_slow <= EARLY_ENDS + 8
    assert replaced_slow <= MANY_PODS + STRIKES * (EARLY_ENDS + 8)


def test_a_call_that_had_begun_before_the_hold_does_not_lengthen_it() -> None:
    timed = Timed()
    assert timed.slow("loop") == 1
    assert [timed.slow("loop") for _ in range(5)] == [0] * 5
    assert timed.holds.seconds_left(Caller("a", "loop")) == 1


def test_a_call_about_no_pod_holds_nobody_back() -> None:
    timed = Timed()
    assert [timed.slow(str(number), NO_NAMESPACE) for number in range(9)] == [0] * 9
    assert not timed.holds
