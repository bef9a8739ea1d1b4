"""Fields that no kind has: refused, warned about or passed over, as `fieldValidation` of the request says.

kubectl asks for Strict. A client that does not ask is not checked (the real server would warn), so that the writes of a
benchmark never walk through schemas.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kscheduler.simulation.apiserver.openapi import element_type, model_fields, model_named, model_of
from kscheduler.simulation.objects.api_errors import Object, bad_request
from kscheduler.simulation.objects.resources import Resource

_UNCHECKED = frozenset({"str", "int", "float", "bool", "datetime", "object"})


def check(resource: Resource, value: Object, query: Mapping[str, str]) -> tuple[str, ...]:
    """Warnings to send along. Raises 400 when validation is strict and the object has unknown fields."""
    mode = query.get("fieldValidation", "Ignore")
    if mode not in {"Ignore", "Warn", "Strict"}:
        raise bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: "Ignore", "Strict", "Warn"')
    if mode == "Ignore":
        return ()
    unknown = tuple(f'unknown field "{path}"' for path in unknown_fields(resource, value))
    if unknown and mode == "Strict":
        where = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{where}: strict decoding error: {', '.join(unknown)}")
    return unknown


def unknown_fields(resource: Resource, value: Object) -> list[str]:
    """Paths of fields that the kind does not have, in the object's order."""
    model = model_of(resource)
    return [] if model is None else list(_unknown(model, value, ""))


def _unknown(model: Any, value: Object, prefix: str) -> Iterator[str]:
    known = {shown: type_name for shown, type_name, _ in model_fields(model)}
    for name, part in value.items():
        path = f"{prefix}.{name}" if prefix else name
        if name in known:
            yield from _unknown_in(known[name], part, path)
        else:
            yield path


def _unknown_in(type_name: str, value: Any, path: str) -> Iterator[str]:
    element = element_type(type_name)
    if element in _UNCHECKED or element.startswith(("list[", "dict(")):
        return
    model = model_named(element)
    if type_name.startswith("list[") and isinstance(value, list):
        for place, part in enumerate(value):
            if isinstance(part, dict):
                yield from _unknown(model, part, f"{path}[{place}]")
    elif type_name.startswith("dict(") and isinstance(value, dict):
        for name, part in value.items():
            if isinstance(part, dict):
                yield from _unknown(model, part, f"{path}.{name}")
    elif isinstance(value, dict):
        yield from _unknown(model, value, path)
