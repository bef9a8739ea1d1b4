"""Random clusters with storage: the scheduler's cache and, beside it, the same objects in plain lists."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.framework.handle import Handle
from kscheduler.state.cache import Cache
from tests.specification.volume_rules import World

NODES = ["node-0", "node-1", "node-2", "node-3"]
CLAIMS = ["c0", "c1", "c2", "c3"]
PODS = ["p1", "p2", "p3", "p4"]
NEW = "new"
VOLUMES = ["v0", "v1", "v2", "v3", "v4"]
DRIVERS = ["csi.one", "ebs.csi.aws.com"]
GA_ZONE, BETA_ZONE, REGION = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
SIZES = ["1Gi", "1.5Gi", "2Gi", "2048Mi", "5Gi"]
Tree = dict[str, Any]


def maybe(strategy: st.SearchStrategy[Any], otherwise: Any = None) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(otherwise), strategy)


def trees(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    """Objects with these fields; those that are `None` are left out."""
    made = st.fixed_dictionaries(fields)
    return made.map(lambda tree: {key: value for key, value in tree.items() if value is not None})


labels = st.dictionaries(
    st.sampled_from([GA_ZONE, "rack", BETA_ZONE, REGION]), st.sampled_from(["a", "b", "c"]), min_size=2, max_size=3
)
zone_labels = st.dictionaries(
    st.sampled_from([GA_ZONE, BETA_ZONE, REGION]), st.sampled_from(["c", "b", "a__b", "a__", "a"]), max_size=2
)
modes = st.lists(st.sampled_from(["ReadWriteOnce", "ReadOnlyMany"]), min_size=1, unique=True)
expressions = st.one_of(
    trees(
        key=st.sampled_from([GA_ZONE, "rack"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2),
    ),
    trees(key=st.just("rack"), operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
fields_by_name = trees(
    key=st.just("metadata.name"), operator=st.sampled_from(["In", "NotIn"]), values=st.just(["node-0"])
)
affinities = st.fixed_dictionaries(
    {
        "required": st.fixed_dictionaries(
            {
                "nodeSelectorTerms": st.lists(
                    trees(
                        matchExpressions=st.lists(expressions, max_size=2),
                        matchFields=st.lists(fields_by_name, max_size=1),
                    ),
                    max_size=2,
                )
            }
        )
    }
)
selectors = st.fixed_dictionaries({"matchLabels": st.dictionaries(st.just("rack"), st.sampled_from(["a", "b"]))})


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    meta = {"name": name, "labels": draw(labels)}
    return convert({"metadata": meta, "status": {"allocatable": amounts}}, Node)


@st.composite
def persistent_volumes(draw: st.DrawFn, name: str) -> PersistentVolume:
    disk = draw(st.sampled_from(["vol-1", "aws://a/vol-1", "vol-2"]))
    csi = {"driver": draw(st.sampled_from(DRIVERS)), "volumeHandle": draw(st.sampled_from([name, "vol-1", "h"]))}
    owner = {"namespace": "default", "name": draw(st.sampled_from(CLAIMS))}
    in_tree = {"awsElasticBlockStore": {"volumeID": disk}}
    source: Tree = draw(st.sampled_from([{"csi": csi}, {"csi": csi}, in_tree]))
    spec = {
        "capacity": {"storage": draw(st.sampled_from(SIZES))},
        "accessModes": draw(modes),
        "storageClassName": draw(st.sampled_from(["dyn", "local"])),
        "claimRef": draw(maybe(st.just(owner))),
        # In-tree volumes get no affinity here: what migration makes of it has tests of its own.
        "nodeAffinity": draw(maybe(affinities)) if "csi" in source else None,
        **source,
    }
    volume_labels = draw(zone_labels) if "csi" in source else {}
    status = {"phase": draw(st.sampled_from(["Available", "Available", "Bound"]))}
    tree = {"metadata": {"name": name, "labels": {**volume_labels, **draw(selectors)["matchLabels"]}}}
    return convert({**tree, "spec": spec, "status": status}, PersistentVolume)


@st.composite
def claims(draw: st.DrawFn, name: str) -> PersistentVolumeClaim:
    volume = draw(st.sampled_from([*VOLUMES, *VOLUMES, "gone", "", "", "", "", ""]))
    notes = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    if not volume and draw(st.integers(0, 3)) == 0:
        notes["volume.kubernetes.io/selected-node"] = draw(st.sampled_from([*NODES, "node-x"]))
    spec = {
        "volumeName": volume,
        "accessModes": draw(st.one_of(st.just(["ReadWriteOncePod"]), modes)),
        "storageClassName": draw(st.sampled_from(["dyn", "local"])),
        "resources": {"requests": {"storage": draw(st.sampled_from(SIZES))}},
        "selector": draw(maybe(selectors)),
    }
    meta = {"name": name, "namespace": "default", "uid": name, "annotations": notes}
    return convert({"metadata": meta, "spec": spec}, PersistentVolumeClaim)


@st.composite
def csi_nodes(draw: st.DrawFn, name: str) -> CSINode:
    plugins = draw(st.sampled_from(["", "kubernetes.io/aws-ebs", "x,kubernetes.io/aws-ebs"]))
    limits = st.sampled_from([{"count": 1}, {"count": 1}, {"count": 2}, {"count": 3}, {"count": 0}, {}])
    drivers = [
        {"name": driver, "allocatable": draw(limits)} for driver in draw(st.sampled_from([DRIVERS, DRIVERS[:1]]))
    ]
    meta = {"name": name, "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": plugins}}
    return convert({"metadata": meta, "spec": {"drivers": drivers}}, CSINode)


@st.composite
def others(draw: st.DrawFn, number: int) -> KubeObject:
    kind = draw(st.sampled_from(["CSIDriver", "CSIStorageCapacity", "VolumeAttachment"]))
    if kind == "CSIDriver":
        return convert(
            {"metadata": {"name": "csi.one"}, "spec": {"storageCapacity": draw(maybe(st.booleans()))}}, CSIDriver
        )
    if kind == "CSIStorageCapacity":
        tree = {
            "nodeTopology": draw(maybe(selectors)),
            "capacity": draw(maybe(st.sampled_from(SIZES))),
            "maximumVolumeSize": draw(maybe(st.sampled_from(SIZES))),
        }
        meta = {"name": f"s{number}", "namespace": "default"}
        return convert({"metadata": meta, "storageClassName": "dyn", **tree}, CSIStorageCapacity)
    source = {"persistentVolumeName": draw(st.sampled_from(VOLUMES))}
    spec = {"attacher": draw(st.sampled_from(DRIVERS)), "nodeName": draw(st.sampled_from(NODES)), "source": source}
    return convert({"metadata": {"name": f"a{number}"}, "spec": spec}, VolumeAttachment)


disks = st.one_of(
    trees(gcePersistentDisk=trees(pdName=st.sampled_from(["d1", "d2"]), readOnly=st.booleans())),
    trees(awsElasticBlockStore=trees(volumeID=st.sampled_from(["vol-1", "aws://a/vol-1", "vol-2"]))),
    trees(iscsi=trees(iqn=st.sampled_from(["i1", "i2"]), readOnly=st.booleans())),
    trees(
        rbd=trees(
            monitors=st.lists(st.sampled_from(["m1", "m2", "m3"]), min_size=1, max_size=2, unique=True),
            pool=st.sampled_from(["p", "q"]),
            image=st.just("i"),
            readOnly=st.booleans(),
        )
    ),
)
claimed = st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, st.sampled_from(CLAIMS))


@st.composite
def pods(draw: st.DrawFn, uid: str, *, only_claims: bool = False) -> Pod:
    """A pod on some node; the one called `new` is to be judged."""
    wanted = claimed if only_claims else st.one_of(disks, claimed)
    sources = [draw(wanted) for _ in range(draw(st.sampled_from([1, 1, 2, 3])))]
    volumes = [{"name": f"v{number}", **source} for number, source in enumerate(sources)]
    where = "" if uid == NEW else draw(st.sampled_from([*NODES, "ghost"]))
    spec = {"nodeName": where, "containers": [{"name": "c"}], "volumes": volumes}
    return convert({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}, Pod)


@dataclass
class Both:
    """The cache under test and the plain world."""

    cache: Cache = field(default_factory=Cache)
    world: World = field(default_factory=World)

    @property
    def handle(self) -> Handle:
        return Handle(self.cache, None, None, volumes=self.cache.volumes)  # type: ignore[arg-type]

    def put(self, obj: KubeObject) -> None:
        """An object is there, or has changed."""
        match obj:
            case Node():
                self.cache.add_node(obj)
                self.world.nodes[obj.metadata.name] = obj
            case Pod():
                self.cache.add_pod(obj)
                self.world.pods[obj.metadata.uid] = obj
            case _:
                self.cache.volumes.put(obj)
                self.world.storage[type(obj), obj.key] = obj

    def remove(self, obj: KubeObject) -> None:
        """An object is gone, if it was there."""
        match obj:
            case Node():
                self.cache.remove_node(obj.metadata.name)
                self.world.nodes.pop(obj.metadata.name, None)
            case Pod():
                self.cache.remove_pod(obj.metadata.uid)
                self.world.pods.pop(obj.metadata.uid, None)
            case _:
                self.cache.volumes.remove(obj)
                self.world.storage.pop((type(obj), obj.key), None)


def classes() -> list[StorageClass]:
    """One whose volumes are made on demand in rack a or b, one whose volumes are there or not."""
    topology = [{"matchLabelExpressions": [{"key": "rack", "values": ["a", "b"]}]}]
    waits = {"volumeBindingMode": "WaitForFirstConsumer"}
    dynamic = {"metadata": {"name": "dyn"}, "provisioner": "csi.one", "allowedTopologies": topology, **waits}
    local = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", **waits}
    return [convert(tree, StorageClass) for tree in (dynamic, local)]


@st.composite
def histories(draw: st.DrawFn) -> Both:
    """A full cluster after random changes, questions in between included: whoever counts must notice every change."""
    both = Both()
    for one in classes():
        both.put(one)
    for name in NODES[: draw(st.integers(2, 4))]:
        both.put(draw(nodes(name)))
        both.put(draw(csi_nodes(name)))
    for name in VOLUMES:
        both.put(draw(persistent_volumes(name)))
    for name in CLAIMS:
        both.put(draw(claims(name)))
    for uid in PODS:
        both.put(draw(pods(uid)))
    for number in range(3):
        both.put(draw(others(number)))
    step: st.SearchStrategy[KubeObject] = st.one_of(
        st.sampled_from(NODES).flatmap(nodes),
        st.sampled_from(PODS).flatmap(pods),
        st.sampled_from(VOLUMES).flatmap(persistent_volumes),
        st.sampled_from(CLAIMS).flatmap(claims),
        st.sampled_from(NODES).flatmap(csi_nodes),
        st.integers(0, 2).flatmap(others),
    )
    for obj in draw(st.lists(step, max_size=8)):
        for driver in DRIVERS:
            both.cache.volumes.attached(driver)
            both.cache.volumes.attach_limits(driver)
        if draw(st.integers(0, 4)) == 0:
            both.remove(obj)
        else:
            both.put(obj)
    if not both.world.nodes:
        both.put(draw(nodes(NODES[0])))
    return both
