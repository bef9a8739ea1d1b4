"""Turns go to the most important who waits, and none is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.extender_lines import LEAST_SWEPT, ExtenderLines
from tests.builders import make_pod


def queued(name: str, priority: int = 0) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(make_pod(name, priority=priority)))


def called(lines: ExtenderLines) -> list[str]:
    """Who was called; each takes its turn."""
    names = []
    while lines.called:
        pod = lines.take_called()
        assert lines.begin_or_wait("line", pod)
        lines.decided(pod)
        names.append(pod.pod.name)
    return names


def test_the_most_important_goes_next_and_among_equals_who_came_first() -> None:
    lines = ExtenderLines(turns=1)
    assert lines.begin_or_wait("line", queued("first"))
    for name, priority in (("low", 1), ("high", 9), ("low-too", 1)):
        assert not lines.begin_or_wait("line", queued(name, priority))
    assert (lines.standing(), lines.in_turn()) == (3, 1)
    order = []
    while lines.in_turn():
        lines.end("line")
        order += called(lines)
    assert order == ["high", "low", "low-too"]
    assert lines.standing() == 0
    assert lines.begin_or_wait("line", queued("later"))


def test_after_a_change_of_the_configuration_the_most_important_get_the_turns() -> None:
    lines = ExtenderLines(turns=2)
    for name in "ab":
        assert lines.begin_or_wait("old", queued(name))
    for name, priority in (("low", 1), ("lower", 0), ("high", 9), ("higher", 10)):
        assert not lines.begin_or_wait("old", queued(name, priority))
    lines.call_all()
    got: list[str] = []
    stand: list[str] = []
    while lines.called:
        pod = lines.take_called()
        (got if lines.begin_or_wait("new", pod) else stand).append(pod.pod.name)
        lines.decided(pod)
    assert (got, stand) == (["higher", "high"], ["low", "lower"])
    for _ in range(2):
        lines.end("old")
    assert set(lines._lines) == {"new"}, "a line that nobody stands in is gone"


def test_those_who_are_gone_do_not_stand_in_line_for_ever() -> None:
    lines, gone = ExtenderLines(turns=1), set[str]()
    ended: list[str] = []

    def let_go(pod: QueuedPodInfo) -> bool:
        if pod.pod.name in gone:
            ended.append(pod.pod.name)
        return pod.pod.name in gone

    lines.let_go = let_go
    assert lines.begin_or_wait("slow", queued("asked"))
    for number in range(10 * LEAST_SWEPT):
        lines.begin_or_wait("slow", queued(f"p{number}", number % 3))
        gone.add(f"p{number - 1}")  # each is deleted when the next comes
        assert lines.standing() <= LEAST_SWEPT
    assert len(ended) == len(set(ended)) >= 9 * LEAST_SWEPT


def test_a_line_does_not_wait_for_another() -> None:
    lines = ExtenderLines(turns=1)
    assert lines.begin_or_wait("slow", queued("a"))
    assert not lines.begin_or_wait("slow", queued("b"))
    assert lines.begin_or_wait("quick", queued("c"))


def test_who_is_called_and_needs_no_turn_passes_it_on() -> None:
    lines = ExtenderLines(turns=1)
    for name in "abc":
        lines.begin_or_wait("line", queued(name))
    lines.end("line")
    gone = lines.take_called()
    lines.decided(gone)
    assert gone.pod.name == "b"
    assert called(lines) == ["c"]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["come", "end", "decide", "gone", "call all"]), max_size=60), st.integers(1, 3))
def test_nobody_stands_in_line_while_a_turn_is_free(steps: list[str], turns: int) -> None:
    lines, number, in_turn = ExtenderLines(turns), 0, 0
    for step in steps:
        if step == "come":
            number += 1
            in_turn += lines.begin_or_wait("line", queued(f"p{number}"))
        elif step == "end" and in_turn:
            lines.end("line")
            in_turn -= 1
        elif step == "call all":
            lines.call_all()
        elif step in ("decide", "gone") and lines.called:
            pod = lines.take_called()
            if step == "decide":
                in_turn += lines.begin_or_wait("line", pod)
            lines.decided(pod)
        assert in_turn == lines.in_turn() <= turns
        if lines.standing() and not lines.called:
            assert in_turn == turns, "somebody waits, and nobody will call"
    while in_turn or lines.called:
        if lines.called:
            pod = lines.take_called()
            in_turn += lines.begin_or_wait("line", pod)
            lines.decided(pod)
        else:
            lines.end("line")
            in_turn -= 1
    assert lines.standing() == lines.in_turn() == 0, "at rest nobody is left behind"
    assert not lines._lines
