"""Decisions that users have reported as wrong, asked of kube-scheduler and of kscheduler on the same cluster.

A case is a few nodes and pods that are there, and one pod that asks. Each scheduler has the cluster for itself, one
after the other. The one answer that is ours alone on purpose is in docs/differences.md.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.controlplane.releases import pinned
from tests.e2e.extenders.stage import Outcome, deciding, outcome
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer, Server

pytestmark = [pytest.mark.real, pytest.mark.followed_kubernetes("kube-scheduler is of its own release")]
Tree = dict[str, Any]
# Puts what a case needs beside its node, and returns the spec of the pod that asks.
Case = Callable[[Scenario, str], Tree]
PROGRAMS: Final = ("kube-scheduler", "kscheduler")
# In-tree disks: driver, provisioner, and a volume's source with a number in it.
DISKS: Final[dict[str, tuple[str, str, Tree]]] = {
    "aws": ("ebs.csi.aws.com", "kubernetes.io/aws-ebs", {"awsElasticBlockStore": {"volumeID": "vol-{}"}}),
    "gce": ("pd.csi.storage.gke.io", "kubernetes.io/gce-pd", {"gcePersistentDisk": {"pdName": "disk-{}"}}),
    "azure": (
        "disk.csi.azure.com",
        "kubernetes.io/azure-disk",
        {"azureDisk": {"diskName": "disk-{}", "diskURI": "/subscriptions/s/disk-{}", "kind": "Managed"}},
    ),
    "cinder": ("cinder.csi.openstack.org", "kubernetes.io/cinder", {"cinder": {"volumeID": "vol-{}"}}),
    "portworx": ("pxd.portworx.com", "kubernetes.io/portworx-volume", {"portworxVolume": {"volumeID": "vol-{}"}}),
    "vsphere": (
        "csi.vsphere.vmware.com",
        "kubernetes.io/vsphere-volume",
        {"vsphereVolume": {"volumePath": "[store] disk-{}"}},
    ),
}
SELECTORS: Final[dict[str, Tree]] = {
    "in": {"operator": "In", "values": ["{}"]},
    "not-in": {"operator": "NotIn", "values": ["{}"]},
    "exists": {"operator": "Exists"},
    "not-there": {"operator": "DoesNotExist"},
}
# In 1.36 kube-scheduler lets every namespace match for the pod's own terms.
OURS_ALONE: Final = frozenset({"namespaces-not-in", "namespaces-not-there"})


def numbered(tree: Any, number: object) -> Any:
    """The tree with `{}` in its texts replaced."""
    if isinstance(tree, dict):
        return {key: numbered(value, number) for key, value in tree.items()}
    if isinstance(tree, list):
        return [numbered(value, number) for value in tree]
    return tree.replace("{}", str(number)) if isinstance(tree, str) else tree


def limit(scenario: Scenario, node: str, driver: str, annotations: Tree) -> None:
    """The node can attach one volume of the driver."""
    drivers = [{"name": driver, "nodeID": node, "topologyKeys": [], "allocatable": {"count": 1}}]
    metadata = {"name": node, "annotations": annotations}
    csi_node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": metadata,
        "spec": {"drivers": drivers},
    }
    scenario.api.create("/apis/storage.k8s.io/v1/csinodes", csi_node)


def inline(disk: str, scenario: Scenario, node: str, *, is_annotated: bool = False) -> Tree:
    driver, provisioner, source = DISKS[disk]
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": provisioner} if is_annotated else {}
    limit(scenario, node, driver, migrated)
    scenario.add_pod(f"there-{node}", nodeName=node, volumes=[{"name": "v", **numbered(source, 1)}])
    return {"volumes": [{"name": "v", **numbered(source, 2)}]}


def unbound(disk: str, scenario: Scenario, node: str) -> Tree:
    driver, provisioner, _ = DISKS[disk]
    limit(scenario, node, driver, {})
    name = f"{scenario.namespace}-{disk}"
    late = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    scenario.api.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, **late},
    )
    for number in (1, 2):
        request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": f"{disk}-{number}"}, "spec": {"storageClassName": name, **request}}
        path = f"/api/v1/namespaces/{scenario.namespace}/persistentvolumeclaims"
        scenario.api.create(path, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim})
    return {
        "volumes": [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"{disk}-{number}"}} for number in (1, 2)
        ]
    }


def namespaces(operator: str, scenario: Scenario, node: str) -> Tree:
    """The pod that is there is of the asker's own namespace, which the asker's term selects or does not."""
    scenario.add_pod(f"there-{node}", nodeName=node, labels={"work": "a"})
    expression = numbered({"key": "kubernetes.io/metadata.name", **SELECTORS[operator]}, scenario.namespace)
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [{"key": "work", "operator": "Exists"}]},
        "namespaceSelector": {"matchExpressions": [expression]},
    }
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


CASES: Final[dict[str, Case]] = {
    **{f"inline-{disk}": partial(inline, disk) for disk in DISKS},
    "inline-aws-annotated": partial(inline, "aws", is_annotated=True),
    **{f"unbound-{disk}": partial(unbound, disk) for disk in ("aws", "gce")},
    **{f"namespaces-{operator}": partial(namespaces, operator) for operator in SELECTORS},
}


def is_decided(scenario: Scenario, name: str) -> bool:
    return any(outcome(scenario, name))


def outcomes(scenario: Scenario, program: str, specs: dict[str, Tree], folder: Path) -> dict[str, Outcome]:
    """What becomes of each pod that asks; it may go to its own node alone."""
    with deciding(scenario, program, [], folder):
        for name, spec in specs.items():
            scenario.add_pod(name, nodeSelector={"kubernetes.io/hostname": f"node-{name}"}, **spec)
        for name in specs:
            scenario.wait(f"an outcome of {name}", partial(is_decided, scenario, name))
        found = {name: outcome(scenario, name) for name in specs}
        for name in specs:
            scenario.delete_pod(name)
    return found


def test_reported_cases_are_decided_as_by_kube_scheduler(scenario: Scenario, server: Server, tmp_path: Path) -> None:
    if not isinstance(server, RealServer):
        pytest.skip("kube-scheduler is compared on the real API server")
    specs = {}
    try:
        for name, case in CASES.items():
            scenario.add_node(f"node-{name}")
            specs[name] = case(scenario, f"node-{name}")
        found = {program: outcomes(scenario, program, specs, tmp_path / program) for program in PROGRAMS}
    finally:
        for kind, beginning in (("csinodes", "node-"), ("storageclasses", f"{scenario.namespace}-")):
            for one in scenario.api.items(f"/apis/storage.k8s.io/v1/{kind}"):
                if one["metadata"]["name"].startswith(beginning):
                    scenario.api.delete(f"/apis/storage.k8s.io/v1/{kind}/{one['metadata']['name']}")
    differing = {name for name in CASES if found["kscheduler"][name] != found["kube-scheduler"][name]}
    is_different_there = pinned.chosen().minor == pinned.parse("1.36.0").minor
    assert differing == (OURS_ALONE if is_different_there else frozenset()), found
    full = {name for name in CASES if "exceed max volume count" in found["kscheduler"][name][2]}
    assert full == {name for name in CASES if name.startswith(("inline", "unbound"))} - {"inline-vsphere"}
