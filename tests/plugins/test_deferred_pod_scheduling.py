"""Running pods whose resize is deferred: which node can be theirs, what it must have free, and what wakes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod, PodStatus
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import RESIZE_PREEMPTION
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.plugin import SKIPPED, UNSIGNABLE
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code
from kscheduler.plugins.deferred_pod_scheduling import DeferredPodScheduling
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from tests.plugins.made import HANDLE, node, requesting, table

PLUGIN = DeferredPodScheduling(None, HANDLE)
FIT = NodeResourcesFit(None, replace(HANDLE, features=frozenset({RESIZE_PREEMPTION})))
FORBIDS: dict[str, Any] = {"podPreemptionPolicy": {"disableResizePreemption": ["somebody"]}}


def growing(uid: str = "growing", *, on: str = "node-1", reason: str = "Deferred", **wants: str) -> Pod:
    """A pod that has one cpu, and wants this."""
    made = requesting(uid, requests={"cpu": "1", **wants}, nodeName=on)
    status: dict[str, Any] = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else [],
        "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}],
    }
    made.status = convert(status, PodStatus)
    return made


def allocatable(cpu: str = "4", pods: str = "110", **more: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": "8Gi", "pods": pods, **more}


def judged(pod: Pod, *nodes: Node, pods: Sequence[Pod] = ()) -> dict[str, tuple[str, ...]]:
    """By node that NodeResourcesFit rejects its reasons, with `!` in front where no preemption helps."""
    found, cycle, info = {}, CycleState(), PodInfo(pod)
    rows = table(*nodes, pods=(pod, *pods))
    FIT.pre_filter(cycle, info, rows)
    codes = FIT.filter(cycle, info, rows, rows.rows())
    for row, code in zip(rows.rows().tolist(), codes.tolist() if codes is not None else [0] * len(nodes), strict=True):
        if code:
            status = FIT.status(cycle, code)
            hopeless = "!" if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else ""
            found[rows.name_of(row)] = tuple(hopeless + reason for reason in status.reasons)
    return found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ["", "pod assigned to different node"]),
        (FORBIDS, ["node had resize preemption disabled", "pod assigned to different node"]),
        ({"podPreemptionPolicy": {}}, ["", "pod assigned to different node"]),
    ],
    ids=["allowed", "forbidden", "an empty policy"],
)
def test_only_its_own_node_can_be_the_pod_s(spec: Mapping[str, Any], expected: list[str]) -> None:
    nodes, cycle, pod = table(node("node-1", **spec), node("node-2")), CycleState(), PodInfo(growing())
    assert PLUGIN.pre_filter(cycle, pod, nodes).status is SUCCESS
    codes = PLUGIN.filter(cycle, pod, nodes, nodes.rows())
    assert codes is not None
    texts = ["" if not code else PLUGIN.status(cycle, code).message for code in codes.tolist()]
    assert texts == expected
    assert {PLUGIN.status(cycle, code).code for code in codes.tolist() if code} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


@pytest.mark.parametrize("reason", ["", "Infeasible"])
def test_other_pods_are_none_of_its_business(reason: str) -> None:
    nodes, pod = table(node()), PodInfo(growing(reason=reason))
    assert PLUGIN.pre_filter(CycleState(), pod, nodes) is SKIPPED
    assert PLUGIN.permit(CycleState(), pod, "node-1").status is SUCCESS
    assert PLUGIN.sign(pod) is not UNSIGNABLE


def test_a_resize_that_fits_is_the_kubelet_s() -> None:
    status = PLUGIN.permit(CycleState(), PodInfo(growing()), "node-1").status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "pod resize fits, waiting for Kubelet actuation"
    assert PLUGIN.sign(PodInfo(growing())) is FIT.sign(PodInfo(growing())) is UNSIGNABLE


LOW = requesting("low", requests={"cpu": "2"}, nodeName="node-1")


@pytest.mark.parametrize(
    ("pod", "amounts", "pods", "expected"),
    [
        (growing(cpu="4"), allocatable(), (), {}),
        (growing(cpu="4"), allocatable(), (LOW,), {"node-1": ("Insufficient cpu",)}),
        (growing(cpu="2"), allocatable(), (LOW,), {}),
        (growing(cpu="5"), allocatable(), (), {"node-1": ("!Insufficient cpu",)}),
        (growing(cpu="2"), allocatable(pods="1"), (), {}),
        (growing(cpu="2"), allocatable(pods="1"), (LOW,), {"node-1": ("Too many pods",)}),
        (growing(cpu="2", **{"example.com/gpu": "1"}), allocatable(), (), {}),
    ],
    ids=["all of it", "a lower pod", "beside it", "too large", "the only pod", "two for one", "its device is gone"],
)
def test_what_the_node_counts_of_the_pod_need_not_be_free(
    pod: Pod, amounts: dict[str, str], pods: tuple[Pod, ...], expected: dict[str, tuple[str, ...]]
) -> None:
    assert judged(pod, node("node-1", allocatable=amounts), pods=pods) == expected


def hints(events: Sequence[ClusterEventWithHint], event: ClusterEvent, old: Any, new: Any, pod: Pod) -> set[str]:
    """What the hints of these registrations say of an event."""
    queried = [entry.hint for entry in events if entry.event.matches(event) and entry.hint is not None]
    return {hint(PodInfo(pod), old, new).value for hint in queried}


POLICY = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_PREEMPTION_POLICY)
NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)


@pytest.mark.parametrize(
    ("event", "old", "new", "wakes"),
    [
        (POLICY, node("node-1", **FORBIDS), node("node-1"), True),
        (POLICY, node("node-1"), node("node-1", **FORBIDS), False),
        (POLICY, node("node-2", **FORBIDS), node("node-2"), False),
        (NODE_ADD, None, node("node-1"), True),
        (NODE_ADD, None, node("node-1", **FORBIDS), False),
        (NODE_ADD, None, node("node-2"), False),
    ],
    ids=["allowed again", "forbidden", "another node", "added", "added, forbidden", "another added"],
)
def test_which_changes_of_nodes_wake_it(event: ClusterEvent, old: Node | None, new: Node, wakes: bool) -> None:
    expected = (QueueingHint.QUEUE if wakes else QueueingHint.SKIP).value
    assert hints(PLUGIN.events_to_register(), event, old, new, growing()) == {expected}
    assert hints(PLUGIN.events_to_register(), event, old, new, growing(reason="")) == {QueueingHint.SKIP.value}


@pytest.mark.parametrize("where", ["node-1", "node-2"])
@pytest.mark.parametrize("what", ["deleted", "shrunk", "grown", "node"])
def test_fit_wakes_it_for_its_own_node_only(where: str, what: str) -> None:
    small, large = (requesting("o", requests={"cpu": cpu}, nodeName=where) for cpu in ("1", "2"))
    delete, shrink, grow = (
        ClusterEvent(Resource.ASSIGNED_POD, action)
        for action in (ActionType.DELETE, ActionType.UPDATE_POD_SCALE_DOWN, ActionType.UPDATE_POD_SCALE_UP)
    )
    changes: dict[str, tuple[ClusterEvent, Any, Any]] = {
        "deleted": (delete, large, None),
        "shrunk": (shrink, large, small),
        "grown": (grow, small, large),
        "node": (NODE_ADD, None, node(where)),
    }
    said = hints(FIT.events_to_register(), *changes[what], growing(cpu="2"))
    assert said == {(QueueingHint.QUEUE if where == "node-1" else QueueingHint.SKIP).value}


def test_a_resize_that_asks_for_less_in_all_wakes_pods_where_resizes_are_summed_whole() -> None:
    """Of one container more and of the other less: each by itself, as in 1.36, may get more than before."""

    def querying(*amounts: str) -> Pod:
        containers = [{"name": f"c{at}", "resources": {"requests": {"cpu": cpu}}} for at, cpu in enumerate(amounts)]
        made = convert({"spec": {"containers": containers, "nodeName": "node-1"}}, Pod)
        allocated = [
            {"name": name, "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}
            for name, cpu in (("c0", "4"), ("c1", "0"))
        ]
        made.status = convert({"containerStatuses": allocated}, PodStatus)
        return made

    waiting = requesting(requests={"cpu": "1"})
    shrink = ClusterEvent(Resource.ASSIGNED_POD, ActionType.UPDATE_POD_SCALE_DOWN)
    for version, said in (("1.36", QueueingHint.SKIP), ("1.37", QueueingHint.QUEUE)):
        fit = NodeResourcesFit(None, replace(HANDLE, behaviours=BEHAVIOURS[version]))
        events = [
            replace(entry, event=ClusterEvent(Resource.ASSIGNED_POD, entry.event.action))
            for entry in fit.events_to_register()
            if entry.event.resource is Resource.POD
        ]
        assert hints(events, shrink, querying("5", "0"), querying("0", "4"), waiting) == {said.value}


def test_without_the_gate_fit_knows_of_no_resizes() -> None:
    plain = NodeResourcesFit(None, HANDLE)
    grown = ClusterEvent(Resource.ASSIGNED_POD, ActionType.UPDATE_POD_SCALE_UP)
    assert not [entry for entry in plain.events_to_register() if entry.event.matches(grown)]
    assert plain.sign(PodInfo(growing())) is not UNSIGNABLE
