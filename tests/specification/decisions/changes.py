"""What happens to a cluster between two decisions, each told to both pictures of it."""

from collections.abc import Callable
from typing import Any

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from kscheduler.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from tests.builders import Tree
from tests.specification.decisions.objects import APPS, NODES, Chance
from tests.specification.decisions.worlds import LEFT, DecisionWorld
from tests.specification.volumes.worlds import CLAIMS, CLASSES, DRIVERS, VOLUMES

Change = Callable[[DecisionWorld, Chance, int], None]
# Pods; beyond, more go than come.
_CROWDED = 70


def change(world: DecisionWorld, draw: Chance, number: int) -> None:
    """Nothing, something, or several things at once."""
    for _ in range(draw.one(0, 1, 1, 1, 2, 4)):
        found: Change = draw.one(*_CHANGES)
        found(world, draw, number)
    if len(world.naive.pods) > _CROWDED:
        for uid in draw.few_of(world.naive.pods, 30):
            world.remove_pod(uid)


# --- nodes ------------------------------------------------------------------------------------------------------------


def _new_node(world: DecisionWorld, draw: Chance, number: int) -> None:
    world.put_node(draw.node_tree(draw.of(NODES)))


def _relabel(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    fresh, key = draw.node_labels(tree["metadata"]["name"]), draw.one("zone", "rack", "disk", "gen", "all")
    labels = tree["metadata"].setdefault("labels", {})
    for name in {*fresh, *labels}:
        if key in (name.rpartition("/")[2], "all"):
            labels.pop(name, None)
            labels |= {name: fresh[name]} if name in fresh else {}


def _retaint(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    tree.setdefault("spec", {})["taints"] = draw.taints()


def _cordon(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    spec["unschedulable"] = not spec.get("unschedulable", False) and draw.chance(0.4)


def _resize(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    tree["status"]["allocatable"] = draw.allocatable()


def _pull(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    tree["status"]["images"] = draw.images()


def _annotate(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    tree["metadata"]["annotations"] = draw.annotations()


def _beat(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    tree["status"]["conditions"] = [{"type": "Ready", "status": draw.one("True", "False")}]


_OF_NODES = (
    *(_relabel, _relabel, _relabel, _retaint, _retaint, _cordon, _cordon),
    *(_resize, _resize, _pull, _pull, _annotate, _beat),
)


def _change_node(world: DecisionWorld, draw: Chance, number: int) -> None:
    if world.naive.nodes:
        tree = world.node_tree(draw.of(world.naive.nodes))
        draw.one(*_OF_NODES)(world, draw, tree)
        world.put_node(tree)


def _remove_node(world: DecisionWorld, draw: Chance, number: int) -> None:
    """Its pods stay, as ghosts, until somebody tells of them."""
    if len(world.naive.nodes) > 1:
        world.remove_node(draw.of(world.naive.nodes))


def _rebuild_node(world: DecisionWorld, draw: Chance, number: int) -> None:
    world.cache.rebuild_node(world.some_node(draw))


# --- pods -------------------------------------------------------------------------------------------------------------


def _foreign_pod(world: DecisionWorld, draw: Chance, number: int) -> None:
    """Somebody else's pod, on any node, were it one that is not there (yet)."""
    pod, name = draw.of(world.templates).pod, draw.of(NODES) if draw.chance(0.1) else world.some_node(draw)
    tree = msgspec.to_builtins(pod)
    tree["metadata"] |= {"name": f"foreign-{number}", "uid": f"foreign-{number}", "labels": draw.pod_labels()}
    tree["spec"]["nodeName"] = name
    tree["status"] = {"startTime": draw.one(None, LEFT, "2026-11-20T00:00:00Z")}
    made = convert(tree, Pod)
    if made.metadata.uid not in world.naive.pods and world.has_room_for_ports(made, name):
        world.put_pod(made)


def _remove_pod(world: DecisionWorld, draw: Chance, number: int) -> None:
    if world.naive.pods:
        world.remove_pod(draw.of(world.naive.pods))


def _confirm(world: DecisionWorld, draw: Chance, number: int) -> None:
    """The watch tells of assumed pods; of one in eight on another node than it was assumed on."""
    for uid in draw.some([uid for uid in sorted(world.naive.pods) if world.cache.is_assumed(uid)]):
        tree = msgspec.to_builtins(world.naive.pods[uid])
        if draw.chance(1 / 8):
            tree["spec"]["nodeName"] = world.some_node(draw)
            if not world.has_room_for_ports(world.naive.pods[uid], tree["spec"]["nodeName"]):
                continue
        tree["status"] = {"startTime": draw.one(None, LEFT)}
        world.put_pod(convert(tree, Pod))


def _forget(world: DecisionWorld, draw: Chance, number: int) -> None:
    assumed = [uid for uid in sorted(world.naive.pods) if world.cache.is_assumed(uid)]
    if assumed:
        world.forget(draw.one(*assumed))


def _relabel_pod(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    tree["metadata"]["labels"] = draw.pod_labels()


def _terminate(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    tree["metadata"]["deletionTimestamp"] = LEFT


def _resize_pod(world: DecisionWorld, draw: Chance, tree: Tree) -> None:
    """In place: what was granted may differ from what is wanted."""
    tree["spec"]["containers"][0]["resources"] = {"requests": draw.requests()}
    if draw.chance(0.5):
        granted = {"name": "main", "allocatedResources": draw.requests(), "resources": {"requests": draw.requests()}}
        tree.setdefault("status", {})["containerStatuses"] = [granted]


def _change_pod(world: DecisionWorld, draw: Chance, number: int) -> None:
    if world.naive.pods:
        tree = msgspec.to_builtins(world.naive.pods[draw.of(world.naive.pods)])
        draw.one(_relabel_pod, _relabel_pod, _terminate, _resize_pod)(world, draw, tree)
        world.put_pod(convert(tree, Pod))


# --- nominations, namespaces, workloads -------------------------------------------------------------------------------


def _nominate(world: DecisionWorld, draw: Chance, number: int) -> None:
    """A pod that waits is expected somewhere."""
    pod = draw.of(world.templates).pod
    tree = msgspec.to_builtins(pod)
    tree["metadata"] |= {"name": f"expected-{number}", "uid": f"expected-{number}"}
    for container in tree["spec"]["containers"]:
        container.pop("ports", None)
    world.nominate(convert(tree, Pod), world.some_node(draw))


def _give_up(world: DecisionWorld, draw: Chance, number: int) -> None:
    """Pods that wait are deleted, nominated or not."""
    for uid in draw.few_of({*world.naive.nominated, *world.pending}, 4):
        if uid in world.naive.nominated:
            world.nominate(world.naive.nominated[uid][0], "")
        world.pending.pop(uid, None)


def _change_namespace(world: DecisionWorld, draw: Chance, number: int) -> None:
    name = draw.one("default", "shop", "ops")
    if draw.chance(0.2):
        world.remove_namespace(name)
    else:
        world.set_namespace(name, draw.one({}, {"team": "a"}, {"team": "b"}))


def _change_service(world: DecisionWorld, draw: Chance, number: int) -> None:
    name, namespace = draw.one("one", "two"), draw.one("default", "shop")
    selector = draw.one({"app": draw.of(APPS)}, {"app": draw.of(APPS), "tier": "a"}, {})
    tree = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}
    world.put_service(f"{namespace}/{name}", tree if draw.chance(0.8) else None)


def _change_owner(world: DecisionWorld, draw: Chance, number: int) -> None:
    kind: Any = draw.one(ReplicaSet, StatefulSet, ReplicationController)
    name, namespace, labels = draw.one("one", "two"), draw.one("default", "shop"), {"app": draw.of(APPS)}
    selector = labels if kind is ReplicationController else {"matchLabels": labels}
    tree = {"metadata": {"name": name, "namespace": namespace}, "spec": {"selector": selector}}
    world.put_owner(kind, f"{namespace}/{name}", tree if draw.chance(0.8) else None)


def _change_budget(world: DecisionWorld, draw: Chance, number: int) -> None:
    name, namespace = draw.one("one", "two"), draw.one("default", "shop")
    selector = draw.one({"matchLabels": {"app": draw.of(APPS)}}, {"matchLabels": {"tier": "a"}}, None)
    meta = {"name": name, "namespace": namespace}
    world.put_budget(
        {"metadata": meta, "spec": {"selector": selector}, "status": {"disruptionsAllowed": draw.one(0, 1)}}
    )


# --- storage ----------------------------------------------------------------------------------------------------------


def _change_storage(world: DecisionWorld, draw: Chance, number: int) -> None:
    if not world.stores:
        return
    make, names = draw.one(
        (draw.volume, VOLUMES),
        (draw.claim, CLAIMS),
        (draw.claim, CLAIMS),
        (draw.csi_node, NODES[:6]),
        (draw.storage_class, CLASSES),
        (draw.csi_driver, DRIVERS),
        (draw.capacity, ["s0", "s1"]),
        (draw.attachment, ["a0", "a1", "a2"]),
    )
    made = make(draw.of(names))
    if draw.chance(0.85) or isinstance(made, StorageClass | CSIDriver):
        world.put_storage(made)
    elif isinstance(made, PersistentVolume | PersistentVolumeClaim | CSINode) or draw.chance(0.5):
        world.remove_storage(made)


_WEIGHTS: tuple[tuple[Change, int], ...] = (
    (_new_node, 5),
    (_change_node, 22),
    (_remove_node, 3),
    (_rebuild_node, 1),
    (_foreign_pod, 6),
    (_remove_pod, 20),
    (_confirm, 8),
    (_forget, 3),
    (_change_pod, 12),
    (_nominate, 3),
    (_give_up, 8),
    (_change_namespace, 3),
    (_change_service, 3),
    (_change_owner, 2),
    (_change_budget, 1),
    (_change_storage, 5),
)
_CHANGES = [made for made, weight in _WEIGHTS for _ in range(weight)]
