"""Turns go to the most important who waits, and none is lost."""

import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.extender_lines import (
    LEAST_SWEPT,
    LONG_SECONDS,
    ExtenderQueueStatistics,
    ExtenderWaitQueues,
)
from tests.builders import make_pod
from tests.effort import example_count


def queued(name: str, priority: int = 0) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(make_pod(name, priority=priority)))


def called(lines: ExtenderWaitQueues) -> list[str]:
    """Who was called; each takes its turn."""
    names = []
    while lines.called:
        pod = lines.take_called()
        assert lines.begin_or_wait("line", pod)
        lines.decided(pod)
        names.append(pod.pod.name)
    return names


def test_the_most_important_goes_next_and_among_equals_who_came_first() -> None:
    lines = ExtenderWaitQueues(turns=1)
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
    lines = ExtenderWaitQueues(turns=2)
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
    gone = set[str]()
    ended: list[str] = []

    def let_go(pod: QueuedPodInfo) -> bool:
        if pod.pod.name in gone:
            ended.append(pod.pod.name)
        return pod.pod.name in gone

    lines = ExtenderWaitQueues(turns=1, let_go=let_go)
    assert lines.begin_or_wait("slow", queued("asked"))
    for number in range(10 * LEAST_SWEPT):
        lines.begin_or_wait("slow", queued(f"p{number}", number % 3))
        gone.add(f"p{number - 1}")  # each is deleted when the next comes
        assert lines.standing() <= LEAST_SWEPT
    assert len(ended) == len(set(ended)) >= 9 * LEAST_SWEPT


def test_a_line_does_not_wait_for_another() -> None:
    lines = ExtenderWaitQueues(turns=1)
    assert lines.begin_or_wait("slow", queued("a"))
    assert not lines.begin_or_wait("slow", queued("b"))
    assert lines.begin_or_wait("quick", queued("c"))


def test_who_is_called_and_needs_no_turn_passes_it_on() -> None:
    lines = ExtenderWaitQueues(turns=1)
    for name in "abc":
        lines.begin_or_wait("line", queued(name))
    lines.end("line")
    gone = lines.take_called()
    lines.decided(gone)
    assert gone.pod.name == "b"
    assert called(lines) == ["c"]


class Model:
    """Who stands in the one line, naively: a sorted list."""

    def __init__(self, turns: int) -> None:
        self.lines = ExtenderWaitQueues(turns)
        self.standing: list[tuple[int, int, str]] = []
        self.arrivals = self.in_turn = 0
        self.seen: list[QueuedPodInfo] = []
        """Called, as far as it was checked."""

    def come(self, pod: QueuedPodInfo) -> None:
        if self.lines.begin_or_wait("line", pod):
            self.in_turn += 1
        else:
            self.arrivals += 1
            self.standing.append((-pod.pod.priority, self.arrivals, pod.pod.name))

    def end(self) -> None:
        self.lines.end("line")
        self.in_turn -= 1

    def take(self, *, is_gone: bool = False) -> None:
        pod = self.lines.take_called()
        self.seen.remove(pod)
        if not is_gone:
            self.come(pod)
        self.lines.decided(pod)

    def check_called(self) -> None:
        """Each pod called since the last look was the most important then."""
        for pod in list(self.lines.called)[len(self.seen) :]:
            self.standing.sort()
            assert self.standing.pop(0)[2] == pod.pod.name
            self.seen.append(pod)


STEPS = st.one_of(st.sampled_from(["end", "decide", "gone", "call all"]), st.integers(0, 3))


@settings(max_examples=example_count(300))
@given(st.lists(STEPS, max_size=60), st.integers(1, 3))
def test_nobody_stands_in_line_while_a_turn_is_free(steps: list[str | int], turns: int) -> None:
    """A number is the priority of a pod that comes."""
    model = Model(turns)
    lines = model.lines
    for number, step in enumerate(steps):
        if isinstance(step, int):
            model.come(queued(f"p{number}", step))
        elif step == "end" and model.in_turn:
            model.end()
        elif step == "call all":
            lines.call_all()
        elif step in ("decide", "gone") and lines.called:
            model.take(is_gone=step == "gone")
        model.check_called()
        assert model.in_turn == lines.in_turn() <= turns
        assert lines.standing() == len(model.standing) + len(model.seen)
        if lines.standing() and not lines.called:
            assert model.in_turn == turns, "somebody waits, and nobody will call"
    while model.in_turn or lines.called:
        if lines.called:
            model.take()
        else:
            model.end()
        model.check_called()
    assert lines.standing() == lines.in_turn() == 0, "at rest nobody is left behind"
    assert not lines._lines


def test_a_line_in_which_pods_stand_for_long_is_seen() -> None:
    now = 0.0
    lines = ExtenderWaitQueues(turns=1, now=lambda: now)
    with structlog.testing.capture_logs() as logged:
        for number in range(3):
            lines.begin_or_wait("http://slow", queued(f"p{number}"))
        lines.begin_or_wait("http://quick", queued("p"))
        now = LONG_SECONDS - 0.5
        lines.look()
        assert (logged, list(lines.notes())) == ([], [])
        now = LONG_SECONDS
        lines.look()
        lines.look()
        (line,) = logged
        assert line == {
            "event": "extender_pods_wait",
            "log_level": "info",
            "extender": "http://slow",
            "pods": 2,
            "asked": 1,
            "seconds": LONG_SECONDS,
        }
        (note,) = lines.notes()
        assert note == (
            "2 pods wait until extender http://slow can be asked about them, 1 are asked about; pods have stood in its "
            "line for 10 s"
        )
        assert lines.statistics() == (
            ExtenderQueueStatistics("http://quick", 1, 0, 0.0),
            ExtenderQueueStatistics("http://slow", 1, 2, LONG_SECONDS),
        )
        while lines.standing():
            lines.end("http://slow")
            pod = lines.take_called()
            assert lines.begin_or_wait("http://slow", pod)
            lines.decided(pod)
    assert [line["event"] for line in logged] == ["extender_pods_wait", "extender_pods_wait_no_more"]
    assert not list(lines.notes())
