"""What the watch says, case by case: the right entry in the cache, the right place in the queue."""

import pytest

from kscheduler.api.quantity import QuantityError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler, node_update_event
from kscheduler.state.waiting_pods import PodAtPermit
from tests.builders import Tree, make_node, make_pod, pod_info
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import TurnsDown, cluster, profile


@pytest.fixture
def harness() -> SchedulerHarness:
    return SchedulerHarness(profile(TurnsDown("F")), cluster("a", "b"))


@pytest.fixture
def pods(harness: SchedulerHarness) -> PodHandler:
    return harness.pod_handler


@pytest.fixture
def nodes(harness: SchedulerHarness) -> NodeHandler:
    return harness.node_handler


def parked(harness: SchedulerHarness) -> None:
    """The pod `parked` waits for something to happen."""
    harness.queue.add(pod_info("parked"), harness.clock.time())
    queued = harness.queue.pop_nowait(harness.clock.time())
    assert queued is not None
    queued.unschedulable_plugins = frozenset({"F"})
    harness.queue.requeue(queued, harness.clock.time())


def is_awake(harness: SchedulerHarness) -> bool:
    """Whether something happened."""
    return harness.where("default/parked") != "unschedulable"


def test_a_pod_of_ours_without_a_node_is_queued(harness: SchedulerHarness, pods: PodHandler) -> None:
    pods.on_add(make_pod("p"), initial=True)
    assert harness.where("default/p") == "active"


def test_a_pod_of_another_scheduler_is_not_queued_but_counts_on_its_node(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    pending = make_pod("p", schedulerName="default-scheduler")
    pods.on_add(pending, initial=False)
    assert harness.where("default/p") == ""
    bound = make_pod("p", schedulerName="default-scheduler", node="a")
    pods.on_update(pending, bound)
    assert harness.cache.node_of("uid-of-p") == "a"


def test_a_pod_that_names_another_scheduler_leaves_the_queue_and_comes_back(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    """A spec cannot change there; the old annotation can."""
    ours, theirs = make_pod("p"), make_pod("p", schedulerName="default-scheduler")
    pods.on_add(ours, initial=False)
    pods.on_update(ours, theirs)
    assert harness.where("default/p") == ""
    pods.on_update(theirs, ours)
    assert harness.where("default/p") == "active"


def test_a_binding_under_way_goes_on_whatever_the_annotation_says(harness: SchedulerHarness, pods: PodHandler) -> None:
    harness.cache.assume_pod(pod_info("p"), "a")
    pods.on_update(make_pod("p"), make_pod("p", schedulerName="default-scheduler"))
    assert harness.cache.is_assumed("uid-of-p")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_takes_nothing(harness: SchedulerHarness, pods: PodHandler, phase: str) -> None:
    ended = make_pod("p", node="a", status={"phase": phase})
    pods.on_add(ended, initial=True)
    assert harness.cache.statistics().pods == 0
    running = make_pod("p", node="a", status={"phase": "Running"})
    pods.on_add(running, initial=False)
    parked(harness)
    pods.on_update(running, ended)
    assert harness.cache.statistics().pods == 0
    assert is_awake(harness), "there is room now"


def test_a_pod_that_got_its_node_from_us_is_confirmed(harness: SchedulerHarness, pods: PodHandler) -> None:
    harness.cache.assume_pod(pod_info("p"), "a")
    pods.on_update(make_pod("p"), make_pod("p", node="a"))
    assert not harness.cache.is_assumed("uid-of-p")
    assert harness.cache.node_of("uid-of-p") == "a"


def test_a_pod_that_got_its_node_from_elsewhere_leaves_the_queue(harness: SchedulerHarness, pods: PodHandler) -> None:
    pods.on_add(make_pod("p"), initial=False)
    parked(harness)
    pods.on_update(make_pod("p"), make_pod("p", node="b"))
    assert harness.where("default/p") == ""
    assert harness.cache.node_of("uid-of-p") == "b"
    assert is_awake(harness)


def test_a_pod_assumed_on_one_node_and_seen_on_another_counts_where_it_is(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    harness.cache.assume_pod(pod_info("p"), "a")
    pods.on_update(make_pod("p"), make_pod("p", node="b"))
    assert harness.cache.node_of("uid-of-p") == "b"


def test_our_own_condition_on_an_assumed_pod_does_not_queue_it_again(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    harness.cache.assume_pod(pod_info("p"), "a")
    pods.on_update(make_pod("p"), make_pod("p", status={"phase": "Pending"}))
    assert harness.where("default/p") == ""


def test_a_deleted_pod_leaves_queue_and_cache_and_makes_room(harness: SchedulerHarness, pods: PodHandler) -> None:
    pods.on_add(make_pod("pending"), initial=False)
    pods.on_delete(make_pod("pending"))
    assert harness.where("default/pending") == ""
    pods.on_add(make_pod("bound", node="a"), initial=False)
    parked(harness)
    pods.on_delete(make_pod("bound"))
    assert harness.cache.statistics().pods == 0, "the last state that was seen may be old: it names no node"
    assert is_awake(harness)


def test_an_assumed_pod_that_is_deleted_frees_its_node_at_once(harness: SchedulerHarness, pods: PodHandler) -> None:
    harness.cache.assume_pod(pod_info("p"), "a")
    pods.on_delete(make_pod("p"))
    assert harness.cache.statistics().pods == 0


def held(harness: SchedulerHarness) -> PodAtPermit:
    """An assumed pod that waits for Permit."""
    pod = pod_info("p")
    harness.cache.assume_pod(pod, "a")
    one = PodAtPermit(pod, "a", {"K": 100.0}, {"K": 100.0})
    harness.waiting.hold(one)
    return one


def test_a_deleted_pod_that_waits_for_permit_is_rejected_and_frees_its_node(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    one = held(harness)
    pods.on_delete(make_pod("p"))
    assert one.verdict is not None
    assert one.verdict.message == "removed"
    assert harness.cache.statistics().pods == 0


def test_a_pod_that_permit_has_just_let_go_frees_its_node_when_it_is_deleted(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    """Its task has not run yet; nobody else would take the pod out of the cache."""
    one = held(harness)
    one.allow("K")
    pods.on_delete(make_pod("p"))
    assert one.verdict == Status()
    assert harness.cache.statistics().pods == 0


def test_a_held_pod_that_was_bound_elsewhere_and_deleted_leaves_nothing(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    held(harness)
    pods.on_update(make_pod("p"), make_pod("p", node="b"))
    pods.on_delete(make_pod("p", node="b"))
    assert harness.cache.statistics().pods == 0


def test_a_held_pod_whose_deletion_begins_is_rejected(harness: SchedulerHarness, pods: PodHandler) -> None:
    """With a finalizer it stays, and must not keep its node until Permit's time is over."""
    one = held(harness)
    pods.on_update(make_pod("p"), make_pod("p", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert one.verdict is not None
    assert one.verdict.message == "removed"


def test_a_stale_tombstone_takes_nothing_from_the_pod_made_anew(harness: SchedulerHarness, pods: PodHandler) -> None:
    pods.on_add(make_pod("p", uid="old", node="a"), initial=False)
    pods.on_delete(make_pod("p", uid="old", node="a"))
    pods.on_add(make_pod("p", uid="new", node="a"), initial=False)
    pods.on_delete(make_pod("p", uid="older"))
    assert harness.cache.node_of("new") == "a"


def test_a_bound_pod_that_needs_less_makes_room(harness: SchedulerHarness, pods: PodHandler) -> None:
    big, small = make_pod("p", node="a", requests={"cpu": "2"}), make_pod("p", node="a", requests={"cpu": "1"})
    pods.on_add(big, initial=False)
    pods.on_update(big, small)
    assert harness.cache.nodes.requested[0, harness.cache.nodes.row_of("a")] == 1000
    assert harness.cache.statistics().pods == 1


# --- nodes


def test_a_node_that_comes_wakes_and_counts_the_pods_seen_before_it(
    harness: SchedulerHarness, pods: PodHandler, nodes: NodeHandler
) -> None:
    pods.on_add(make_pod("early", node="c", requests={"cpu": "1"}), initial=True)
    parked(harness)
    nodes.on_add(make_node("c"), initial=False)
    assert harness.cache.nodes.requested[0, harness.cache.nodes.row_of("c")] == 1000
    assert is_awake(harness)


def test_a_heartbeat_wakes_nobody(harness: SchedulerHarness, nodes: NodeHandler) -> None:
    parked(harness)
    beat = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}]}
    later = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "later"}]}
    nodes.on_update(make_node("a", status=beat), make_node("a", status=later))
    assert not is_awake(harness)


def test_a_node_that_goes_leaves_the_cache(harness: SchedulerHarness, nodes: NodeHandler) -> None:
    nodes.on_delete(make_node("a"))
    nodes.on_delete(make_node("never-seen"))
    assert not harness.cache.has_node("a")


def test_a_node_that_cannot_be_read_is_no_node_until_it_can(harness: SchedulerHarness, nodes: NodeHandler) -> None:
    """When it can be read again it is a new node to pods that wait for one."""
    parked(harness)
    broken = make_node("a", cpu="four")
    nodes.on_update(make_node("a"), broken)
    assert not harness.cache.has_node("a")
    assert not is_awake(harness)
    nodes.on_update(broken, make_node("a"))
    assert harness.cache.has_node("a")
    assert is_awake(harness)


def test_a_broken_node_that_comes_and_goes_leaves_nothing(harness: SchedulerHarness, nodes: NodeHandler) -> None:
    nodes.on_add(make_node("c", memory="lots"), initial=False)
    nodes.on_delete(make_node("c", memory="lots"))
    assert harness.cache.statistics().nodes == 2


def ready(status: str) -> Tree:
    """A node status with one condition."""
    return {"conditions": [{"type": "Ready", "status": status}]}


@pytest.mark.parametrize(
    ("old", "new", "label"),
    [
        ({}, {}, None),
        ({}, {"labels": {"a": "b"}}, "NodeUpdateNodeLabel"),
        ({}, {"cpu": "8"}, "NodeUpdateNodeAllocatable"),
        ({}, {"spec": {"taints": [{"key": "a"}]}}, "NodeUpdateNodeTaint"),
        ({"spec": {"unschedulable": True}}, {}, "NodeUpdateNodeTaint"),
        ({}, {"spec": {"unschedulable": True}}, None),
        ({"status": ready("False")}, {"status": ready("True")}, "NodeUpdateNodeCondition"),
        ({}, {"metadata": {"annotations": {"a": "b"}}}, "NodeUpdateNodeAnnotation"),
        ({}, {"status": {"declaredFeatures": ["x"]}}, "NodeUpdateNodeDeclaredFeature"),
        ({}, {"cpu": "8", "labels": {"a": "b"}}, "NodeUpdateNodeAllocatable|UpdateNodeLabel"),
    ],
    ids=str,
)
def test_what_changed_in_a_node(old: Tree, new: Tree, label: str | None) -> None:
    event = node_update_event(make_node("n", **old), make_node("n", **new))
    assert (event.label if event else None) == label


def test_pods_are_reported_apart_by_uid_also_in_the_table_of_those_who_wait(harness: SchedulerHarness) -> None:
    held(harness)
    assert harness.waiting.get(PodInfo(make_pod("p", uid="another")).uid) is None


@pytest.mark.parametrize(("priority", "wakes"), [(-1, False), (0, True), (5, True)], ids=["lower", "equal", "higher"])
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "given up"])
def test_the_end_of_a_nomination_wakes_only_subject_it_kept_away(
    harness: SchedulerHarness, pods: PodHandler, priority: int, wakes: bool, is_deleted: bool
) -> None:
    """The parked pod has priority 0: it never had to leave room for a lower one."""
    nominated = make_pod("n", priority=priority, status={"nominatedNodeName": "a"})
    parked(harness)
    pods.on_add(nominated, initial=False)
    assert not is_awake(harness)
    if is_deleted:
        pods.on_delete(nominated)
    else:
        pods.on_update(nominated, make_pod("n", priority=priority))
    assert is_awake(harness) is wakes


def test_the_end_of_its_own_nomination_wakes_no_pod(harness: SchedulerHarness, pods: PodHandler) -> None:
    """A pod that Permit rejects at once has named its node before: it would be tried again without end."""
    parked(harness)
    before, nominated = make_pod("parked"), make_pod("parked", status={"nominatedNodeName": "a"})
    pods.on_update(before, nominated)
    pods.on_update(nominated, before)
    assert not is_awake(harness)


@pytest.mark.parametrize("someone_waits", [pytest.param(False, id="nobody waits"), pytest.param(True, id="one waits")])
def test_each_handling_is_counted_once_under_each_of_its_labels(
    harness: SchedulerHarness, pods: PodHandler, nodes: NodeHandler, someone_waits: bool
) -> None:
    if someone_waits:
        parked(harness)
    pending, bound, labelled = make_pod("p"), make_pod("p", node="a"), make_pod("p", node="a", labels={"app": "web"})
    pods.on_add(pending, initial=False)
    pods.on_update(pending, make_pod("p", labels={"app": "web"}))
    pods.on_update(pending, bound)
    pods.on_update(bound, labelled)
    pods.on_delete(labelled)
    pods.on_add(make_pod("q"), initial=False)
    pods.on_delete(make_pod("q"))
    nodes.on_add(make_node("c"), initial=False)
    nodes.on_delete(make_node("c"))
    counted = {label: child.count for (label,), child in harness.observations.event_seconds.items()}
    assert counted == {
        "UnschedulablePodAdd": 2,
        "UnschedulablePodUpdate": 1,
        "UnschedulablePodUpdatePodLabel": 1,
        "AssignedPodAdd": 1,
        "UnschedulablePodDelete": 2,
        "AssignedPodUpdate": 1,
        "AssignedPodUpdatePodLabel": 1,
        "AssignedPodDelete": 1,
        "NodeAdd": 1,
        "NodeDelete": 1,
    }


def test_a_pod_that_cannot_be_read_on_its_node_is_not_counted_as_handled(
    harness: SchedulerHarness, pods: PodHandler
) -> None:
    pending = make_pod("p")
    pods.on_add(pending, initial=False)
    with pytest.raises(QuantityError):
        pods.on_update(pending, make_pod("p", node="a", requests={"cpu": "much"}))
    assert harness.where("default/p") == "", "it has a node, whatever it takes there"
    assert harness.observations.event_seconds.keys() == {("UnschedulablePodAdd",)}
