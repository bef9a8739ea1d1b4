"""A suggestion is one class in one file, and a line in the list of all kinds."""

import ast
from collections.abc import Iterator
from pathlib import Path

from kscheduler.explain import suggestions
from kscheduler.explain.suggestions.all_kinds import KINDS, POD_KINDS
from kscheduler.explain.suggestions.suggestion import PodChange, SuggestionKind


def kinds_below(base: type[SuggestionKind]) -> Iterator[type[SuggestionKind]]:
    """Classes with a name in JSON, wherever they stand."""
    for kind in base.__subclasses__():
        if "kind" in vars(kind):
            yield kind
        yield from kinds_below(kind)


def test_each_kind_that_there_is_stands_in_the_list_once() -> None:
    assert sorted(KINDS, key=str) == sorted(kinds_below(SuggestionKind), key=str)
    assert list(POD_KINDS) == [kind for kind in KINDS if issubclass(kind, PodChange)]
    assert len({kind.kind for kind in KINDS}) == len(KINDS)


def test_nothing_but_the_list_names_a_kind_of_another_module() -> None:
    names = {kind.__name__ for kind in KINDS}
    imported = {
        (path.stem, alias.name)
        for path in Path(suggestions.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and path.stem != "all_kinds"
        for alias in node.names
        if alias.name in names
    }
    assert imported == {("for_many", "LowerRequest")}, "which lowers a request further, until most of the pods fit"
