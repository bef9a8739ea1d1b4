"""What the volume plugins do in cases that random clusters rarely hit."""

from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from kscheduler.framework.cluster.volumes import MAX_DISKS, disks_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.in_tree import registry
from kscheduler.state.cache import Cache
from tests.plugins.made import HANDLE, info, node, pod

GA_ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
CLAIMED = info(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])


def cluster(*nodes: Any, labels: dict[str, str] | None = None, **source: Any) -> Cache:
    """Nodes, and a claim bound to a volume with these labels and this source."""
    cache = Cache()
    for one in nodes:
        cache.add_node(one)
    spec = source or {"csi": {"driver": "csi.one", "volumeHandle": "h"}}
    cache.volumes.put(convert({"metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}, PersistentVolume))
    meta = {"name": "data", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    cache.volumes.put(convert({"metadata": meta, "spec": {"volumeName": "pv"}}, PersistentVolumeClaim))
    return cache


def passing(name: str, cache: Cache, judged: PodInfo) -> set[str]:
    """Nodes that a plugin lets the pod on."""
    handle = Handle(cache, None, None, volumes=cache.volumes)  # type: ignore[arg-type]
    plugin: Any = registry().build(name, None, handle)
    state, nodes = CycleState(), cache.nodes
    every = {nodes.name_of(row) for row in nodes.rows().tolist()}
    status = plugin.pre_filter(state, judged, nodes).status
    if status.is_skip:
        return every
    assert status.is_success, status
    codes = plugin.filter(state, judged, nodes, nodes.rows())
    if codes is None:
        return every
    return {nodes.name_of(row) for row, code in zip(nodes.rows().tolist(), codes.tolist(), strict=True) if code == 0}


def test_an_old_zone_label_of_a_volume_matches_a_nodes_new_one() -> None:
    nodes = (
        node("new", labels={GA_ZONE: "a"}),
        node("old", labels={BETA_ZONE: "a"}),
        node("both", labels={BETA_ZONE: "b", GA_ZONE: "a"}),
        node("elsewhere", labels={GA_ZONE: "b"}),
        node("nowhere"),
    )
    assert passing("VolumeZone", cluster(*nodes, labels={BETA_ZONE: "a"}), CLAIMED) == {"new", "old", "nowhere"}
    assert passing("VolumeZone", cluster(*nodes, labels={GA_ZONE: "a__c"}), CLAIMED) == {"new", "both", "nowhere"}
    assert len(passing("VolumeZone", cluster(*nodes, labels={GA_ZONE: "a__"}), CLAIMED)) == 5, "it cannot be read"


def test_a_migrated_volume_is_reached_by_the_label_of_its_driver() -> None:
    key = "topology.ebs.csi.aws.com/zone"
    cache = cluster(
        node("migrated-a", labels={key: "a"}),
        node("migrated-b", labels={key: "b"}),
        node("not-migrated", labels={key: "b"}),
        labels={GA_ZONE: "a"},
        awsElasticBlockStore={"volumeID": "aws://a/vol-1"},
    )
    for name in ("migrated-a", "migrated-b"):
        notes = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
        cache.volumes.put(convert({"metadata": {"name": name, "annotations": notes}}, CSINode))
    assert passing("VolumeBinding", cache, CLAIMED) == {"migrated-a", "not-migrated"}


DISKS: dict[str, dict[str, dict[str, Any]]] = {
    "gce": {"gcePersistentDisk": {"pdName": "d"}},
    "ebs": {"awsElasticBlockStore": {"volumeID": "d"}},
    "iscsi": {"iscsi": {"iqn": "d"}},
    "rbd": {"rbd": {"monitors": ["m1", "m2"], "pool": "p", "image": "i"}},
}


def with_disk(uid: str, kind: str, *, read_only: bool, on: str = "") -> Any:
    ((source, fields),) = DISKS[kind].items()
    return pod(uid, nodeName=on, volumes=[{"name": "v", source: {**fields, "readOnly": read_only}}])


@pytest.mark.parametrize("kind", DISKS)
@pytest.mark.parametrize(("mine", "theirs"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_disk_is_shared_by_readers_only_and_ebs_by_nobody(kind: str, mine: bool, theirs: bool) -> None:
    cache = cluster(node("used"), node("free"))
    cache.add_pod(with_disk("other", kind, read_only=theirs, on="used"))
    shared = mine and theirs and kind != "ebs"
    judged = PodInfo(with_disk("new", kind, read_only=mine))
    assert passing("VolumeRestrictions", cache, judged) == ({"used", "free"} if shared else {"free"})


def test_of_a_hundred_thousand_disks_of_a_pod_the_first_thousand_are_kept() -> None:
    """Each is a disk of its own, and takes 600 bytes as long as the pod runs."""
    monitors = [f"m{number}" for number in range(100_000)]
    cache = cluster(node("used"))
    rbd = {"rbd": {"monitors": monitors, "pool": "p", "image": "i"}}
    giant = pod("giant", nodeName="used", volumes=[{"name": "v", **rbd}])
    cache.add_pod(giant)
    assert sum(1 for _ in disks_of(giant)) == MAX_DISKS
    assert [len(cache.volumes.disk_rows(("rbd", name, "p", "i"), read_only=False)) for name in ("m0", "m99999")] == [
        1,
        0,
    ]


@pytest.mark.parametrize("name", ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"])
def test_where_nothing_is_known_of_storage_no_pod_with_claims_is_placed(name: str) -> None:
    plugin: Any = registry().build(name, None, HANDLE)
    cache = cluster(node("n"))
    assert plugin.pre_filter(CycleState(), CLAIMED, cache.nodes).status.code is Code.ERROR
    assert plugin.pre_filter(CycleState(), info(), cache.nodes).status.is_skip


@pytest.mark.parametrize("count", [1, 2])
def test_a_fork_counts_the_pods_that_stand_in_it(count: int) -> None:
    """Nominated pods are in no column: the rows they stand on are counted from the pods themselves."""
    cache = cluster(node("n"))
    drivers = [{"name": "csi.one", "allocatable": {"count": count}}]
    cache.volumes.put(convert({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, CSINode))
    csi = {"csi": {"driver": "csi.one", "volumeHandle": "other"}}
    cache.volumes.put(convert({"metadata": {"name": "pv-2"}, "spec": csi}, PersistentVolume))
    meta = {"name": "theirs", "namespace": "default"}
    cache.volumes.put(convert({"metadata": meta, "spec": {"volumeName": "pv-2"}}, PersistentVolumeClaim))
    handle = Handle(cache, None, None, volumes=cache.volumes)  # type: ignore[arg-type]
    plugin: Any = registry().build("NodeVolumeLimits", None, handle)
    assert passing("NodeVolumeLimits", cache, CLAIMED) == {"n"}
    nominated = info("nominated", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "theirs"}}])
    rows = cache.nodes.rows()
    codes = plugin.filter(CycleState(), CLAIMED, cache.nodes.with_pods({int(rows[0]): [nominated]}), rows)
    assert codes.tolist() == [0 if count == 2 else 1]


@pytest.mark.parametrize("has_csi_node", [True, False])
def test_a_disk_that_has_no_translation_is_an_error_where_there_is_a_csi_node_only(has_csi_node: bool) -> None:
    cache = cluster(node("n"))
    drivers = [{"name": "disk.csi.azure.com", "allocatable": {"count": 1}}]
    if has_csi_node:
        cache.volumes.put(convert({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, CSINode))
    broken = info(volumes=[{"name": "v", "azureDisk": {"diskName": "d", "diskURI": "odd", "kind": "Dedicated"}}])
    plugin: Any = registry().build("NodeVolumeLimits", None, Handle(cache, None, None, volumes=cache.volumes))  # type: ignore[arg-type]
    rows = cache.nodes.rows()
    fork = cache.nodes.with_pods({int(rows[0]): [info("nominated")]})
    if has_csi_node:
        with pytest.raises(ValueError, match="from inline to csi"):
            plugin.filter(CycleState(), broken, fork, rows)
    else:
        codes = plugin.filter(CycleState(), broken, fork, rows)
        assert codes is None or not codes.any()


@pytest.mark.parametrize("count", [None, 1])
def test_a_fork_asks_what_is_attached_only_where_there_is_a_limit(count: int | None) -> None:
    """A pod whose ephemeral claim is another's spoilt every decision about a node, were it one without any limit."""
    ephemeral = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    stranger = pod("stranger", nodeName="n", volumes=[ephemeral])
    cache = cluster(node("n"))
    drivers = [{"name": "csi.one", **({"allocatable": {"count": count}} if count else {})}]
    cache.volumes.put(convert({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, CSINode))
    cache.volumes.put(convert({"metadata": {"name": "stranger-data", "namespace": "default"}}, PersistentVolumeClaim))
    cache.add_pod(stranger)
    plugin: Any = registry().build("NodeVolumeLimits", None, Handle(cache, None, None, volumes=cache.volumes))  # type: ignore[arg-type]
    rows = cache.nodes.rows()
    for table in (cache.nodes, cache.nodes.with_pods({int(rows[0]): [info("nominated")]})):
        if count is None:
            codes = plugin.filter(CycleState(), CLAIMED, table, rows)
            assert codes is None or not codes.any()
        else:
            with pytest.raises(ValueError, match="was not created for pod default/stranger"):
                plugin.filter(CycleState(), CLAIMED, table, rows)


def missing_driver_codes(cache: Cache, *, features: frozenset[str], forked: bool = False) -> list[str]:
    """What NodeVolumeLimits says of each node of a pod with a volume of `csi.one`; empty where it passes."""
    handle = Handle(cache, None, None, volumes=cache.volumes, features=features)  # type: ignore[arg-type]
    plugin: Any = registry().build("NodeVolumeLimits", None, handle)
    rows, state = cache.nodes.rows(), CycleState()
    nodes = cache.nodes.with_pods({int(rows[0]): [info("nominated")]}) if forked else cache.nodes
    codes = plugin.filter(state, CLAIMED, nodes, rows)
    if codes is None:
        return [""] * len(rows)
    return [plugin.status(state, code).message if code else "" for code in codes.tolist()]


LIMIT_SCALING = frozenset({"VolumeLimitScaling"})


def with_driver(cache: Cache, *names: str, insists: bool | None = True) -> Cache:
    """These nodes report `csi.one`, whose CSIDriver insists on that or does not."""
    for name in names:
        drivers = [{"name": "csi.one", "nodeID": name}]
        cache.volumes.put(convert({"metadata": {"name": name}, "spec": {"drivers": drivers}}, CSINode))
    spec = {} if insists is None else {"preventPodSchedulingIfMissing": insists}
    cache.volumes.put(convert({"metadata": {"name": "csi.one"}, "spec": spec}, CSIDriver))
    return cache


@pytest.mark.parametrize("forked", [False, True])
def test_a_driver_that_insists_keeps_pods_from_nodes_without_it(forked: bool) -> None:
    cache = with_driver(cluster(node("has"), node("none"), node("no-csi-node")), "has")
    cache.volumes.put(convert({"metadata": {"name": "none"}, "spec": {"drivers": [{"name": "csi.two"}]}}, CSINode))
    missing = "csi.one CSI driver is not installed on the node"
    assert missing_driver_codes(cache, features=LIMIT_SCALING, forked=forked) == ["", missing, missing]
    assert missing_driver_codes(cache, features=frozenset(), forked=forked) == ["", "", ""]
    cache.volumes.remove(convert({"metadata": {"name": "has"}}, CSINode))
    assert missing_driver_codes(cache, features=LIMIT_SCALING, forked=forked) == [missing] * 3


@pytest.mark.parametrize("insists", [None, False])
def test_a_driver_that_does_not_insist_passes(insists: bool | None) -> None:
    cache = with_driver(cluster(node("a"), node("b")), "a", insists=insists)
    assert missing_driver_codes(cache, features=LIMIT_SCALING) == ["", ""]


def test_a_driver_that_nobody_has_declared_passes() -> None:
    assert missing_driver_codes(cluster(node("a")), features=LIMIT_SCALING) == [""]


def test_a_missing_driver_is_reported_before_a_limit_and_limits_count_elsewhere() -> None:
    cache = with_driver(cluster(node("full"), node("none")))
    drivers = [{"name": "csi.one", "allocatable": {"count": 0}}]
    cache.volumes.put(convert({"metadata": {"name": "full"}, "spec": {"drivers": drivers}}, CSINode))
    reported = missing_driver_codes(cache, features=LIMIT_SCALING)
    assert reported == ["node(s) exceed max volume count", "csi.one CSI driver is not installed on the node"]


def test_a_driver_that_comes_to_a_node_wakes_pods() -> None:
    def of(*names: str) -> CSINode:
        return convert({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": name} for name in names]}}, CSINode)

    plugin: Any = registry().build("NodeVolumeLimits", None, HANDLE)
    (hint,) = (
        one.hint
        for one in plugin.events_to_register()
        if one.event == ClusterEvent(Resource.CSI_NODE, ActionType.UPDATE)
    )
    assert hint(CLAIMED, of("a"), of("a", "b")) is QueueingHint.QUEUE
    assert hint(CLAIMED, of("a", "b"), of("a")) is QueueingHint.SKIP


IN_TREE_DISKS: dict[str, tuple[str, dict[str, Any]]] = {
    "kubernetes.io/aws-ebs": ("ebs.csi.aws.com", {"awsElasticBlockStore": {"volumeID": "vol-1"}}),
    "kubernetes.io/gce-pd": ("pd.csi.storage.gke.io", {"gcePersistentDisk": {"pdName": "disk"}}),
    "kubernetes.io/azure-disk": (
        "disk.csi.azure.com",
        {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/d", "kind": "Managed"}},
    ),
    "kubernetes.io/cinder": ("cinder.csi.openstack.org", {"cinder": {"volumeID": "vol"}}),
    "kubernetes.io/portworx-volume": ("pxd.portworx.com", {"portworxVolume": {"volumeID": "vol"}}),
    "kubernetes.io/azure-file": ("file.csi.azure.com", {"azureFile": {"secretName": "s", "shareName": "s"}}),
    "kubernetes.io/vsphere-volume": ("csi.vsphere.vmware.com", {"vsphereVolume": {"volumePath": "[store] disk"}}),
}
NEVER_COUNTED = {"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"}


@pytest.mark.parametrize("notes", ["", "kubernetes.io/aws-ebs"], ids=["nothing migrated", "one plugin migrated"])
@pytest.mark.parametrize("way", ["inline", "bound", "unbound"])
@pytest.mark.parametrize("plugin", IN_TREE_DISKS)
def test_in_tree_disks_count_towards_their_drivers_limit_wherever_there_is_a_csi_node(
    plugin: str, way: str, notes: str
) -> None:
    driver, source = IN_TREE_DISKS[plugin]
    cache = cluster(node("full"), node("without-csi-node"))
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": notes} if notes else {}
    full = {"name": "full", "annotations": annotations}
    cache.volumes.put(
        convert({"metadata": full, "spec": {"drivers": [{"name": driver, "allocatable": {"count": 0}}]}}, CSINode)
    )
    cache.volumes.put(convert({"metadata": {"name": "old"}, "provisioner": plugin}, StorageClass))
    claim = {"volumeName": "pv" if way == "bound" else "", "storageClassName": "old"}
    cache.volumes.put(
        convert({"metadata": {"name": "data", "namespace": "default"}, "spec": claim}, PersistentVolumeClaim)
    )
    cache.volumes.put(convert({"metadata": {"name": "pv"}, "spec": source}, PersistentVolume))
    used = source if way == "inline" else {"persistentVolumeClaim": {"claimName": "data"}}
    asker = info(volumes=[{"name": "v", **used}])
    both = {"full", "without-csi-node"}
    assert passing("NodeVolumeLimits", cache, asker) == (both if plugin in NEVER_COUNTED else {"without-csi-node"})
