"""Changes of objects in the state cache, and how each is taken back."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import msgspec

from kscheduler.api.core import Namespace, Node
from kscheduler.api.devices import ResourceClaim, ResourceSlice
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.meta import KubeObject
from kscheduler.explain.suggestions.changed import CONSTRAINTS, ObjectChange, group_resource, patched
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache
from kscheduler.state.group_apis import OTHER_APIS

Undo = Callable[[], None]


def changed(cache: Cache, change: ObjectChange) -> Undo:
    """Change an object; returns what changes it back. The object is there, or the change makes it."""
    if change.patch and isinstance(change.patch[0].value, ResourceSlice):
        return _new_slice(cache, change.patch[0].value)
    return _MAKERS[change.resource](cache, change)


@contextmanager
def changed_meanwhile(cache: Cache, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Iterator[None]:
    """The cluster with these changes, and without these pods. Nothing may await."""
    with ExitStack() as undoing:
        for change in changes:
            undoing.callback(changed(cache, change))
        for other in gone:
            undoing.callback(without_pod(cache, other))
        yield


def without_pod(cache: Cache, pod: PodInfo) -> Undo:
    """Take a pod off its node; what puts it back restores the order of the node's pods, which breaks ties."""
    node_name = cache.node_of(pod.uid)
    info = cache.node_info(node_name)
    order = list(info.pods) if info is not None else []
    put_back = cache.lift_pod(pod.uid)

    def undo() -> None:
        put_back()
        cache.restore_order(node_name, order)

    return undo


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
    groups, queried = cache.pod_groups, (change.resource, change.namespace, change.name)
    (before,) = (
        group
        for group in groups.groups()
        if not group.key.is_composite and (group_resource(group.key), *group.key[1:3]) == queried
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
_MAKERS: dict[str, Callable[[Cache, ObjectChange], Undo]] = {
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
