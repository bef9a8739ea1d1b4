"""What follows a failed attempt: condition, Event, and the right place in the queue."""

import pytest

from kscheduler.framework.status import Code, Status, error, unresolvable, unschedulable
from kscheduler.scheduling.cycle import schedule
from kscheduler.scheduling.failures import Failure, failure_of_record, failure_of_status
from tests.builders import make_pod, pod_info
from tests.scheduling.around import Around
from tests.scheduling.plugins_for_tests import Looks, TurnsDown, cluster, profile

NO_ONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("failure", "wanted"),
    [
        pytest.param(
            failure_of_record(schedule(profile(TurnsDown("F", "a")), pod_info(), cluster("a"))),
            Failure("0/1 nodes are available: 1 not for F.", "Unschedulable", frozenset({"F"})),
            id="no node fits",
        ),
        pytest.param(
            failure_of_record(schedule(profile(), pod_info(), cluster())),
            Failure("no nodes available to schedule pods", "Unschedulable"),
            id="there are no nodes",
        ),
        pytest.param(
            failure_of_record(schedule(profile(Looks("L", RuntimeError("bug"))), pod_info(), cluster("a"))),
            Failure('running PreFilter plugin "L": bug', "SchedulerError"),
            id="a plugin failed",
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
    ],
)
def test_each_row_of_the_table(failure: Failure, wanted: Failure) -> None:
    assert failure == wanted


TURNED_DOWN = Failure("0/1 nodes are available: 1 no.", "Unschedulable", frozenset({"F"}))
FAILED = Failure("boom", "SchedulerError")


@pytest.mark.parametrize(
    ("failure", "place"),
    [
        (TURNED_DOWN, "unschedulable"),
        (FAILED, "backoff"),
        (Failure("no nodes available to schedule pods", "Unschedulable"), "backoff"),
    ],
    ids=["rejected", "error", "no nodes"],
)
def test_condition_event_and_place(failure: Failure, place: str) -> None:
    around = Around(profile(TurnsDown("F")), cluster("a"))
    around.add(make_pod("p"))
    queued = around.queue.pop_nowait(around.clock.time())
    assert queued is not None
    around.failures.handle(queued, failure, around.clock.time())
    assert around.where("default/p") == place
    ((key, condition, note),) = around.told.reports
    assert (key, note) == ("default/p", failure.message)
    assert (condition.type, condition.status) == ("PodScheduled", "False")
    assert (condition.reason, condition.message) == (failure.reason, failure.message)
    assert around.queue.statistics().in_flight == 0


@pytest.mark.parametrize(
    "now_known", [None, make_pod("p", node="n"), make_pod("p", uid="another")], ids=["gone", "bound", "made again"]
)
def test_a_pod_that_is_no_longer_ours_is_let_go_without_a_word(now_known: object) -> None:
    around = Around(profile(), cluster("a"))
    around.add(make_pod("p"))
    queued = around.queue.pop_nowait(around.clock.time())
    assert queued is not None
    del around.store["default/p"]
    if now_known is not None:
        around.store["default/p"] = now_known  # type: ignore[assignment]  # a Pod
    around.failures.handle(queued, FAILED, around.clock.time())
    assert around.where("default/p") == ""
    assert around.told.reports == []
    assert around.queue.statistics().in_flight == 0


def test_the_newest_version_is_what_is_tried_next() -> None:
    around = Around(profile(), cluster("a"))
    around.add(make_pod("p"))
    queued = around.queue.pop_nowait(around.clock.time())
    assert queued is not None
    newest = around.store["default/p"] = make_pod("p", labels={"changed": "yes"})
    around.failures.handle(queued, TURNED_DOWN, around.clock.time())
    found = around.queue.find("default/p")
    assert found is not None
    assert found[1].pod.pod is newest
