"""Random histories of a small cluster, made from a seed: decisions, and changes of every kind in between.

Pods come from few templates, so that classes meet again; some of one template differ in labels of their own. In every
other world there are a user's plugins besides the default ones.
"""

import random
from dataclasses import replace
from typing import Any

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.workloads import ReplicaSet, Service, StatefulSet
from kscheduler.assembly import profiles_over
from kscheduler.config.loader import from_tree
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers.store import Store
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.decide import scenario_ports
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.stored_workloads import StoredWorkloads
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod
from tests.specification.engine.plugins import Balks, BalksToo, ByItself, Fragile, Rates

NAME = "kscheduler"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TAINTS: list[list[Tree]] = [
    [],
    [],
    [],
    [],
    [],
    [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
    [{"key": "slow", "effect": "PreferNoSchedule"}],
]
IMAGES: list[Tree] = [
    {"names": ["big:v1"], "sizeBytes": 900 * 2**20},
    {"names": ["app:latest"], "sizeBytes": 400 * 2**20},
]


OWNERS = ("ReplicaSet-1", "ReplicaSet-2", "StatefulSet-1")
SERVICE = convert({"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"app": "web"}}}, Service)


_BY_ANNOTATION: Tree = {
    "plugins": {"multiPoint": {"enabled": [{"name": "AnnotationMatch", "weight": 2}]}},
    "pluginConfig": [{"name": "AnnotationMatch", "args": {"keys": [{"key": "disk"}]}}],
}


def _user_profile(percentage: int, strategy: str, *balking: Tree) -> Tree:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": percentage,
        "profiles": [
            {
                "schedulerName": NAME,
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "Rates", "weight": 3}, {"name": "Fragile"}, *balking]},
                    "filter": {"enabled": [{"name": "ByItself"}]},
                },
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": strategy,
                                "resources": [{"name": "cpu", "weight": 2}, {"name": "example.com/gpu", "weight": 1}],
                            }
                        },
                    },
                ],
            }
        ],
    }


class World:
    """A cluster with a history."""

    def __init__(self, seed: int, *, comes_in_runs: bool = False, has_devices: bool = False) -> None:
        """`comes_in_runs`: the next pod is mostly like the one before, and nothing but columns judges it.

        `has_devices`: each node has two, and every other template asks for some.
        """
        self.random = random.Random(seed)
        self.cache = Cache()
        self.pods: dict[str, Pod] = {}
        """On nodes, by UID."""
        self._number = 0
        self._last: Tree | None = None
        self._services: Store[Service] = Store()
        self._services.put("default/web", SERVICE)
        self._replica_sets: Store[ReplicaSet] = Store()
        self._stateful_sets: Store[StatefulSet] = Store()
        self._nominated: list[str] = []
        self._nodes: dict[str, Node] = {}
        self.comes_in_runs = comes_in_runs
        self.has_devices = has_devices
        for _ in range(self.random.choice([5, 8, 12, 16] if comes_in_runs else [1, 2, 5, 8, 12, 16])):
            self._put_node()
        if comes_in_runs:
            for _ in range(5):
                self._change_controllers()
        self._namespaces: dict[str, dict[str, str]] = {}
        self._put_namespace("default", {})
        self._put_volumes()
        if has_devices:
            self._put_devices()
        self.keeps_all = bool(seed % 2)
        """Whether no plugin fails or overshoots."""
        self.profile = self._profile(seed)
        self.templates = [self._template() for _ in range(self.random.randint(1, 4))]

    # --- decisions ----------------------------------------------------------------------------------------------------

    def next_pod(self) -> PodInfo:
        """A pod that wants a node."""
        self._number += 1
        template = self.random.choice(self.templates)
        if self.comes_in_runs and self._last in self.templates and self.random.random() < 0.9:
            template = self._last
        if self.random.random() < 0.03:
            self.templates[self.templates.index(template)] = template = self._template()
        self._last = template
        annotations = {"disk": self.random.choice(["ssd", "hdd", "tape"])} if self.random.random() < 0.05 else {}
        labels = {**template["labels"], "index": str(self._number)} if template["indexed"] else template["labels"]
        status: Tree = {"nominatedNodeName": self._some_node()} if self.random.random() < 0.03 else {}
        if "resourceClaims" in template["spec"]:
            name = self._put_claim(template)
            status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": name}]
        pod = make_pod(
            f"pod-{self._number}",
            uid=f"uid-{self._number}",
            namespace=template["namespace"],
            labels=labels,
            metadata={"annotations": annotations, "ownerReferences": template.get("owners", [])},
            status=status,
            **template["spec"],
        )
        return PodInfo(pod)

    def place(self, pod: PodInfo, node_name: str) -> None:
        """The pod goes where it was decided; mostly the watch tells so at once."""
        self.cache.assume_pod(pod, node_name)
        self._allocate(pod, node_name)
        if self.random.random() < 0.05:
            self.cache.forget_pod(pod.uid)
            return
        tree = convert_back(pod.pod)
        tree["spec"]["nodeName"] = node_name
        self.pods[pod.uid] = convert(tree, Pod)
        if self.random.random() < 0.7:
            self.cache.add_pod(self.pods[pod.uid])

    # --- changes ------------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """Something happens, or nothing."""
        chosen = self.random.choices(
            [self._rest, self._put_node, self._remove_node, self._remove_pod, self._change_pod, self._nominate],
            weights=[40, 8, 1, 30, 8, 1 if self.comes_in_runs else 4],
        )[0]
        chosen()
        if self.random.random() < 0.01:
            labels = {"team": self.random.choice(["a", "b"])}
            self._put_namespace("shop", labels)
        if self.random.random() < 0.02:
            self._change_services()
        if self.comes_in_runs and self.random.random() < 0.05:
            self._change_controllers()
        if self.random.random() < 0.01 and self._nodes:
            self.cache.rebuild_node(self._some_node())

    def _change_controllers(self) -> None:
        """A controller comes, goes, has another status or, which no real one does, another selector."""
        name = self.random.choice(OWNERS)
        store: Store[Any] = self._replica_sets if name.startswith("ReplicaSet") else self._stateful_sets
        if self.random.random() < 0.2:
            if f"default/{name}" in store:
                store.remove(f"default/{name}")
            return
        kind = ReplicaSet if name.startswith("ReplicaSet") else StatefulSet
        selector: Tree = {"matchLabels": {"set": name}}
        if self.random.random() < 0.2:
            selector = {"matchExpressions": [self.random.choice([_needs("app", "web", "batch"), _has("index")])]}
        tree = {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector}}
        store.put(f"default/{name}", convert(tree, kind))

    def _change_services(self) -> None:
        if self.random.random() < 0.3:
            tree = {"metadata": {"name": "one", "namespace": "default"}, "spec": {"selector": {"index": "7"}}}
            if "default/one" in self._services:
                self._services.remove("default/one")
            else:
                self._services.put("default/one", convert(tree, Service))
            return
        if "default/web" in self._services:
            self._services.remove("default/web")
        else:
            self._services.put("default/web", SERVICE)

    def _put_namespace(self, name: str, labels: dict[str, str]) -> None:
        self._namespaces[name] = labels
        self.cache.counters.set_namespace(convert({"metadata": {"name": name, "labels": labels}}, Namespace))

    def _rest(self) -> None:
        pass

    def _some_node(self) -> str:
        return self.random.choice(sorted(self._nodes) or ["none"])

    def _put_node(self) -> None:
        roll = self.random
        name = f"node-{roll.randint(0, 19)}"
        before = self._nodes.get(name)
        if before is not None and roll.random() < 0.5:
            tree = convert_back(before)
            tree["metadata"]["annotations"] = {"rate": str(roll.choice([0, 5, 40, 99, 101]))}
        else:
            tree = self._node_tree(name)
        node = convert(tree, Node)
        self.cache.add_node(node)
        self._nodes[name] = node

    def _node_tree(self, name: str) -> Tree:
        roll = self.random
        labels = {ZONE: roll.choice(["a", "b", "c"]), HOST: name, "disk": roll.choice(["ssd", "hdd"])}
        if roll.random() < 0.1:
            del labels[ZONE]
        if roll.random() < 0.05:
            labels["state"] = "bad"
        if roll.random() < 0.1:
            labels["shuns"] = roll.choice(["web", "db"])
        more = {"example.com/gpu": "2"} if roll.random() < 0.2 else {}
        node = make_node(
            name,
            labels=labels,
            spec={"unschedulable": roll.random() < 0.05, "taints": roll.choice(TAINTS)},
            status={"images": roll.choice([[], [], IMAGES[:1], IMAGES])},
            cpu=roll.choice(["1", "4", "8"]),
            memory=roll.choice(["2Gi", "16Gi"]),
            pods=roll.choice(["3", "20", "110"]),
            **more,
        )
        return convert_back(node)

    def _remove_node(self) -> None:
        if len(self._nodes) > 1:
            name = self._some_node()
            del self._nodes[name]
            self.cache.remove_node(name)

    def _remove_pod(self) -> None:
        if self.pods:
            uid = self.random.choice(sorted(self.pods))
            for status in self.pods[uid].status.resource_claim_statuses:
                claim = self.cache.devices.claims.get(
                    f"{self.pods[uid].metadata.namespace}/{status.resource_claim_name}"
                )
                if claim is not None:
                    self.cache.devices.claims.delete(claim)
            del self.pods[uid]
            self.cache.remove_pod(uid)

    def _change_pod(self) -> None:
        if not self.pods:
            return
        uid = self.random.choice(sorted(self.pods))
        tree = convert_back(self.pods[uid])
        roll = self.random.random()
        if roll < 0.4:
            tree["metadata"].setdefault("labels", {})["app"] = self.random.choice(["web", "db", "batch"])
        elif roll < 0.6:
            tree["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        else:
            tree["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
        self.pods[uid] = convert(tree, Pod)
        self.cache.add_pod(self.pods[uid])

    def _nominate(self) -> None:
        if self._nominated and self.random.random() < 0.7:
            self.cache.nominator.remove(self._nominated.pop())
            return
        pod = self.next_pod()
        self.cache.nominator.nominate(pod, self._some_node())
        self._nominated.append(pod.uid)

    # --- making -------------------------------------------------------------------------------------------------------

    def _profile(self, seed: int) -> Profile:
        ports = scenario_ports(ClusterObjects())
        workloads = StoredWorkloads(self._services, Store(), self._replica_sets, self._stateful_sets)
        ports = msgspec.structs.replace(ports, workloads=workloads)
        plugins = registry()
        if seed % 2:
            tree: Tree = {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"schedulerName": NAME}],
            }
            if self.comes_in_runs and seed % 8 < 4:
                tree["profiles"][0] |= _BY_ANNOTATION
        else:
            for one in (Rates, Fragile, Balks, BalksToo):
                plugins.register(one.name, one)
            plugins.register(ByItself.name, ByItself)
            balking = [{"name": "Balks"}, {"name": "BalksToo"}][:: 1 if seed % 4 else -1] if seed % 16 < 4 else []
            tree = _user_profile(seed % 3 * 20, ["MostAllocated", "LeastAllocated"][seed // 2 % 2], *balking)
        profile = profiles_over(self.cache, from_tree(tree, "test"), plugins, ports)[NAME]
        return profile if seed % 8 < 2 else replace(profile, post_filter=())  # preemption takes most of the time

    def _put_volumes(self) -> None:
        claim = {
            "metadata": {
                "name": "data",
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"volumeName": "pv", "accessModes": [self.random.choice(["ReadWriteOncePod", "ReadWriteOnce"])]},
            "status": {"phase": "Bound"},
        }
        zones = {"key": ZONE, "operator": "In", "values": ["a", "b"]}
        volume = {
            "metadata": {"name": "pv"},
            "spec": {
                "claimRef": {"name": "data", "namespace": "default"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}},
            },
        }
        self.cache.volumes.put(convert(claim, PersistentVolumeClaim))
        self.cache.volumes.put(convert(volume, PersistentVolume))

    def _put_devices(self) -> None:
        self.cache.devices.put_class(convert({"metadata": {"name": "gpu"}}, DeviceClass))
        for number in range(20):
            name = f"node-{number}"
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": "gpu", "nodeName": name, "pool": pool, "devices": [{"name": "d0"}, {"name": "d1"}]}
            self.cache.devices.put_slice(convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice))

    def _put_claim(self, template: Tree) -> str:
        """The next pod's claim, as its template asks; it gets no devices here."""
        name = f"gpu-of-pod-{self._number}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": f"pod-{self._number}", "uid": f"uid-{self._number}"}
        metadata = {
            "name": name,
            "namespace": template["namespace"],
            "uid": name,
            "ownerReferences": [{**owner, "controller": True}],
        }
        spec = {"devices": {"requests": [template["request"]]}}
        self.cache.devices.claims.add(convert({"metadata": metadata, "spec": spec}, ResourceClaim))
        return name

    def _allocate(self, pod: PodInfo, node_name: str) -> None:
        """The pod's claim holds a device of the node, whether it is free or not."""
        for status in pod.pod.status.resource_claim_statuses:
            claims = self.cache.devices.claims
            claim = claims.get(f"{pod.namespace}/{status.resource_claim_name}")
            assert claim is not None
            tree = msgspec.to_builtins(claim)
            device = self.random.choice(["d0", "d1"])
            result = {"request": "r", "driver": "gpu", "pool": node_name, "device": device}
            tree["status"] = {"allocation": {"devices": {"results": [result]}}}
            claims.update(convert(tree, ResourceClaim))

    def _template(self) -> Tree:
        template = self._plain_template()
        if self.has_devices and self.random.random() < 0.5:
            count = self.random.choice([1, 1, 2])
            exactly: Tree = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
            first = [{"name": f"s{number}", **exactly, "count": number} for number in (2, 1)]
            template["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
            template["request"] = {"name": "r"} | self.random.choice([{"exactly": exactly}, {"firstAvailable": first}])
        return template

    def _plain_template(self) -> Tree:
        roll = self.random
        requests = roll.choice([{"cpu": "100m"}, {"cpu": "500m", "memory": "1Gi"}, {}, {"example.com/gpu": "1"}])
        spec: Tree = {"requests": requests, "priority": roll.choice([0, 0, 0, 5, 10])}
        if roll.random() < 0.3:
            spec["nodeSelector"] = {"disk": "ssd"}
        if roll.random() < 0.3:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self.comes_in_runs and roll.random() < 0.5:
            return {"spec": spec, "labels": {"app": "batch"}, "namespace": "default", "indexed": roll.random() < 0.3}
        if self.comes_in_runs and roll.random() < 0.8:
            return self._owned_template(spec)
        if roll.random() < 0.6:
            spec["affinity"] = self._affinity()
        if roll.random() < 0.4:
            spec["topologySpreadConstraints"] = [self._constraint() for _ in range(roll.randint(1, 2))]
        if roll.random() < 0.1:
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        if roll.random() < 0.1:
            spec["containers"] = [{"name": "main", "image": "big:v1", "ports": [{"hostPort": roll.choice([80, 81])}]}]
        return {
            "spec": spec,
            "labels": {"app": roll.choice(["web", "db"])},
            "namespace": roll.choice(["default", "default", "shop"]),
            "indexed": roll.random() < 0.4,
        }

    def _owned_template(self, spec: Tree) -> Tree:
        """Pods of a ReplicaSet or a StatefulSet, spread by default or by constraints of their own; or with affinity."""
        roll, name = self.random, self.random.choice(OWNERS)
        owner = {"apiVersion": "apps/v1", "kind": name.split("-")[0], "name": name, "uid": name, "controller": True}
        if roll.random() < 0.5:
            spec["topologySpreadConstraints"] = [self._constraint() for _ in range(roll.randint(1, 3))]
        has_affinity = "topologySpreadConstraints" not in spec and roll.random() < 0.6
        if has_affinity:
            spec["affinity"] = self._affinity()
        return {
            "spec": spec,
            "labels": {"app": roll.choice(["db", "batch"] if has_affinity else ["web", "batch"]), "set": name},
            "namespace": "default",
            "indexed": roll.random() < 0.4,
            "owners": [owner] if not has_affinity and roll.random() < 0.8 else [],
        }

    def _affinity(self) -> Tree:
        roll = self.random
        found: Tree = {}
        if roll.random() < 0.4:
            found["nodeAffinity"] = roll.choice(
                [
                    {PREFERRED: [{"weight": 10, "preference": {"matchExpressions": [_needs("disk", "ssd")]}}]},
                    {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [_needs(ZONE, "a", "b")]}]}},
                    {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [_needs("metadata.name", "node-1")]}]}},
                ]
            )
        for kind in ("podAffinity", "podAntiAffinity"):
            if roll.random() < 0.3:
                found.setdefault(kind, {})[REQUIRED] = [self._term()]
            if roll.random() < 0.3:
                found.setdefault(kind, {})[PREFERRED] = [
                    {"weight": roll.choice([1, 10]), "podAffinityTerm": self._term()}
                ]
        return found

    def _term(self) -> Tree:
        roll = self.random
        term: Tree = {
            "topologyKey": roll.choice([ZONE, HOST]),
            "labelSelector": {"matchLabels": {"app": roll.choice(["web", "db"])}},
        }
        if roll.random() < 0.2:
            term["namespaceSelector"] = roll.choice([{}, {"matchLabels": {"team": "a"}}])
        return term

    def _constraint(self) -> Tree:
        roll = self.random
        return {
            "maxSkew": roll.randint(1, 3),
            "topologyKey": roll.choice([ZONE, HOST]),
            "whenUnsatisfiable": roll.choice(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": {"matchLabels": {"app": roll.choice(["web", "db"])}},
            "nodeTaintsPolicy": roll.choice(["Honor", "Ignore"]),
        }


def _has(key: str) -> Tree:
    return {"key": key, "operator": "Exists"}


def _needs(key: str, *values: str) -> Tree:
    return {"key": key, "operator": "In", "values": list(values)}


def convert_back(obj: Node | Pod) -> Tree:
    """The object as JSON."""
    tree: Tree = msgspec.to_builtins(obj)
    return tree
