"""Rules about other pods and about volumes: who keeps whom away, who follows whom, where volumes are."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.scenario import Scenario

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


def terms(app: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def spread(app: str, key: str) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": app}}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def add_node(scenario: Scenario, name: str, zone: str = "a") -> None:
    scenario.add_node(name, cpu="8", labels={HOSTNAME: name, ZONE: zone})


def test_pods_that_keep_each_other_away_get_a_node_each_and_the_last_one_waits_for_one(scenario: Scenario) -> None:
    for number in range(3):
        add_node(scenario, f"node-{number}")
    scenario.start_scheduler()
    for number in range(4):
        scenario.add_pod(f"lonely-{number}", affinity={"podAntiAffinity": terms("lonely", HOSTNAME)})
    scenario.wait("three bound", lambda: len(scenario.pending()) == 1)
    (last,) = scenario.pending()
    scenario.wait_rejected(last, "didn't match pod anti-affinity rules")
    add_node(scenario, "node-3")
    scenario.wait_bound()
    assert len({scenario.node_of(f"lonely-{number}") for number in range(4)}) == 4


def test_a_plain_pod_is_kept_away_by_a_running_pod_that_wants_no_such_neighbour(scenario: Scenario) -> None:
    add_node(scenario, "node-0")
    scenario.start_scheduler()
    scenario.add_pod("owner", affinity={"podAntiAffinity": terms("guest", ZONE)})
    scenario.wait_bound("owner")
    scenario.add_pod("guest")
    scenario.wait_rejected("guest", "didn't satisfy existing pods anti-affinity rules")
    scenario.delete_pod("owner")
    scenario.wait_bound("guest")


def test_a_follower_waits_for_its_leader_and_goes_to_its_zone(scenario: Scenario) -> None:
    for number in range(4):
        add_node(scenario, f"node-{number}", zone="ab"[number % 2])
    scenario.start_scheduler()
    scenario.add_pod("follower", affinity={"podAffinity": terms("leader", ZONE)})
    scenario.wait_rejected("follower", "didn't match pod affinity rules")
    scenario.add_pod("leader", nodeSelector={ZONE: "b"})
    scenario.wait_bound()
    assert {scenario.node_of("leader"), scenario.node_of("follower")} <= {"node-1", "node-3"}


def test_replicas_spread_evenly_over_zones(scenario: Scenario) -> None:
    zones = {f"node-{number}": "abb"[number % 3] for number in range(6)}
    for name, zone in zones.items():
        add_node(scenario, name, zone)
    scenario.start_scheduler()
    for number in range(8):
        scenario.add_pod(f"web-{number}", topologySpreadConstraints=spread("web", ZONE))
    scenario.wait_bound()
    assert Counter(zones[scenario.node_of(f"web-{number}")] for number in range(8)) == {"a": 4, "b": 4}


@pytest.fixture
def disk(scenario: Scenario) -> Iterator[str]:
    """A class whose volumes wait for a pod, and one such volume that only node-1 reaches."""
    name = f"disk-{scenario.namespace}"
    binding = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    scenario.api.create(
        STORAGE, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}} | binding
    )
    place = {"key": HOSTNAME, "operator": "In", "values": ["node-1"]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/mnt/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    scenario.api.create(VOLUMES, volume)
    yield name
    scenario.api.delete(f"{VOLUMES}/{name}")
    scenario.api.delete(f"{STORAGE}/{name}")


def claim(scenario: Scenario, name: str, storage_class: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": name, "namespace": scenario.namespace}
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    scenario.api.create(f"/api/v1/namespaces/{scenario.namespace}/persistentvolumeclaims", made)


def test_a_claim_that_waits_for_its_pod_gets_a_local_volume_and_the_pod_its_node(scenario: Scenario, disk: str) -> None:
    """The scheduler chooses volume and node together; kube-controller-manager completes the binding."""
    for number in range(3):
        add_node(scenario, f"node-{number}")
    scenario.start_scheduler()
    volume = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    scenario.add_pod("stateful", volumes=volume)
    scenario.wait_rejected("stateful", 'persistentvolumeclaim "data" not found')
    claim(scenario, "data", disk)
    scenario.wait_bound("stateful")
    assert scenario.node_of("stateful") == "node-1"
    bound = scenario.api.get(f"{VOLUMES}/{disk}")
    assert bound["spec"]["claimRef"]["name"] == "data"
    scenario.add_pod("second", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "more"}}])
    claim(scenario, "more", disk)
    scenario.wait_rejected("second", "didn't find available persistent volumes to bind")
