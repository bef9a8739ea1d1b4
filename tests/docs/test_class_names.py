"""A class name says one thing in the whole project: a reader who searches for it finds one class."""

import ast
from collections import defaultdict
from pathlib import Path

import kscheduler

SOURCES = Path(kscheduler.__file__).parent
# A type of the API, and a plugin or a port of ours: both are called as their readers know them.
AS_KUBERNETES_HAS_THEM = frozenset({"NodeAffinity", "Counter"})
BEING_REBUILT = frozenset({"Tally"})


def test_no_public_class_name_stands_twice() -> None:
    places = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCES)))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: twice[name] for name in twice.keys() - AS_KUBERNETES_HAS_THEM - BEING_REBUILT} == {}
