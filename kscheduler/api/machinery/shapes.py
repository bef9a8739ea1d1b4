"""The JSON types of fields that later steps rely on; a body of another shape is refused first.

The real server decodes into typed structs and fails there. Here objects stay dicts, so the few fields that rules, the
store and the subresources rely on are checked by this table.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kscheduler.api.machinery.api_errors import ApiError, Object, bad_request

_TEXTS = ("name", "namespace", "generateName", "uid", "resourceVersion", "deletionTimestamp", "creationTimestamp")

_METADATA: Mapping[str, type] = MappingProxyType(
    {
        **dict.fromkeys(_TEXTS, str),
        "labels": dict,
        "annotations": dict,
        "finalizers": list,
        "ownerReferences": list,
        "managedFields": list,
    }
)
_BODY: Mapping[str, type] = MappingProxyType(
    {
        "kind": str,
        "apiVersion": str,
        "metadata": dict,
        "spec": dict,
        "status": dict,
        "target": dict,
        "deleteOptions": dict,
        "preconditions": dict,
        "gracePeriodSeconds": int,
        "propagationPolicy": str,
        "dryRun": list,
    }
)
_STATUS: Mapping[str, type] = MappingProxyType(
    {"conditions": list, "capacity": dict, "allocatable": dict, "phase": str}
)
_ELEMENTS_ARE_OBJECTS = ("ownerReferences", "managedFields")


def check_shape(value: Object) -> None:
    """Refuse a body whose well-known fields have wrong JSON types; null counts as absent. Raises 400."""
    _check(value, _BODY, "")
    metadata = value.get("metadata") or {}
    _check(metadata, _METADATA, "metadata.")
    for name in _ELEMENTS_ARE_OBJECTS:
        _check_elements(metadata.get(name) or (), f"metadata.{name}", dict)
    _check_elements(metadata.get("finalizers") or (), "metadata.finalizers", str)
    for name in ("labels", "annotations"):
        _check_elements((metadata.get(name) or {}).values(), f"metadata.{name}", str)
    status = value.get("status") or {}
    _check(status, _STATUS, "status.")
    _check_elements(status.get("conditions") or (), "status.conditions", dict)


def _check(value: Object, types: Mapping[str, type], prefix: str) -> None:
    for name, expected in types.items():
        found = value.get(name)
        if found is not None and (not isinstance(found, expected) or (expected is int and isinstance(found, bool))):
            raise _mismatch(found, f"{prefix}{name}", expected)


def _check_elements(elements: Any, field: str, expected: type) -> None:
    for element in elements:
        if not isinstance(element, expected) and not (element is None and expected is str):
            raise _mismatch(element, field, expected)


def _mismatch(found: Any, field: str, expected: type) -> ApiError:
    return bad_request(f"json: cannot unmarshal {type(found).__name__} into field {field} of type {expected.__name__}")


def parse_integer(text: str | None, name: str) -> int:
    """A whole number of a query; absent is 0. Raises 400."""
    try:
        return int(text or 0)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing {name}: "{text}": invalid syntax') from None


def without_nulls(value: Any) -> Any:
    """The value without null fields, which Go's decoder would drop too."""
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return value
