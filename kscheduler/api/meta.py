"""Parts of every object (metadata, owners, conditions) and the settings that all structs share."""

from datetime import UTC, datetime
from typing import Any

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A part of an object: immutable, compared by value, invisible to the cyclic garbage collector."""


def rfc3339(seconds: float) -> str:
    """Wall-clock seconds as the API writes a time (`metav1.Time`): `2026-11-28T12:00:00Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class OwnerReference(Value, frozen=True):
    """An owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """The metadata that a scheduler reads; `managedFields` and the like are skipped at decoding."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    """As the API writes a time: `2026-11-28T12:00:00Z`."""
    deletion_timestamp: str | None = None
    """When the object is to be gone: it is terminating."""
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that makes the object again when it is gone; at most one is marked so."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class KubeObject(msgspec.Struct, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """An object with an identity. Decoded objects are shared, never changed in place, and free of reference cycles."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone for cluster-scoped kinds."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class CustomObject(KubeObject, kw_only=True):
    """An object of any kind, for plugins that have no struct of its fields: keys are the API's, in camelCase."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Condition(Value, frozen=True):
    """An entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None
