"""The line of a file on which a field stands, for messages about a field.

Mistakes are found after the file has become typed values, which know their paths and no lines. So the file is read once
more, only where there is something to report, into PyYAML's nodes, which have marks.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import yaml

from kscheduler.api.manifest_yaml import LOADER, text_of
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.reading.yaml_tree import parse_yaml

# How the parser's own mistakes name their place.
_MARK: Final = re.compile(r"line (\d+), column (\d+)")
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


class Lines:
    """The lines of one file's fields, counted from 1."""

    def __init__(self, data: bytes) -> None:
        """`data` that `parse_yaml` refuses has no fields, and so no lines.

        It is asked first because libyaml's composer goes down with the nesting: a hundred thousand brackets are more
        than the C stack holds, and no exception tells of that.
        """
        self._root: Any = None
        try:
            parse_yaml(data)
        except ConfigError:
            return
        self._root = yaml.compose(text_of(data), Loader=LOADER)

    def of(self, path: str) -> int | None:
        """The line of a field, as `profiles[0].schedulerName`; of the deepest part that is in the file.

        `None` for the file as a whole, and for a field of which not even the first part is there.
        """
        mark = mark_of(path)
        if mark is not None:
            return mark[0]
        node, line = self._root, None
        for index, name in _STEP.findall(path):
            found = _element(node, int(index)) if index else _field(node, name)
            if found is None:
                break
            marked, node = found
            line = marked.start_mark.line + 1
        return line


def mark_of(path: str) -> tuple[int, int] | None:
    """Line and column where the parser itself has found a mistake; `None` for the path of a field."""
    mark = _MARK.fullmatch(path)
    return None if mark is None else (int(mark[1]), int(mark[2]))


def with_lines(problems: Iterable[Problem], data: bytes) -> Iterator[Problem]:
    """The problems, each with the line of the file that its path leads to."""
    lines = Lines(data)
    return (replace(problem, line=lines.of(problem.path)) for problem in problems)


def _field(node: Any, name: str) -> tuple[Any, Any] | None:
    """The key's node and the value's."""
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(((key, value) for key, value in node.value if key.value == name), None)


def _element(node: Any, index: int) -> tuple[Any, Any] | None:
    if not isinstance(node, yaml.SequenceNode) or index >= len(node.value):
        return None
    return node.value[index], node.value[index]
