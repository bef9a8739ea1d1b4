"""A pod whose requirement is not met waits with the reason, and is bound once the cluster meets it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.scenario import Scenario

GPU_TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
DISK_SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
REQUIRE_SSD = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [DISK_SSD]}}


def by_host(kind: str, app: str) -> dict[str, Any]:
    """An affinity that requires pods of this app on the same host, or none."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


Step = Callable[[Scenario], None]


def relabel(scenario: Scenario) -> None:
    scenario.patch_node("node-0", {"metadata": {"labels": {"disk": "ssd"}}})


def plain_node(scenario: Scenario) -> None:
    scenario.add_node("node-0", cpu="2")


def tainted_node(scenario: Scenario) -> None:
    scenario.add_node("node-0", taints=[GPU_TAINT])


def cordoned_node(scenario: Scenario) -> None:
    plain_node(scenario)
    scenario.patch_node("node-0", {"spec": {"unschedulable": True}})


def uncordon(scenario: Scenario) -> None:
    scenario.patch_node("node-0", {"spec": {"unschedulable": None}})


def untaint(scenario: Scenario) -> None:
    scenario.patch_node("node-0", {"spec": {"taints": None}})


def tolerate(scenario: Scenario) -> None:
    toleration = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    kept = scenario.pod("late")["spec"].get("tolerations", [])
    scenario.patch_pod("late", {"spec": {"tolerations": [*kept, toleration]}}, "application/merge-patch+json")


def grow(scenario: Scenario) -> None:
    scenario.set_allocatable("node-0", cpu="8", memory="8Gi", pods="110")


def another_node(scenario: Scenario) -> None:
    scenario.add_node("node-1", cpu="8", labels={"disk": "ssd"})


def node_with_early_pod(scenario: Scenario) -> None:
    scenario.add_node("node-0", cpu="2")
    scenario.add_pod("early", cpu="1500m", ports=[{"containerPort": 80, "hostPort": 8080}])


def node_with_jealous_pod(scenario: Scenario) -> None:
    scenario.add_node("node-0", cpu="2")
    scenario.add_pod("early", **by_host("podAntiAffinity", "late"))


def add_friend(scenario: Scenario) -> None:
    scenario.add_pod("friend")


def delete_early(scenario: Scenario) -> None:
    scenario.delete_pod("early")


def no_node(scenario: Scenario) -> None:
    """Scenarios start without nodes."""


CASES: dict[str, tuple[Step, dict[str, Any], str, Step]] = {
    "label-added": (
        plain_node,
        {"nodeSelector": {"disk": "ssd"}},
        "didn't match Pod's node affinity/selector",
        relabel,
    ),
    "affinity-label-added": (
        plain_node,
        {"affinity": {"nodeAffinity": REQUIRE_SSD}},
        "didn't match Pod's node affinity/selector",
        relabel,
    ),
    "taint-removed": (tainted_node, {}, "had untolerated taint", untaint),
    "toleration-added": (tainted_node, {}, "had untolerated taint", tolerate),
    "uncordoned": (cordoned_node, {}, "1 node(s) were unschedulable", uncordon),
    "cpu-freed-by-deletion": (node_with_early_pod, {"cpu": "1"}, "1 Insufficient cpu", delete_early),
    "host-port-freed-by-deletion": (
        node_with_early_pod,
        {"ports": [{"containerPort": 80, "hostPort": 8080}]},
        "didn't have free ports",
        delete_early,
    ),
    "capacity-grown": (plain_node, {"cpu": "4"}, "1 Insufficient cpu", grow),
    "larger-node-added": (plain_node, {"cpu": "4"}, "1 Insufficient cpu", another_node),
    "labelled-node-added": (plain_node, {"nodeSelector": {"disk": "ssd"}}, "didn't match Pod's", another_node),
    "pod-to-be-near-added": (
        plain_node,
        by_host("podAffinity", "friend"),
        "didn't match pod affinity rules",
        add_friend,
    ),
    "pod-to-be-far-from-deleted": (
        node_with_early_pod,
        by_host("podAntiAffinity", "early"),
        "didn't match pod anti-affinity rules",
        delete_early,
    ),
    "jealous-pod-deleted": (
        node_with_jealous_pod,
        {},
        "didn't satisfy existing pods anti-affinity rules",
        delete_early,
    ),
    "node-without-jealous-pod-added": (
        node_with_jealous_pod,
        {},
        "didn't satisfy existing pods anti-affinity rules",
        another_node,
    ),
    "first-node-added": (no_node, {}, "no nodes available to schedule pods", plain_node),
}


@pytest.mark.parametrize(("prepare", "late", "reason", "meet"), CASES.values(), ids=CASES.keys())
def test_a_pod_waits_with_the_reason_until_its_requirement_is_met(
    scenario: Scenario, prepare: Step, late: dict[str, Any], reason: str, meet: Step
) -> None:
    prepare(scenario)
    scenario.start_scheduler()
    scenario.wait_bound()
    scenario.add_pod("late", **late)
    scenario.wait_rejected("late", reason)
    scenario.wait("the Event", lambda: scenario.events("late", "FailedScheduling"))
    meet(scenario)
    scenario.wait_bound("late")


def test_a_gated_pod_is_bound_when_its_gates_are_gone(scenario: Scenario) -> None:
    scenario.add_node("node-0")
    scenario.add_pod("gated", schedulingGates=[{"name": "example.com/quota"}])
    scenario.start_scheduler()
    scenario.add_pod("free")
    scenario.wait_bound("free")
    scenario.wait_rejected("gated", "", reason="SchedulingGated")
    scenario.patch_pod("gated", {"spec": {"schedulingGates": None}}, "application/merge-patch+json")
    scenario.wait_bound("gated")


def test_a_hopeless_pod_holds_up_nobody(scenario: Scenario) -> None:
    scenario.add_node("node-0", cpu="2")
    scenario.add_pod("hopeless", cpu="64")
    scenario.start_scheduler()
    scenario.wait_rejected("hopeless", "1 Insufficient cpu")
    scenario.add_pods(10)
    scenario.wait_bound(*(f"pod-{number}" for number in range(10)))
    assert scenario.pending() == ["hopeless"]
