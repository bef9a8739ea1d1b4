"""Checks bodies against their kind: wrong types are refused, unknown fields handled by the query's `fieldValidation`.

kubectl requests Strict. The default is a warning, as on the real server.
"""

from collections.abc import Mapping
from typing import Any

from kscheduler.simulation.apiserver.rendering import encode
from kscheduler.simulation.kinds.api_errors import ApiError, Object, bad_request, invalid
from kscheduler.simulation.kinds.field_rules import bad_value
from kscheduler.simulation.kinds.resources import ServedResource
from kscheduler.simulation.typed.api_types import ApiType, type_of_kind, type_of_resource
from kscheduler.simulation.typed.applied import go_text
from kscheduler.simulation.typed.decoding import Decoding, DecodingError

_SCHEME = "pkg/runtime/scheme.go:111"
_MODES = ("Ignore", "Strict", "Warn")
_SHOWN_BYTES = 30
_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


def check_body(resource: ServedResource, value: Object, query: Mapping[str, str]) -> tuple[str, ...]:
    """Warnings for the answer to a create or update. Raises 400 if the body does not fit."""
    kind = type_of_resource(resource)
    try:
        return () if kind is None else _fits(kind, value, query)
    except DecodingError as error:
        raise bad_request(f"{_handled(resource)}: {error}") from error


def check_patched(resource: ServedResource, value: Object, query: Mapping[str, str], patch: Any) -> tuple[str, ...]:
    """Warnings for the answer to a patch. Raises 422 if the patched object does not fit.

    Args:
        resource: the kind.
        value: the patched object.
        query: the request's query.
        patch: a strategic patch, which the refusal shows; None for other types, whose refusal shows the object.
    """
    kind = type_of_resource(resource)
    try:
        return () if kind is None else _fits(kind, value, query)
    except DecodingError as error:
        if patch is None:
            cause = bad_value("patch", encode(value).decode(), str(error))
        else:
            cause = bad_value("patch", go_text(patch), error.conversion or str(error))
        raise invalid("", "", "", [cause]) from error


def _fits(kind: ApiType, value: Object, query: Mapping[str, str]) -> tuple[str, ...]:
    mode = query.get("fieldValidation") or "Warn"
    if mode not in _MODES:
        supported = ", ".join(f'"{name}"' for name in _MODES)
        raise bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: {supported}')
    decoding = Decoding()
    decoding.read(kind, value)
    if mode == "Ignore":
        return ()
    unknown = tuple(f'unknown field "{path}"' for path in decoding.unknown)
    if unknown and mode == "Strict":
        raise DecodingError(f"strict decoding error: {', '.join(unknown)}")
    return unknown


def _handled(resource: ServedResource, kind: str = "", version: str = "") -> str:
    given, known = kind or resource.kind, version or resource.version
    return f'{given} in version "{known}" cannot be handled as a {resource.kind}'


def check_kind(resource: ServedResource, value: Object) -> None:
    """Raises 400 for an object of another kind than the path's."""
    kind, group_version = value.get("kind") or resource.kind, value.get("apiVersion") or resource.group_version
    if (kind, group_version) == (resource.kind, resource.group_version):
        return
    group, _, version = str(group_version).rpartition("/")
    if type_of_kind(group, version, str(kind)) is None:
        reason = f'no kind "{kind}" is registered for version "{group_version}" in scheme "{_SCHEME}"'
    else:
        internal = resource.group.partition(".")[0] or "core"
        reason = f"converting ({version}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
    raise bad_request(f"{_handled(resource, str(kind), version)}: {reason}")


def unrecognized(resource: ServedResource, body: bytes, found: str) -> ApiError:
    """400 for a body that is JSON but not an object."""
    shown = body[:_SHOWN_BYTES].hex() + (" ..." if len(body) > _SHOWN_BYTES else "")
    reason = f"json: cannot unmarshal {found} into Go value of type {_TYPE_META}"
    message = f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
    return bad_request(f"{message}json parse error: {reason} ({shown})")
