"""Single cases of the queue that deserve a name."""

import pytest
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from kscheduler.framework.hint_index import HintIndex, IndexedEvent
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Status, unresolvable
from kscheduler.scheduling.runtime.queue_calls import HintCalls, unobserved
from kscheduler.state.group_apis import KUBERNETES
from kscheduler.state.pod_groups import PodGroupTable
from kscheduler.state.queue.hints import HintTable, QueueingStrategy
from kscheduler.state.queue.parked import FEW
from kscheduler.state.queue.pod_updates import pod_update_events
from kscheduler.state.queue.queued_group import GroupOutcome, QueuedPodGroup
from kscheduler.state.queue.scheduling_queue import BACKOFF, GATED, UNSCHEDULABLE, SchedulingQueue
from tests.builders import Tree, make_pod, pod_info, queued_pod
from tests.state.queue.model import policy

NOW = 1000.25
GATE: Tree = {"schedulingGates": [{"name": "hold"}]}


@pytest.fixture
def arrivals() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def queue(arrivals: list[tuple[str, str]]) -> SchedulingQueue:
    return SchedulingQueue(policy(arrivals))


def popped(queue: SchedulingQueue, now: float = NOW) -> QueuedPodInfo:
    """The next pod; there must be one."""
    queued = queue.pop_nowait(now)
    assert queued is not None
    return queued


def rejected(queue: SchedulingQueue, *plugins: str, now: float = NOW) -> QueuedPodInfo:
    """A pod that was tried and rejected by these plugins."""
    queued = popped(queue, now)
    queued.unschedulable_plugins = frozenset(plugins)
    queue.requeue(queued, now)
    return queued


def test_a_member_of_a_group_that_has_a_node_and_waits_to_grow_is_by_itself() -> None:
    queue = SchedulingQueue(replace(policy([]), groups=PodGroupTable([KUBERNETES])))
    group: Tree = {"schedulingGroup": {"podGroupName": "gang"}}
    queue.add(pod_info("member", **group), NOW)
    assert queue.pop_nowait(NOW) is None, "its group is unknown"
    queue.add(pod_info("grows", node="node", **group), NOW)
    assert popped(queue).key == "default/grows"


def test_what_enters_the_queue_that_its_hint_has_meant_is_no_arrival_of_an_entity() -> None:
    unasked: dict[tuple[str, str], int] = {}

    def arrive(queue: str, event: str, _pods: int, entities: int) -> None:
        unasked[queue, event] = unasked.get((queue, event), 0) + entities

    queue = SchedulingQueue(replace(policy([]), on_incoming=arrive))
    queue.add(pod_info("p"), NOW)
    rejected(queue, "Room")
    queue.move_all(NODE_ADD, None, None, NOW)
    queued = popped(queue)
    assert unasked == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 0,
        ("backoff", "NodeAdd"): 0,
        ("active", "PopFromBackoffQ"): 1,
    }
    queued.unschedulable_plugins = frozenset({"Room"})
    queue.requeue(queued, NOW)
    queue.move_all(NODE_ADD, None, None, NOW + 60)
    assert unasked["active", "NodeAdd"] == 1, "its backoff was over, so that it did not go where the hint meant"


def test_a_pod_that_failed_with_an_error_is_never_popped_early(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p"), NOW)
    rejected(queue)
    assert queue.find("default/p") is not None
    assert not queue.has_ready()
    assert queue.pop_nowait(NOW) is None
    queue.flush_backoff(1001.9)
    assert queue.pop_nowait(1001.9) is None
    queue.flush_backoff(1002.0)
    assert popped(queue, 1002.0).key == "default/p"


def test_a_rejected_pod_in_back_off_is_popped_early_but_after_all_active_ones(
    queue: SchedulingQueue, arrivals: list[tuple[str, str]]
) -> None:
    queue.add(pod_info("first"), NOW)
    rejected(queue, "Room")
    queue.move_all(NODE_ADD, None, None, NOW)
    queue.add(pod_info("second"), NOW + 1)
    assert queue.find("default/first") == (BACKOFF, queue.find("default/first")[1])  # type: ignore[index]  # found
    assert popped(queue).key == "default/second"
    assert popped(queue).key == "default/first"
    assert arrivals == [
        ("active", "UnschedulablePodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "UnschedulablePodAdd"),
        ("active", "PopFromBackoffQ"),
    ]


def test_an_event_in_flight_sends_a_rejected_pod_to_back_off_and_not_to_sleep(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p"), NOW)
    queued = popped(queue)
    queue.move_all(NODE_ADD, None, None, NOW)
    queued.unschedulable_plugins = frozenset({"Room"})
    queue.requeue(queued, NOW)
    found = queue.find("default/p")
    assert found is not None
    assert found[0] == BACKOFF


def test_a_pod_s_own_update_in_flight_is_not_missed(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p"), NOW)
    queued = popped(queue)
    queue.update(make_pod("p", **GATE), pod_info("p"), NOW)
    assert queue.find("default/p") is None, "one pod is not in two places"
    queued.unschedulable_plugins = frozenset({"Gate"})
    queue.requeue(queued, NOW)
    assert queue.statistics().backoff == 1


def test_a_pending_plugin_s_event_skips_the_back_off(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p"), NOW)
    queued = popped(queue)
    queued.pending_plugins = frozenset({"Room"})
    queue.requeue(queued, NOW)
    queue.move_all(NODE_ADD, None, None, NOW)
    assert queue.statistics().active == 1


def test_errors_in_a_row_end_with_a_rejection(queue: SchedulingQueue) -> None:
    """The next error starts at one second again."""
    queue.add(pod_info("p"), NOW)
    for now in (NOW, NOW + 2, NOW + 6):
        queue.flush_backoff(now)
        rejected(queue, now=now)
    queue.flush_backoff(NOW + 30)
    queued = rejected(queue, "Room", now=NOW + 30)
    assert (queued.consecutive_errors_count, queued.unschedulable_count) == (0, 1)
    queue.move_all(NODE_ADD, None, None, NOW + 40)
    queued = rejected(queue, now=NOW + 40)
    assert (queued.consecutive_errors_count, queued.backoff_expiration) == (1, 1041.0)


def test_a_gated_pod_hears_of_nothing_but_its_gate(queue: SchedulingQueue, arrivals: list[tuple[str, str]]) -> None:
    """PreEnqueue is not asked again for each node that comes, even where the pod's earlier rejector heard of it."""
    queue.add(pod_info("p", **GATE), NOW)
    found = queue.find("default/p")
    assert found is not None
    found[1].unschedulable_plugins |= {"Room"}
    arrivals.clear()
    queue.move_all(NODE_ADD, None, None, NOW)
    assert arrivals == []
    assert queue.statistics().gated == 1


def test_a_gate_that_goes_lets_the_pod_in(queue: SchedulingQueue) -> None:
    old, new = make_pod("p", **GATE), make_pod("p")
    queue.add(pod_info("p", **GATE), NOW)
    assert queue.find("default/p") is not None
    queue.update(old, pod_info("p"), NOW)
    queued = popped(queue)
    assert queued.gating_plugin == ""
    assert queued.pod.pod == new
    assert queue.rejections() == {}


def test_a_pod_that_is_flushed_while_gated_was_not_rescued(queue: SchedulingQueue) -> None:
    """Else `scheduler_pod_scheduled_after_flush_total` would count every pod that waited long for its gate."""
    queue.add(pod_info("p", **GATE), NOW)
    queue.flush_unschedulable(NOW + 301)
    found = queue.find("default/p")
    assert found is not None
    assert found[0] == GATED
    queue.update(make_pod("p", **GATE), pod_info("p"), NOW + 400)
    assert not popped(queue, NOW + 400).was_flushed


@pytest.mark.parametrize(("waits", "queried_after"), [(False, [330, 360, 390, 630]), (True, [330, 660])])
def test_how_often_the_safety_net_asks_about_a_gated_pod(waits: bool, queried_after: list[int]) -> None:
    """Up to 1.36 with each flush once it has waited for five minutes, from 1.37 on once in five minutes."""
    queried: list[int] = []
    now = 0

    def pre_enqueue(_pod: PodInfo, _first: str) -> Status:
        queried.append(now)
        return unresolvable("shut", plugin="Gate")

    queue = SchedulingQueue(replace(policy([]), pre_enqueue=pre_enqueue, gated_pods_wait_for_the_flush=waits))
    queue.add(pod_info("p"), 0)
    queried.clear()
    for now in range(30, 690, 30):
        queue.flush_unschedulable(now)
    assert queried[: len(queried_after) - 1] == queried_after[:-1]
    assert queried_after[-1] in queried
    assert len(queried) == (2 if waits else 12)


def test_the_safety_net_marks_subject_it_moves(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p"), NOW)
    rejected(queue, "Deaf")
    queue.flush_unschedulable(NOW + 300)
    assert queue.pop_nowait(NOW + 300) is None
    queue.flush_unschedulable(NOW + 300.5)
    queued = popped(queue, NOW + 300.5)
    assert queued.was_flushed
    queued.unschedulable_plugins = frozenset({"Room"})
    queue.requeue(queued, NOW + 301)
    assert not queued.was_flushed


def test_the_safety_net_leaves_pods_alone_whose_profile_schedules_nothing_until_another_policy_comes() -> None:
    queue = SchedulingQueue(replace(policy([]), stopped=frozenset(["kscheduler"])))
    queue.add(pod_info("p"), NOW)
    rejected(queue, "Quarantined")
    queue.move_all(NODE_ADD, None, None, NOW + 10)
    queue.flush_unschedulable(NOW + 1000)
    found = queue.find("default/p")
    assert found is not None
    assert found[0] == UNSCHEDULABLE
    queue.apply(policy([]), lambda _: True, NOW + 1001)
    assert popped(queue, NOW + 1001).key == "default/p"


@pytest.mark.parametrize(("stopped", "wait"), [(frozenset[str](), 1), (frozenset(["kscheduler"]), 300)])
def test_a_group_whose_profile_schedules_nothing_is_tried_again_late(stopped: frozenset[str], wait: int) -> None:
    groups = PodGroupTable([KUBERNETES])
    queue = SchedulingQueue(replace(policy([]), groups=groups, stopped=stopped))
    groups.put(GroupDefinition(GroupKey("scheduling.k8s.io", "default", "gang"), 1))
    member = pod_info("member", schedulingGroup={"podGroupName": "gang"})
    groups.add_member(member)
    queue.add(member, NOW)
    tried = queue.pop_next(NOW)
    assert isinstance(tried, QueuedPodGroup)
    queue.requeue(tried.members["default/member"], NOW)
    queue.group_attempted(tried, GroupOutcome.ERROR, NOW)
    queue.flush_backoff(NOW + wait - 1)
    assert queue.pop_next(NOW + wait - 1) is None
    queue.flush_backoff(NOW + wait + 1)
    assert isinstance(queue.pop_next(NOW + wait + 1), QueuedPodGroup)


def test_a_pod_that_is_added_again_while_in_flight_is_tried_once_at_a_time(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p"), NOW)
    queued = popped(queue)
    queue.add(pod_info("p"), NOW)
    assert queue.pop_nowait(NOW) is None
    queued.unschedulable_plugins = frozenset({"Room"})
    queue.requeue(queued, NOW)
    assert queue.statistics().unschedulable == 1
    assert queue.rejections() == {("Room", "kscheduler"): 1}


def test_a_pod_with_an_older_one_of_its_name_in_flight_is_tried_beside_it(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p", uid="old"), NOW)
    old = popped(queue)
    queue.delete("default/p")
    queue.add(pod_info("p", uid="new"), NOW)
    new = popped(queue)
    assert {old.pod.uid, new.pod.uid} == {"old", "new"}
    queue.done("old")
    assert queue.is_in_flight("new")


def test_a_freed_place_does_not_wake_the_pod_that_freed_it(queue: SchedulingQueue) -> None:
    queue.add(pod_info("own", labels={"helps": "own"}), NOW)
    own = rejected(queue, "Peer")
    queue.move_all(ASSIGNED_POD_DELETE, own.pod.pod, None, NOW, own.pod.uid)
    found = queue.find("default/own")
    assert found is not None
    assert found[0] == UNSCHEDULABLE
    queue.move_all(ASSIGNED_POD_DELETE, own.pod.pod, None, NOW)
    assert queue.statistics().backoff == 1


def test_activation_skips_the_back_off_and_the_pool(queue: SchedulingQueue) -> None:
    for name in ("sleeps", "backs-off"):
        queue.add(pod_info(name), NOW)
        rejected(queue, "Deaf" if name == "sleeps" else "Room")
    queue.move_all(NODE_ADD, None, None, NOW)
    assert (queue.statistics().unschedulable, queue.statistics().backoff) == (1, 1)
    queue.activate(["default/sleeps", "default/backs-off", "default/stranger"], NOW)
    assert queue.statistics().active == 2


def test_activation_of_a_pod_that_is_being_tried_is_not_lost(queue: SchedulingQueue) -> None:
    queue.add(pod_info("p"), NOW)
    queue.add(pod_info("q"), NOW)
    both = popped(queue), popped(queue)
    queue.activate(["default/p"], NOW)
    for queued in both:
        queued.unschedulable_plugins = frozenset({"Deaf"})
        queue.requeue(queued, NOW)
    places = {name: queue.find(f"default/{name}") for name in ("p", "q")}
    assert {name: found[0] for name, found in places.items() if found} == {"p": BACKOFF, "q": UNSCHEDULABLE}


def test_an_event_may_concern_pods_up_to_a_priority_only(queue: SchedulingQueue) -> None:
    for priority in (1, 2):
        queue.add(pod_info(f"p{priority}", priority=priority), NOW)
        rejected(queue, "Room")
    queue.move_all(NODE_ADD, None, None, NOW, pre_check=lambda pod: pod.priority <= 1)
    assert queue.statistics().backoff == 1
    assert popped(queue).key == "default/p1"


def test_the_configuration_may_order_pods_otherwise() -> None:
    surroundings = replace(policy([]), sort_key=lambda queued: queued.pod.name)
    queue = SchedulingQueue(surroundings)
    for number, name in enumerate(("b", "c", "a")):
        queue.add(pod_info(name, priority=number), NOW + number)
    assert [popped(queue).pod.name for _ in range(3)] == ["a", "b", "c"]


def test_a_pod_that_the_gate_takes_back_is_not_counted_as_incoming_again(
    queue: SchedulingQueue, arrivals: list[tuple[str, str]]
) -> None:
    """It was in the pool and stays there."""
    queue.add(pod_info("p", **GATE), NOW)
    queue.activate(["default/p"], NOW)
    assert arrivals == [("unschedulable", "UnschedulablePodAdd")]


def test_each_hint_is_measured_with_its_answer() -> None:
    seen: list[tuple[str, str, str]] = []
    registrations = {
        "Broken": (ClusterEventWithHint(NODE_ADD, _raises),),  # type: ignore[arg-type]  # a faulty plugin
        "Skips": (ClusterEventWithHint(NODE_ADD, lambda *_: QueueingHint.SKIP),),
        "Room": (ClusterEventWithHint(NODE_ADD),),
    }
    table = HintTable({"kscheduler": registrations}, HintCalls(lambda *hint: seen.append(hint[:3])))
    for plugin in registrations:
        queued = queued_pod("p")
        queued.unschedulable_plugins = frozenset({plugin})
        table.strategy(queued, NODE_ADD, None, None)
    answers = [("Broken", "Error"), ("Skips", "QueueSkip"), ("Room", "Queue")]
    assert seen == [(plugin, "NodeAdd", answer) for plugin, answer in answers]


def _raises(*_: object) -> None:
    raise RuntimeError("a bug in a hint")


POD_DELETE = ClusterEvent(Resource.POD, ActionType.DELETE)
TABLE = HintTable(
    {
        "kscheduler": {
            "Broken": (ClusterEventWithHint(NODE_ADD, _raises),),  # type: ignore[arg-type]  # a faulty plugin
            "Room": (ClusterEventWithHint(NODE_ADD),),
            "Peer": (ClusterEventWithHint(POD_DELETE),),
        },
        "other": {"Peer": (ClusterEventWithHint(NODE_ADD),)},
    },
    HintCalls(unobserved),
)


@pytest.mark.parametrize(
    ("rejectors", "pending", "event", "scheduler", "strategy"),
    [
        ((), (), NODE_ADD, "kscheduler", QueueingStrategy.AFTER_BACKOFF),
        (("Room",), (), NODE_ADD, "kscheduler", QueueingStrategy.AFTER_BACKOFF),
        (("Room",), (), ASSIGNED_POD_DELETE, "kscheduler", QueueingStrategy.SKIP),
        (("Peer",), (), ASSIGNED_POD_DELETE, "kscheduler", QueueingStrategy.AFTER_BACKOFF),
        (("Peer",), (), NODE_ADD, "other", QueueingStrategy.AFTER_BACKOFF),
        (("Peer",), (), NODE_ADD, "kscheduler", QueueingStrategy.SKIP),
        (("Broken",), (), NODE_ADD, "kscheduler", QueueingStrategy.AFTER_BACKOFF),
        (("Room",), ("Peer",), NODE_ADD, "kscheduler", QueueingStrategy.AFTER_BACKOFF),
        (("Peer",), ("Room",), NODE_ADD, "kscheduler", QueueingStrategy.IMMEDIATELY),
        (("Unknown",), (), NODE_ADD, "kscheduler", QueueingStrategy.SKIP),
        (("Room",), (), NODE_ADD, "nobody", QueueingStrategy.AFTER_BACKOFF),
    ],
)
def test_what_an_event_means_for_a_parked_pod(
    rejectors: tuple[str, ...],
    pending: tuple[str, ...],
    event: ClusterEvent,
    scheduler: str,
    strategy: QueueingStrategy,
) -> None:
    """Only plugins that rejected the pod are asked, and a hint that raises says Queue."""
    queued = queued_pod("p", schedulerName=scheduler)
    queued.unschedulable_plugins, queued.pending_plugins = frozenset(rejectors), frozenset(pending)
    assert TABLE.strategy(queued, event, None, None) is strategy


CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "2"}}}


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        ({}, {}, ["Update"]),
        ({}, {"labels": {"a": "b"}}, ["UpdatePodLabel"]),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, ["UpdatePodScaleDown"]),
        ({"requests": {"cpu": "2"}}, {}, ["UpdatePodScaleDown"]),
        ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, ["UpdatePodScaleUp"]),
        (GATE, {}, ["UpdatePodSchedulingGatesEliminated"]),
        ({"schedulingGates": [{"name": "a"}, {"name": "b"}]}, GATE, ["Update"]),
        ({}, {"tolerations": [{"key": "a"}]}, ["UpdatePodToleration"]),
        (GATE, {"labels": {"a": "b"}}, ["UpdatePodLabel", "UpdatePodSchedulingGatesEliminated"]),
    ],
)
def test_what_changed_in_a_pod(old: Tree, new: Tree, actions: list[str]) -> None:
    found = pod_update_events(make_pod("p", **old), make_pod("p", **new))
    assert [event.label.removeprefix("UnschedulablePod") for event in found] == actions


def test_a_pod_for_which_no_events_were_kept_is_not_left_to_wait_for_one(queue: SchedulingQueue) -> None:
    """It was given up for bound (PreBind has begun), and rejected after all: what it waits for may have been."""
    queue.add(pod_info("p"), NOW)
    queued = popped(queue)
    queue.done(queued.pod.uid)
    queue.move_all(NODE_ADD, None, None, NOW)
    queued.unschedulable_plugins = frozenset({"NoHint"})
    queue.requeue(queued, NOW)
    found = queue.find("default/p")
    assert found is not None
    assert found[0] == BACKOFF


def test_a_scale_down_counts_once_the_kubelet_has_done_it() -> None:
    """Until the status follows, the larger amount is still taken."""
    small = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}

    def running(cpu: str) -> Tree:
        return {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}

    queried = make_pod("p", node="n", containers=[CONTAINER], status=running("2"))
    pending = make_pod("p", node="n", status=running("2"), **small)
    done = make_pod("p", node="n", status=running("1"), **small)
    assert [event.label for event in pod_update_events(queried, pending)] == ["UnschedulablePodUpdate"]
    assert [event.label for event in pod_update_events(pending, done)] == ["UnschedulablePodUpdatePodScaleDown"]


def test_a_parked_pod_that_changes_is_found_by_what_it_waits_for_now() -> None:
    """More pods are parked than are asked one by one, and each waits for a pod of its own `app`."""
    of_app = HintIndex(lambda pod: [pod.labels["app"]], lambda _, new: [new.metadata.labels["app"]] if new else None)

    def hint(pod: PodInfo, _old: object, new: object) -> QueueingHint:
        is_equal = isinstance(new, Pod) and new.metadata.labels["app"] == pod.labels["app"]
        return QueueingHint.QUEUE if is_equal else QueueingHint.SKIP

    table = HintTable({"kscheduler": {"Near": [IndexedEvent(ASSIGNED_POD_ADD, hint, of_app)]}})
    queue = SchedulingQueue(replace(policy([]), hints=table))
    old = pod_info("changes", labels={"app": "web"})
    for pod in (old, *(pod_info(f"p-{number}", labels={"app": "web"}) for number in range(2 * FEW))):
        queue.add(pod, NOW)
        rejected(queue, "Near")
    queue.move_all(ASSIGNED_POD_ADD, None, make_pod("other", labels={"app": "cache"}, node="n"), NOW)
    queue.update(old.pod, pod_info("changes", labels={"app": "db"}), NOW)
    assert queue.statistics().unschedulable == 1 + 2 * FEW
    queue.move_all(ASSIGNED_POD_ADD, None, make_pod("other", labels={"app": "db"}, node="n"), NOW)
    assert [queue.find(f"default/{name}")[0] for name in ("changes", "p-0")] == [BACKOFF, UNSCHEDULABLE]  # type: ignore[index]  # found
