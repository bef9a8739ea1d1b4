"""What is asked: new objects, nodes that come, go or change, as flags or a request have it.

Nothing here knows a scheduler's rules: a command that the running service answers reads its flags and files, and sends
them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kscheduler.api.kinds import KINDS, RESOURCE_CLAIM_TEMPLATES
from kscheduler.api.priority import PRIORITY_CLASS
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import nearest
from kscheduler.scenario.files import named_files, source_name
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.new_objects import called
from kscheduler.scenario.new_pods import WORKLOADS, counts_in, pods_wanted, why_none
from kscheduler.scenario.object_files import Document, read_objects
from kscheduler.simulate.requested_nodes import MoreNodes, NodeEdit

Tree = dict[str, Any]

# Of one question.
MAX_NEW_PODS: Final = 20_000
# Objects that a message names.
MAX_NAMED: Final = 20
# Kinds that scheduling rules read.
_KINDS: Final = frozenset(kind.name for kind in KINDS.values())


@dataclass(frozen=True, slots=True)
class NewObjects:
    """Manifests of what does not exist yet."""

    where: str
    """Where they come from, for messages."""
    documents: tuple[Document, ...]
    notes: tuple[str, ...] = ()
    """What was not read."""


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """What is asked."""

    new_objects: Sequence[NewObjects] = ()
    replicas: int | None = None
    namespace: str = "default"
    more_nodes: tuple[MoreNodes, ...] = ()
    gone_nodes: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    edits: tuple[NodeEdit, ...] = ()
    capacity: bool = False


def new_objects_of(given: Sequence[str]) -> list[NewObjects]:
    """The manifests of each file that the names stand for. Raises `ScenarioError`."""
    files, not_read = named_files(given)
    found, problems = list[NewObjects](), list[str]()
    for path in files:
        notes, not_read = not_read, []
        documents = read_objects([path], notes)
        for document in documents:
            refuse_too_many(document)
        try:
            found.append(new_objects(path, documents, notes))
        except ScenarioError as problem:  # the other files may do
            problems.append(str(problem))
    if problems and not found:
        raise ScenarioError("\n".join(problems))
    return [replace(each, notes=(*problems, *each.notes)) if each is found[0] else each for each in found]


def new_objects(where: str, documents: Sequence[Document], notes: Sequence[str] = ()) -> NewObjects:
    """The manifests of kinds that are known; others are noted. Raises `ScenarioError` if nothing is left of them."""
    if not documents:
        nothing = "no object in it, only an empty file or list: give pods, or what makes pods"
        raise ScenarioError("\n".join([*notes, f"{source_name(where)}: {nothing}"]))
    reported: list[str] = []
    found = known(documents, reported, are_new=True)
    if not found:
        raise ScenarioError("\n".join([f"{source_name(where)}: {why_no_pods(documents, None)}", *reported]))
    return NewObjects(where, tuple(found), (*notes, *reported))


def refuse_too_many(document: Document) -> None:
    """A workload's own count is bounded as `replicas` is: else making its pods would go on until the process is killed.

    Raises `ScenarioError`.
    """
    for path, count in counts_in(document.tree).items():
        if isinstance(count, int) and not 0 <= count <= MAX_NEW_PODS and not path.endswith("completions"):
            raise ScenarioError(f"{document.where}: {path}: {count} is not from 0 to {MAX_NEW_PODS}")


def templates_in(news: Iterable[NewObjects], namespace: str) -> Iterator[tuple[str, str]]:
    """Namespace and name of each template that claims of the new pods are made from, and that is not among them."""
    documents = [document.tree for given in news for document in given.documents]
    given = {_place(tree, namespace) for tree in documents if tree.get("kind") == RESOURCE_CLAIM_TEMPLATES.name}
    field = "resourceClaimTemplateName"
    named = [(_place(tree, namespace)[0], name) for tree in documents for name in _texts(tree, field)]
    yield from (place for place in dict.fromkeys(named) if place not in given)


def classes_for(news: Iterable[NewObjects], classes: Mapping[str, Tree]) -> Iterator[Tree]:
    """Of these PriorityClasses those that new pods name, or get by default, and that are not among the new objects."""
    documents = [document.tree for given in news for document in given.documents]
    given = {_place(tree, "")[1] for tree in documents if tree.get("kind") == PRIORITY_CLASS}
    named = {name for tree in documents for name in _texts(tree, "priorityClassName")}
    yield from (
        tree for name, tree in classes.items() if name not in given and (name in named or tree.get("globalDefault"))
    )


def _place(tree: Tree, namespace: str) -> tuple[str, str]:
    metadata = tree.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    return str(known.get("namespace") or namespace), str(known.get("name"))


def _texts(tree: Any, field: str) -> Iterator[str]:
    """What a field says in a pod, or in the pod template anywhere in an object."""
    if isinstance(tree, dict):
        text = tree.get(field)
        if text and isinstance(text, str):
            yield text
        for part in tree.values():
            yield from _texts(part, field)
    elif isinstance(tree, list):
        for part in tree:
            yield from _texts(part, field)


def makes_no_pods(document: Document) -> str:
    """Of a workload whose controller makes no pods why, with the way to see all the same where they would go."""
    reason = why_none(document.tree) if document.tree.get("kind") in WORKLOADS else ""
    if not reason:
        return ""
    count = pods_wanted(document.tree) or "N"
    return f"{called(document)} makes no pods as it stands: {reason}; with --replicas {count} they are tried"


def may_make_none(document: Document) -> bool:
    """Whether "no pods" is an answer about this object: no node suits a DaemonSet, a Job is suspended."""
    kind = document.tree.get("kind")
    return kind == "DaemonSet" or (pods_wanted(document.tree) > 0 and makes_no_pods(document) != "")


def why_no_pods(documents: Sequence[Document], replicas: int | None) -> str:
    """`no pod and nothing that makes pods: Deploymnet web (do you mean Deployment?)`."""
    found = []
    for document in documents[:MAX_NAMED]:
        kind = str(document.tree.get("kind"))
        if kind in WORKLOADS and not pods_wanted(document.tree, replicas):
            found.append(f"{called(document)} asks for 0 pods (--replicas N tries some)")
        else:
            near = "" if kind in _KINDS or kind in WORKLOADS else nearest(kind, (*WORKLOADS, *_KINDS))
            found.append(f"{called(document)}{f' (do you mean {near}?)' if near else ''}")
    named = f": {', '.join(found)}" if found else ""
    return f"no pod and nothing that makes pods{named}"
