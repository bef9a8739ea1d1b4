"""What the API server would say against a new object, without a server: types, defaults, then the rules of its kind.

For programs that are given manifests and answer "what if": an answer about an object that nobody can create helps
nobody. Not asked is what needs other objects: whether the namespace, the account or the claim exists. Of wrong types
all are told, where a server ends at the first; the rules are asked where all types are right.
"""

from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType

from kscheduler.api.defaults import objects as defaults
from kscheduler.api.machinery.api_errors import ApiError, Object
from kscheduler.api.machinery.field_rules import dns_label
from kscheduler.api.machinery.resources import RESOURCES, ServedResource
from kscheduler.api.machinery.shapes import check_shape, without_nulls
from kscheduler.api.names import generated_name
from kscheduler.api.quantity import QuantityError
from kscheduler.api.typed.api_types import type_of_resource
from kscheduler.api.typed.decoding import WholeReading
from kscheduler.api.typed.stored_form import stored_form
from kscheduler.api.validation.objects import check_create, malformed


class UncheckableObjectError(ValueError):
    """The rules themselves cannot deal with an object, although its types are right."""


_UNREADABLE = (TypeError, AttributeError, KeyError, ValueError)
# Of every new object: a Job's selector is made of it, and the address of a Service.
_UID = "00000000-0000-4000-8000-000000000000"
# Of every new object: a gated pod's first condition says since when.
_CREATED = "2026-01-01T00:00:00Z"
_WITH_SPEC = ("pods", "nodes")
_BY_KIND: Mapping[tuple[str, str], ServedResource] = MappingProxyType(
    {
        (version, resource.kind): resource
        for resource in reversed(RESOURCES)
        for version in (resource.group_version, "")  # a manifest without a version is read by its kind
    }
)


def objections(tree: Object) -> list[str]:
    """Each violated rule as `FIELD: TEXT`; none for a kind that is not served here. The object is not changed.

    Raises `UncheckableObjectError` for one that the rules themselves cannot deal with.
    """
    resource = _BY_KIND.get((str(tree.get("apiVersion") or ""), str(tree.get("kind"))))
    if resource is None:
        return []
    try:
        return _wrong_namespace(resource, tree) + _refused(resource, tree)
    except ApiError as refusal:
        causes = refusal.details.get("causes")
        return [f"{cause['field']}: {cause['message']}" for cause in causes] if causes else [refusal.message]


def _wrong_namespace(resource: ServedResource, tree: Object) -> list[str]:
    metadata = tree.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) and resource.namespaced else None
    found = dns_label("metadata.namespace", namespace) if namespace else []
    return [f"{cause.field}: {cause.message}" for cause in found]


def _refused(resource: ServedResource, tree: Object) -> list[str]:
    """Raises `ApiError`."""
    check_shape(tree)
    value = without_nulls(deepcopy(tree))
    metadata = value["metadata"] = dict(value.get("metadata") or {})
    if not (metadata.get("name") or metadata.get("generateName")):
        return ["metadata.name: Required value: name or generateName is required"]
    metadata["name"] = metadata.get("name") or generated_name(metadata["generateName"], "new")
    metadata.setdefault("uid", _UID)
    metadata.setdefault("creationTimestamp", _CREATED)
    if resource.key in _WITH_SPEC:
        value.setdefault("spec", {})
    kind = type_of_resource(resource)
    try:
        mismatches = [] if kind is None else WholeReading().mismatches(kind, value)
        if mismatches:
            return mismatches
        value = stored_form(kind, value)
        defaults.on_create(resource, value)
        check_create(resource, value)
    except QuantityError as error:
        raise malformed(resource, error) from error
    except _UNREADABLE as error:  # its types are right, so that it is no mistake of its author
        raise UncheckableObjectError(f"cannot be checked here: {type(error).__name__}: {error}") from error
    return []
