"""OpenAPI v3 documents of the served kinds, which kubectl reads for apply, validation and explain.

Schemas come from the table of API types, so no copy of the API's schema is needed here. Descriptions are our own
(`api/typed/descriptions.txt`), and short: of fields that a scheduler reads, and that its users write.
"""

from functools import cache
from pathlib import Path

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.kind_table import KindTable
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.typed import api_types
from kscheduler.api.typed.api_types import ApiField, ApiType, JsonForm, type_of_resource

_REFERENCE = "#/components/schemas/"
_DESCRIPTIONS = Path(api_types.__file__).with_name("descriptions.txt")
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_OWN_SCHEMAS: dict[JsonForm, tuple[str, Object]] = {
    JsonForm.QUANTITY: (_QUANTITY, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    JsonForm.INT_OR_STRING: (
        _INT_OR_STRING,
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    ),
}
_SCALARS: dict[JsonForm, Object] = {
    JsonForm.TEXT: {"type": "string"},
    JsonForm.BOOLEAN: {"type": "boolean"},
    JsonForm.FLOAT: {"type": "number", "format": "double"},
    JsonForm.TIME: {"type": "string", "format": "date-time"},
    JsonForm.MICRO_TIME: {"type": "string", "format": "date-time"},
    JsonForm.DURATION: {"type": "string"},
    JsonForm.BYTES: {"type": "string", "format": "byte"},
    JsonForm.ANY: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
_PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


# Descriptions of fields that every kind has.
COMMON = {
    "apiVersion": "API group and version of this object.",
    "kind": "What this object is.",
    "metadata": "Name, namespace, labels, and what the server keeps about the object.",
}


@cache
def descriptions() -> dict[str, str]:
    """The descriptions of structs (`core/v1.Pod`) and fields (`core/v1.PodSpec.nodeName`)."""
    lines = (line for line in _DESCRIPTIONS.read_text().splitlines() if line and not line.startswith("#"))
    return dict(line.split(": ", 1) for line in lines)


def schema_name(key: str) -> str:
    """A struct's name in documents: `core/v1.Pod` becomes `io.k8s.api.core.v1.Pod`."""
    package = "io.k8s.apimachinery.pkg.apis" if key.startswith("meta/") else "io.k8s.api"
    return f"{package}.{key.replace('/', '.')}"


class _Document:
    """Collects the schemas of a group version."""

    def __init__(self) -> None:
        self.schemas: Object = {}

    def add_kind(self, resource: ServedResource) -> None:
        """Add the schema of a kind and of all its parts."""
        kind = type_of_resource(resource)
        if kind is None:
            return
        named = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        name = self._add(kind)
        self.schemas[name]["x-kubernetes-group-version-kind"] = [named]
        if "list" in resource.verbs:
            self.schemas[f"{name}List"] = self._list_schema(resource, name)

    def _list_schema(self, resource: ServedResource, name: str) -> Object:
        kind = {"group": resource.group, "version": resource.version, "kind": resource.list_kind}
        items = {"type": "array", "items": {"$ref": _REFERENCE + name}}
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "items": items}
        return {"type": "object", "properties": properties, "x-kubernetes-group-version-kind": [kind]}

    def _add(self, struct: ApiType) -> str:
        name = schema_name(struct.key)
        if name in self.schemas:
            return name
        schema: Object = {"type": "object"}
        self.schemas[name] = schema
        if struct.form is JsonForm.ANY:
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if struct.key in descriptions():
            schema["description"] = descriptions()[struct.key]
        schema["properties"] = {
            field.name: self._property(struct, field) for field in struct.fields.values() if field.name
        }
        required = [field.name for field in struct.fields.values() if field.is_required]
        if required:
            schema["required"] = required
        return name

    def _property(self, struct: ApiType, field: ApiField) -> Object:
        schema = {**self._type(field.type), **_list_extensions(field)}
        text = descriptions().get(f"{struct.key}.{field.name}") or COMMON.get(field.name)
        if text:
            schema["description"] = text
        if field.enum:
            schema["enum"] = list(field.enum)
        return schema

    def _type(self, kind: ApiType) -> Object:
        if kind.form is JsonForm.STRUCT:
            # Siblings of a bare $ref are ignored in OpenAPI 3.0, hence the wrapping that the real server uses too.
            return {"allOf": [{"$ref": _REFERENCE + self._add(kind)}], "default": {}}
        if kind.form is JsonForm.LIST and kind.element is not None:
            return {"type": "array", "items": self._type(kind.element)}
        if kind.form is JsonForm.MAP and kind.element is not None:
            return {"type": "object", "additionalProperties": self._type(kind.element)}
        if kind.form is JsonForm.INTEGER:
            return {"type": "integer", "format": f"int{kind.bits}"}
        if kind.form in _OWN_SCHEMAS:
            name, schema = _OWN_SCHEMAS[kind.form]
            self.schemas[name] = schema
            return {"allOf": [{"$ref": _REFERENCE + name}]}
        return dict(_SCALARS[kind.form])


def _list_extensions(field: ApiField) -> Object:
    extensions: Object = {}
    if field.keys:
        extensions = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(field.keys)}
    elif field.is_set:
        extensions = {"x-kubernetes-list-type": "set"}
    elif field.type.form is JsonForm.LIST:
        extensions = {"x-kubernetes-list-type": "atomic"}
    if field.patch_strategy:
        extensions["x-kubernetes-patch-strategy"] = field.patch_strategy
    if field.merge_key:
        extensions["x-kubernetes-patch-merge-key"] = field.merge_key
    return extensions


def _paths(resource: ServedResource) -> Object:
    """The paths of a kind; kubectl needs the parameters and formats of PATCH."""
    prefix = f"/apis/{resource.group_version}" if resource.group else f"/api/{resource.version}"
    collection = (
        f"{prefix}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{prefix}/{resource.plural}"
    )
    if "get" not in resource.verbs:
        return {collection: {"post": _operation(resource, "post", "post")}}
    actions = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
    on_object = {method: _operation(resource, method, action) for method, action in actions.items()}
    on_collection = {"get": _operation(resource, "get", "list"), "post": _operation(resource, "post", "post")}
    return {collection: on_collection, f"{collection}/{{name}}": on_object}


def _operation(resource: ServedResource, method: str, action: str) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operation: Object = {"responses": {"200": {"description": "OK"}}, "x-kubernetes-group-version-kind": kind}
    operation["x-kubernetes-action"] = action
    if method in {"post", "put", "patch"}:
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _WRITE_PARAMETERS
        ]
    if method == "patch":
        # Of objects that are stored as they are nothing is known that a strategic patch could be made from.
        types = (name for name in _PATCH_TYPES if not (resource.is_plain and "strategic" in name))
        content: Object = {name: {"schema": {"type": "object"}} for name in types}
        operation["requestBody"] = {"content": content, "required": True}
    return operation


def document(kinds: KindTable, path: str) -> Object | None:
    """The index, or the document of a path below /openapi/v3; None for any other path."""
    prefixes = {
        f"apis/{group}/{version}" if group else f"api/{version}": resources
        for (group, version), resources in kinds.group_versions().items()
    }
    if path == "/openapi/v3":
        index = {
            prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}?hash=embedded{kinds.generation}"}
            for prefix in prefixes
        }
        return {"paths": index}
    resources = prefixes.get(path.removeprefix("/openapi/v3/"))
    if resources is None:
        return None
    return _group_document(kinds.release, resources)


def _group_document(release: str, resources: list[ServedResource]) -> Object:
    gathered = _Document()
    paths: Object = {}
    for resource in resources:
        gathered.add_kind(resource)
        paths |= _paths(resource)
    info = {"title": "Kubernetes", "version": release}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": gathered.schemas}}
