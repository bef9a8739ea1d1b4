"""What a plugin reads of a pod, by the text of its file.

Random pods may never have the one label value for which a filter answers differently. So a signature is advised only if
it leaves out nothing that the file reads of anything but a node, and labels and annotations are tried with the words of
the file. Deliberately generous: what only looks as if it read something costs an advice, and what is overlooked would
hand pods each other's answers.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# By attribute, the part of the pod as `clusters.ASPECTS` has it.
_ASPECT_OF: Final = {
    "labels": "labels",
    "annotations": "annotations",
    "namespace": "namespace",
    "name": "name",
    "uid": "name",
    "key": "name",
    "requests": "requests",
    "priority": "priority",
}
# Names of what is no pod.
_NODES: Final = frozenset(("node", "nodes", "info", "self", "cls", "args", "handle"))
_WAYS_TO_MORE: Final = frozenset(("pod", "metadata", "spec", "status"))


@dataclass(frozen=True, slots=True)
class PodReads:
    """What is read."""

    aspects: frozenset[str]
    others: tuple[str, ...]
    """Attributes of the pod that are none of the aspects."""


def reads_of(source: str) -> PodReads:
    """What a file reads of a pod."""
    tree = ast.parse(source)
    of_node = _NODES | {name for name, _ in _parameters(tree, 1)}
    pods = {"pod"} | {name for name, _ in _parameters(tree, 0)}
    aspects, others = set(), set()
    for read, attribute in _attributes(tree):
        root = _root(read)
        if root in of_node - pods:
            continue
        if attribute in _ASPECT_OF:
            aspects.add(_ASPECT_OF[attribute])
        elif root in pods and attribute not in _WAYS_TO_MORE and _is_the_pod(read):
            others.add(attribute)
    return PodReads(frozenset(aspects), tuple(sorted(others)))


def _parameters(tree: ast.AST, place: int) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The names that per-node functions give their first parameter, the pod, or the second, the node."""
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef) and each.name in {"filter", "score"}:
            names = [argument.arg for argument in each.args.args]
            if len(names) in {2, 3} and names[0] != "self":
                yield names[place], each


def _attributes(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Each attribute that is read, `getattr` with a constant included, with what it is read of.

    Within a declared `sign` nothing is read by the plugin's answers.
    """
    ignored = {
        id(inner)
        for each in ast.walk(tree)
        if isinstance(each, ast.keyword) and each.arg == "sign"
        for inner in ast.walk(each)
    }
    for each in ast.walk(tree):
        if id(each) in ignored:
            continue
        if isinstance(each, ast.Attribute):
            yield each.value, each.attr
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "getattr":
            match each.args:
                case [read, ast.Constant(value=str(attribute)), *_]:
                    yield read, attribute


def _is_the_pod(read: ast.expr) -> bool:
    """Whether it is the pod, or its `spec`, say: `get` in `pod.labels.get` is no attribute of a pod."""
    while isinstance(read, ast.Attribute) and read.attr in _WAYS_TO_MORE:
        read = read.value
    return isinstance(read, ast.Name)


def _root(expression: ast.expr) -> str:
    """`nodes` for `nodes.info(row).labels`; empty for what begins with no name."""
    found: ast.AST = expression
    while not isinstance(found, ast.Name):
        if isinstance(found, ast.Attribute | ast.Subscript | ast.Starred | ast.Await):
            found = found.value
        elif isinstance(found, ast.Call):
            found = found.func
        else:
            return ""
    return found.id
