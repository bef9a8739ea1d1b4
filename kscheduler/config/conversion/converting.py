"""A file of another version or scheduler to one that can be used here, and the list of what that leaves out."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from kscheduler.config.conversion.located import Fields, Items, Note, Notes, plain
from kscheduler.config.conversion.manifests import FlagCheck, of_manifest
from kscheduler.config.conversion.policies import of_policy
from kscheduler.config.conversion.sources import CONFIGURATION, MANIFEST, POLICY, VOLCANO, source_in
from kscheduler.config.conversion.versions import of_version
from kscheduler.config.conversion.volcano import of_volcano
from kscheduler.config.errors import ConfigError

# What is wrong with a configuration, as `kscheduler config check` says it.
Check = Callable[[bytes], ConfigError | None]

_CONVERSIONS: Final[Mapping[str, Callable[[Fields, str, Notes], dict[str, Any]]]] = {
    CONFIGURATION: of_version,
    POLICY: of_policy,
    VOLCANO: of_volcano,
}
_FIRST: Final = ("apiVersion", "kind", "podGroupAPIs", "leaderElection", "clientConnection")
_ESSENTIAL: Final = frozenset(("apiVersion", "kind", "profiles"))
_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
# Leaving out a field may show another mistake, but not forever.
_MAX_LOOKS: Final = 20


@dataclass(frozen=True, slots=True)
class Converted:
    """The result."""

    text: str
    """The configuration, or the manifest, as YAML."""
    notes: tuple[Note, ...]
    """What is not converted, in the order of the file's lines."""


def convert(data: bytes, where: str, check: Check, flag_check: FlagCheck) -> Converted:
    """Convert a file. Raises `ConfigError` where nothing can be made of it. `flag_check`: of the flags of a manifest.

    A field that the result's check refuses is left out and noted, so that what is printed can be used.
    """
    notes = Notes()
    source = source_in(data, where, notes)
    if source.form == MANIFEST:
        manifest = of_manifest(source.tree, where, notes, flag_check)
        return Converted(_dumped(manifest), tuple(sorted(notes, key=lambda note: note.line)))
    tree = _CONVERSIONS[source.form](source.tree, where, notes)
    text = _written(tree)
    failure = check(text.encode())
    for _ in range(_MAX_LOOKS):
        if failure is None:
            break
        # From the last to the first: what is left out of a list moves what stands behind it.
        found = sorted(failure.problems, key=lambda problem: problem.line or 0, reverse=True)
        if not [problem for problem in found if _leave_out(tree, problem.path, problem.message, notes)]:
            break
        text = _written(tree)
        failure = check(text.encode())
    if failure is not None:
        raise failure
    return Converted(text, tuple(sorted(notes, key=lambda note: note.line)))


def _written(tree: dict[str, Any]) -> str:
    ordered = {name: tree[name] for name in (*_FIRST, *sorted(tree.keys() - set(_FIRST))) if name in tree}
    return _dumped(plain(ordered))


def _dumped(tree: dict[str, Any]) -> str:
    text: str = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120)
    return text


def _leave_out(tree: dict[str, Any], path: str, message: str, notes: Notes) -> bool:
    """Take the field with this path out of the tree; `False` if there is none, or the file would be another without."""
    steps = [int(index) if index else name for index, name in _STEP.findall(path)]
    node: Any = tree
    last: tuple[Any, Any] | None = None
    line = 0
    for depth, step in enumerate(steps):
        is_there = step < len(node) if isinstance(node, list) and isinstance(step, int) else False
        if not (is_there or (isinstance(node, dict) and step in node)):
            break  # something is missing: what it is missing from goes
        if isinstance(step, int) or depth == len(steps) - 1:
            last = node, step
        line = _line_at(node, step) or line
        node = node[step]
    if last is None or last[0] is tree.get("profiles") or (last[0] is tree and last[1] in _ESSENTIAL):
        return False
    parent, step = last
    del parent[step]
    if isinstance(parent, Items) and step < len(parent.lines):
        del parent.lines[step]
    notes.add(line, path, f"not converted: {message}")
    return True


def _line_at(parent: Any, step: Any) -> int:
    node = parent[step]
    if isinstance(parent, Fields):
        return parent.line_of(step)
    if isinstance(node, Fields):
        return node.line
    return parent.lines[step] if isinstance(parent, Items) and step < len(parent.lines) else 0
