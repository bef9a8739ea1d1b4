"""Named formats: names of Kubernetes' objects, label values, UUIDs, dates."""

import re
from collections.abc import Callable
from datetime import date
from typing import Any

from kscheduler.cel.kubernetes.urls import UrlError, request_uri
from kscheduler.cel.values.kinds import Opaque

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_ALPHANUMERIC = "and must start and end with an alphanumeric character"
_LABEL_ERROR = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALPHANUMERIC}"
_SUBDOMAIN_ERROR = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALPHANUMERIC}"
)
_DNS1035_ERROR = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_KEY_ERROR = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC}"
_VALUE_ERROR = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC}"
)
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")


def _regex_error(message: str, shape: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {listed}regex used for validation is '{shape}')"


def _too_long(value: str, most: int, unit: str) -> list[str]:
    return [f"must be no more than {most} {unit}"] if len(value.encode()) > most else []


def _masked(name: str) -> str:
    """A prefix of a name may end with a dash."""
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name


def _label(value: str) -> list[str]:
    errors = _too_long(value, 63, "characters")
    if not re.fullmatch(_LABEL, value):
        dots = re.fullmatch(_SUBDOMAIN, value) is not None
        wrong = _regex_error(_LABEL_ERROR, _LABEL, "my-name", "123-abc")
        errors.append("must not contain dots" if dots else wrong)
    return errors


def _subdomain(value: str, unit: str = "characters") -> list[str]:
    errors = _too_long(value, 253, unit)
    if not re.fullmatch(_SUBDOMAIN, value):
        errors.append(_regex_error(_SUBDOMAIN_ERROR, _SUBDOMAIN, "example.com"))
    return errors


def _dns1035(value: str) -> list[str]:
    errors = _too_long(value, 63, "characters")
    if not re.fullmatch(_DNS1035, value):
        errors.append(_regex_error(_DNS1035_ERROR, _DNS1035, "my-name", "abc-123"))
    return errors


def _qualified_name(value: str) -> list[str]:
    wrong = _regex_error(_KEY_ERROR, _KEY, "MyName", "my.name", "123-abc")
    parts = value.split("/")
    if len(parts) > 2:
        return [f"a valid label key {wrong} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    if len(parts) == 2:
        prefix = ["must be non-empty"] if not parts[0] else _subdomain(parts[0], "bytes")
        errors = [f"prefix part {error}" for error in prefix]
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    errors += [f"name part {error}" for error in _too_long(name, 63, "bytes")]
    if not re.fullmatch(_KEY, name):
        errors.append(f"name part {wrong}")
    return errors


def _label_value(value: str) -> list[str]:
    errors = _too_long(value, 63, "bytes")
    if not re.fullmatch(f"({_KEY})?", value):
        errors.append(_regex_error(_VALUE_ERROR, f"({_KEY})?", "MyValue", "my_value", "12345"))
    return errors


def _uri(value: str) -> list[str]:
    try:
        request_uri(value)
    except UrlError as error:
        return [str(error)]
    return []


def _uuid(value: str) -> list[str]:
    return [] if _UUID.fullmatch(value) else ["does not match the UUID format"]


def _byte(value: str) -> list[str]:
    return [] if _BASE64.fullmatch(value) else ["invalid base64"]


def _is_date(value: str) -> bool:
    match = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", value)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups())
    try:
        date(year or 400, month, day)
    except ValueError:
        return False
    return True


def _date(value: str) -> list[str]:
    return [] if _is_date(value) else ["invalid date"]


def _datetime(value: str) -> list[str]:
    parts = value.lower().split("t")
    match = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    if match is None or match[1] > "23" or match[2] > "59" or match[3] > "59":
        return ["invalid datetime"]
    return []


class NamedFormat(Opaque):
    """A format: what is wrong with a text, and the size by which checking it is charged."""

    __slots__ = ("name", "regex_size", "validate")
    TYPE_NAME = "kubernetes.NamedFormat"
    GO_TYPE = "cel.Format"
    SHORT_NAME = "Format"
    HASHABLE = False

    def __init__(self, name: str, validate: Callable[[str], list[str]], regex_size: int) -> None:
        self.name, self.validate, self.regex_size = name, validate, regex_size

    def equals(self, other: Any) -> bool:
        """Whether it has the same name."""
        return bool(self.name == other.name)

    def text(self) -> str:
        """Its name (Go prints a pointer too, which no two runs share)."""
        return f"{{{self.name}}}"


FORMATS: dict[str, NamedFormat] = {
    "dns1123Label": NamedFormat("DNS1123Label", _label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _dns1035, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", lambda value: _label(_masked(value)), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", lambda value: _subdomain(_masked(value)), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", lambda value: _dns1035(_masked(value)), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _uuid, 70),
    "byte": NamedFormat("byte", _byte, 84),
    "date": NamedFormat("date", _date, 71),
    "datetime": NamedFormat("datetime", _datetime, 71),
}
