"""One workload, step by step, whose counts do not depend on how fast a scheduler is.

Each step changes the cluster once and ends when all it must bring about has happened. Pods that fit come when nobody
waits, pods that fit nowhere when nothing else happens: an event that falls into the middle of an attempt would be
judged at its end, and how often that happens is a matter of speed. Nothing runs the pods.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.controlplane.rest import MERGE_PATCH
from tests.e2e.scenario import HOSTNAME, Scenario

NODES = 60
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
BATCH_TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}


@dataclass(frozen=True)
class Step:
    """A change and how many pods are bound, and how many wait, when its effects are over."""

    name: str
    act: Callable[[Scenario], None]
    bound: int
    waiting: int

    def is_done(self, scenario: Scenario) -> bool:
        """Bound pods have a node, and each that waits has a condition that says why."""
        pods = scenario.pods()
        bound = sum(1 for pod in pods if pod["spec"].get("nodeName"))
        refused = sum(1 for pod in pods if any(c["status"] == "False" for c in pod["status"].get("conditions", [])))
        return (bound, refused) == (self.bound, self.waiting)


def build_cluster(scenario: Scenario) -> None:
    """Nodes in three zones; the second is of the batch pool and lets nobody else in."""
    for number in range(NODES):
        labels = {ZONE: "abc"[number % 3]} | ({"pool": "batch"} if number == 1 else {})
        taints = [BATCH_TAINT] if number == 1 else None
        scenario.add_node(f"node-{number}", labels=labels, taints=taints)


def term(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def spread(key: str, app: str) -> list[dict[str, Any]]:
    return [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term(key, app)}]


def port(number: int) -> list[dict[str, Any]]:
    return [{"containerPort": 80, "hostPort": number}]


def claim_volume() -> list[dict[str, Any]]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def many(scenario: Scenario, count: int, prefix: str, **options: Any) -> None:
    """So many pods `prefix-0` and so on, with the same options."""
    for number in range(count):
        # A copy: `add_pod` takes some of them out.
        scenario.add_pod(f"{prefix}-{number}", **dict(options))


def pods_that_fit(scenario: Scenario) -> None:
    many(scenario, 150, "plain")
    many(scenario, 20, "served", ports=port(8080))
    many(scenario, 20, "even", topologySpreadConstraints=spread(ZONE, "even"))
    many(scenario, 10, "apart", affinity={"podAntiAffinity": {REQUIRED: [term(HOSTNAME, "apart")]}})
    in_a = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
    many(scenario, 10, "placed", affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [in_a]}}})
    liked = {"weight": 10, "podAffinityTerm": term(ZONE, "near")}
    many(scenario, 9, "near", affinity={"podAffinity": {PREFERRED: [liked]}})
    scenario.add_pod("holder", nodeSelector={HOSTNAME: "node-3"}, ports=port(9090))


def pods_that_do_not(scenario: Scenario) -> None:
    many(scenario, 8, "large", cpu="5")
    many(scenario, 10, "picky", nodeSelector={"disk": "ssd"})
    many(scenario, 5, "batch", nodeSelector={"pool": "batch"})
    many(scenario, 2, "port", nodeSelector={HOSTNAME: "node-3"}, ports=port(9090))
    many(scenario, 5, "follower", affinity={"podAffinity": {REQUIRED: [term(ZONE, "leader")]}})
    shy = {"podAntiAffinity": {REQUIRED: [term(HOSTNAME, "holder")]}}
    many(scenario, 3, "shy", nodeSelector={HOSTNAME: "node-3"}, affinity=shy)
    many(scenario, 3, "racked", topologySpreadConstraints=spread("rack", "racked"))
    scenario.add_pod("stateful", volumes=claim_volume())


def gated_pods(scenario: Scenario) -> None:
    many(scenario, 10, "gated", schedulingGates=[{"name": "example.com/quota"}])


def a_large_node(scenario: Scenario) -> None:
    scenario.add_node(f"node-{NODES}", cpu="17", memory="32Gi")


def labels_on_a_node(scenario: Scenario) -> None:
    scenario.patch_node("node-7", {"metadata": {"labels": {"disk": "ssd", "rack": "r1"}}})


def taint_removed(scenario: Scenario) -> None:
    scenario.patch_node("node-1", {"spec": {"taints": None}})


def a_leader(scenario: Scenario) -> None:
    scenario.add_pod("leader", nodeSelector={ZONE: "b"})


def holder_deleted(scenario: Scenario) -> None:
    """At once: there is no kubelet that would end it."""
    scenario.api.delete(f"{scenario.pods_path}/holder", grace_seconds=0)


def gates_removed(scenario: Scenario) -> None:
    for number in range(10):
        scenario.patch_pod(f"gated-{number}", {"spec": {"schedulingGates": None}}, MERGE_PATCH)


def a_claim(scenario: Scenario) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "data", "namespace": scenario.namespace}
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    scenario.api.create(f"/api/v1/namespaces/{scenario.namespace}/persistentvolumeclaims", made)


def a_node_grows_at_once(scenario: Scenario) -> None:
    """The event comes while the pod still backs off; an idle scheduler takes it from there."""
    scenario.add_pod("hasty", nodeSelector={"hasty": "yes"})
    scenario.wait_rejected("hasty", "didn't match Pod's node affinity/selector")
    scenario.patch_node("node-8", {"metadata": {"labels": {"hasty": "yes"}}})


def a_waiting_pod_deleted(scenario: Scenario) -> None:
    scenario.api.delete(f"{scenario.pods_path}/large-7", grace_seconds=0)


STEPS = (
    Step("pods that fit", pods_that_fit, bound=220, waiting=0),
    Step("pods that fit nowhere", pods_that_do_not, bound=220, waiting=37),
    Step("gated pods", gated_pods, bound=220, waiting=47),
    Step("a large node", a_large_node, bound=223, waiting=44),
    Step("labels on a node", labels_on_a_node, bound=236, waiting=31),
    Step("a taint removed", taint_removed, bound=241, waiting=26),
    Step("a leader", a_leader, bound=247, waiting=21),
    Step("the holder of a port deleted", holder_deleted, bound=250, waiting=17),
    Step("gates removed", gates_removed, bound=260, waiting=7),
    Step("a claim", a_claim, bound=260, waiting=7),
    Step("a label during backoff", a_node_grows_at_once, bound=261, waiting=7),
    Step("a waiting pod deleted", a_waiting_pod_deleted, bound=261, waiting=6),
)
