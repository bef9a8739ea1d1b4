"""Objects as they are written, with what the reader has already left out.

The structs hold what the scheduler reads and nothing else (no Secrets, no environment of containers), so they are
written as they are: they stand in the entry, and are encoded with the batch. Three savings make a pod cost tens of
bytes instead of thousands: a spec that was written before in the segment is a number; of an update only the parts that
differ are written; and what is left is compressed with the block, in which names repeat.

What is packed is kept until its batch is encoded. That is no copy: objects are never changed in place.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod, PodSpec, PodStatus
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject, ObjectMeta
from kscheduler.recorder.redaction import NO_REDACTION, Redaction

# Specs of pods that are known by number in a segment; then the numbers begin again.
MAX_SPECS: Final = 4096

_encode = msgspec.msgpack.Encoder().encode
_replace = msgspec.structs.replace
_spec = msgspec.msgpack.Decoder(PodSpec)
# [metadata or version, node name, spec or its number, status], or [object]; `None`: as before. The spec of a pod is
# encoded already, all else are structs.
Packed = Sequence[Any]


class ObjectPacker:
    """Packs the objects of one segment."""

    def __init__(self, redaction: Redaction = NO_REDACTION) -> None:
        self._redaction = redaction
        self._hides = redaction.is_on
        self._specs: dict[bytes, int] = {}
        """As they came: names are hashed only in those that are written."""
        self._last_spec: PodSpec | None = None
        self._last_number = 0
        """Pods of one owner mostly come one after another: to compare a spec is cheaper than to encode it."""

    def whole(self, obj: KubeObject) -> Packed:
        """An object that the reader does not know."""
        if type(obj) is not Pod:
            return (self._part(obj),)
        spec, node_name = obj.spec, obj.spec.node_name
        if node_name:
            spec = _replace(spec, node_name="")
        if self._hides:
            part, text = self._redaction.part, self._redaction.text
            return part(obj.metadata), text(node_name), self._spec(spec), part(obj.status)
        return obj.metadata, node_name, self._spec(spec), obj.status

    def update(self, old: KubeObject, new: KubeObject) -> Packed:
        """An object whose version before the reader knows."""
        if type(new) is Pod and type(old) is Pod:
            return self._pod_update(old, new)
        if type(new) is Node and type(old) is Node:
            return self._node_update(old, new)
        return self.whole(new)

    def _part(self, value: Any) -> Any:
        return self._redaction.part(value) if self._hides else value

    def _pod_update(self, old: Pod, new: Pod) -> Packed:
        before, after = old.spec, new.spec
        metadata: Any = new.metadata
        node_name: str | None = None
        spec: bytes | int | None = None
        if before.node_name != after.node_name:
            node_name = after.node_name
            before = _replace(before, node_name=node_name)
        if before != after:
            spec = self._spec(_replace(after, node_name="") if after.node_name else after)
        status = None if old.status == new.status else new.status
        is_news = not _is_same(old.metadata, metadata)
        if self._hides:
            hide = self._redaction
            metadata = hide.part(metadata) if is_news else metadata
            node_name = hide.text(node_name) if node_name else node_name
            status = None if status is None else hide.part(status)
        return metadata if is_news else metadata.resource_version, node_name, spec, status

    def _node_update(self, old: Node, new: Node) -> Packed:
        return (
            new.metadata.resource_version if _is_same(old.metadata, new.metadata) else self._part(new.metadata),
            None,
            None if old.spec == new.spec else self._part(new.spec),
            None if old.status == new.status else self._part(new.status),
        )

    def _spec(self, spec: PodSpec) -> bytes | int:
        """A spec without its node, or the number under which it was written before."""
        if spec == self._last_spec:
            return self._last_number
        data = _encode(spec)
        specs, self._last_spec = self._specs, spec
        known = specs.get(data)
        if known is not None:
            self._last_number = known
            return known
        if len(specs) >= MAX_SPECS:
            specs.clear()
        specs[data] = self._last_number = len(specs)
        return _encode(self._redaction.part(spec)) if self._hides else data


class ObjectUnpacker:
    """Reads them in the same order."""

    def __init__(self) -> None:
        self._specs: list[PodSpec] = []

    def whole(self, kind: Kind, packed: Packed) -> KubeObject:
        """Raises `msgspec.MsgspecError`, `IndexError` or `TypeError` for what no packer has written."""
        if kind.type is not Pod:
            found: KubeObject = msgspec.convert(packed[0], kind.type)
            return found
        metadata, node_name, spec, status = packed
        return Pod(
            metadata=msgspec.convert(metadata, ObjectMeta),
            spec=self._on_node(self._spec(spec), node_name),
            status=msgspec.convert(status, PodStatus),
        )

    def update(self, kind: Kind, old: KubeObject, packed: Packed) -> KubeObject:
        """Raises as `whole`."""
        if kind.type not in (Pod, Node):
            return self.whole(kind, packed)
        before: Any = old
        metadata, node_name, spec, status = packed
        if kind.type is Pod:
            after = before.spec if spec is None else self._spec(spec)
            after = self._on_node(after, before.spec.node_name if node_name is None else node_name)
        else:
            after = before.spec if spec is None else msgspec.convert(spec, type(before.spec))
        after_update: KubeObject = _replace(
            before,
            metadata=_with(before.metadata, metadata),
            spec=after,
            status=before.status if status is None else msgspec.convert(status, type(before.status)),
        )
        return after_update

    def _spec(self, packed: bytes | int) -> PodSpec:
        if isinstance(packed, int):
            return self._specs[packed]
        if len(self._specs) >= MAX_SPECS:
            self._specs.clear()
        spec = _spec.decode(packed)
        self._specs.append(spec)
        return spec

    @staticmethod
    def _on_node(spec: PodSpec, node_name: str) -> PodSpec:
        return spec if spec.node_name == node_name else _replace(spec, node_name=node_name)


def _is_same(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Mostly nothing but the resource version is news."""
    return (
        old.labels == new.labels
        and old.annotations == new.annotations
        and old.owner_references == new.owner_references
        and old.deletion_timestamp == new.deletion_timestamp
        and old.generation == new.generation
        and old.uid == new.uid
        and old.creation_timestamp == new.creation_timestamp
    )


def _with(before: ObjectMeta, packed: Any) -> ObjectMeta:
    if isinstance(packed, str):
        return _replace(before, resource_version=packed)
    return msgspec.convert(packed, ObjectMeta)
