"""Objects as callers have them, each with its place for messages: `pods[3]`, `dump.yaml: document 2`.

Taken are dicts as `kubectl get -o json` prints them, also lists of them and List objects; texts in YAML or JSON; names
of files; objects of the `kubernetes` client; and the structs that `make_node` and `make_pod` return. A dict from a list
of pods may lack `kind`, as those in the answers of an API server do.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, Final

from kscheduler.api.codec import copied
from kscheduler.api.core import Node, Pod
from kscheduler.library.cluster_error import ClusterError
from kscheduler.library.configured import is_text
from kscheduler.library.made_objects import MadeObjects
from kscheduler.scenario.documents import yaml_documents
from kscheduler.scenario.errors import ScenarioError, refuse
from kscheduler.scenario.object_files import Document, flattened, nothing_in, read_objects

Tree = dict[str, Any]
# What stands for one object, or for several.
Given = Node | Pod | Mapping[str, Any] | str | PathLike[str] | Iterable[Any]

# By parameter, of objects without a kind.
_KINDS: Final = {"nodes": "Node", "pods": "Pod", "pod": "Pod"}
_SNAKE_CASE: Final = ("api_version", "creation_timestamp", "node_name", "owner_references", "scheduler_name")


@dataclass(slots=True)
class GivenObjects:
    """Manifests that are to be read, and objects that have been read already."""

    documents: list[Document] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was passed over in files."""
    mistakes: list[str] = field(default_factory=list)
    """In nodes and pods that have been read, a line each."""
    _made: MadeObjects = field(default_factory=MadeObjects)

    def add(self, given: Any, where: str, kind: str = "") -> None:
        """Sort in what a caller gave for the parameter `where`. `kind`: of objects without one.

        Raises `ClusterError` and `ScenarioError` for what is no object.
        """
        match given:
            case Node():
                self._check(given, f"{where} (Node {given.metadata.name})")
                self.nodes.append(given)
            case Pod():
                self._check(given, f"{where} (Pod {given.metadata.name})")
                self.pods.append(given)
            case str(text) if is_text(text):
                for tree in _of_text(text, where):
                    self._add_tree(tree, where, kind)
            case str() if not given:
                raise ClusterError(f"{where}: a text is empty: give a manifest, or the name of a file")
            case str() | PathLike():
                self._add_file(fspath(given))
            case Mapping():
                self._add_tree(dict(given), where, kind)
            case _ if hasattr(given, "attribute_map"):
                tree = _of_client(given)
                self._add_tree(tree, where, kind or type(given).__name__.removeprefix("V1"))
            case _ if hasattr(given, "columns") and hasattr(given, "to_dict"):
                advice = "give an object for each row, such as [make_pod(row.name) for row in frame.itertuples()]"
                raise ClusterError(f"{where}: a data frame is no list of objects: {advice}")
            case Iterable() if not isinstance(given, bytes):
                for index, each in enumerate(given):
                    self.add(each, f"{where}[{index}]", kind)
            case _:
                expected = (
                    "a manifest (a dict, a text in YAML, the name of a file) or what make_node and make_pod return"
                )
                raise ClusterError(f"{where}: {expected} was expected, not {type(given).__name__}")

    def _check(self, made: Node | Pod, place: str) -> None:
        self.mistakes.extend(f"{place}: {mistake}" for mistake in self._made.mistakes(made))

    def _add_tree(self, tree: Any, where: str, kind: str) -> None:
        if isinstance(tree, dict):
            _refuse_snake_case(tree, where)
            if kind and "kind" not in tree:
                of_items = f"{kind}List" if isinstance(tree.get("items"), list) else kind
                tree = {"apiVersion": "v1", "kind": of_items, **tree}
        self.documents.extend(flattened(copied(tree), where))

    def _add_file(self, path: str) -> None:
        found = read_objects([path], self.notes)
        if not found:
            raise nothing_in([path])
        self.documents.extend(found)


def given_objects(**parameters: Any) -> GivenObjects:
    """What a caller gave, by the name of the parameter. Raises `ClusterError`, `ScenarioError`.

    In `nodes` and `pods` objects without a kind are nodes and pods.
    """
    found = GivenObjects()
    for name, given in parameters.items():
        found.add(given, name, _KINDS.get(name, ""))
    refuse(found.mistakes)
    return found


def _of_text(text: str, where: str) -> Iterator[Any]:
    """The documents of a text; JSON is YAML, too."""
    yield from yaml_documents(text.encode(), where)


def _of_client(given: Any) -> Any:
    """An object of the `kubernetes` client as its JSON: the names of fields are in its `attribute_map`."""
    if hasattr(given, "attribute_map"):
        values = ((name, getattr(given, attribute, None)) for attribute, name in given.attribute_map.items())
        return {name: _of_client(value) for name, value in values if value is not None}
    if isinstance(given, Mapping):
        return {key: _of_client(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_of_client(each) for each in given]
    return given


def _refuse_snake_case(tree: Tree, where: str) -> None:
    """Raises `ScenarioError` for what `to_dict()` of a client's object returns: its names are not those of the API."""
    parts = [tree, *(part for part in (tree.get("metadata"), tree.get("spec")) if isinstance(part, Mapping))]
    found = next((name for part in parts for name in _SNAKE_CASE if name in part), "")
    if found:
        raise ScenarioError(
            f"{where}: {found}: is not a field of the API, which writes it in camelCase: give the client's object "
            "itself in place of its `to_dict()`"
        )
