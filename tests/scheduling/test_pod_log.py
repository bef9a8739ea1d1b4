"""Lines about pods that are hard to play, what is remembered for them, and what they cost when nobody wants them."""

from itertools import pairwise

import structlog

from kscheduler.api.core import Pod
from kscheduler.client.errors import NotSentError
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Fault
from kscheduler.scheduling.attempt_events import ClassRejected, PodGone, PodRequeued, VictimEvictionBegun, VictimSpared
from kscheduler.scheduling.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.pod_log.lines import FIRST_NAMES, MAX_CLASSES
from kscheduler.scheduling.pod_log.pod_log import MAX_GATES_REPORTED, MAX_REMEMBERED
from kscheduler.scheduling.pod_log.repeated_errors import MAX_CAUSES
from kscheduler.state.queue.sub_queues import BACKOFF
from kscheduler.telemetry.logs.verbosity import set_verbosity
from tests.builders import make_pod
from tests.scheduling.attempt.test_binding import ELSEWHERE, LOST, POD, bound, refusal
from tests.telemetry.logs.logging_left_alone import logging_left_alone

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


def rejected(message: str = "no", *, like: str = "") -> Failure:
    return Failure(message, UNSCHEDULABLE, frozenset({"NodeResourcesFit"}), like=like)


def test_a_victim_that_may_stay_says_why() -> None:
    log = PodLog()
    victim, decision = preemption()
    with at(2) as lines:
        log.spared(VictimSpared(victim, decision, is_outbid=True))
        log.spared(VictimSpared(victim, decision, is_outbid=False))
    assert [line["event"] for line in lines] == ["victim_spared"] * 2
    assert lines[0]["reason"] != lines[1]["reason"]
    assert lines[0]["preemptor"] == "default/big"


async def test_a_bind_in_doubt_is_reported_until_it_is_settled() -> None:
    with at(4) as lines:
        await bound([NotSentError("refused"), LOST, None], [POD])
    assert [line["event"] for line in lines] == ["bind_not_sent", "bind_in_doubt"]
    assert {line["pod"] for line in lines} == {POD.key}


async def test_a_bind_that_is_lost_is_reported_as_settled() -> None:
    with at(2) as lines:
        await bound([refusal(409)], [ELSEWHERE])
    assert [line["event"] for line in lines] == ["bind_in_doubt", "bind_settled"]
    assert lines[-1]["outcome"] == "lost"


def test_a_log_of_what_is_past_has_no_errors() -> None:
    """As in a replay: what failed then does not fail now."""
    log, one = PodLog(has_errors=False), queued()
    with at(0) as lines:
        log.not_scheduled(one, Failure("etcd was away", SCHEDULER_ERROR), (BACKOFF, one), 10.0, is_news=True)
        log.repeat_errors(100.0, lambda _key: (BACKOFF, one))
    assert lines == []


def test_an_error_that_repeats_is_an_error_once_and_part_of_the_pods_story_afterwards() -> None:
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


def test_a_quarantined_plugin_is_an_error_once_a_minute_not_one_for_each_pod() -> None:
    log, pods = PodLog(), [queued(f"web-{number}") for number in range(50)]
    text = 'plugin "Gate" of profile "red" is quarantined at Filter: it raised KeyError'
    failure = Failure(text, SCHEDULER_ERROR, fault=Fault.QUARANTINED)
    for one in pods:
        one.last_error = text
    with at(0) as lines:
        for second, one in enumerate(pods):
            log.not_scheduled(one, failure, (BACKOFF, one), float(second), is_news=True)
            log.repeat_errors(float(second), lambda _key: (BACKOFF, pods[0]))
        log.repeat_errors(60.0, lambda _key: (BACKOFF, pods[0]))
    assert [line["event"] for line in lines] == ["attempt_failed", "attempt_failed"]
    assert lines[1]["times_since"] == 49


def test_a_pod_that_a_plugin_on_trial_is_not_called_for_is_no_error() -> None:
    log, one = PodLog(), queued()
    text = 'plugin "Gate" is tried again, with a pod of another namespace than n1 first'
    with at(2) as lines:
        log.not_scheduled(one, Failure(text, SCHEDULER_ERROR, fault=Fault.ON_TRIAL), (BACKOFF, one), 10.0)
    assert [(line["event"], line["log_level"]) for line in lines] == [("pod_not_scheduled", "info")]


class Outage:
    """Pods that fail for hours, each after its backoff, as the log tells of them."""

    def __init__(self, pods: int) -> None:
        self.log = PodLog()
        self.pods = [queued(f"web-{number}") for number in range(pods)]
        self.waiting: set[str] = set()

    def found(self, key: str) -> tuple[str, QueuedPodInfo] | None:
        return next(((BACKOFF, one) for one in self.pods if one.key == key), None) if key in self.waiting else None

    def fail(self, one: QueuedPodInfo, message: str, now: float) -> None:
        failure = Failure(message, SCHEDULER_ERROR)
        is_news, one.last_error = one.last_error != message, message
        self.waiting.add(one.key)
        self.log.not_scheduled(one, failure, (BACKOFF, one), now, is_news=is_news)


def errors(lines: Lines) -> Lines:
    return [line for line in lines if line["log_level"] == "error"]


def test_at_any_moment_of_a_long_outage_the_last_two_minutes_report_of_it() -> None:
    outage = Outage(1)
    reported: list[int] = []
    (one,) = outage.pods
    with at(0) as lines:
        for second in range(4 * 3600):
            if second % 300 == 0:  # the longest backoff there is
                outage.fail(one, f"binding web-0: etcd is away, try {second}"[:29], float(second))
            outage.log.repeat_errors(float(second), outage.found)
            reported += [second] * (len(errors(lines)) - len(reported))
    assert max(later - earlier for earlier, later in pairwise(reported)) <= 60
    assert reported[0] == 0
    last = errors(lines)[-1]
    assert (last["event"], last["pod"], last["queue"]) == ("attempt_failed", one.key, BACKOFF)
    assert last["err"] == one.last_error
    assert last["failing_seconds"] == reported[-1]


def test_a_hundred_thousand_pods_that_fail_by_one_cause_are_a_line_a_minute_with_a_count() -> None:
    outage = Outage(0)
    outage.pods = pods = [queued(f"web-{number}") for number in range(1000)]
    for one in pods:
        one.last_error = f'running Bind plugin "Mine": {one.key} is refused'
    with at(0) as lines:
        for minute in range(1, 11):
            for _ in range(10):  # ten attempts a minute of each
                for one in pods:
                    outage.fail(one, one.last_error, 60.0 * minute)
            outage.log.repeat_errors(60.0 * minute + 1, outage.found)
    assert len(lines) == 9
    assert {line["times_since"] for line in lines[1:]} == {10_000}


def test_causes_that_are_ever_new_are_bounded() -> None:
    outage = Outage(500)
    with at(0) as lines:
        for second in range(0, 600, 10):
            for number, one in enumerate(outage.pods):
                one.last_error = text = f"{chr(97 + number % 26)}{chr(97 + number // 26)}: no"
                outage.fail(one, text, float(second))
            outage.log.repeat_errors(float(second), outage.found)
    assert len(lines) <= 10 * (MAX_CAUSES + 1)


def test_what_is_over_is_reported_no_more_and_forgotten() -> None:
    outage = Outage(1)
    with at(0) as lines:
        outage.fail(outage.pods[0], "etcd is away", 0.0)
        outage.waiting.clear()  # it is bound, or gone
        for second in range(400):
            outage.log.repeat_errors(float(second), outage.found)
    assert len(lines) == 1
    assert len(outage.log._repeated) == 0


def test_a_pod_that_waits_for_another_reason_by_now_stands_for_nothing() -> None:
    outage = Outage(1)
    (one,) = outage.pods
    with at(0) as lines:
        outage.fail(one, "etcd is away", 0.0)
        one.last_error = ""  # it was rejected since
        outage.log.repeat_errors(61.0, outage.found)
    assert len(lines) == 1


def test_a_clock_that_is_set_back_does_not_silence_an_outage() -> None:
    outage = Outage(1)
    with at(0) as lines:
        outage.fail(outage.pods[0], "etcd is away", 1_000_000.0)
        outage.log.repeat_errors(500.0, outage.found)
    assert len(lines) == 2


def test_pods_that_share_a_verdict_are_counted_with_the_first_names() -> None:
    log = PodLog()
    with at(2) as lines:
        for number in range(30):
            log.with_class(queued(f"web-{number}"), rejected(like="default/judged"), None, 0.0)
        keys = ["default/judged", "default/x"]
        log.class_rejected(ClassRejected("default/judged", keys, rejected(), "default/judged"))
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
            log.with_class(queued(), rejected(message, like="default/judged"), None, 0.0)
        log.flush()
    assert [line["message"] for line in lines] == ["0/1 nodes", "0/2 nodes"]


def test_classes_that_wait_to_be_reported_are_bounded() -> None:
    log = PodLog()
    with at(2) as lines:
        for number in range(2 * MAX_CLASSES):
            log.with_class(queued(), rejected(like=f"default/judged-{number}"), None, 0.0)
        assert len(lines) == 2 * MAX_CLASSES, "told without anybody asking"


def test_victims_whose_end_is_never_seen_are_not_remembered_for_ever() -> None:
    log = PodLog()
    for number in range(MAX_REMEMBERED + 10):
        log.preempted(VictimEvictionBegun(*preemption(number), 0.0))
    assert len(log._victims) == MAX_REMEMBERED


def test_a_victims_end_is_reported_once_with_its_reason() -> None:
    log = PodLog()
    victim, decision = preemption()
    with at(2) as lines:
        log.preempted(VictimEvictionBegun(victim, decision, 100.0))
        ended: Pod = make_pod("victim-0", status={"phase": "Succeeded"})
        log.gone(PodGone(ended, is_pending=False, now=103.25))
        log.gone(PodGone(ended, is_pending=False, now=104.0))
    assert [line["event"] for line in lines].count("victim_gone") == 1
    assert lines[-1]["event"] == "victim_gone"
    assert (lines[-1]["how"], lines[-1]["seconds"]) == ("Succeeded", 3.25)


class _nobody_looks:  # noqa: N801  # reads as words
    def find(self, key: str) -> tuple[str, QueuedPodInfo] | None:
        raise AssertionError(key)

    def awaited_events(self, profile: str, plugins: frozenset[str]) -> tuple[str, ...]:
        raise AssertionError(profile, plugins)


def test_at_minus_v_0_nothing_is_put_together() -> None:
    log = PodLog()
    victim, decision = preemption()
    with at(0) as lines:
        for failure in (rejected(), rejected(like="x")):
            log.requeued(PodRequeued(queued(), failure, 0.0, is_news=True, queue=_nobody_looks()))
        log.class_rejected(ClassRejected("c", ["a", "b"], rejected(), "a"))
        log.preempted(VictimEvictionBegun(victim, decision, 0.0))
        log.moved(queued(), BACKOFF, "NodeAdd", 0.0)
        log.flush()
    assert lines == []


def test_what_keeps_a_pod_out_is_reported_once_for_each_reason_and_never_endlessly() -> None:
    log, pod, gated = PodLog(), queued(), queued("gated")
    pod.gating_plugin, gated.gating_plugin = "DynamicResources", "SchedulingGates"
    with at(2) as lines:
        for _ in range(3):
            log.kept_out(pod, "no claim", "no claim")
            log.kept_out(gated, "waiting for scheduling gates: [a]", "gates")
        assert [(line["pod"], line["message"]) for line in lines] == [("default/web", "no claim")]
        for number in range(100):
            log.kept_out(pod, f"text {number}", f"text {number}")
    assert len(lines) == MAX_GATES_REPORTED
    assert gated.reported_gates == frozenset()


def test_below_its_verbosity_nothing_is_remembered_of_what_keeps_a_pod_out() -> None:
    log, pod = PodLog(), queued()
    with at(1) as lines:
        log.kept_out(pod, "no claim", "no claim")
    assert (list(lines), pod.reported_gates) == ([], frozenset())
