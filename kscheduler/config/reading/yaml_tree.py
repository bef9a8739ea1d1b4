"""YAML to a tree of dicts, lists and scalars: safely, and with scalars as kube-scheduler reads them.

The problem: 258 bytes of aliases grow to gigabytes, one of two values for the same key is silently dropped, tags
construct objects, and YAML libraries disagree on what `on`, `1e3` or `1:30` is. The idea: the parser's events are
folded into a tree with an explicit stack, and every event that a configuration does not need is an error with line and
column. Plain scalars follow the Go library that kube-scheduler uses (YAML 1.1 booleans with `yes` and `on`, no base-60
numbers, no dates).

Limits: one document of at most 1 MiB and 20,000 values, nested at most 50 deep, so that no file costs more than about
a second and 50 MiB with libyaml. If PyYAML was built without libyaml, its own parser reads the same tree with the same
checks, at about a twentieth of the speed. JSON is read the same way, as YAML includes it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from kscheduler.api.manifest_yaml import LOADER, plain_scalar, problem_text, text_of
from kscheduler.config.errors import ConfigError, config_error

MAX_BYTES = 2**20
MAX_DEPTH = 50
# libyaml's own words since 0.2.6: it looks a thousand characters ahead, and may say so before we have counted.
_TOO_DEEP: Final = "exceeded maximum nesting depth"
# Names, scalars, lists and objects together. A profile with everything written out has about 500.
MAX_VALUES = 20_000
# None, bool, int, float, str, or a list or dict (with str keys) of these.
Tree = Any

# The parser in Python turns the escape `\ud800` into a surrogate; libyaml rejects it.
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class _FaultError(Exception):
    """Something that a configuration must not contain, with the event that has it."""

    def __init__(self, message: str, event: yaml.Event) -> None:
        super().__init__(message)
        self.event = event


@dataclass(slots=True)
class _Open:
    """A list or dict that is being filled; `key` is the key whose value comes next."""

    children: list[Tree] | dict[str, Tree]
    key: str | None = None


def parse_yaml(data: bytes, where: str = "", *, loader: Any = LOADER) -> Tree:
    """The single document in the text; `None` if it is empty. Raises `ConfigError` with line and column.

    `loader` is a PyYAML loader class, of which only the parser is used.
    """
    text = _text(data, where)
    try:
        return _fold(yaml.parse(text, Loader=loader))
    except _FaultError as fault:
        raise config_error(_place_of(fault.event.start_mark), str(fault), where) from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, where) from None
    except yaml.YAMLError as error:
        raise config_error("", f"not YAML: {' '.join(str(error).split())}", where) from None
    except (ValueError, OverflowError) as error:
        # The parser in Python does not check digits before it converts them: `%YAML 1.999...`, the escape `\UFFFFFFFF`.
        raise config_error("", f"not YAML: {error}", where) from None


def _text(data: bytes, where: str) -> str:
    if len(data) > MAX_BYTES:
        raise config_error("", f"larger than 1 MiB ({len(data)} bytes)", where)
    try:
        return text_of(data)
    except UnicodeDecodeError as error:
        raise config_error("", f"not UTF-8 text: {error.reason} at byte {error.start}", where) from None


def _syntax_error(error: yaml.MarkedYAMLError, where: str) -> ConfigError:
    place = _place_of(error.problem_mark or error.context_mark)
    if error.problem == _TOO_DEEP:
        return config_error(place, f"nested more than {MAX_DEPTH} deep", where)
    return config_error(place, f"not YAML: {problem_text(error)}", where)


def _place_of(mark: Any) -> str:
    """The line and column of a mark of either PyYAML parser; empty without a mark."""
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""


def _fold(events: Iterator[yaml.Event]) -> Tree:
    stack: list[_Open] = []
    documents: list[Tree] = []
    values = 0
    for event in events:
        _refuse_unwanted(event)
        values += isinstance(event, yaml.NodeEvent)
        if values > MAX_VALUES:
            raise _FaultError(f"more than {MAX_VALUES:,} values", event)
        match event:
            case yaml.ScalarEvent():
                _place(stack, documents, _scalar(event), event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                _open(stack, documents, event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                stack.pop()
            case yaml.DocumentStartEvent() if documents:
                _refuse_second_document(events, event)
    return documents[0] if documents else None


def _refuse_second_document(events: Iterator[yaml.Event], start: yaml.Event) -> None:
    """A trailing `---` with nothing after it is common and harmless; content after it would be ignored."""
    first = next(events)
    if not (isinstance(first, yaml.ScalarEvent) and first.value == ""):
        raise _FaultError("a second document: write one configuration in a file", start)


def _refuse_unwanted(event: yaml.Event) -> None:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise _FaultError("anchors and aliases (& and *) are not allowed: write the value out", event)
    tag = getattr(event, "tag", None)
    if tag is not None:
        raise _FaultError(f"the tag {tag[:80]} is not allowed", event)


def _open(stack: list[_Open], documents: list[Tree], event: yaml.Event) -> None:
    if len(stack) >= MAX_DEPTH:
        raise _FaultError(f"nested more than {MAX_DEPTH} deep", event)
    children: list[Tree] | dict[str, Tree] = {} if isinstance(event, yaml.MappingStartEvent) else []
    _place(stack, documents, children, event)
    stack.append(_Open(children))


def _place(stack: list[_Open], documents: list[Tree], value: Tree, event: yaml.Event) -> None:
    if not stack:
        if value is not None:
            documents.append(value)
        return
    parent = stack[-1]
    if isinstance(parent.children, list):
        parent.children.append(value)
    elif parent.key is None:
        parent.key = _key(parent.children, value, event)
    else:
        parent.children[parent.key] = value
        parent.key = None


def _key(siblings: dict[str, Tree], value: Tree, event: yaml.Event) -> str:
    if isinstance(value, (dict, list)) or value is None:
        raise _FaultError("a field's name must be text", event)
    key = _key_text(value)
    if key == "<<":
        raise _FaultError("merge keys (<<) are not allowed: write the fields out", event)
    if key in siblings:
        raise _FaultError(f"the field {key[:80]!r} is given twice", event)
    return key


def _key_text(value: bool | float | str) -> str:
    """The key as JSON would spell it: `true`, and `10` for 1e1."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else str(value).lower()


def _scalar(event: yaml.ScalarEvent) -> Tree:
    if not event.value.isascii() and _SURROGATE.search(event.value):
        raise _FaultError("half a character (a surrogate) is not text", event)
    # `implicit[0]` is PyYAML's name for "plain and untagged": only such text may be a number, a boolean or null.
    if not event.implicit[0] or event.style:
        return event.value
    try:
        return plain_scalar(event.value)
    except ValueError as error:
        raise _FaultError(str(error), event) from None
