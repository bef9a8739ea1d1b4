"""Random small clusters in which a pod often has no node, as the JSON of a scenario, with all that default rules read.

They are made from a seed that Hypothesis gives, as those of `tests.specification.volumes.worlds`, for the same reason.
"""

from random import Random
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from tests.builders import Tree
from tests.specification.decisions.objects import APPS, REQUIRED, Chance, Land
from tests.specification.volumes.worlds import CLAIMS, Draws

NAMESPACES: Final = ("default", "shop", "ops")
_KINDS: Final = {
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StorageClass": "storageclasses",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "CSIStorageCapacity": "csistoragecapacities",
    "VolumeAttachment": "volumeattachments",
}
_LANDS: Final = (Land(is_tight=True), Land(), Land(theme="storage"), Land(theme="spread"), Land(theme="affinity"))


def random_world(seed: int) -> Tree:
    """A scenario; half of them are about Kubernetes 1.37."""
    random = Random(seed)
    land = random.choice(_LANDS)
    chance = _Chance(seed, land)
    nodes = [chance.node_tree(f"node-{number}") for number in range(random.randint(1, 5))]
    pods = [chance.placed(f"pod-{number}", random.choice(nodes)) for number in range(random.randint(0, 9))]
    objects: Tree = {"nodes": nodes, "pods": pods, "namespaces": [chance.namespace(name) for name in NAMESPACES]}
    if land.theme == "storage":
        for obj in Draws(Random(seed)).start():
            _file(objects, obj)
    return {
        "id": str(seed),
        "config": None,
        "objects": objects,
        "pod": chance.querying(is_stored=land.theme == "storage"),
    }


def _file(objects: Tree, obj: KubeObject) -> None:
    if not isinstance(obj, Node | Pod):
        listed = objects.setdefault(_KINDS[type(obj).__name__], [])
        tree = msgspec.to_builtins(obj)
        name = tree["metadata"]["name"]
        listed[:] = [other for other in listed if other["metadata"]["name"] != name]
        listed.append(tree)


class _Chance(Chance):
    def node_tree(self, name: str) -> Tree:
        """With several taints now and then, and less often ready for everything."""
        tree = super().node_tree(name)
        if self.chance(0.15):
            tree["spec"]["unschedulable"] = True
        return tree

    def namespace(self, name: str) -> Tree:
        labels = {"kubernetes.io/metadata.name": name, **self.one({}, {"team": "a"}, {"team": "b"})}
        return {"metadata": {"name": name, "labels": labels}}

    def placed(self, name: str, node: Tree) -> Tree:
        spec = {**self.pod_spec(), "nodeName": node["metadata"]["name"]}
        return {"metadata": self._metadata(name), "spec": spec}

    def _metadata(self, name: str) -> Tree:
        return {"name": name, "namespace": self.one(*NAMESPACES), "uid": name, "labels": self.pod_labels()}

    def querying(self, *, is_stored: bool) -> Tree:
        """A pod that asks for more than others do."""
        spec: Tree = {**self.pod_spec(), "schedulerName": "default-scheduler"}
        spec["containers"] = [self.large(f"c{number}") for number in range(self.one(1, 1, 2, 3))]
        spec.pop("volumes", None)
        if self.chance(0.3):
            init = {"restartPolicy": self.one("Always", None)}
            spec["initContainers"] = [{**self.large(f"i{number}"), **init} for number in range(self.one(1, 2))]
        if self.chance(0.2):
            spec |= {"overhead": {"cpu": "50m"}}
        if self.chance(0.15):
            spec["resources"] = {"requests": {"cpu": self.one("5", "20"), "memory": "300Mi"}}
        if self.chance(0.25):
            spec["nodeSelector"] = self.one({"disk": "ssd"}, {"rack": "a", "disk": "hdd"}, {"gen": "9"})
        if self.chance(0.1):
            spec["schedulingGates"] = [{"name": "example.com/quota"}]
        if self.chance(0.2):
            terms = [self.node_term() for _ in range(self.one(1, 2))]
            affinity = spec.setdefault("affinity", {})
            affinity.setdefault("nodeAffinity", {})[REQUIRED] = {"nodeSelectorTerms": terms}
        if is_stored and self.chance(0.8):
            names = self.few(list(CLAIMS), 2)
            spec["volumes"] = [
                {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
                for number, name in enumerate(names)
            ]
        metadata = self._metadata("new")
        metadata["namespace"] = "default"
        return {"metadata": {**metadata, "labels": {**metadata["labels"], "app": self.of(APPS)}}, "spec": spec}

    def large(self, name: str) -> Tree:
        made: Tree = {**self.container(), "name": name}
        if self.chance(0.5):
            requests: Any = self.one({"cpu": "3"}, {"memory": "5Gi", "cpu": "1500m"}, {"example.com/gpu": "2"})
            made["resources"] = {"requests": dict(requests)}
        if self.chance(0.2):
            made["ports"] = [{"hostPort": self.one(80, 81), "containerPort": 80} for _ in range(self.one(1, 2))]
        return made
