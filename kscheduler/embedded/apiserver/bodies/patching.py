"""PATCH in its four formats, each leading to the object to store.

JSON patch and merge patch work on plain JSON; a strategic merge patch uses the API's merge keys; an apply patch also
uses the owners of fields. In each format the result goes through the same update path as a PUT.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonpatch
import jsonpointer

from kscheduler.api.machinery.api_errors import (
    ApiError,
    Object,
    bad_request,
    not_found,
    precondition_failed,
    stale_resource_version,
)
from kscheduler.api.machinery.kind_table import ResourcePath
from kscheduler.api.machinery.shapes import check_shape
from kscheduler.api.patches import merge_schema, server_side_apply, strategic_merge
from kscheduler.api.typed.api_types import type_of_resource
from kscheduler.api.typed.decoding import json_type
from kscheduler.api.typed.stored_form import check_applied
from kscheduler.embedded.apiserver.bodies import field_validation
from kscheduler.embedded.apiserver.bodies import formats as bodies
from kscheduler.embedded.objects import event_views
from kscheduler.embedded.objects.registry import ObjectRegistry, WriteOptions
from kscheduler.embedded.objects.store import Record


@dataclass(frozen=True, slots=True)
class Patch:
    """A decoded patch and its format."""

    type: str
    content: Any


@dataclass(frozen=True, slots=True)
class PatchOutcome:
    """The result of a patch."""

    record: Record
    created: bool = False
    warnings: tuple[str, ...] = ()


def read_patch(body: bytes, content_type: str) -> Patch:
    """The patch in a request's body. Raises 400 or 415."""
    kind = bodies.media_type(content_type)
    if kind not in bodies.PATCH_TYPES:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    content = bodies.decode(body, bodies.YAML if kind == bodies.APPLY_PATCH else bodies.JSON)
    expected = list if kind == bodies.JSON_PATCH else dict
    if not isinstance(content, expected):
        wanted = "[]handlers.jsonPatchOp" if expected is list else "map[string]interface {}"
        found = f"json: cannot unmarshal {json_type(content)} into Go value of type {wanted}"
        raise bad_request(f"error decoding patch: {found}")
    return Patch(kind, content)


def merge(current: Any, patch: Any) -> Any:
    """A merge patch (RFC 7386): objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def merged(current: Object, patch: Patch, fields: merge_schema.Fields) -> Object:
    """`current` with the patch applied; never changes `current`. Raises 400 or 422."""
    if patch.type == bodies.JSON_PATCH:
        return _json_patched(current, patch.content)
    if patch.type == bodies.MERGE_PATCH:
        result: Object = merge(current, patch.content)
        return result
    try:
        return strategic_merge.apply(current, patch.content, fields)
    except (TypeError, AttributeError) as error:
        raise bad_request(f"unable to merge the patch into the object: {error}") from error


def _json_patched(current: Object, operations: list[Any]) -> Object:
    try:
        patched = jsonpatch.apply_patch(copy.deepcopy(current), operations)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError) as error:
        raise _unprocessable() from error
    if not isinstance(patched, dict):
        raise _unprocessable()
    return patched


def _unprocessable() -> ApiError:
    """422 for a JSON patch that does not apply, with the real server's text."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request")


def patch_object(
    registry: ObjectRegistry, path: ResourcePath, patch: Patch, options: WriteOptions, query: Mapping[str, str]
) -> PatchOutcome:
    """Patch a stored object; an apply patch may create it. Raises 400, 404, 409, 415 or 422."""
    record = registry.store.get(path.resource.collection, path.namespace, path.name)
    if patch.type == bodies.APPLY_PATCH:
        return _apply(registry, path, record, patch, options, query)
    if record is None:
        raise not_found(path.resource.plural, path.resource.group, path.name)
    current = event_views.shown(path.resource, record.value)
    patched = merged(current, patch, merge_schema.fields_of(path.resource.kind, path.resource.group_version))
    _check_identity(path, current, patched)
    shown = patch.content if patch.type == bodies.STRATEGIC_PATCH else None
    warnings = field_validation.check_patched(path.resource, patched, query, shown)
    return PatchOutcome(registry.replace(path.resource, record, patched, options, path.subresource), warnings=warnings)


def _check_identity(path: ResourcePath, current: Object, patched: Object) -> None:
    """Name, UID and version in a patch are preconditions and cannot be changed."""
    before, after = current["metadata"], patched.get("metadata")
    if not isinstance(after, dict):
        raise bad_request("metadata must be an object")
    for field in ("name", "namespace"):
        if after.get(field, before.get(field)) != before.get(field):
            raise bad_request(f"metadata.{field}: the {field} of the object does not match the {field} on the URL")
    resource = path.resource
    if after.get("uid") and after["uid"] != before["uid"]:
        raise precondition_failed(resource.plural, resource.group, before, "UID", after["uid"], before["uid"])
    if after.get("resourceVersion") and after["resourceVersion"] != before["resourceVersion"]:
        raise stale_resource_version(resource.plural, resource.group, path.name)


def _apply(
    registry: ObjectRegistry,
    path: ResourcePath,
    record: Record | None,
    patch: Patch,
    options: WriteOptions,
    query: Mapping[str, str],
) -> PatchOutcome:
    if not options.field_manager:
        raise bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
        )
    kind = type_of_resource(path.resource)
    if kind is not None:
        check_applied(kind, patch.content)
    applied = _identified(path, patch.content)
    warnings = field_validation.check_body(path.resource, applied, query)
    current = event_views.shown(path.resource, record.value) if record else None
    if current is not None:
        _check_identity(path, current, {**applied, "metadata": {**current["metadata"], **applied["metadata"]}})
    outcome = server_side_apply.apply(
        current, applied, options.field_manager, registry.now(), force=options.force, subresource=path.subresource
    )
    if record is None:
        outcome["metadata"].pop("resourceVersion", None)  # one that nothing has is not asked for, unlike in a POST
        created = registry.create(path.resource, path.namespace, outcome, options)
        return PatchOutcome(created, created=True, warnings=warnings)
    return PatchOutcome(registry.replace(path.resource, record, outcome, options, path.subresource), warnings=warnings)


def _identified(path: ResourcePath, applied: Object) -> Object:
    """The applied object with the name and namespace of the URL. Raises 400 if it has others."""
    check_shape(applied)
    metadata = dict(applied.get("metadata") or {})
    for field, expected in (("name", path.name), ("namespace", path.namespace)):
        if expected and metadata.setdefault(field, expected) != expected:
            raise bad_request(f"metadata.{field} ({metadata[field]}) does not match the URL ({expected})")
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    kind = {"apiVersion": path.resource.group_version, "kind": path.resource.kind}
    if {name: applied.get(name, kind[name]) for name in kind} != kind:
        raise bad_request("the kind or apiVersion of the applied object does not match the URL")
    return {**applied, **kind, "metadata": metadata}
