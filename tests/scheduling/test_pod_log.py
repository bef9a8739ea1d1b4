"""Lines about pods that are hard to play, what is remembered for them, and what they cost when nobody wants them."""

import structlog

from kscheduler.api.core import Pod
from kscheduler.client.errors import NotSentError
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.logs.verbosity import set_verbosity
from kscheduler.scheduling.failures.failures import SCHEDULER_ERROR, UNSCHEDULABLE, Failure
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.pod_log.pod_log import MOST_GATES_TOLD, MOST_REMEMBERED
from kscheduler.scheduling.pod_log.together import FIRST_NAMES, MOST_CLASSES
from kscheduler.state.queue.places import BACKOFF
from tests.builders import make_pod
from tests.logs.logging_left_alone import logging_left_alone
from tests.scheduling.attempt.test_binding import ELSEWHERE, LOST, POD, bound, refusal

Lines = list[dict[str, object]]


class at:  # noqa: N801  # reads as a word
    """Lines that are written at a verbosity."""

    def __init__(self, verbosity: int) -> None:
        self._verbosity = verbosity
        self._alone = logging_left_alone()
        self._captured = structlog.testing.capture_logs()

    def __enter__(self) -> Lines:
        self._alone.__enter__()
        set_verbosity(self._verbosity)
        return self._captured.__enter__()  # type: ignore[return-value]

    def __exit__(self, *failure: object) -> None:
        self._captured.__exit__(*failure)  # type: ignore[arg-type]
        self._alone.__exit__(*failure)  # type: ignore[arg-type]


def preemption(number: int = 0) -> tuple[PodInfo, Preemption]:
    victim = PodInfo(make_pod(f"victim-{number}"))
    return victim, Preemption(PodInfo(make_pod("big")), "node", (victim,), "DefaultPreemption")


def queued(name: str = "web") -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(make_pod(name)), attempts=3, backoff_expiration=12.5)


def turned_down(message: str = "no", *, like: str = "") -> Failure:
    return Failure(message, UNSCHEDULABLE, frozenset({"NodeResourcesFit"}), like=like)


def test_a_victim_that_may_stay_says_why() -> None:
    log = PodLog()
    victim, decision = preemption()
    with at(2) as lines:
        log.spared(victim, decision, is_outbid=True)
        log.spared(victim, decision, is_outbid=False)
    assert [line["event"] for line in lines] == ["victim_spared"] * 2
    assert lines[0]["reason"] != lines[1]["reason"]
    assert lines[0]["preemptor"] == "default/big"


async def test_a_bind_in_doubt_is_told_until_it_is_settled() -> None:
    with at(4) as lines:
        await bound([NotSentError("refused"), LOST, None], [POD])
    assert [line["event"] for line in lines] == ["bind_not_sent", "bind_in_doubt"]
    assert {line["pod"] for line in lines} == {POD.key}


async def test_a_bind_that_is_lost_is_told_as_settled() -> None:
    with at(2) as lines:
        await bound([refusal(409)], [ELSEWHERE])
    assert [line["event"] for line in lines] == ["bind_in_doubt", "bind_settled"]
    assert lines[-1]["outcome"] == "lost"


def test_an_error_that_repeats_is_an_error_once_and_part_of_the_story_afterwards() -> None:
    log, one = PodLog(), queued()
    failure = Failure("etcd is away", SCHEDULER_ERROR)
    with at(2) as lines:
        log.not_scheduled(one, failure, (BACKOFF, one), 10.0, is_news=True)
        log.not_scheduled(one, failure, (BACKOFF, one), 11.0, is_news=False)
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("attempt_failed", "error"),
        ("pod_not_scheduled", "info"),
    ]
    assert [line["next_try_seconds"] for line in lines] == [2.5, 1.5]


def test_pods_that_share_a_verdict_are_counted_with_the_first_names() -> None:
    log = PodLog()
    with at(2) as lines:
        for number in range(30):
            log.with_class(queued(f"web-{number}"), turned_down(like="default/judged"), None, 0.0)
        log.class_turned_down("default/judged", ["default/judged", "default/x"], turned_down(), "default/judged")
        assert lines == []
        log.flush()
        log.flush()
    (line,) = lines
    assert (line["pods"], line["like"]) == (31, "default/judged")
    assert line["first"] == [f"default/web-{number}" for number in range(FIRST_NAMES)]


def test_two_verdicts_on_one_class_are_two_lines() -> None:
    log = PodLog()
    with at(2) as lines:
        for message in ("0/1 nodes", "0/2 nodes"):
            log.with_class(queued(), turned_down(message, like="default/judged"), None, 0.0)
        log.flush()
    assert [line["message"] for line in lines] == ["0/1 nodes", "0/2 nodes"]


def test_classes_that_wait_to_be_told_are_bounded() -> None:
    log = PodLog()
    with at(2) as lines:
        for number in range(2 * MOST_CLASSES):
            log.with_class(queued(), turned_down(like=f"default/judged-{number}"), None, 0.0)
        assert len(lines) == 2 * MOST_CLASSES, "told without anybody asking"


def test_victims_whose_end_is_never_seen_are_not_remembered_for_ever() -> None:
    log = PodLog()
    for number in range(MOST_REMEMBERED + 10):
        log.preempted(*preemption(number), 0.0)
    assert not log.expects_end_of("uid-of-victim-0")
    assert log.expects_end_of(f"uid-of-victim-{MOST_REMEMBERED + 9}")


def test_a_victims_end_is_told_once_with_its_reason() -> None:
    log = PodLog()
    victim, decision = preemption()
    with at(2) as lines:
        log.preempted(victim, decision, 100.0)
        ended: Pod = make_pod("victim-0", status={"phase": "Succeeded"})
        assert log.expects_end_of(ended.metadata.uid)
        log.victim_gone(ended, 103.25)
        assert not log.expects_end_of(ended.metadata.uid)
    assert lines[-1]["event"] == "victim_gone"
    assert (lines[-1]["how"], lines[-1]["seconds"]) == ("Succeeded", 3.25)


def test_at_minus_v_0_nothing_is_put_together() -> None:
    log = PodLog(lambda *_: 1 / 0)  # type: ignore[arg-type]
    victim, decision = preemption()
    with at(0) as lines:
        log.not_scheduled(queued(), turned_down(), None, 0.0)
        log.with_class(queued(), turned_down(like="x"), None, 0.0)
        log.class_turned_down("c", ["a", "b"], turned_down(), "a")
        log.preempted(victim, decision, 0.0)
        log.moved(queued(), BACKOFF, "NodeAdd", 0.0)
        log.flush()
    assert lines == []


def test_what_keeps_a_pod_out_is_told_once_for_each_reason_and_never_endlessly() -> None:
    log, pod, gated = PodLog(), queued(), queued("gated")
    pod.gating_plugin, gated.gating_plugin = "DynamicResources", "SchedulingGates"
    with at(2) as lines:
        for _ in range(3):
            log.kept_out(pod, "no claim", "no claim")
            log.kept_out(gated, "waiting for scheduling gates: [a]", "gates")
        assert [(line["pod"], line["message"]) for line in lines] == [("default/web", "no claim")]
        for number in range(100):
            log.kept_out(pod, f"text {number}", f"text {number}")
    assert len(lines) == MOST_GATES_TOLD
    assert gated.told_gates == frozenset()


def test_below_its_verbosity_nothing_is_remembered_of_what_keeps_a_pod_out() -> None:
    log, pod = PodLog(), queued()
    with at(1) as lines:
        log.kept_out(pod, "no claim", "no claim")
    assert (list(lines), pod.told_gates) == ([], frozenset())
