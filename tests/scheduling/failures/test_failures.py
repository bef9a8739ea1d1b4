"""What follows a failed attempt: condition, Event, and the right place in the queue."""

import pytest
import structlog

from kscheduler.api.kinds import PODS
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Code, Fault, Status, error, unresolvable, unschedulable
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.failure import Failure, failure_of_bug, failure_of_record, failure_of_status
from kscheduler.state.queue.backoff import BackoffPolicy
from tests.builders import make_pod, pod_info
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import Looks, TurnsDown, cluster, profile

NO_ONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("failure", "wanted"),
    [
        pytest.param(
            failure_of_record(schedule(profile(TurnsDown("F", "a")), pod_info(), cluster("a"))),
            Failure("0/1 nodes are available: 1 not for F.", "Unschedulable", frozenset({"F"}), rejected=(("F", 1),)),
            id="no node fits",
        ),
        pytest.param(
            failure_of_record(schedule(profile(), pod_info(), cluster())),
            Failure("no nodes available to schedule pods", "Unschedulable"),
            id="there are no nodes",
        ),
        pytest.param(
            failure_of_record(schedule(profile(Looks("L", RuntimeError("bug"))), pod_info(), cluster("a"))),
            Failure('running PreFilter plugin "L": bug', "SchedulerError", fault=Fault.BUG),
            id="a plugin raised",
        ),
        pytest.param(
            failure_of_status(unschedulable("later", plugin="P")),
            Failure("0/1 nodes are available: 1 later.", "Unschedulable", frozenset({"P"})),
            id="Permit said no",
        ),
        pytest.param(
            failure_of_status(unresolvable("never", plugin="P")),
            Failure("0/1 nodes are available: 1 never.", "Unschedulable", frozenset({"P"})),
            id="Reserve said never",
        ),
        pytest.param(
            failure_of_status(Status(Code.PENDING, ("claims",), "P")),
            Failure("0/1 nodes are available: 1 claims.", "Unschedulable", NO_ONE, frozenset({"P"})),
            id="pending on something outside",
        ),
        pytest.param(
            failure_of_status(unschedulable("removed")),
            Failure("0/1 nodes are available: 1 removed.", "Unschedulable"),
            id="nobody in particular",
        ),
        pytest.param(failure_of_status(error("boom")), Failure("boom", "SchedulerError"), id="the API failed"),
        pytest.param(
            failure_of_status(error("denied", fault=Fault.REFUSED)),
            Failure("denied", "SchedulerError", fault=Fault.REFUSED),
            id="the API refused the pod",
        ),
        pytest.param(
            failure_of_bug(KeyError("x")),
            Failure("KeyError: 'x'", "SchedulerError", fault=Fault.BUG),
            id="the scheduler itself failed",
        ),
    ],
)
def test_each_row_of_the_table(failure: Failure, wanted: Failure) -> None:
    assert failure == wanted


REJECTED = Failure("0/1 nodes are available: 1 no.", "Unschedulable", frozenset({"F"}))
FAILED = Failure("boom", "SchedulerError")


@pytest.mark.parametrize(
    ("failure", "place"),
    [
        (REJECTED, "unschedulable"),
        (FAILED, "backoff"),
        (Failure("no nodes available to schedule pods", "Unschedulable"), "backoff"),
    ],
    ids=["rejected", "error", "no nodes"],
)
def test_condition_event_and_place(failure: Failure, place: str) -> None:
    harness = SchedulerHarness(profile(TurnsDown("F")), cluster("a"))
    harness.add(make_pod("p"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    harness.failures.handle(queued, failure, harness.clock.time())
    assert harness.where("default/p") == place
    ((key, condition, note),) = harness.reported.reports
    assert (key, note) == ("default/p", failure.message)
    assert (condition.type, condition.status) == ("PodScheduled", "False")
    assert (condition.reason, condition.message) == (failure.reason, failure.message)
    assert harness.queue.statistics().in_flight == 0


@pytest.mark.parametrize(
    "now_known", [None, make_pod("p", node="n"), make_pod("p", uid="another")], ids=["gone", "bound", "made again"]
)
def test_a_pod_that_is_no_longer_ours_is_let_go_without_a_word(now_known: object) -> None:
    harness = SchedulerHarness(profile(), cluster("a"))
    harness.add(make_pod("p"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    harness.stores[PODS].remove("default/p")
    if now_known is not None:
        harness.stores[PODS].put("default/p", now_known)
    harness.failures.handle(queued, FAILED, harness.clock.time())
    assert harness.where("default/p") == ""
    assert harness.reported.reports == []
    assert harness.queue.statistics().in_flight == 0


def test_the_newest_version_is_what_is_tried_next() -> None:
    harness = SchedulerHarness(profile(), cluster("a"))
    harness.add(make_pod("p"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    newest = make_pod("p", labels={"changed": "yes"})
    harness.stores[PODS].put("default/p", newest)
    harness.failures.handle(queued, REJECTED, harness.clock.time())
    found = harness.queue.find("default/p")
    assert found is not None
    assert found[1].pod.pod is newest


# --- the nominated node


def in_flight(harness: SchedulerHarness, name: str = "p", **fields: object) -> QueuedPodInfo:
    """A pod that is being tried."""
    harness.add(make_pod(name, **fields))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    return queued


def no_node_fits(nominated: str | None) -> Failure:
    """A FitError, and what PostFilter did."""
    return Failure("0/1 nodes are available: 1 no.", "Unschedulable", frozenset({"F"}), nominated_node_name=nominated)


@pytest.mark.parametrize(
    ("failure", "shown", "known"),
    [
        (no_node_fits("n2"), "n1", "n2"),
        (no_node_fits(""), "n1", ""),
        (no_node_fits(None), "n1", "n1"),
        (failure_of_status(unschedulable("no", plugin="P")), "n1", ""),
        (failure_of_status(error("boom")), "n1", ""),
        (Failure("no nodes available to schedule pods", "Unschedulable"), "n1", ""),
    ],
    ids=["chosen", "given up", "left as it is", "rejected after the choice", "failed after the choice", "no nodes"],
)
def test_what_becomes_of_the_nomination_is_known_at_once(failure: Failure, shown: str, known: str) -> None:
    """The next decision comes before the watch tells; the patch says the same."""
    harness = SchedulerHarness(profile(), cluster("n1", "n2"))
    queued = in_flight(harness, status={"nominatedNodeName": shown})
    harness.cache.nominator.add(queued.pod)
    harness.failures.handle(queued, failure, harness.clock.time())
    assert harness.cache.nominator.nominated_node(queued.pod) == known
    assert harness.reported.nominations == [failure.nominated_node_name]


def test_a_nomination_that_the_status_does_not_show_yet_outlives_a_silent_failure() -> None:
    harness = SchedulerHarness(profile(), cluster("n1"))
    queued = in_flight(harness)
    harness.cache.nominator.nominate(queued.pod, "n1")
    harness.failures.handle(queued, no_node_fits(None), harness.clock.time())
    assert harness.cache.nominator.nominated_node(queued.pod) == "n1"


def test_a_nomination_of_a_pod_that_cannot_be_read_any_more_keeps_nobody_from_the_queue() -> None:
    harness = SchedulerHarness(profile(), cluster("n1"))
    queued = in_flight(harness)
    harness.stores[PODS].put("default/p", make_pod("p", requests={"cpu": "a lot"}))
    harness.failures.handle(queued, no_node_fits("n1"), harness.clock.time())
    assert harness.where("default/p") == "unschedulable"
    assert harness.cache.nominator.nominated_node(queued.pod) == ""


# --- classes of failure


def fail_again(harness: SchedulerHarness, failure: Failure) -> float:
    """Let the pod's backoff end, try it and fail; the seconds that it has to wait now."""
    found = harness.queue.find("default/p")
    now = (found[1].backoff_expiration + 1.0 if found is not None else 0.0) or harness.clock.time()
    harness.queue.flush_backoff(now)
    queued = harness.queue.pop_nowait(max(now, harness.clock.time()))
    assert queued is not None
    now = max(now, harness.clock.time())
    harness.failures.handle(queued, failure, now)
    return queued.backoff_expiration - now


REFUSED = Failure("denied", "SchedulerError", fault=Fault.REFUSED)
BUG = Failure("KeyError: 'x'", "SchedulerError", fault=Fault.BUG)
PASSING = Failure("timeout", "SchedulerError")


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        ([PASSING] * 6, [1, 2, 4, 8, 10, 10]),
        ([REFUSED] * 7, [10, 20, 40, 80, 160, 300, 300]),
        ([BUG] * 8, [1, 2, 4, 8, 10, 20, 40, 80]),
        ([REFUSED, REFUSED, PASSING, REFUSED], [10, 20, 4, 10]),
        ([BUG] * 5 + [PASSING, BUG], [1, 2, 4, 8, 10, 10, 10]),
    ],
    ids=["passing", "refused", "bug", "refused, with a passing error between", "bugs, with a passing error between"],
)
def test_the_wait_grows_by_the_class_of_failure(failures: list[Failure], waits: list[float]) -> None:
    harness = SchedulerHarness(profile(), cluster("n1"))
    harness.add(make_pod("p"))
    assert [round(fail_again(harness, failure)) for failure in failures] == waits


@pytest.mark.parametrize(
    ("fields", "is_forgiven"),
    [
        ({"labels": {"team": "a"}}, True),
        ({"metadata": {"annotations": {"ok": "yes"}}}, True),
        ({"priority": 7}, True),
        ({"status": {"nominatedNodeName": "n1"}}, False),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "denied"}]}}, False),
    ],
    ids=["labels", "annotations", "spec", "our nomination", "our condition"],
)
@pytest.mark.parametrize("while_in_flight", [False, True], ids=["waiting", "being tried"])
def test_a_changed_pod_is_forgiven_its_refusals(
    fields: dict[str, object], is_forgiven: bool, while_in_flight: bool
) -> None:
    harness = SchedulerHarness(profile(), cluster("n1"))
    harness.add(make_pod("p"))
    for _ in range(5):
        fail_again(harness, REFUSED)
    changed = make_pod("p", **fields)
    if while_in_flight:
        harness.stores[PODS].put("default/p", changed)
        assert round(fail_again(harness, REFUSED)) == (10 if is_forgiven else 300)
        return
    found = harness.queue.find("default/p")
    assert found is not None
    now = found[1].timestamp + 1.0
    old = harness.pod_of("default/p")
    assert old is not None
    harness.stores[PODS].put("default/p", changed)
    harness.queue.update(old, PodInfo(changed), now)
    assert found[1].refusals == (0 if is_forgiven else 5)
    harness.queue.flush_backoff(now + 11.0)
    assert harness.where("default/p") == ("active" if is_forgiven else "backoff")


def test_one_refused_pod_keeps_nobody_else_waiting() -> None:
    harness = SchedulerHarness(profile(), cluster("n1"))
    harness.add(make_pod("p"))
    fail_again(harness, REFUSED)
    harness.add(make_pod("q"))
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    assert queued.key == "default/q"


# --- a pod that breaks the scheduler


def pop_again(harness: SchedulerHarness) -> QueuedPodInfo:
    """Let the pod's backoff end and take it out."""
    found = harness.queue.find("default/p")
    now = max(harness.clock.time(), found[1].backoff_expiration + 1.0 if found is not None else 0.0)
    harness.queue.flush_backoff(now)
    queued = harness.queue.pop_nowait(now)
    assert queued is not None
    return queued


@pytest.mark.parametrize("is_in_plugin", [True, False], ids=["a plugin", "the scheduler"])
def test_a_bug_is_logged_once_until_it_is_another_and_the_pod_kept_away(is_in_plugin: bool) -> None:
    plugin = Looks("L")
    harness = SchedulerHarness(profile(plugin), cluster("a"))
    harness.add(make_pod("p"))
    with structlog.testing.capture_logs() as lines:
        for text in ["one"] * 8 + ["another"]:
            bug = RuntimeError(text)
            plugin.answer = bug
            queued = pop_again(harness)
            if is_in_plugin:
                assert harness.scheduler.decide(queued) is None
            else:
                harness.scheduler.give_up(queued, bug)
    assert [line["log_level"] for line in lines] == ["error", "error"]
    assert queued.bugs == 9
    assert BackoffPolicy().duration(queued) == 160


# --- nothing is counted twice


def test_a_report_that_fails_leaves_the_counts_of_the_queue_right() -> None:
    """The worker then handles the bug as a failure of its own: the pod is in the queue already."""
    harness = SchedulerHarness(profile(TurnsDown("F")), cluster("n1"))
    queued = in_flight(harness)

    def broken(*_: object) -> None:
        raise RuntimeError

    harness.reported.report = broken  # type: ignore[method-assign,assignment]  # a bug in the sink
    for failure in (REJECTED, BUG):
        with pytest.raises(RuntimeError):
            harness.failures.handle(queued, failure, harness.clock.time())
    assert harness.where("default/p") == "unschedulable"
    assert harness.queue.statistics().in_flight == 0
    harness.queue.delete("default/p")
    assert harness.queue.rejections() == {}
