"""Rules of validation, each with the text and the cause of the real API server.

A rule returns a list of causes, which is empty if it holds. Names, labels, quantities and enumerations are checked
here, whole kinds in `simulation.rules`.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kscheduler.api import quantity
from kscheduler.api.machinery.api_errors import FieldCause

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CANONICAL_INTEGER = re.compile("0|-?[1-9][0-9]*")
_INTEGER = re.compile("(?P<sign>[+-]?)0*(?P<digits>[0-9]+)")
_INT64 = range(-(2**63), 2**63)
_MAX_DIGITS = 19
_LONGEST_LABEL = 63
_LONGEST_NAME = 253

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    rf"'{_LABEL}(\.{_LABEL})*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIX_TEXT = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def required(field: str, reason: str = "") -> FieldCause:
    """The field is missing."""
    return FieldCause("FieldValueRequired", f"Required value: {reason}" if reason else "Required value", field)


def bad_value(field: str, value: Any, reason: str) -> FieldCause:
    """The value breaks a rule."""
    return FieldCause("FieldValueInvalid", f"Invalid value: {_shown(value)}: {reason}", field)


def _shown(value: Any) -> str:
    """The value as the server prints it: compact JSON, quantities as strings."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def forbidden_field(field: str, reason: str) -> FieldCause:
    """The field may not be set or changed."""
    return FieldCause("FieldValueForbidden", f"Forbidden: {reason}", field)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldCause:
    """The value is not in an enumeration; `supported` is listed in the given order, which differs by field."""
    values = ", ".join(f'"{name}"' for name in supported)
    return FieldCause(
        "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {values}", field
    )


def not_found(field: str, value: Any) -> FieldCause:
    """The value names something that does not exist."""
    return FieldCause("FieldValueNotFound", f"Not found: {_shown(value)}", field)


def duplicate(field: str, value: Any) -> FieldCause:
    """The value is duplicated."""
    return FieldCause("FieldValueDuplicate", f"Duplicate value: {_shown(value)}", field)


def enumerated(field: str, value: Any, supported: Iterable[str]) -> list[FieldCause]:
    """The value, if there is one, is in `supported`."""
    return [] if value is None or value in supported else [unsupported(field, value, supported)]


def subdomain(field: str, name: Any) -> list[FieldCause]:
    """The name is a DNS-1123 subdomain of at most 253 characters."""
    return [bad_value(field, name, reason) for reason in wrong_with_subdomain(name)]


def wrong_with_subdomain(name: Any) -> list[str]:
    """Why the name is not a DNS-1123 subdomain."""
    wrong = []
    if isinstance(name, str) and len(name) > _LONGEST_NAME:
        wrong.append("must be no more than 253 characters")
    return wrong if isinstance(name, str) and _DNS_SUBDOMAIN.fullmatch(name) else [*wrong, _SUBDOMAIN_TEXT]


def dns_label(field: str, name: Any) -> list[FieldCause]:
    """The name is a DNS-1123 label of at most 63 characters."""
    if not isinstance(name, str) or not _DNS_LABEL.fullmatch(name):
        dotted = isinstance(name, str) and _DNS_SUBDOMAIN.fullmatch(name)
        return [bad_value(field, name, "must not contain dots" if dotted else _LABEL_TEXT)]
    return [bad_value(field, name, "must be no more than 63 characters")] if len(name) > _LONGEST_LABEL else []


def qualified_name(field: str, name: Any) -> list[FieldCause]:
    """The name has the form `[prefix/]name`, as for label keys, taint keys and extended resources."""
    text = str(name or "")
    return [bad_value(field, text, reason) for reason in wrong_with_name(text)]


def wrong_with_name(name: str) -> list[str]:
    """Why the name does not have the form `[prefix/]name`."""
    prefix, slash, rest = name.partition("/")
    if "/" in rest:
        return [f"{_KEY_TEXT.replace('name part must', 'a valid label key must', 1)}{_PREFIX_TEXT}"]
    wrong = []
    if not slash:
        rest = name
    elif not prefix:
        wrong.append("prefix part must be non-empty")
    else:
        wrong += [f"prefix part {reason}" for reason in wrong_with_subdomain(prefix)]
    if not rest:
        wrong.append("name part must be non-empty")
    elif len(rest) > _LONGEST_LABEL:
        wrong.append("name part must be no more than 63 bytes")
    return wrong if _QUALIFIED.fullmatch(rest) else [*wrong, _KEY_TEXT]


def label_value(field: str, value: Any) -> list[FieldCause]:
    """The value is empty or a label value of at most 63 characters."""
    if not isinstance(value, str) or (value and not _QUALIFIED.fullmatch(value)):
        return [bad_value(field, value, _VALUE_TEXT)]
    return [bad_value(field, value, "must be no more than 63 bytes")] if len(value) > _LONGEST_LABEL else []


def labels(field: str, pairs: Mapping[str, Any]) -> list[FieldCause]:
    """Keys and values are valid for labels."""
    causes: list[FieldCause] = []
    for key, value in pairs.items():
        causes += qualified_name(field, key) + label_value(field, value)
    return causes


def amount(field: str, value: Any) -> list[FieldCause]:
    """The quantity is not negative. Raises QuantityError if it is not a quantity: the real server cannot decode it."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise quantity.QuantityError(f"{field} is {value!r}")
    return [bad_value(field, value, "must be greater than or equal to 0")] if quantity.milli_value(value) < 0 else []


def amounts(field: str, resources: Mapping[str, Any]) -> list[FieldCause]:
    """Every value of a resource list is a quantity and not negative."""
    causes: list[FieldCause] = []
    for name, value in resources.items():
        causes += qualified_name(f"{field}[{name}]", name) + amount(f"{field}[{name}]", value)
    return causes


def int64(field: str, text: str) -> list[FieldCause]:
    """The text is a 64-bit integer in canonical form: no plus sign, no leading zeros."""
    causes: list[FieldCause] = []
    if not text:
        causes.append(bad_value(field, text, "must be non-empty"))
    elif not _CANONICAL_INTEGER.fullmatch(text):
        causes.append(bad_value(field, text, "must be a valid decimal integer in canonical form"))
    number = _INTEGER.fullmatch(text)
    if number is None:
        causes.append(bad_value(field, text, f'strconv.ParseInt: parsing "{text}": invalid syntax'))
    elif len(number["digits"]) > _MAX_DIGITS or int(f"{number['sign']}{number['digits']}") not in _INT64:
        causes.append(bad_value(field, text, f'strconv.ParseInt: parsing "{text}": value out of range'))
    return causes


def not_negative(field: str, number: Any) -> list[FieldCause]:
    """The number, if given, is not negative."""
    return [bad_value(field, number, "must be greater than or equal to 0")] if number is not None and number < 0 else []


def label_selector(field: str, selector: Mapping[str, Any] | None) -> list[FieldCause]:
    """Keys, operators and values of a label selector."""
    if not selector:
        return []
    causes = labels(f"{field}.matchLabels", selector.get("matchLabels") or {})
    for place, expression in enumerate(selector.get("matchExpressions") or ()):
        causes += requirement(f"{field}.matchExpressions[{place}]", expression)
    return causes


def requirement(
    field: str, expression: Mapping[str, Any], *, on_nodes: bool = False, values: bool = True
) -> list[FieldCause]:
    """A requirement of a selector; `on_nodes` allows Gt and Lt. `values`: whether values must be label values."""
    # First how many values each operator needs, then key and values, in the order in which the server reports them.
    operator, given = expression.get("operator") or "", expression.get("values") or []
    causes: list[FieldCause] = []
    if operator in {"In", "NotIn"}:
        if not given:
            causes.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in {"Exists", "DoesNotExist"}:
        if given:
            reason = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden_field(f"{field}.values", reason))
    elif on_nodes and operator in {"Gt", "Lt"}:
        if len(given) != 1:
            reason = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(required(f"{field}.values", reason))
    else:
        causes.append(bad_value(f"{field}.operator", operator, "not a valid selector operator"))
    causes += qualified_name(f"{field}.key", expression.get("key"))
    for place, value in enumerate(given if values else ()):
        causes += label_value(f"{field}.values[{place}]", value)
    return causes


def too_many(field: str, number: int, most: int) -> FieldCause:
    """A list has more entries than it may have."""
    items = "item" if most == 1 else "items"
    return FieldCause("FieldValueTooMany", f"Too many: {number}: must have at most {most} {items}", field)


def too_long(field: str, most: int) -> FieldCause:
    """A text is longer than it may be."""
    return FieldCause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", field)
