"""Changes of objects: RFC 6902 patches, so that a program can apply what was tried, and how each is tried.

A trial makes the changes in the state cache itself, where a copy of 5,000 nodes would cost more than the answer, and
takes them back: each function of `_IN_CACHE` changes one object and returns what undoes it. A suggestion about another
kind of objects needs a row there; all others are nothing but patches.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Namespace, Node
from kscheduler.api.devices import ResourceClaim, ResourceSlice
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import RESOURCE_SLICES
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache, Undo
from kscheduler.state.group_apis import OTHER_APIS

Tree = dict[str, Any]

ADD, REMOVE, REPLACE = "add", "remove", "replace"
# Of a pod group of Kubernetes: where its members must be together.
CONSTRAINTS = "/spec/schedulingConstraints"


@dataclass(frozen=True, slots=True)
class Operation:
    """A step of a patch."""

    op: str
    """`add`, `remove` or `replace`."""
    path: str
    """A JSON pointer (RFC 6901)."""
    value: Any = None
    """As in JSON; of a new object the decoded object."""

    @property
    def tree(self) -> Tree:
        """As JSON has it."""
        head: Tree = {"op": self.op, "path": self.path}
        if self.op == REMOVE:
            return head
        if isinstance(self.value, KubeObject):
            version = RESOURCE_SLICES.group_version if isinstance(self.value, ResourceSlice) else "v1"
            named = {"apiVersion": version, "kind": type(self.value).__name__}
            return {**head, "value": {**named, **msgspec.to_builtins(self.value)}}
        return {**head, "value": self.value}


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A change of one object; with an `add` of the empty path it is a new object."""

    resource: str
    """As in the API's paths: `pods`, `nodes`."""
    namespace: str
    """Empty for kinds without namespaces."""
    name: str
    patch: tuple[Operation, ...] = ()
    delete: bool = False
    """Whether the object goes; then there is no patch."""

    @property
    def tree(self) -> Tree:
        """As JSON has it."""
        head: Tree = {"resource": self.resource, "namespace": self.namespace, "name": self.name}
        return {**head, "delete": True} if self.delete else {**head, "patch": [each.tree for each in self.patch]}


def group_resource(key: GroupKey) -> str:
    """`podgroups` for the groups of Kubernetes, and with the API group for those of other projects."""
    return POD_GROUPS.plural if key.api == POD_GROUPS.group else key.resource


def pointer(*steps: str | int) -> str:
    """A JSON pointer to the field behind these steps."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def joined(patches: Iterable[tuple[Operation, ...]]) -> tuple[Operation, ...]:
    """Several patches of one object as one: lists made by two of them hold both, and removals do not move each other.

    Each patch presumes the object as it is, so what they set comes first, then removals from the end of each list on.
    """
    operations = [operation for patch in patches for operation in patch]
    setting: dict[str, Operation] = {}
    for operation in operations:
        if operation.op == REMOVE:
            continue
        before = setting.pop(operation.path, None)
        if before is not None and isinstance(before.value, list):
            operation = Operation(operation.op, operation.path, [*before.value, *operation.value])  # noqa: PLW2901
        # Each `/-` appends, so two of them are two steps.
        setting[f"{operation.path}#{len(setting)}" if operation.path.endswith("/-") else operation.path] = operation
    removals = {operation.path: operation for operation in operations if operation.op == REMOVE}
    return (*setting.values(), *sorted(removals.values(), key=_position, reverse=True))


def patched(obj: msgspec.Struct, patch: Iterable[Operation]) -> msgspec.Struct:
    """Another version of a decoded object. The patch is one of this package's: its paths exist."""
    tree = msgspec.json.decode(msgspec.json.encode(obj))  # builtins with lists, which tuples would not be
    for operation in patch:
        _apply(tree, operation)
    return msgspec.convert(tree, type(obj))


def _apply(tree: Tree, operation: Operation) -> None:
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation.path.split("/")[1:]]
    place: Any = tree
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    if isinstance(place, list):
        if operation.op == REMOVE:
            del place[int(last)]
        elif last == "-":
            place.append(operation.value)
        else:
            place[int(last)] = operation.value
    elif operation.op == REMOVE:
        place.pop(last, None)
    else:
        place[last] = operation.value


def _position(operation: Operation) -> tuple[tuple[bool, int, str], ...]:
    """Sorts by the steps of the path, with numbers as such."""
    steps = operation.path.split("/")[1:]
    return tuple((step.isdigit(), int(step) if step.isdigit() else 0, step) for step in steps)


# --- in the state cache -----------------------------------------------------------------------------------------------


def changed(cache: Cache, change: ObjectChange) -> Undo:
    """Change an object; returns what changes it back. The object is there, or the change makes it."""
    if change.patch and isinstance(change.patch[0].value, ResourceSlice):
        return _new_slice(cache, change.patch[0].value)
    return _IN_CACHE[change.resource](cache, change)


@contextmanager
def changed_meanwhile(cache: Cache, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Iterator[None]:
    """The cluster with these changes, and without these pods. Nothing may await.

    Pods that go are found by `gone`, which has them as the cache knows them, and not by the changes.
    """
    with ExitStack() as undoing:
        for change in changes:
            if not (change.delete and change.resource == "pods"):
                undoing.callback(changed(cache, change))
        for other in gone:
            undoing.callback(cache.lift_pod_in_order(other.uid))
        yield


def _node(cache: Cache, change: ObjectChange) -> Undo:
    info = cache.node_info(change.name)
    before = info.node if info is not None else None
    if before is None:
        cache.add_node(change.patch[0].value)
        return lambda: cache.remove_node(change.name)
    after = patched(before, change.patch)
    assert isinstance(after, Node)  # noqa: S101  a patched node is a node
    cache.update_node(after)
    return lambda: cache.update_node(before)


def _new_slice(cache: Cache, published: ResourceSlice) -> Undo:
    cache.devices.put_slice(published)
    return lambda: cache.devices.remove_slice(published.metadata.name)


def _stored(cache: Cache, before: KubeObject | None, change: ObjectChange) -> Undo:
    assert before is not None  # noqa: S101  a suggestion is about an object that is there
    volumes = cache.volumes
    if change.delete:
        volumes.remove(before)
    else:
        after = patched(before, change.patch)
        assert isinstance(after, KubeObject)  # noqa: S101
        volumes.put(after)
    return lambda: volumes.put(before)


def _resource_claim(cache: Cache, change: ObjectChange) -> Undo:
    claims = cache.devices.claims
    before = claims.get(f"{change.namespace}/{change.name}")
    assert before is not None  # noqa: S101
    if change.delete:
        claims.delete(before)
        return lambda: claims.add(before)
    after = patched(before, change.patch)
    assert isinstance(after, ResourceClaim)  # noqa: S101
    claims.update(after)
    return lambda: claims.update(before)


def _resource_slice(cache: Cache, change: ObjectChange) -> Undo:
    devices = cache.devices
    before = devices.published_slice(change.name)
    assert before is not None  # noqa: S101
    after = patched(before, change.patch)
    assert isinstance(after, ResourceSlice)  # noqa: S101
    devices.put_slice(after)
    return lambda: devices.put_slice(before)


def _device_taint_rule(cache: Cache, change: ObjectChange) -> Undo:
    devices = cache.devices
    (before,) = (rule for rule in devices.taint_rules() if rule.metadata.name == change.name)
    devices.remove_rule(change.name)

    def undo() -> None:
        devices.put_rule(before)

    return undo


def _namespace(cache: Cache, change: ObjectChange) -> Undo:
    labels = cache.counters.namespace_labels(change.name)
    assert labels is not None  # noqa: S101
    before = Namespace(metadata=msgspec.convert({"name": change.name, "labels": dict(labels)}, type=_Metadata))
    after = patched(before, change.patch)
    assert isinstance(after, Namespace)  # noqa: S101
    cache.counters.set_namespace(after)
    return lambda: cache.counters.set_namespace(before)


def _group(cache: Cache, change: ObjectChange) -> Undo:
    """Of a group only what it asks for is kept: the patch is one of its minimum, or of its topology constraint."""
    groups, wanted = cache.pod_groups, (change.resource, change.namespace, change.name)
    (before,) = (
        group
        for group in groups.groups()
        if not group.key.is_composite and (group_resource(group.key), *group.key[1:3]) == wanted
    )
    (operation,) = change.patch
    is_of_topology = operation.path == CONSTRAINTS
    groups.put(replace(before, topology_key="") if is_of_topology else replace(before, min_count=operation.value))
    return lambda: groups.put(before)


def _member(cache: Cache, change: ObjectChange) -> Undo:
    pod = PodInfo(change.patch[0].value)
    cache.pod_groups.add_member(pod)
    return lambda: cache.pod_groups.remove_member(pod)


_Metadata = type(Node().metadata)
_IN_CACHE: dict[str, Callable[[Cache, ObjectChange], Undo]] = {
    "nodes": _node,
    "pods": _member,
    "namespaces": _namespace,
    **dict.fromkeys((POD_GROUPS.plural, *(api.kind.resource for api in OTHER_APIS.values())), _group),
    "resourceclaims": _resource_claim,
    "resourceslices": _resource_slice,
    "devicetaintrules": _device_taint_rule,
    "persistentvolumeclaims": lambda cache, change: _stored(
        cache, cache.volumes.confirmed_claim(change.namespace, change.name), change
    ),
    "persistentvolumes": lambda cache, change: _stored(cache, cache.volumes.confirmed_volume(change.name), change),
    "storageclasses": lambda cache, change: _stored(cache, cache.volumes.storage_class(change.name), change),
    "volumeattachments": lambda cache, change: _stored(cache, cache.volumes.attachment(change.name), change),
}
