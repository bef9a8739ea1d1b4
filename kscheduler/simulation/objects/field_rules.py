"""Single rules of validation, each with the text and the cause that the real API server gives.

A rule returns a list of causes: empty when it holds. Names, labels, quantities and enumerations are judged here; the
shape of pods and nodes in `pod_validation` and `validation`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kscheduler.api import quantity
from kscheduler.simulation.objects.api_errors import Cause

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
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
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def required(field: str, why: str = "") -> Cause:
    """The field is missing."""
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def bad_value(field: str, value: Any, why: str) -> Cause:
    """The value breaks a rule."""
    shown = f'"{value}"' if isinstance(value, str) else _shown(value)
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def forbidden_field(field: str, why: str) -> Cause:
    """The field may not be set or changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """The value is none of an enumeration."""
    values = ", ".join(f'"{name}"' for name in sorted(supported))
    return Cause("FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {values}', field)


def duplicate(field: str, value: Any) -> Cause:
    """The value stands twice where it may stand once."""
    return Cause("FieldValueDuplicate", f'Duplicate value: "{value}"', field)


def enumerated(field: str, value: Any, supported: Iterable[str]) -> list[Cause]:
    """The value is one of `supported`; a missing one is another rule's business."""
    return [] if value is None or value in supported else [unsupported(field, value, supported)]


def subdomain(field: str, name: Any) -> list[Cause]:
    """The name is a DNS-1123 subdomain of at most 253 characters."""
    if not isinstance(name, str) or not _DNS_SUBDOMAIN.fullmatch(name):
        return [bad_value(field, name, _SUBDOMAIN_TEXT)]
    return [bad_value(field, name, "must be no more than 253 characters")] if len(name) > _LONGEST_NAME else []


def dns_label(field: str, name: Any) -> list[Cause]:
    """The name is a DNS-1123 label of at most 63 characters."""
    if not isinstance(name, str) or not _DNS_LABEL.fullmatch(name):
        return [bad_value(field, name, _LABEL_TEXT)]
    return [bad_value(field, name, "must be no more than 63 characters")] if len(name) > _LONGEST_LABEL else []


def qualified_name(field: str, name: Any) -> list[Cause]:
    """The name is `[prefix/]name`, as label keys, taint keys and extended resources are."""
    if not isinstance(name, str):
        return [bad_value(field, name, _KEY_TEXT)]
    prefix, slash, rest = name.rpartition("/")
    causes = subdomain(field, prefix) if slash else []
    if not rest:
        return [*causes, bad_value(field, name, "name part must be non-empty")]
    if len(rest) > _LONGEST_LABEL:
        causes.append(bad_value(field, name, "name part must be no more than 63 characters"))
    if not _QUALIFIED.fullmatch(rest):
        causes.append(bad_value(field, name, _KEY_TEXT))
    return causes


def label_value(field: str, value: Any) -> list[Cause]:
    """The value is empty or a label value of at most 63 characters."""
    if not isinstance(value, str) or (value and not _QUALIFIED.fullmatch(value)):
        return [bad_value(field, value, _VALUE_TEXT)]
    return [bad_value(field, value, "must be no more than 63 characters")] if len(value) > _LONGEST_LABEL else []


def labels(field: str, pairs: Mapping[str, Any]) -> list[Cause]:
    """Keys and values are those of labels."""
    causes: list[Cause] = []
    for key, value in pairs.items():
        causes += qualified_name(field, key) + label_value(field, value)
    return causes


def amount(field: str, value: Any) -> list[Cause]:
    """The quantity is not negative. Raises QuantityError for what is no quantity: the real server cannot decode it."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise quantity.QuantityError(f"{field} is {value!r}")
    return [bad_value(field, value, "must be greater than or equal to 0")] if quantity.milli_value(value) < 0 else []


def amounts(field: str, resources: Mapping[str, Any]) -> list[Cause]:
    """Every value of a resource list is a quantity and not negative."""
    causes: list[Cause] = []
    for name, value in resources.items():
        causes += qualified_name(field, name) + amount(f"{field}[{name}]", value)
    return causes
