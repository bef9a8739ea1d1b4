"""A class name says one thing in the whole project: a reader who searches for it finds one class."""

from tests.docs.source_index import PACKAGE, SourceIndex

# A type of the API, and a plugin or a port of ours: both are called as their readers know them.
AS_KUBERNETES_HAS_THEM = frozenset({"NodeAffinity", "Counter"})
# Both are the cluster that a user imports: a value of the library, and that of a plugin's tests, which changes.
AS_USERS_IMPORT_THEM = frozenset({"Cluster"})
BEING_REBUILT = frozenset({"Tally"})


def test_no_public_class_name_stands_twice(index: SourceIndex) -> None:
    places = {
        name: [str(one.path.relative_to(PACKAGE)) for one in found if one.path.is_relative_to(PACKAGE)]
        for name, found in index.classes.items()
        if not name.startswith("_")
    }
    twice = {name: found for name, found in places.items() if len(found) > 1}
    allowed = AS_KUBERNETES_HAS_THEM | AS_USERS_IMPORT_THEM | BEING_REBUILT
    assert {name: twice[name] for name in twice.keys() - allowed} == {}
