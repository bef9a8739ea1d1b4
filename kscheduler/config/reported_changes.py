"""What an operator is told about a changed configuration: each change with its place, the value before and after.

Both are compared as trees, as a file spells them, with all defaults. Things in lists are compared by their names, so
a profile that moved within the list has not changed. Plugins of a profile are told by extension point:
`profiles[a].plugins.score: NodeResourcesFit weight 1 -> 7, ImageLocality disabled`. Whether a default entry at
`multiPoint` or one at the point itself gives the weight makes no difference to the reader, so it makes none here.

Limits: texts are cut and of many changes the first are told; values that a name calls secret are not told at all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kscheduler.config.errors import shown
from kscheduler.config.extenders import without_secrets
from kscheduler.config.loader import LoadedConfig, to_tree

MAX_REPORTED: Final = 20
LONGEST_REPORTED: Final = 200
# Fields that tell the things of a list apart.
_NAMES: Final = ("name", "schedulerName", "urlPrefix", "file", "module")
# Lists of named things whose order matters.
_ORDERED: Final = ("extenders",)
_SECRET: Final = re.compile("token|password|secret|keydata|apikey|api_key", re.IGNORECASE)
# Levels that are looked into; below, a value is told as a whole.
_DEEPEST: Final = 20
_PLUGINS: Final = re.compile(r"profiles\[[^.]*\]\.plugins")
_MULTI_POINT: Final = "multiPoint"

Tree = Mapping[str, Any]


def reported_changes(old: LoadedConfig, new: LoadedConfig) -> tuple[str, ...]:
    """One text for each change; the last one may say how many more there are."""
    before, after = (to_tree(without_secrets(loaded.configuration)) for loaded in (old, new))
    found = [
        text if len(text) <= LONGEST_REPORTED else f"{text[: LONGEST_REPORTED - 3]}..."
        for text in _of(before, after, "")
    ]
    more = len(found) - MAX_REPORTED
    return (*found[:MAX_REPORTED], f"and {more} more") if more > 0 else tuple(found)


def _of(before: Any, after: Any, path: str) -> Iterator[str]:
    """The changes of a value, of which one side may be missing (`None`)."""
    if before == after:
        return
    if _PLUGINS.fullmatch(path):
        yield from _of_plugins(before or {}, after or {}, path)
    elif path.count(".") < _DEEPEST and isinstance(before, Mapping | None) and isinstance(after, Mapping | None):
        before, after = before or {}, after or {}
        for name in (*before, *(name for name in after if name not in before)):
            yield from _of(before.get(name), after.get(name), f"{path}.{name}" if path else str(name))
    elif (old := _by_name(before)) is not None and (new := _by_name(after)) is not None and (old or new):
        yield from _of_named(old, new, path)
    elif _SECRET.search(path.rpartition(".")[2]):
        yield f"{path}: changed"
    else:
        yield f"{path}: {_text(before)} -> {_text(after)}"


def _of_named(before: Tree, after: Tree, path: str) -> Iterator[str]:
    yield from (f"{path}: {name} removed" for name in before if name not in after)
    yield from (f"{path}: {name} added" for name in after if name not in before)
    common = [name for name in before if name in after]
    for name in common:
        yield from _of(before[name], after[name], f"{path}[{name}]")
    if path in _ORDERED and common != [name for name in after if name in before]:
        yield f"{path}: the order is now {', '.join(after)}"


def _by_name(value: Any) -> Tree | None:
    """The things of a list by their names; `None`: it is no list of things with names of their own."""
    if value is None:
        return {}
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    found: dict[str, Any] = {}
    for each in value:
        name = next((each[field] for field in _NAMES if each.get(field)), None) if isinstance(each, Mapping) else None
        if not isinstance(name, str) or name in found:
            return None
        found[name] = each
    return found


def _text(value: Any) -> str:
    if value is None:
        return "unset"
    return value if isinstance(value, str) and value else shown(value)


# --- plugins of a profile ---------------------------------------------------------------------------------------------


def _of_plugins(before: Tree, after: Tree, path: str) -> Iterator[str]:
    for point in (*before, *(name for name in after if name not in before)):
        words = list(_of_point(before, after, point))
        if words:
            yield f"{path}.{point}: {', '.join(words)}"


def _of_point(before: Tree, after: Tree, point: str) -> Iterator[str]:
    """What happens to the plugins of one extension point: `ImageLocality disabled`."""
    old, new = _enabled(before, point), _enabled(after, point)
    was_disabled, is_disabled = _disabled(before, point), _disabled(after, point)
    of_old_multi, of_new_multi = _enabled(before, _MULTI_POINT), _enabled(after, _MULTI_POINT)
    for name, weight in new.items():
        known = old if name in old else of_old_multi
        if name not in old and (known.get(name) is None or name in was_disabled):
            yield f"{name} enabled" + (f" with weight {weight}" if weight else "")
        elif known[name] != weight:
            yield f"{name} weight {known[name] or 1} -> {weight or 1}"
    for name, weight in old.items():
        if name in new or name in is_disabled or "*" in is_disabled - was_disabled:
            continue
        if weight and of_new_multi.get(name):
            yield f"{name} weight {weight} -> {of_new_multi[name]}"
        else:
            yield f"{name} no longer enabled"
    yield from (f"{name} disabled" for name in sorted(is_disabled - was_disabled) if name not in new)
    yield from (f"{name} no longer disabled" for name in sorted(was_disabled - is_disabled) if name not in new)
    common = [name for name in old if name in new]
    if common != [name for name in new if name in old]:
        yield f"the order is now {', '.join(new)}"


def _enabled(plugins: Tree, point: str) -> dict[str, int | None]:
    return {entry["name"]: entry.get("weight") for entry in plugins.get(point, {}).get("enabled", ())}


def _disabled(plugins: Tree, point: str) -> frozenset[str]:
    return frozenset(entry["name"] for entry in plugins.get(point, {}).get("disabled", ()))
