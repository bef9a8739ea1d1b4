"""The Lease object (coordination.k8s.io/v1) as a leader election uses it: which fields, and how they are read.

What other fields of the object hold (labels, owners, `strategy`, `preferredHolder`) is nobody's business here, but an
update replaces the whole object: so metadata and spec are kept as the API server sent them, and sent back.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from kscheduler.client.events.recorder import EventReference

API_VERSION: Final = "coordination.k8s.io/v1"
KIND: Final = "Lease"
# The API server keeps these itself; sending them back with each renewal would double its size.
_UNSENT_METADATA: Final = ("managedFields",)
# Numbers of a Lease have 32 bits.
_MOST: Final = 2**31 - 1
_DECIMAL: Final = re.compile(r"[0-9]+")


class UnreadableLeaseError(ValueError):
    """An answer that is not a Lease."""


class LeaseRecord(msgspec.Struct, frozen=True):
    """What the holders of a lease tell each other. Two equal records are the same renewal."""

    holder: str = ""
    """The identity of the holder; empty: released."""
    duration_seconds: int = 0
    """How long others wait after they have seen this record, before they take over."""
    acquired: str = ""
    """When the holder became leader, by its own wall clock. For people; nothing is decided by it."""
    renewed: str = ""
    """When the holder wrote this record, by its own wall clock. Only tells records apart."""
    transitions: int = 0
    """How often the holder has changed."""

    def spec(self) -> dict[str, Any]:
        """The Lease's spec."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_seconds,
            "acquireTime": self.acquired or None,
            "renewTime": self.renewed or None,
            "leaseTransitions": self.transitions,
        }


@dataclass(frozen=True, slots=True)
class StoredLease:
    """A Lease as the API server has it."""

    record: LeaseRecord
    version: str
    """The resourceVersion: the precondition of the next update."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    spec: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """With the fields that are not ours."""

    def is_older_than(self, other: "StoredLease") -> bool:
        """Whether the API server had this state before the other; unknown, so false, where versions are no numbers."""
        versions = self.version, other.version
        if not all(_DECIMAL.fullmatch(version) for version in versions):
            return False
        return self.metadata.get("uid") == other.metadata.get("uid") and int(self.version) < int(other.version)

    def reference(self) -> EventReference:
        """For an Event about this Lease."""
        meta = self.metadata
        return EventReference(
            api_version=API_VERSION,
            kind=KIND,
            namespace=_text(meta, "namespace"),
            name=_text(meta, "name"),
            uid=_text(meta, "uid"),
            resource_version=self.version,
        )


def body_of(record: LeaseRecord, metadata: Mapping[str, Any], spec: Mapping[str, Any] = MappingProxyType({})) -> bytes:
    """The Lease with this record, for a POST or PUT; `spec` is the one before, whose other fields stay."""
    kept = {name: part for name, part in metadata.items() if name not in _UNSENT_METADATA}
    whole = {**spec, **record.spec()}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "metadata": kept, "spec": whole})


def decode_lease(body: bytes) -> StoredLease:
    """A Lease from an answer. Raises `UnreadableLeaseError`."""
    try:
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
        raise UnreadableLeaseError(str(failure)) from None
    return lease_of(tree)


def lease_of(tree: Any) -> StoredLease:
    """A Lease from its JSON tree; fields that are absent or of a wrong type count as empty.

    Raises `UnreadableLeaseError` for what has no resourceVersion: no update could be guarded by it.
    """
    kind = _text(tree, "kind") if isinstance(tree, dict) else ""
    if kind not in ("", KIND):
        message = f"it is a {kind[:60]}"
        raise UnreadableLeaseError(message)
    metadata, spec = _mapping(tree, "metadata"), _mapping(tree, "spec")
    version = _text(metadata, "resourceVersion")
    if not version:
        message = "it has no metadata.resourceVersion"
        raise UnreadableLeaseError(message)
    record = LeaseRecord(
        _text(spec, "holderIdentity"),
        _number(spec, "leaseDurationSeconds"),
        _text(spec, "acquireTime"),
        _text(spec, "renewTime"),
        _number(spec, "leaseTransitions"),
    )
    return StoredLease(record, version, metadata, spec)


def _mapping(tree: Any, key: str) -> dict[str, Any]:
    child = tree.get(key) if isinstance(tree, dict) else None
    return child if isinstance(child, dict) else {}


def _text(tree: Mapping[str, Any], key: str) -> str:
    value = tree.get(key)
    return value if isinstance(value, str) else ""


def _number(tree: Mapping[str, Any], key: str) -> int:
    value = tree.get(key)
    return min(max(value, 0), _MOST) if isinstance(value, int) else 0
