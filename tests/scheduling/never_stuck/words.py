"""The vocabulary of never-stuck runs: a few traits for each kind, so small that they collide all the time.

An object is its name and its traits, and prints as that in a falsifying example: `pod_comes("p0", "web", ["cpu 2"])`.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, Any]
Change = Callable[[Tree], Tree | None]

NODE_NAMES = ["n0", "n1", "n2", "n3"]
POD_NAMES = ["p0", "p1", "p2", "p3", "p4", "p5"]
OTHER_NAMES = ["o0", "o1", "o2", "o3"]
NAMESPACES = ["default", "blue"]
APPS = ["web", "web", "db", ""]
ZONE, HOST, POOL = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "pool"
DRIVER, EBS = "csi.one", "ebs.csi.aws.com"
DISRUPTED: Tree = {"key": "maintenance", "value": "", "effect": "NoSchedule"}
GPU = "example.com/gpu"

# --- nodes ------------------------------------------------------------------------------------------------------------

NODE_TRAITS: dict[str, Tree] = {
    "zone a": {"metadata": {"labels": {ZONE: "a"}}},
    "zone b": {"metadata": {"labels": {ZONE: "b"}}},
    "pool x": {"metadata": {"labels": {POOL: "x"}}},
    "big": {"status": {"allocatable": {"cpu": "4"}}},
    "one pod": {"status": {"allocatable": {"pods": "1"}}},
    "gpu": {"status": {"allocatable": {GPU: "1"}}},
    "tainted": {"spec": {"taints": [DISRUPTED]}},
    "disliked": {"spec": {"taints": [{**DISRUPTED, "effect": "PreferNoSchedule"}]}},
    "cordoned": {"spec": {"unschedulable": True}},
    "restarts": {"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}},
    "not ready": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
}


# Where a node is at first.
ZONE_OF = {"n0": "zone a", "n1": "zone b", "n2": "zone a", "n3": "zone b"}


def node_tree(name: str, traits: list[str]) -> Tree:
    """A node of 2 cpu with these traits; later ones win."""
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "5"}
    tree: Tree = {"metadata": {"name": name, "labels": {HOST: name}}, "spec": {}, "status": {"allocatable": amounts}}
    for trait in traits:
        tree = merged(tree, NODE_TRAITS[trait])
    return tree


# --- pods -------------------------------------------------------------------------------------------------------------


def _container(**fields: Any) -> Tree:
    return {"spec": {"containers": [{"name": "c", **fields}]}}


def _requests(**amounts: str) -> Tree:
    return _container(resources={"requests": {name.replace("gpu", GPU): amount for name, amount in amounts.items()}})


def _term(key: str, app: str, **more: Any) -> Tree:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def _required(kind: str, *terms: Tree) -> Tree:
    return {"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}}


def _spread(key: str, **more: Any) -> Tree:
    matched = {"labelSelector": {"matchLabels": {"app": "web"}}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **matched, **more}
    return {"spec": {"topologySpreadConstraints": [constraint]}}


def _volume(**source: Any) -> Tree:
    return {"spec": {"volumes": [{"name": next(iter(source)), **source}]}}


def _claim(name: str) -> Tree:
    return {"spec": {"volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}}]}}


def _node_affinity(**requirement: Any) -> Tree:
    terms = {"nodeSelectorTerms": [requirement]}
    return {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}}


AWAY, NEAR = "podAntiAffinity", "podAffinity"
BLUE_TEAM = {"matchLabels": {"team": "x"}}

POD_TRAITS: dict[str, Tree] = {
    "cpu 1": _requests(cpu="1"),
    "cpu 2": _requests(cpu="2"),
    "gpu": _requests(gpu="1"),
    "port 80": _container(ports=[{"hostPort": 80}]),
    "pool x": {"spec": {"nodeSelector": {POOL: "x"}}},
    "zone a": _node_affinity(matchExpressions=[{"key": ZONE, "operator": "In", "values": ["a"]}]),
    "node n1": _node_affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n1"]}]),
    "tolerant": {"spec": {"tolerations": [{"key": "maintenance", "operator": "Exists"}]}},
    "spread over zones": _spread(ZONE),
    "spread over hosts": _spread(HOST),
    "spread over 2 zones": _spread(ZONE, minDomains=2),
    "spread, taints honoured": _spread(ZONE, nodeTaintsPolicy="Honor"),
    "spread, affinity ignored": _spread(ZONE, nodeAffinityPolicy="Ignore"),
    "spread by revision": _spread(ZONE, matchLabelKeys=["revision"]),
    "near web in zone": _required(NEAR, _term(ZONE, "web")),
    "near web on host": _required(NEAR, _term(HOST, "web")),
    "near db and web": _required(NEAR, _term(ZONE, "db"), _term(ZONE, "web", namespaces=["blue"])),
    "near web of team x": _required(NEAR, _term(ZONE, "web", namespaceSelector=BLUE_TEAM)),
    "away from web in zone": _required(AWAY, _term(ZONE, "web")),
    "away from web on host": _required(AWAY, _term(HOST, "web")),
    "away from both": _required(AWAY, _term(HOST, "db"), _term(ZONE, "web")),
    "away from web of team x": _required(AWAY, _term(ZONE, "web", namespaceSelector=BLUE_TEAM)),
    "disk": _volume(gcePersistentDisk={"pdName": "d"}),
    "ebs": _volume(awsElasticBlockStore={"volumeID": "vol-1"}),
    "claim c0": _claim("c0"),
    "claim c1": _claim("c1"),
    "ephemeral": _volume(ephemeral={"volumeClaimTemplate": {}}),
    "restarts": _container(restartPolicyRules=[{"action": "RestartAllContainers"}]),
    "urgent": {"spec": {"priority": 10}},
    "gated": {"spec": {"schedulingGates": [{"name": "g"}]}},
    "gated twice": {"spec": {"schedulingGates": [{"name": "g"}, {"name": "h"}]}},
}


def pod_tree(name: str, namespace: str, app: str, traits: list[str], node: str = "") -> Tree:
    """A pod with these traits; ours, unless it has a node from the start."""
    labels = {"app": app} if app else {}
    who = "somebody" if node else "kscheduler"
    spec: Tree = {"schedulerName": who, "containers": [{"name": "c"}], "nodeName": node}
    tree: Tree = {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec, "status": {}}
    for trait in traits:
        tree = merged(tree, POD_TRAITS[trait])
    return tree


def alike(pod: Tree, name: str, app: str) -> Tree:
    """A pod that wants what another one wants or has, but for its app: of its class or nearly so."""
    labels = {**pod["metadata"].get("labels", {}), "app": app}
    meta = {"name": name, "namespace": pod["metadata"]["namespace"], "labels": labels}
    return {"metadata": meta, "spec": {**pod["spec"], "nodeName": "", "schedulerName": "kscheduler"}, "status": {}}


def _with(**more: Any) -> Change:
    return lambda pod: merged(pod, more)


def _labelled(**labels: str) -> Change:
    return _with(metadata={"labels": labels})


def _without_app(pod: Tree) -> Tree | None:
    labels = {key: value for key, value in pod["metadata"]["labels"].items() if key != "app"}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def _smaller(pod: Tree) -> Tree | None:
    """Resized, as far as its kubelet (or nobody, while it waits) is concerned."""
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return merged(pod, _requests(cpu="500m")) if "cpu" in requests else None


def _without_a_gate(pod: Tree) -> Tree | None:
    gates = pod["spec"].get("schedulingGates")
    return {**pod, "spec": {**pod["spec"], "schedulingGates": gates[1:]}} if gates else None


def is_victim(pod: Tree) -> bool:
    """Whether preemption has begun to delete it."""
    return any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions", ()))


def nominated(pod: Tree, node: str) -> Tree | None:
    """A pod that waits, expected on a node."""
    return None if pod["spec"].get("nodeName") else merged(pod, {"status": {"nominatedNodeName": node}})


# What the API allows; `None` where it means nothing to a pod.
POD_CHANGES: dict[str, Change] = {
    "app web": _labelled(app="web"),
    "app db": _labelled(app="db"),
    "no app": _without_app,
    "revision 1": _labelled(revision="1"),
    "revision 2": _labelled(revision="2"),
    "noted": _with(metadata={"annotations": {"note": "x"}}),
    "tolerates all": _with(spec={"tolerations": [{"operator": "Exists"}]}),
    "smaller": _smaller,
    "one gate less": _without_a_gate,
    "terminating": _with(metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"}),
    "succeeded": _with(status={"phase": "Succeeded"}),
}


# --- storage ----------------------------------------------------------------------------------------------------------


def _volume_object(storage_class: str, zone: str = "", labels: Tree | None = None, **spec: Any) -> Tree:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if zone else {}
    source = {} if "awsElasticBlockStore" in spec else {"csi": {"driver": DRIVER, "volumeHandle": "h"}}
    what = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}
    return {
        "metadata": {"labels": labels or {}},
        "spec": {**what, **source, **affinity, **spec},
        "status": {"phase": "Available"},
    }


def _claim_object(storage_class: str, volume: str = "", mode: str = "ReadWriteOnce") -> Tree:
    notes = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if volume else {}
    wanted = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": [mode], "storageClassName": storage_class, "resources": wanted, "volumeName": volume}
    return {"metadata": notes, "spec": spec, "status": {"phase": "Bound" if volume else "Pending"}}


def _csi_node(limit: int | None = None, migrated: str = "") -> Tree:
    count = {} if limit is None else {"allocatable": {"count": limit}}
    notes = {"annotations": {"storage.alpha.kubernetes.io/migrated-plugins": migrated}} if migrated else {}
    return {"metadata": notes, "spec": {"drivers": [{"name": name, **count} for name in (DRIVER, EBS)]}}


def _class(provisioner: str, mode: str = "WaitForFirstConsumer", zone: str = "") -> Tree:
    term = {"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}
    topology = {"allowedTopologies": [term]} if zone else {}
    return {"metadata": {}, "provisioner": provisioner, "volumeBindingMode": mode, **topology}


def _capacity(size: str, zone: str) -> Tree:
    where = {"nodeTopology": {"matchLabels": {ZONE: zone}}}
    return {"metadata": {}, "storageClassName": "dynamic", "capacity": size, **where}


def _attachment(node: str, volume: str) -> Tree:
    source = {"persistentVolumeName": volume}
    return {"metadata": {}, "spec": {"attacher": DRIVER, "nodeName": node, "source": source}}


# Plural, name, state: objects without their names.
STORAGE: dict[str, dict[str, dict[str, Tree]]] = {
    "storageclasses": {
        "dynamic": {"any zone": _class(DRIVER), "zone a": _class(DRIVER, zone="a")},
        "local": {"as always": _class("kubernetes.io/no-provisioner")},
        "at-once": {"as always": _class(DRIVER, "Immediate")},
    },
    "persistentvolumeclaims": {
        name: {
            "dynamic": _claim_object("dynamic"),
            "local": _claim_object("local"),
            "at once": _claim_object("at-once"),
            "bound to v0": _claim_object("local", "v0"),
            "bound to v1": _claim_object("local", "v1"),
            "exclusively v0": _claim_object("local", "v0", "ReadWriteOncePod"),
        }
        for name in ("c0", "c1")
    },
    "persistentvolumes": {
        name: {
            "everywhere": _volume_object("local"),
            "reached from a": _volume_object("local", "a"),
            "labelled a": _volume_object("local", labels={ZONE: "a"}),
            "labelled b": _volume_object("local", labels={ZONE: "b"}),
            "for c0": _volume_object("local", claimRef={"namespace": "default", "name": "c0"}),
            "ebs": _volume_object("local", labels={ZONE: "a"}, awsElasticBlockStore={"volumeID": "vol-2"}),
        }
        for name in ("v0", "v1")
    },
    "csinodes": {
        name: {
            "no limit": _csi_node(),
            "limit 0": _csi_node(0),
            "limit 1": _csi_node(1),
            "migrated": _csi_node(1, "kubernetes.io/aws-ebs"),
        }
        for name in NODE_NAMES[:3]
    },
    "csidrivers": {
        DRIVER: {
            "tells capacity": {"metadata": {}, "spec": {"storageCapacity": True}},
            "silent": {"metadata": {}, "spec": {"storageCapacity": False}},
        }
    },
    "csistoragecapacities": {
        "in-a": {"5Gi": _capacity("5Gi", "a"), "nothing": _capacity("0", "a")},
        "in-b": {"5Gi": _capacity("5Gi", "b"), "nothing": _capacity("0", "b")},
    },
    "volumeattachments": {"a0": {"v0 on n0": _attachment("n0", "v0"), "v1 on n1": _attachment("n1", "v1")}},
}

# Kinds whose objects go from one state to another; the others are made again, with another UID.
CHANGEABLE = ("csinodes", "csidrivers", "csistoragecapacities")

STORAGE_STATES = [
    (plural, name, state) for plural in STORAGE for name in STORAGE[plural] for state in STORAGE[plural][name]
]


def storage_tree(plural: str, name: str, state: str) -> Tree:
    """An object of storage in one of its states; each CSI volume is one of its own."""
    tree = merged({"metadata": {"name": name}}, STORAGE[plural][name][state])
    if "csi" in tree.get("spec", {}):
        tree["spec"]["csi"]["volumeHandle"] = name
    return tree


def merged(tree: Tree, more: Tree) -> Tree:
    """Both; of lists both parts, of the containers their fields, and otherwise what is newer."""
    result = deepcopy(tree)
    for key, value in more.items():
        known = result.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            result[key] = merged(known, value)
        elif key == "containers" and known:
            result[key] = [merged(known[0], value[0])]
        elif key not in ("schedulingGates", "terms") and isinstance(known, list) and isinstance(value, list):
            result[key] = [*known, *deepcopy(value)]
        else:
            result[key] = deepcopy(value)
    return result


# --- themes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Theme:
    """What one run is about: few words, so that what comes next concerns what is there."""

    name: str
    node_traits: list[str]
    pod_traits: list[str]
    changes: list[str]
    """What may become of a pod, besides that it goes."""
    namespaces: list[str]
    apps: list[str] = field(default_factory=lambda: APPS)
    has_storage: bool = False


_SPREAD = [trait for trait in POD_TRAITS if trait.startswith("spread")]
_TOGETHER = [trait for trait in POD_TRAITS if trait.startswith(("near", "away"))]
_FLOCK = ["near web in zone", "near web on host", "away from web in zone", "away from web on host"]
_EVEN = ["spread over zones", "spread over hosts", "spread, taints honoured"]
_LABELLED = ["app web", "app db", "no app"]
_ENDS = ["terminating", "succeeded"]
_ZONES = ["zone a", "zone b", "tainted"]
_WEB = ["web", "web", "web", "db"]
_HERE, _TWO = ["default"], ["default", "blue"]

THEMES: dict[str, Theme] = {
    theme.name: theme
    for theme in (
        Theme("room", ["big", "one pod"], ["cpu 1", "cpu 2", "cpu 2", "urgent"], ["smaller", *_ENDS], _HERE),
        Theme("devices", ["gpu", "cordoned"], ["gpu", "port 80", "port 80", "urgent"], _ENDS, _HERE),
        Theme(
            "doors",
            ["tainted", "cordoned", "restarts", "pool x"],
            ["tolerant", "restarts", "gated", "gated twice", "pool x"],
            ["tolerates all", "one gate less", "one gate less", "noted"],
            _HERE,
        ),
        Theme("labels", ["zone a", "zone b", "pool x"], ["pool x", "zone a", "node n1", "cpu 2"], _ENDS, _HERE),
        Theme(
            "spread",
            [*_ZONES, "pool x"],
            [*_SPREAD, "pool x", "tolerant", "urgent"],
            [*_LABELLED, *_ENDS, "revision 1", "revision 2", "tolerates all"],
            _HERE,
        ),
        Theme("even", _ZONES, [*_EVEN, "urgent"], [*_LABELLED, *_ENDS], _HERE, _WEB),
        Theme("together", _ZONES, [*_TOGETHER, "urgent"], [*_LABELLED, *_ENDS], _TWO),
        Theme("flock", _ZONES, [*_FLOCK, "urgent"], [*_LABELLED, *_ENDS], _HERE, _WEB),
        Theme(
            "disks",
            ["zone a", "zone b"],
            ["disk", "claim c0", "claim c1", "ephemeral", "ebs", "urgent"],
            _ENDS,
            _HERE,
            has_storage=True,
        ),
        Theme("everything", [*NODE_TRAITS], [*POD_TRAITS], [*POD_CHANGES], _TWO, has_storage=True),
    )
}
