"""Checks bodies against their kind: wrong types are refused, unknown fields handled by the query's `fieldValidation`.

kubectl requests Strict. The default is a warning, as on the real server.
"""

from collections.abc import Mapping
from typing import Any

from kscheduler.api.machinery.api_errors import ApiError, Object, bad_request, invalid
from kscheduler.api.machinery.field_rules import bad_value
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.typed.api_types import ApiType, type_of_kind, type_of_resource
from kscheduler.api.typed.decoding import Decoding, DecodingError
from kscheduler.api.typed.stored_form import go_text
from kscheduler.embedded.apiserver.rendering import encode

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


BINDING = ServedResource("", "v1", "bindings", "Binding")
EVICTION = ServedResource("policy", "v1", "evictions", "Eviction")
SCALE = ServedResource("autoscaling", "v1", "scales", "Scale")
# What is sent to subresources, and stored nowhere.
TOKEN = ServedResource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
_EARLIER_VERSIONS = frozenset({("Eviction", "policy/v1beta1")})


def check_sent(kind: ServedResource, value: Object, namespace: str, name: str) -> None:
    """Refuse what is sent to a subresource but is not of its kind, or is about another object. Raises 400."""
    if (value.get("kind"), value.get("apiVersion")) not in _EARLIER_VERSIONS:
        check_kind(kind, value)
    check_body(kind, value, {})
    metadata = value.get("metadata") or {}
    if metadata.get("namespace") not in {None, "", namespace}:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if metadata.get("name") != name and kind is SCALE:
        check_named(value, name)
    if metadata.get("name") != name:
        raise bad_request(f"name in URL does not match name in {kind.kind} object")


def check_named(value: Object, name: str) -> None:
    """Refuse an object without a name for a path that has one. Raises 400."""
    if not (value.get("metadata") or {}).get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")


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
    """400 for a body that is empty, or is JSON but not an object."""
    shown = body[:_SHOWN_BYTES].hex() + (" ..." if len(body) > _SHOWN_BYTES else "") if body else "<empty>"
    reason = f"json: cannot unmarshal {found} into Go value of type {_TYPE_META}"
    reason = reason if body else "unexpected end of JSON input"
    message = f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get version/kind; "
    return bad_request(f"{message}json parse error: {reason} ({shown})")
