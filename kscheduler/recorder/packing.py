"""Objects as bytes, with what the reader has already left out.

The structs hold what the scheduler reads and nothing else (no Secrets, no environment of containers), so they are
written as they are. Three savings make a pod cost tens of bytes instead of thousands: a spec that was written before in
the segment is a number; of an update only the parts that differ are written; and what is left is compressed with the
block, in which names repeat.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod, PodSpec
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject, ObjectMeta
from kscheduler.recorder.entries import Verb
from kscheduler.recorder.redaction.redacting import NO_REDACTION, Redaction

MOST_SPECS: Final = 4096
"""Specs of pods that are known by number in a segment; then the numbers begin anew."""

_encode = msgspec.msgpack.Encoder().encode
_meta = msgspec.msgpack.Decoder(ObjectMeta)
_spec = msgspec.msgpack.Decoder(PodSpec)
Packed = Sequence[Any]
"""[metadata or version, node name, spec or its number, status], or [object]; `None`: as before."""


class ObjectPacker:
    """Writes the objects of one segment."""

    def __init__(self, redaction: Redaction = NO_REDACTION) -> None:
        self._redaction = redaction
        self._key = redaction.key
        self._encoded: Callable[[Any], bytes] = _encode
        if redaction.is_on:
            self._encoded = lambda value: _encode(redaction.part(value))
        self._specs: dict[bytes, int] = {}
        """As they came: names are hashed only in those that are written."""

    def change(self, verb: Verb, old: Any, new: Any) -> tuple[str, Packed]:
        """The key and what is written of a change."""
        if verb is Verb.UPDATED:
            return self._key(old), self.update(old, new)
        if verb is Verb.DELETED:
            return self._key(old), ()
        return self._key(new), self.whole(new)

    def whole(self, obj: KubeObject) -> Packed:
        """An object that the reader does not know."""
        encoded = self._encoded
        if isinstance(obj, Pod):
            node_name = self._redaction.text(obj.spec.node_name)
            return encoded(obj.metadata), node_name, self._spec(obj.spec), encoded(obj.status)
        return (encoded(obj),)

    def update(self, old: KubeObject, new: KubeObject) -> Packed:
        """An object whose version before the reader knows."""
        if type(new) is Pod and type(old) is Pod:
            return self._pod_update(old, new)
        if type(new) is Node and type(old) is Node:
            return self._node_update(old, new)
        return self.whole(new)

    def _pod_update(self, old: Pod, new: Pod) -> Packed:
        before, after, node_name = old.spec, new.spec, None
        if before.node_name != after.node_name:
            node_name = self._redaction.text(after.node_name)
            before = msgspec.structs.replace(before, node_name=after.node_name)
        return (
            self._metadata(old.metadata, new.metadata),
            node_name,
            None if before == after else self._spec(after),
            None if old.status == new.status else self._encoded(new.status),
        )

    def _node_update(self, old: Node, new: Node) -> Packed:
        return (
            self._metadata(old.metadata, new.metadata),
            None,
            None if old.spec == new.spec else self._encoded(new.spec),
            None if old.status == new.status else self._encoded(new.status),
        )

    def _spec(self, spec: PodSpec) -> bytes | int:
        """The spec without its node, or the number under which it was written before."""
        if spec.node_name:
            spec = msgspec.structs.replace(spec, node_name="")
        data = _encode(spec)
        known = self._specs.get(data)
        if known is not None:
            return known
        if len(self._specs) >= MOST_SPECS:
            self._specs.clear()
        self._specs[data] = len(self._specs)
        return self._encoded(spec) if self._redaction.is_on else data

    def _metadata(self, old: ObjectMeta, new: ObjectMeta) -> bytes | str:
        return new.resource_version if _is_same(old, new) else self._encoded(new)


class ObjectUnpacker:
    """Reads them in the same order."""

    def __init__(self) -> None:
        self._specs: list[PodSpec] = []
        self._decoders: dict[type[KubeObject], msgspec.msgpack.Decoder[Any]] = {}

    def whole(self, kind: Kind, packed: Packed) -> KubeObject:
        """Raises `msgspec.MsgspecError`, `IndexError` or `TypeError` for what no packer has written."""
        if kind.type is not Pod:
            found: KubeObject = self._decode(kind.type, packed[0])
            return found
        metadata, node_name, spec, status = packed
        return Pod(
            metadata=_meta.decode(metadata),
            spec=self._on_node(self._spec(spec), node_name),
            status=self._decode(type(Pod().status), status),
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
            after = before.spec if spec is None else self._decode(type(before.spec), spec)
        after_update: KubeObject = msgspec.structs.replace(
            before,
            metadata=_with(before.metadata, metadata),
            spec=after,
            status=before.status if status is None else self._decode(type(before.status), status),
        )
        return after_update

    def _spec(self, packed: bytes | int) -> PodSpec:
        if isinstance(packed, int):
            return self._specs[packed]
        if len(self._specs) >= MOST_SPECS:
            self._specs.clear()
        spec = _spec.decode(packed)
        self._specs.append(spec)
        return spec

    @staticmethod
    def _on_node(spec: PodSpec, node_name: str) -> PodSpec:
        return spec if spec.node_name == node_name else msgspec.structs.replace(spec, node_name=node_name)

    def _decode(self, kind: type[Any], data: bytes) -> Any:
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.msgpack.Decoder(kind)
        return decoder.decode(data)


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


def _with(before: ObjectMeta, packed: bytes | str) -> ObjectMeta:
    if isinstance(packed, str):
        return msgspec.structs.replace(before, resource_version=packed)
    return _meta.decode(packed)
