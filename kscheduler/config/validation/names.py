"""Label keys, label values and resource names: the API's rules, and its error texts."""

import re
from collections.abc import Iterator

_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_VALUE = f"({_QUALIFIED})?"

_QUALIFIED_RE = re.compile(_QUALIFIED)
_LABEL_RE = re.compile(_LABEL)

LONGEST_NAME = 63
LONGEST_PREFIX = 253

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_QUOTA_PREFIX = "requests."


def qualified_name_faults(name: str) -> tuple[str, ...]:
    """The faults of a label key or resource name (`example.com/name`); empty if it is valid."""
    parts = name.split("/")
    if len(parts) > 2:
        message = f"a valid label key {_NAME_RULE} {_example(_QUALIFIED, 'MyName', 'my.name', '123-abc')}"
        return (f"{message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    prefix = parts[0] if len(parts) == 2 else None
    return (*_prefix_faults(prefix), *_name_part_faults(parts[-1]))


def label_value_faults(value: str) -> tuple[str, ...]:
    """The faults of a label's value; empty if it is valid."""
    return tuple(_label_value_faults(value))


def subdomain_faults(name: str) -> tuple[str, ...]:
    """The faults of an object's name (`my.lease`); empty if it is valid."""
    return tuple(_subdomain_faults(name))


def label_faults(name: str) -> tuple[str, ...]:
    """The faults of a namespace's name (`kube-system`); empty if it is valid."""
    return tuple(_label_faults(name))


def is_extended_resource(name: str) -> bool:
    """Whether a resource is neither Kubernetes' own nor a quota name: `example.com/gpu`."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not qualified_name_faults(_QUOTA_PREFIX + name)


def _prefix_faults(prefix: str | None) -> Iterator[str]:
    if prefix is None:
        return
    if not prefix:
        yield "prefix part must be non-empty"
        return
    if len(prefix) > LONGEST_PREFIX:
        yield f"prefix part must be no more than {LONGEST_PREFIX} bytes"
    # Label by label: a crafted name could make a pattern for the whole subdomain search for very long.
    if not all(_LABEL_RE.fullmatch(label) for label in prefix.split(".")):
        yield f"prefix part {_SUBDOMAIN_RULE} {_example(_SUBDOMAIN, 'example.com')}"


def _name_part_faults(name: str) -> Iterator[str]:
    if not name:
        yield "name part must be non-empty"
    elif len(name) > LONGEST_NAME:
        yield f"name part must be no more than {LONGEST_NAME} bytes"
    if not _QUALIFIED_RE.fullmatch(name):
        yield f"name part {_NAME_RULE} {_example(_QUALIFIED, 'MyName', 'my.name', '123-abc')}"


def _subdomain_faults(name: str) -> Iterator[str]:
    if len(name) > LONGEST_PREFIX:
        yield f"must be no more than {LONGEST_PREFIX} bytes"
    if not all(_LABEL_RE.fullmatch(label) for label in name.split(".")):
        yield f"{_SUBDOMAIN_RULE} {_example(_SUBDOMAIN, 'example.com')}"


def _label_faults(name: str) -> Iterator[str]:
    if len(name) > LONGEST_NAME:
        yield f"must be no more than {LONGEST_NAME} bytes"
    if not _LABEL_RE.fullmatch(name):
        rule = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
            "and must start and end with an alphanumeric character"
        )
        yield f"{rule} {_example(_LABEL, 'my-name', '123-abc')}"


def _label_value_faults(value: str) -> Iterator[str]:
    if len(value) > LONGEST_NAME:
        yield f"must be no more than {LONGEST_NAME} bytes"
    if value and not _QUALIFIED_RE.fullmatch(value):
        rule = f"a valid label must be an empty string or {_NAME_RULE.removeprefix('must ')}"
        yield f"{rule} {_example(_LABEL_VALUE, 'MyValue', 'my_value', '12345')}"


def _example(pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"(e.g. {shown}regex used for validation is '{pattern}')"
