"""Type errors of an applied configuration in the words of server-side apply: all at once, with its own paths."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kscheduler.simulation.kinds.api_errors import ApiError, Object
from kscheduler.simulation.typed.api_types import ApiField, ApiType, JsonForm

_EXPECTED = {
    JsonForm.TEXT: "string",
    JsonForm.BYTES: "string",
    JsonForm.TIME: "string",
    JsonForm.MICRO_TIME: "string",
    JsonForm.DURATION: "string",
    JsonForm.BOOLEAN: "boolean",
    JsonForm.INTEGER: "numeric (int or float)",
    JsonForm.FLOAT: "numeric (int or float)",
    JsonForm.LIST: "list",
    JsonForm.MAP: "map",
    JsonForm.STRUCT: "map",
}
_JSON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "numeric (int or float)": (int, float),
    "list": (list,),
    "map": (dict,),
}


def check_applied(kind: ApiType, value: Object) -> None:
    """Check a configuration against its kind. Raises 500, as the real server does."""
    wrong = list(_in_struct(kind, value, ""))
    if not wrong:
        return
    metadata = value["metadata"] if isinstance(value.get("metadata"), dict) else {}
    group, _, version = str(value.get("apiVersion", "")).rpartition("/")
    named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {group}/{version}, Kind={value.get('kind')}"
    text = wrong[0] if len(wrong) == 1 else "errors:\n" + "\n".join(f"  {problem}" for problem in wrong)
    raise ApiError(500, "", f"failed to create typed patch object ({named}): {text}")


def _in_struct(kind: ApiType, value: Object, path: str) -> Iterator[str]:
    for name, part in value.items():
        field = kind.fields.get(name)
        if field is None and kind.form is JsonForm.ANY:
            continue
        if field is None:
            yield f"{path}.{name}: field not declared in schema"
        elif part is not None:
            yield from _in_value(field.type, field, part, f"{path}.{name}")


def _in_value(kind: ApiType, field: ApiField | None, value: Any, path: str) -> Iterator[str]:
    # A wrong value ends the walk at its path; a right one is walked into, by struct, map or list. Nulls fit everywhere.
    expected = _EXPECTED.get(kind.form)
    if expected is None:
        return
    fits: bool = isinstance(value, _JSON[expected]) and (expected == "boolean" or not isinstance(value, bool))
    if not fits:
        yield f"{path}: expected {expected}, got {_go_value(value)}"
    elif kind.form is JsonForm.STRUCT:
        yield from _in_struct(kind, value, path)
    elif kind.form is JsonForm.MAP and kind.element is not None:
        for name, part in value.items():
            if part is not None:
                yield from _in_value(kind.element, None, part, f"{path}.{name}")
    elif kind.form is JsonForm.LIST and kind.element is not None:
        for place, part in enumerate(value):
            where = _element(part, field.keys if field else (), place)
            yield from _in_value(kind.element, None, part, f"{path}{where}")


def _element(value: Any, keys: tuple[str, ...], place: int) -> str:
    """`[name="main"]` in a list whose elements have keys, `[0]` in other lists."""
    if not keys or not isinstance(value, dict):
        return f"[{place}]"
    texts = [f"{key}={msgspec.json.encode(value[key]).decode()}" for key in keys if key in value]
    return f"[{','.join(texts)}]"


def _go_value(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return f"&{{{go_text(value)}}}"
    return f"&value.valueUnstructured{{Value:{msgspec.json.encode(value).decode()}}}"


def go_text(value: Any) -> str:
    """The value as Go's `%+v` prints maps and slices."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(go_text(part) for part in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)
