"""Pods that cost much to decide about wait behind all others, and never make them wait long."""

import pytest
from msgspec.structs import replace

from kscheduler.framework.decision_time import DECISION_ENDED
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.pods.pod_weight import COSTLY, largest_parts, weight_of
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.scheduling_queue import ACTIVE, BACKOFF, SchedulingQueue
from kscheduler.state.queue.sub_queues import CostlyPodBudget
from tests.builders import Tree, make_pod, pod_info, queued_pod
from tests.state.queue.model import policy

NOW = 1000.25
KEYS = [f"key-{number}" for number in range(COSTLY + 1)]
SELECTOR: Tree = {"nodeSelector": dict.fromkeys(KEYS, "x")}


@pytest.fixture
def queue() -> SchedulingQueue:
    return SchedulingQueue(policy([]))


def names(queue: SchedulingQueue) -> list[str]:
    """All that may be tried now, in order."""
    found = []
    while (queued := queue.pop_nowait(NOW)) is not None:
        found.append(queued.pod.name)
    return found


def test_costly_pods_go_last_whatever_their_priority_and_sound_ones_keep_their_order(queue: SchedulingQueue) -> None:
    queue.add(pod_info("huge", priority=1000, **SELECTOR), NOW)
    for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
        queue.add(pod_info(name, priority=priority), NOW)
    queue.add(pod_info("huger", priority=2000, **SELECTOR), NOW)
    assert names(queue) == ["high", "middle", "low", "huger", "huge"]


def test_one_is_tried_at_a_time_and_the_next_when_its_time_is_paid_back(queue: SchedulingQueue) -> None:
    for name in ("first", "second"):
        queue.add(pod_info(name, **SELECTOR), NOW)
    assert queue.pop_nowait(NOW) is not None
    queue.costly_tried(CostlyPodBudget.MAX_SECONDS + 2 * CostlyPodBudget.SHARE - 0.001)
    assert not queue.has_ready()
    assert queue.pop_nowait(NOW) is None
    queue.flush_backoff(NOW)
    assert not queue.has_ready()
    queue.add(pod_info("sound"), NOW)
    assert names(queue) == ["sound"]
    queue.flush_backoff(NOW)
    assert queue.has_ready()
    assert names(queue) == ["second"]


def test_in_a_queue_that_is_never_empty_one_is_tried_each_second(queue: SchedulingQueue) -> None:
    queue.add(pod_info("huge", **SELECTOR), NOW)
    queue.add(pod_info("huger", **SELECTOR), NOW)
    for number in range(10):
        queue.add(pod_info(f"sound-{number}"), NOW)
    assert [queue.pop_nowait(NOW).pod.name for _ in range(3)] == ["sound-0", "sound-1", "sound-2"]  # type: ignore[union-attr]
    queue.flush_backoff(NOW)
    assert [queue.pop_nowait(NOW).pod.name for _ in range(3)] == ["huge", "sound-3", "sound-4"]  # type: ignore[union-attr]


def test_a_pod_whose_decision_was_ended_waits_with_the_costly_ones_until_it_is_edited(queue: SchedulingQueue) -> None:
    queue.add(pod_info("unknown shape"), NOW)
    queued = queue.pop_nowait(NOW)
    assert queued is not None
    queued.overruns = 1
    queue.requeue(queued, NOW)
    assert queue.find(queued.key) == (BACKOFF, queued)
    queue.add(pod_info("sound"), NOW)
    queue.flush_backoff(NOW + 20)
    assert queue.find(queued.key) == (ACTIVE, queued)
    queue.flush_backoff(NOW + 20)
    assert names(queue) == ["unknown shape", "sound"], "its turn of the second"


def test_a_new_leader_tries_the_pod_last_that_held_up_the_one_before(queue: SchedulingQueue) -> None:
    """It reads that from the condition, which the leader before has written."""
    message = f"{DECISION_ENDED} after 2s of processor time"
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    queue.add(pod_info("held it up", priority=9, status={"conditions": [condition]}), NOW)
    queue.add(pod_info("sound"), NOW)
    queue.add(pod_info("rejected", status={"conditions": [{**condition, "message": "0/1 nodes"}]}), NOW)
    assert names(queue) == ["sound", "rejected", "held it up"]


def test_an_idle_scheduler_takes_no_costly_pod_out_of_back_off(queue: SchedulingQueue) -> None:
    queue.add(pod_info("huge", **SELECTOR), NOW)
    queued = queue.pop_nowait(NOW)
    assert queued is not None
    queued.unschedulable_plugins = frozenset(("P",))
    queue.requeue(queued, NOW)
    queue.activate([], NOW)
    queue.move_all(ClusterEvent(Resource.WILDCARD, ActionType.ALL), None, None, NOW)
    assert queue.find(queued.key) == (BACKOFF, queued)
    assert queue.pop_nowait(NOW) is None


def test_a_pod_that_becomes_costly_by_an_update_is_in_one_place_only(queue: SchedulingQueue) -> None:
    small = make_pod("changing")
    queue.add(pod_info("changing"), NOW)
    queue.update(small, pod_info("changing", metadata={"annotations": dict.fromkeys(KEYS, "x")}), NOW)
    queue.add(pod_info("sound"), NOW)
    assert queue.statistics().active == 2
    assert names(queue) == ["sound", "changing"]


def test_no_hint_is_queried_about_a_costly_pod() -> None:
    queried: list[str] = []

    def hint(pod: object, old: object, new: object) -> QueueingHint:
        queried.append(str(pod))
        return QueueingHint.SKIP

    event = ClusterEvent(Resource.NODE, ActionType.ADD)
    table = HintTable({"kscheduler": {"P": (ClusterEventWithHint(event, hint),)}})
    queue = SchedulingQueue(replace(policy([]), hints=table))
    for name, spec in (("sound", {}), ("huge", SELECTOR)):
        queue.add(pod_info(name, **spec), NOW)
        queued = queue.pop_nowait(NOW)
        assert queued is not None
        queued.unschedulable_plugins = frozenset(("P",))
        queue.requeue(queued, NOW)
    queue.move_all(event, None, None, NOW)
    assert queried == ["PodInfo(default/sound)"]
    found = queue.find("default/huge")
    assert found is not None
    assert found[0] == BACKOFF, "it may be helped, so it is tried again"


def test_the_wait_after_decisions_that_were_ended_doubles_from_ten_seconds_to_five_minutes() -> None:
    waits = []
    for overruns in range(1, 8):
        queued = queued_pod("pod")
        queued.overruns = queued.consecutive_errors_count = overruns
        waits.append(BackoffPolicy().duration(queued))
    assert waits == [10, 20, 40, 80, 160, 300, 300]


HEAVY: dict[str, tuple[Tree, str]] = {
    "nodeSelector": (SELECTOR, "spec.nodeSelector has 1,001 entries"),
    "tolerations": ({"tolerations": [{"key": key} for key in KEYS]}, "spec.tolerations has 1,001 entries"),
    "labels": ({"labels": dict.fromkeys(KEYS, "x")}, "metadata.labels has 1,001 entries"),
    "values": (
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": KEYS}]}]
                    }
                }
            }
        },
        "spec.affinity.nodeAffinity has 1,003 entries",
    ),
    "namespaces": (
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "namespaces": KEYS}]
                }
            }
        },
        "spec.affinity.podAntiAffinity has 1,002 entries",
    ),
    "constraints": (
        {"topologySpreadConstraints": [{"topologyKey": key} for key in KEYS]},
        "spec.topologySpreadConstraints has 1,001 entries",
    ),
    "resources": ({"requests": dict.fromkeys(KEYS, "1")}, "spec.containers[*].resources has 1,001 entries"),
}


@pytest.mark.parametrize(("fields", "reported"), HEAVY.values(), ids=HEAVY)
def test_the_weight_counts_the_entries_of_each_list_and_the_largest_is_named(fields: Tree, reported: str) -> None:
    pod = make_pod("pod", **fields)
    assert COSTLY < weight_of(pod) <= COSTLY + 10
    assert reported in largest_parts(pod)
    assert weight_of(make_pod("pod")) < 10


def test_what_is_far_too_much_is_not_counted_to_its_end() -> None:
    """A pod of 1.5 MB has 375,000 empty terms: to count them takes longer than its decision may."""
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in KEYS] * 30
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = make_pod("pod", affinity={"nodeAffinity": required})
    assert COSTLY < weight_of(pod) <= COSTLY + 10
    assert largest_parts(pod) == "spec.affinity.nodeAffinity has more than 20,000 entries"
