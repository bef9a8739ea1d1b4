"""A tree of YAML whose fields and items know the lines of the file, and the list of what is not converted.

A converted file has other paths than the one that was read, so a path cannot lead back. Therefore each object and list
carries its lines with it, wherever it is moved.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from kscheduler.api.manifest_yaml import LOADER, text_of
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.reading.yaml_tree import parse_yaml

# From a line of a text to the line of the file that the text stands in.
LineOf = Callable[[int], int]


class Fields(dict[str, Any]):
    """An object of the file."""

    def __init__(self, line: int = 0) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}
        """Of each field's name."""
        self.texts: dict[str, LineOf] = {}
        """Of each field with text of its own lines: where they are in the file."""

    def line_of(self, *names: str) -> int:
        """The line of the first of these fields that is there, or that of the object."""
        return next((self.lines[name] for name in names if name in self.lines), self.line)

    def without(self, names: Collection[str]) -> "Fields":
        """A copy without these fields, and without those that are null, which means that they are not given."""
        copy = Fields(self.line)
        for name, value in self.items():
            if name not in names and value is not None:
                copy[name], copy.lines[name] = value, self.line_of(name)
        return copy


class Items(list[Any]):
    """A list of the file."""

    def __init__(self, line: int = 0) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is not converted, or not as it was."""

    line: int
    name: str
    reason: str


class Notes(list[Note]):
    """What is not converted. The same reason for the same name is told once, and then refers to its line."""

    def add(self, line: int, name: str, reason: str) -> None:
        """Note it, by the line of the file."""
        same = next((note for note in self if note.name == name and note.reason == reason), None)
        if same is None:
            self.append(Note(line, name, reason))
        elif same.line != line:
            self.append(Note(line, name, f"as in line {same.line}"))


def objects_in(parent: Fields, name: str, notes: Notes) -> Iterator[Fields]:
    """The objects of a list of the file. What is no list or no object is noted; null is an empty object, as in Go."""
    value = parent.get(name)
    if value is None:
        return
    if not isinstance(value, Items):
        notes.add(parent.line_of(name), name, "not converted: it is no list")
        return
    for index, each in enumerate(value):
        if isinstance(each, Fields):
            yield each
        elif each is None:
            yield Fields(value.lines[index])
        else:
            notes.add(value.lines[index], f"{name}[{index}]", "not converted: it is no object")


def texts_in(value: Any) -> list[str]:
    """The texts of a list of the file."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def documents(data: bytes, line_of: LineOf, where: str = "") -> Iterator[tuple[Any, int]]:
    """The documents of a text, each with its line. Raises `ConfigError`, as for a file that is read by itself.

    A rendered chart has its configuration among other documents: each is read by itself, with the limits of a file.
    """
    try:
        lines = text_of(data).splitlines(keepends=True)
        starts = _document_starts(text_of(data))
    except (yaml.YAMLError, ValueError):
        starts, lines = [], []
    if len(starts) < 2:
        yield _located(data, line_of, where), line_of(1)
        return
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        part = "".join(lines[start:end]).encode()
        yield _located(part, lambda line, start=start: line_of(line + start), where), line_of(start + 1)  # type: ignore[misc]


def _document_starts(text: str) -> list[int]:
    """The lines, counted from 0."""
    events = yaml.parse(text, Loader=LOADER)
    return [
        event.start_mark.line for event in events if isinstance(event, yaml.DocumentStartEvent) and event.start_mark
    ]


def _located(data: bytes, line_of: LineOf, where: str) -> Any:
    try:
        tree = parse_yaml(data)
    except ConfigError as failure:
        raise ConfigError((Problem(each.path, each.message) for each in failure.problems), where) from None
    # Only what `parse_yaml` has accepted is composed: it bounds the depth.
    return _with_lines(tree, yaml.compose(text_of(data), Loader=LOADER), line_of)


def _with_lines(tree: Any, node: Any, line_of: LineOf) -> Any:
    line = 0 if node is None else line_of(node.start_mark.line + 1)
    if isinstance(tree, dict):
        fields = Fields(line)
        for (name, value), (key, inner) in zip(tree.items(), node.value, strict=True):
            fields.lines[name] = line_of(key.start_mark.line + 1)
            fields.texts[name] = _line_of_text(inner, line_of)
            fields[name] = _with_lines(value, inner, line_of)
        return fields
    if isinstance(tree, list):
        items = Items(line)
        for value, inner in zip(tree, node.value, strict=True):
            items.lines.append(line_of(inner.start_mark.line + 1))
            items.append(_with_lines(value, inner, line_of))
        return items
    return tree


def _line_of_text(node: Any, line_of: LineOf) -> LineOf:
    """The lines of a block (`|`) follow the line of its mark; any other text has but one."""
    first = node.start_mark.line + 1
    is_block = isinstance(node, yaml.ScalarNode) and node.style == "|"
    return lambda line: line_of(first + line if is_block else first)


# Of the file itself.
FILE_LINES: Final[LineOf] = int


def plain(tree: Any) -> Any:
    """The tree without lines, as a YAML writer wants it."""
    if isinstance(tree, dict):
        return {name: plain(value) for name, value in tree.items()}
    return [plain(item) for item in tree] if isinstance(tree, list | tuple) else tree
