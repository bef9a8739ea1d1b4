"""The auditor of the end-to-end suite finds what it must find: an audit that cannot fail would prove nothing."""

from fractions import Fraction
from typing import Any

import pytest

from tests.controlplane.rest import Api
from tests.e2e.audit import Object, forgotten, overcommitted, quantity, requests_of
from tests.e2e.recorder import Recorder
from tests.e2e.transcripts.transcript import masked

SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


def node(name: str = "node-0", labels: dict[str, str] | None = None, **spec: object) -> Object:
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "3", "example.com/gpu": "1"}
    metadata = {"name": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}}


def pod(name: str = "pod", *, uid: str = "", requests: dict[str, str] | None = None, **spec: Any) -> Object:
    container = {"name": "main", "resources": {"requests": requests or {}}, "ports": spec.pop("ports", [])}
    whole = {"schedulerName": "kscheduler", "containers": [container]} | spec
    return {"metadata": {"name": name, "namespace": "ns", "uid": uid or name}, "spec": whole, "status": {}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("1500m", Fraction(3, 2)), ("1Ki", 1024), ("1k", 1000), ("1e3", 1000), ("5Gi", 5 * 2**30), ("0.5", 0.5)],
    ids=str,
)
def test_quantities_are_exact(text: str, value: Fraction) -> None:
    assert quantity(text) == value


def test_a_pod_needs_the_larger_of_its_init_and_its_running_phase_with_sidecars_in_both() -> None:
    containers = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [
            {"resources": {"requests": {"cpu": "500m"}}, "restartPolicy": "Always"},
            {"resources": {"requests": {"cpu": "2"}}},
        ],
    }
    assert requests_of({"spec": containers | {"overhead": {"cpu": "250m"}}})["cpu"] == Fraction(11, 4)


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        ([{"requests": {"cpu": "1"}}] * 2, ""),
        ([{"requests": {"cpu": "1"}}, {"requests": {"cpu": "1001m"}}], "cpu"),
        ([{"requests": {"memory": "4097Mi"}}], "memory"),
        ([{}] * 4, "pods"),
        ([{"requests": {"example.com/gpu": "2"}}], "example.com/gpu"),
        ([{"requests": {"example.com/other": "1"}}], "example.com/other"),
        ([{"ports": [{"hostPort": 80}]}, {"ports": [{"hostPort": 80, "protocol": "TCP"}]}], "host port"),
        ([{"ports": [{"hostPort": 80}]}, {"ports": [{"hostPort": 80, "protocol": "UDP"}]}], ""),
    ],
    ids=["full", "cpu", "memory", "pod-count", "extended", "unknown-resource", "host-port", "other-protocol"],
)
def test_a_node_over_its_allocatable_is_named_with_the_resource(pods: list[dict[str, Any]], found: str) -> None:
    bound = [pod(f"pod-{number}", nodeName="node-0", **options) for number, options in enumerate(pods)]
    lines = overcommitted([node()], bound)
    assert len(lines) == bool(found)
    assert all(found in line for line in lines)


def test_finished_pods_take_no_room() -> None:
    done = pod("done", nodeName="node-0", requests={"cpu": "64"})
    done["status"]["phase"] = "Succeeded"
    assert overcommitted([node()], [done]) == []


TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
WAITING: dict[str, tuple[Object, Object, bool]] = {
    "fits": (node(), pod(requests={"cpu": "2"}), True),
    "too-large": (node(), pod(requests={"cpu": "3"}), False),
    "cordoned": (node(unschedulable=True), pod(), False),
    "tainted": (node(taints=[TAINT]), pod(), False),
    "preferred-taint": (node(taints=[TAINT | {"effect": "PreferNoSchedule"}]), pod(), True),
    "tolerated": (node(taints=[TAINT]), pod(tolerations=[{"key": "gpu", "value": "only"}]), True),
    "other-value": (node(taints=[TAINT]), pod(tolerations=[{"key": "gpu", "value": "x"}]), False),
    "tolerates-all": (node(taints=[TAINT]), pod(tolerations=[{"operator": "Exists"}]), True),
    "selected": (node(labels={"disk": "ssd"}), pod(nodeSelector={"disk": "ssd"}), True),
    "not-selected": (node(), pod(nodeSelector={"disk": "ssd"}), False),
    "gated": (node(), pod(schedulingGates=[{"name": "gate"}]), False),
    "foreign": (node(), pod(schedulerName="another"), False),
    "other-rules": (node(), pod(topologySpreadConstraints=[{"maxSkew": 1}]), False),
}


@pytest.mark.parametrize(("cluster", "waiting", "found"), WAITING.values(), ids=WAITING.keys())
def test_a_pending_pod_that_fits_somewhere_is_forgotten(cluster: Object, waiting: Object, found: bool) -> None:
    assert bool(forgotten([cluster], [waiting], "kscheduler")) is found


@pytest.mark.parametrize("labels", [{"disk": "ssd"}, {"disk": "hdd"}, {}], ids=["ssd", "hdd", "none"])
def test_required_node_affinity_is_known_to_the_audit(labels: dict[str, str]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [SSD]}}
    waiting = pod(affinity={"nodeAffinity": required})
    assert bool(forgotten([node(labels=labels)], [waiting], "kscheduler")) is (labels == {"disk": "ssd"})


def test_a_pod_seen_on_two_nodes_or_unbound_again_is_reported() -> None:
    recorder = Recorder(Api("http://127.0.0.1:1"))
    for name, history in {"steady": ["", "a", "a"], "moved": ["a", "b"], "unbound": ["a", ""]}.items():
        for where in history:
            recorder.seen(pod(name, nodeName=where))
    assert [line.split()[1] for line in recorder.rebound()] == ["ns/moved", "ns/unbound"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("web   1/1   Running   0   3m12s", "web  1/1  Running  0  <age>"),
        ("Created: Sat, 21 Nov 2026 12:00:00 +0000", "Created: <date>"),
        ("op=Exists for 300s", "op=Exists for 300s"),
        ("Warning  Failed  3s (x4 over 20s)  me  no", "Warning  Failed  <age>  me  no"),
        ("1 Insufficient cpu. preemption: 0/1 nodes are available", "1 Insufficient cpu."),
    ],
    ids=["age", "date", "toleration-seconds", "event-count", "preemption"],
)
def test_a_transcript_masks_what_differs_and_nothing_else(text: str, expected: str) -> None:
    assert masked(text) == expected
