"""OpenAPI v3 documents of the served kinds, as kubectl reads them for apply, validation and explain.

Schemas are derived at first use from the typed models that kubernetes_asyncio generates from the API, so that no copy
of the API's schema has to be kept here; merge keys come from `merge_schema`. Only these documents and strict field
validation touch the models: importing them takes half a second, and no scheduler asks for them.
"""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from kscheduler.simulation.objects.api_errors import Object
from kscheduler.simulation.objects.resources import Resource, group_versions
from kscheduler.simulation.patches.merge_schema import DEFAULT, Fields, Merge, fields_of

_MODELS = "kubernetes_asyncio.client.models"
_MODEL_PREFIXES = ("V1", "ResourceV1", "CoreV1")
_SCALARS: dict[str, Object] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "object": {"x-kubernetes-preserve-unknown-fields": True},
}
_DESCRIPTION = re.compile(r"\n\n\s+(?P<text>\S.*?)\s*# noqa", re.DOTALL)
_REFERENCE = "#/components/schemas/"
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@cache
def model_of(resource: Resource) -> type | None:
    """The generated class of a kind; None if there is none."""
    models = importlib.import_module(_MODELS)
    preferred = ("EventsV1",) if resource.stored_as else (resource.version.capitalize(), *_MODEL_PREFIXES)
    for prefix in preferred:
        model: type | None = getattr(models, f"{prefix}{resource.kind}", None)
        if model is not None:
            return model
    return None


@cache
def model_named(name: str) -> type:
    """The generated class called `name`."""
    found: type = getattr(importlib.import_module(_MODELS), name)
    return found


def model_fields(model: Any) -> Iterator[tuple[str, str, str]]:
    """(JSON name, type, Python name) of each field of a generated class."""
    for name, type_name in model.openapi_types.items():
        yield model.attribute_map[name], type_name, name


def element_type(type_name: str) -> str:
    """The type inside `list[...]` or `dict(str, ...)`, else the type itself."""
    for opening, closing in (("list[", "]"), ("dict(str, ", ")")):
        if type_name.startswith(opening):
            return type_name.removeprefix(opening).removesuffix(closing)
    return type_name


class _Document:
    """Gathers the schemas that one group version needs."""

    def __init__(self) -> None:
        self.schemas: Object = {}

    def add_kind(self, resource: Resource) -> None:
        """The schema of a kind and of everything below it."""
        model: Any = model_of(resource)
        if model is None:
            return
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        name = self._add(model, fields_of(resource.kind))
        self.schemas[name]["x-kubernetes-group-version-kind"] = [kind]
        self.schemas[f"{name}List"] = self._list_schema(resource, name)

    def _list_schema(self, resource: Resource, name: str) -> Object:
        kind = {"group": resource.group, "version": resource.version, "kind": resource.list_kind}
        items = {"type": "array", "items": {"$ref": _REFERENCE + name}}
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "items": items}
        return {"type": "object", "properties": properties, "x-kubernetes-group-version-kind": [kind]}

    def _add(self, model: Any, fields: Fields) -> str:
        name: str = model.__name__
        if name not in self.schemas:
            schema = self.schemas[name] = {"type": "object", "properties": {}}
            for shown, type_name, python_name in model_fields(model):
                schema["properties"][shown] = self._property(model, type_name, python_name, fields.get(shown, DEFAULT))
        return name

    def _property(self, model: Any, type_name: str, python_name: str, merge: Merge) -> Object:
        schema = self._type(type_name, merge)
        match = _DESCRIPTION.search(getattr(model, python_name).__doc__ or "")
        if match:
            schema["description"] = " ".join(match["text"].split())
        return schema

    def _type(self, type_name: str, merge: Merge) -> Object:
        if type_name.startswith("list["):
            items = self._type(element_type(type_name), Merge(fields=merge.fields))
            return {"type": "array", "items": items, **_list_extensions(merge)}
        if type_name.startswith("dict("):
            return {"type": "object", "additionalProperties": self._type(element_type(type_name), DEFAULT)}
        if type_name in _SCALARS:
            return dict(_SCALARS[type_name])
        name = self._add(model_named(type_name), merge.fields)
        # Siblings of a bare $ref are ignored in OpenAPI 3.0, hence the wrapping that the real server uses too.
        return {"allOf": [{"$ref": _REFERENCE + name}], "default": {}}


def _list_extensions(merge: Merge) -> Object:
    if merge.is_set:
        return {"x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"}
    extensions: Object = {"x-kubernetes-list-type": "atomic"}
    if merge.keys:
        extensions = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(merge.keys)}
    if merge.merge_key:
        extensions["x-kubernetes-patch-strategy"] = "merge"
        extensions["x-kubernetes-patch-merge-key"] = merge.merge_key
    return extensions


def _paths(resource: Resource) -> Object:
    """Paths of a kind; what matters to kubectl is which parameters and formats a PATCH takes."""
    prefix = f"/apis/{resource.group_version}" if resource.group else f"/api/{resource.version}"
    collection = (
        f"{prefix}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{prefix}/{resource.plural}"
    )
    actions = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
    on_object = {method: _operation(resource, method, action) for method, action in actions.items()}
    on_collection = {"get": _operation(resource, "get", "list"), "post": _operation(resource, "post", "post")}
    return {collection: on_collection, f"{collection}/{{name}}": on_object}


def _operation(resource: Resource, method: str, action: str) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operation: Object = {"responses": {"200": {"description": "OK"}}, "x-kubernetes-group-version-kind": kind}
    operation["x-kubernetes-action"] = action
    if method in {"post", "put", "patch"}:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _WRITE_PARAMETERS
        ]
    if method == "patch":
        content: Object = {name: {"schema": {"type": "object"}} for name in _PATCH_TYPES}
        operation["requestBody"] = {"content": content, "required": True}
    return operation


def document(path: str) -> Object | None:
    """The document of a path below /openapi/v3, or its index; None for any other path."""
    prefixes = {
        f"apis/{group}/{version}" if group else f"api/{version}": resources
        for (group, version), resources in group_versions().items()
    }
    if path == "/openapi/v3":
        index = {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}?hash=embedded"} for prefix in prefixes}
        return {"paths": index}
    resources = prefixes.get(path.removeprefix("/openapi/v3/"))
    if resources is None:
        return None
    return _group_document(resources)


def _group_document(resources: list[Resource]) -> Object:
    gathered = _Document()
    paths: Object = {}
    for resource in resources:
        gathered.add_kind(resource)
        paths |= _paths(resource)
    info = {"title": "Kubernetes", "version": "v1.36.3"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": gathered.schemas}}
