"""The form in which a server stores what it was sent: what Go's decoder and encoder make of it between them.

A client may write `cpu: 1`, `1000m` or `"1.0"`, an empty list or none, null or nothing. A real server reads them into
structs and writes those: amounts in their canonical text, no nulls, and nothing that is empty and may be left out. So
`kubectl diff` and a controller that compares see no change where there is none. Fields that the table does not have
stay as they are.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from kscheduler.api.machinery.api_errors import ApiError, Object
from kscheduler.api.machinery.shapes import without_nulls
from kscheduler.api.typed.api_types import ApiField, ApiType, JsonForm
from kscheduler.cel.kubernetes import quantities

_LEFT_OUT_IF_EMPTY = frozenset(
    {
        JsonForm.BOOLEAN,
        JsonForm.BYTES,
        JsonForm.FLOAT,
        JsonForm.INTEGER,
        JsonForm.LIST,
        JsonForm.MAP,
        JsonForm.TEXT,
    }
)
_THOUSANDTH = -3
# Longer texts stay as they are: somebody plays with the server, or a rule will refuse them.
_LONGEST_QUANTITY = 64


def stored_form(kind: ApiType | None, value: Any) -> Any:
    """A copy of the value in the form that is stored; `kind` is None for what the table does not have."""
    if kind is None:
        return without_nulls(value)
    if isinstance(value, dict) and kind.fields:
        return _struct(kind, value)
    if isinstance(value, dict) and kind.element is not None:
        if kind.element.form is JsonForm.QUANTITY:
            return {name: _amount(part, of_resource=True) for name, part in value.items() if part is not None}
        return {name: stored_form(kind.element, part) for name, part in value.items() if part is not None}
    if isinstance(value, list) and kind.element is not None:
        return [stored_form(kind.element, part) for part in value]
    if kind.form is JsonForm.QUANTITY:
        return _amount(value)
    return without_nulls(value)


def _struct(kind: ApiType, value: dict[str, Any]) -> dict[str, Any]:
    stored = {}
    for name, part in value.items():
        if part is None:
            continue
        field = kind.fields.get(name)
        form = stored_form(None if field is None else field.type, part)
        if field is None or form or not _is_left_out(field):
            stored[name] = form
    return stored


def _is_left_out(field: ApiField) -> bool:
    """Whether Go leaves the field out if it is empty: `omitempty`, and no pointer."""
    return field.type.form in _LEFT_OUT_IF_EMPTY and not field.is_pointer and not field.is_always_written


def _amount(value: Any, *, of_resource: bool = False) -> Any:
    is_amount = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return _canonical(value, of_resource=of_resource) if is_amount else value


@lru_cache(maxsize=4096)
def _canonical(amount: str | float, *, of_resource: bool = False) -> str | float:
    """Of an amount of a resource the server keeps nothing that is finer than a thousandth, and rounds up."""
    text = str(amount).strip()
    if len(text) > _LONGEST_QUANTITY:
        return amount
    try:
        quantity = quantities.parse(text)
    except quantities.QuantityTextError:
        return amount  # the rules of its kind say what is wrong with it
    value, scale = quantity.amount()
    if of_resource and scale < _THOUSANDTH:
        notation = quantity.notation
        quantity = quantities.Quantity(-(-value // 10 ** (_THOUSANDTH - scale)), _THOUSANDTH)
        quantity.notation = notation
    return quantity.text()


# Type errors of an applied configuration in the words of server-side apply: all at once, with its own paths.

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
