"""The form in which a server stores what it was sent: what Go's decoder and encoder make of it between them.

A client may write `cpu: 1`, `1000m` or `"1.0"`, an empty list or none, null or nothing. A real server reads them into
structs and writes those: amounts in their canonical text, no nulls, and nothing that is empty and may be left out. So
`kubectl diff` and a controller that compares see no change where there is none. Fields that the table does not have
stay as they are.
"""

from functools import lru_cache
from typing import Any

from kscheduler.cel.kubernetes import quantities
from kscheduler.simulation.kinds.shapes import without_nulls
from kscheduler.simulation.typed.api_types import ApiField, ApiType, JsonForm

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
_LONGEST_QUANTITY = 64
"""Longer texts stay as they are: somebody plays with the server, or a rule will refuse them."""


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
