"""Arguments of a custom plugin: a tree to the struct that the plugin declares.

Such a struct may hold whatever msgspec can convert (unions, enums, dates, constraints, a `__post_init__` that raises
`ValueError`), which `decode` does not know. So msgspec converts; here each field is converted by itself first, because
msgspec stops at the first mistake and a user wants them all, and its paths (`$.a[0]`) are told as ours.
"""

from typing import Any, TypeVar

import msgspec

from kscheduler.config.errors import Problem
from kscheduler.config.reading.decode import Walk, child
from kscheduler.config.reading.yaml_tree import Tree

S = TypeVar("S", bound=msgspec.Struct)


def converted(tree: Tree, kind: type[S], path: str, walk: Walk) -> S | None:
    """The struct, or `None` with the mistakes noted in the walk. Missing arguments are an empty object."""
    tree = {} if tree is None else tree
    if not isinstance(tree, dict):
        walk.wrong(path, f"expected an object, got {type(tree).__name__}")
        return None
    given = {name: value for name, value in tree.items() if value is not None}
    walk.given.update(child(path, name) for name in given)
    problems = [*_unknown(given, kind, path), *_wrong_fields(given, kind, path)]
    if problems:
        walk.problems.extend(problems)
        return None
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as mistake:  # a field is missing, or the struct's own check does not like it
        walk.problems.append(_problem(mistake, path))
        return None


def _unknown(given: dict[str, Any], kind: type[msgspec.Struct], path: str) -> list[Problem]:
    known = {name.lower(): name for name in kind.__struct_encode_fields__}
    return [
        Problem(child(path, name[:80]), f"unknown field: did you mean {known[name.lower()]}?")
        if name.lower() in known
        else Problem(child(path, name[:80]), f"unknown field; it has {', '.join(known.values()) or 'none'}")
        for name in given
        if name not in kind.__struct_encode_fields__
    ]


def _wrong_fields(given: dict[str, Any], kind: type[msgspec.Struct], path: str) -> list[Problem]:
    problems = []
    for field in msgspec.structs.fields(kind):
        if field.encode_name in given:
            try:
                msgspec.convert(given[field.encode_name], field.type)
            except msgspec.ValidationError as mistake:
                problems.append(_problem(mistake, child(path, field.encode_name)))
    return problems


def _problem(mistake: msgspec.ValidationError, path: str) -> Problem:
    text, _, inner = str(mistake).partition(" - at `$")
    return Problem(f"{path}{inner.removesuffix('`')}", text[:1].lower() + text[1:])
