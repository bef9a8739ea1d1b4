"""Random objects around storage: few names, so that they meet, and values that nearly fit.

They are made from a seed that Hypothesis gives, and not by its strategies: of objects with so many fields those make
mostly the simplest (one step in eight changed what is attached anywhere), and most faults that were planted to try the
test stayed unseen. What is lost is the shrinking of objects; histories are still cut short.
"""

from random import Random
from typing import Any

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
from tests.specification.volumes.rules import BETA_REGION, BETA_ZONE, EBS, GA_REGION, GA_ZONE, GCE, MIGRATED

NODES = ["node-0", "node-1", "node-2", "node-3"]
CLAIMS = ["c0", "c1", "c2", "c3"]
PODS = ["p1", "p2", "p3", "p4"]
JUDGED = ["j1", "j2"]
EPHEMERAL = ["p1-v0", "j1-v0"]
VOLUMES = ["v0", "v1", "v2", "v3", "v4"]
DRIVERS = ["csi.one", "ebs.csi.aws.com", "pd.csi.storage.gke.io"]
CLASSES = ["dyn", "local", "old"]
DRIVER_ZONES = ["topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"]
# The last one but one is half a byte short of 2Gi.
SIZES = ["1Gi", "1.5Gi", "2Gi", "2048Mi", "2147483647500m", "5Gi"]
ZONE_KEYS = [GA_ZONE, BETA_ZONE, GA_REGION, BETA_REGION]
MODES = ["ReadWriteOnce", "ReadOnlyMany"]
LEAVING = "2026-11-21T00:00:00Z"
Tree = dict[str, Any]


class Draws:
    """Objects from one source of chance."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def one(self, *options: Any) -> Any:
        """Any of the options."""
        return self._random.choice(options)

    def chance(self, share: float) -> bool:
        """True in this share of all cases."""
        return self._random.random() < share

    def seldom(self, odd: Any, *common: Any) -> Any:
        """The odd one in one of twelve cases, else one of the common."""
        return odd if self.chance(1 / 12) else self.one(*common)

    def some(self, options: list[Any], least: int = 0) -> list[Any]:
        """Some of the options, in any order."""
        return self._random.sample(options, self._random.randint(least, len(options)))

    def few(self, options: list[Any], most: int) -> list[Any]:
        """Up to so many of the options."""
        return self._random.sample(options, self._random.randint(0, most))

    # --- parts --------------------------------------------------------------------------------------------------------

    def labels(self) -> dict[str, str]:
        keys = self.one([GA_ZONE, GA_REGION], [BETA_ZONE, BETA_REGION], self.few(ZONE_KEYS, 3))
        return {key: self.one("a", "a", "b") for key in (*keys, *self.some([*DRIVER_ZONES, "rack"]))}

    def expression(self) -> Tree:
        if self.chance(1 / 4):
            return {"key": "rack", "operator": self.one("Exists", "DoesNotExist")}
        values = self.seldom(["a b"], ["a"], ["b"], ["a", "b"])
        operator = self.one("In", "In", "NotIn")
        return {"key": self.one(*ZONE_KEYS, *DRIVER_ZONES, "rack"), "operator": operator, "values": values}

    def affinity(self) -> Tree:
        by_name = {"key": "metadata.name", "operator": self.one("In", "NotIn"), "values": ["node-0"]}
        terms = [
            {
                "matchExpressions": [self.expression() for _ in range(self.one(0, 1, 1, 2))],
                "matchFields": self.one([], [], [by_name]),
            }
            for _ in range(self.one(1, 1, 2))
        ]
        return {"required": {"nodeSelectorTerms": terms}}

    def selector(self) -> Tree:
        return {"matchLabels": self.one({}, {"rack": "a"}, {"rack": "b"})}

    def owner(self) -> Tree:
        name = self.one(*CLAIMS)
        return {"namespace": "default", "name": name, "uid": self.one(name, name, "", "an older claim's")}

    def ebs_disk(self) -> Tree:
        return {"awsElasticBlockStore": {"volumeID": self.one("vol-1", "aws://a/vol-1", "vol-2")}}

    def gce_disk(self) -> Tree:
        return {"gcePersistentDisk": {"pdName": self.one("d1", "d2"), "readOnly": self.chance(1 / 2)}}

    def shared_disk(self) -> Tree:
        """A disk that two pods may not always have together."""
        reads = self.chance(1 / 2)
        iscsi = {"iscsi": {"iqn": self.one("i1", "i2"), "readOnly": reads}}
        monitors = self.some(["m1", "m2", "m3"], 1)
        rbd = {"rbd": {"monitors": monitors, "pool": self.one("p", "q"), "image": "i", "readOnly": reads}}
        return dict(self.one(iscsi, rbd, self.ebs_disk(), self.gce_disk()))

    # --- objects ------------------------------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        meta = {"name": name, "labels": self.labels()}
        return convert({"metadata": meta, "status": {"allocatable": amounts}}, Node)

    def volume(self, name: str) -> PersistentVolume:
        """A CSI volume, or one of a plugin that a CSI driver has taken over."""
        csi = {"csi": {"driver": self.one(*DRIVERS), "volumeHandle": self.one(name, "vol-1", "h")}}
        source: Tree = self.one(csi, csi, self.ebs_disk(), self.gce_disk())
        spec = {
            "capacity": {"storage": self.one(*SIZES)},
            "accessModes": self.one(MODES, MODES, self.some(MODES, 1)),
            "storageClassName": self.one("local", "local", "dyn", "old"),
            "volumeMode": self.seldom("Block", "Filesystem", None),
            "claimRef": self.one(None, None, None, self.owner()),
            "nodeAffinity": self.one(None, self.affinity()),
            **source,
        }
        labels = {key: self.one("a", "b", "a__b", "a__", "c") for key in self.few(ZONE_KEYS, 2)}
        if "gcePersistentDisk" in source:  # whose handle is made of the label: one zone only, or there is none
            labels = {key: zone for key, zone in labels.items() if "__" not in zone}
        metadata = {"name": name, "labels": labels | self.selector()["matchLabels"]}
        status = {"phase": self.seldom("Bound", "Available")}
        return convert({"metadata": metadata, "spec": spec, "status": status}, PersistentVolume)

    def claim(self, name: str) -> PersistentVolumeClaim:
        """A claim, bound or open; that of an ephemeral volume belongs to its pod."""
        volume = self.one("", "", self.seldom("gone", *VOLUMES))
        notes = {"pv.kubernetes.io/bind-completed": "yes"} if volume and self.chance(11 / 12) else {}
        if not volume and self.chance(1 / 12):
            notes["volume.kubernetes.io/selected-node"] = self.seldom("node-x", *NODES)
        spec = {
            "volumeName": volume,
            "accessModes": self.one(["ReadWriteOncePod"], MODES[:1]) if volume else self.some(MODES, 1),
            "storageClassName": self.one("local", "local", "dyn", "old"),
            "volumeMode": self.seldom("Block", None),
            "resources": {"requests": {"storage": self.one(*SIZES)}},
            "selector": self.one(None, None, self.selector()),
        }
        owner = {"kind": "Pod", "name": name[:2], "uid": name[:2], "controller": True}
        meta = {
            "name": name,
            "namespace": "default",
            "uid": name,
            "annotations": notes,
            "deletionTimestamp": self.seldom(LEAVING, None),
            "ownerReferences": [owner] if name in EPHEMERAL else [],
        }
        status = {"phase": self.seldom("Lost", "Bound") if volume else "Pending"}
        return convert({"metadata": meta, "spec": spec, "status": status}, PersistentVolumeClaim)

    def csi_node(self, name: str) -> CSINode:
        drivers = [
            {"name": driver, "allocatable": self.one({"count": 0}, {"count": 1}, {"count": 1}, {"count": 2}, {})}
            for driver in self.one(DRIVERS, DRIVERS, DRIVERS[:1])
        ]
        plugins = self.one("", EBS, GCE, f"x,{EBS},{GCE}", f"{GCE},{EBS}")
        meta = {"name": name, "annotations": {MIGRATED: plugins}}
        return convert({"metadata": meta, "spec": {"drivers": drivers}}, CSINode)

    def storage_class(self, name: str) -> StorageClass:
        """`dyn` makes volumes on demand, `old` does so by a migrated plugin, `local` has what is there."""
        provisioners = {"dyn": DRIVERS, "old": [EBS, GCE, DRIVERS[0]], "local": ["kubernetes.io/no-provisioner"]}
        expression = {"key": self.one("rack", GA_ZONE), "values": self.some(["a", "b"], 1)}
        tree = {
            "metadata": {"name": name},
            "provisioner": self.one(*provisioners[name]),
            "volumeBindingMode": self.seldom("Immediate", "WaitForFirstConsumer"),
            "allowedTopologies": self.one([], [], [{"matchLabelExpressions": [expression]}]),
        }
        return convert(tree, StorageClass)

    def csi_driver(self, name: str) -> CSIDriver:
        return convert({"metadata": {"name": name}, "spec": {"storageCapacity": self.chance(2 / 3)}}, CSIDriver)

    def capacity(self, name: str) -> CSIStorageCapacity:
        tree = {
            "storageClassName": self.one("dyn", "dyn", "old"),
            "nodeTopology": self.seldom(None, self.selector()),
            "capacity": self.seldom(None, *SIZES),
            "maximumVolumeSize": self.one(None, None, *SIZES),
        }
        return convert({"metadata": {"name": name, "namespace": "default"}, **tree}, CSIStorageCapacity)

    def attachment(self, name: str) -> VolumeAttachment:
        source = {"persistentVolumeName": self.one(*VOLUMES)}
        spec = {"attacher": self.one(*DRIVERS), "nodeName": self.one(*NODES), "source": source}
        return convert({"metadata": {"name": name}, "spec": spec}, VolumeAttachment)

    def pod(self, uid: str) -> Pod:
        """A pod on some node; those that are judged are on none."""
        claimed = [{"persistentVolumeClaim": {"claimName": name}} for name in CLAIMS]
        sources = [dict(self.one(*claimed, self.shared_disk())) for _ in range(self.one(1, 2, 2, 3))]
        if f"{uid}-v0" in EPHEMERAL and self.chance(1 / 2):
            sources[0] = {"ephemeral": {}}
        volumes = [{"name": f"v{number}", **source} for number, source in enumerate(sources)]
        where = "" if uid in JUDGED else self.seldom("ghost", *NODES)
        spec = {"nodeName": where, "containers": [{"name": "c"}], "volumes": volumes}
        return convert({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}, Pod)

    def anything(self) -> KubeObject:
        """One object, new or instead of the one of its name."""
        make, names = self.one(
            (self.node, NODES),
            (self.pod, PODS),
            (self.volume, VOLUMES),
            (self.volume, VOLUMES),
            (self.claim, [*CLAIMS, *CLAIMS, *EPHEMERAL]),
            (self.claim, CLAIMS),
            (self.csi_node, NODES),
            (self.storage_class, CLASSES),
            (self.csi_driver, DRIVERS),
            (self.capacity, ["s0", "s1"]),
            (self.attachment, ["a0", "a1", "a2"]),
        )
        made: KubeObject = make(self.one(*names))
        return made

    def start(self) -> list[KubeObject]:
        """The objects of a cluster at first, in any order, as the watches may show them."""
        made: list[KubeObject] = [self.storage_class(name) for name in CLASSES]
        for name in self.some(NODES, 2):
            made += [self.node(name), self.csi_node(name)]
        made += [self.volume(name) for name in VOLUMES]
        made += [self.claim(name) for name in (*CLAIMS, *EPHEMERAL)]
        made += [self.pod(uid) for uid in PODS]
        made += [self.csi_driver(name) for name in self.some(DRIVERS)]
        made += [self.capacity(name) for name in self.some(["s0", "s1"])]
        made += [self.anything() for _ in range(self.one(0, 2, 4))]
        self._random.shuffle(made)
        return made
