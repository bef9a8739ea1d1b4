"""Pod templates: pods made from them, and the hash that names a version of a template."""

from typing import Any

import msgspec

from kscheduler.simulation.controllers.reading.owners import reference_to
from kscheduler.simulation.kinds.api_errors import Object

HASH_LABEL = "pod-template-hash"
REVISION_LABEL = "controller-revision-hash"

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and ambiguous characters, so that a hash is never a word."""
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619
_encode = msgspec.json.Encoder(order="deterministic").encode


def hash_of(value: Any, collisions: int = 0) -> str:
    """A hash of up to ten letters; `collisions` changes it when another template has the same hash."""
    number = _FNV_OFFSET
    for byte in _encode([value, collisions]):
        number = ((number ^ byte) * _FNV_PRIME) % 2**32
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def pod_of(template: Object, owner: Object, *, name: str = "") -> Object:
    """A pod from a template, controlled by the owner; without a name, one is generated from the owner's."""
    given = template.get("metadata") or {}
    metadata: Object = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [reference_to(owner)]}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    for field in ("labels", "annotations", "finalizers"):
        if given.get(field):
            metadata[field] = type(given[field])(given[field])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}


def without_hash(template: Object, label: str = HASH_LABEL) -> Object:
    """The template as its owner wrote it."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != label}
    return {**template, "metadata": {**metadata, "labels": labels}}


def with_label(template: Object, key: str, value: str) -> Object:
    """The template with an additional label."""
    metadata = template.get("metadata") or {}
    return {**template, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), key: value}}}
