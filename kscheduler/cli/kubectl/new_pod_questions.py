"""How the new pods of manifests are divided into questions to the running service, which answers sixteen at once.

The problem: pods of one group, or of groups of one tree, must be in one question, and the service counts them as one,
but only where it follows groups of their API. Whether it does is not known here: elsewhere each of them counts.

The idea: what belongs together is a *unit*. Pods without a group go sixteen by sixteen, and units go together as long
as they have sixteen manifests, so that no body has more to answer. A unit that is larger goes alone. If the service
finds too many pods in it, it does not follow the group: then its pods are asked about sixteen by sixteen as well.

Limit: a tree whose groups only the cluster has is not known here; its groups may get into several questions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kscheduler.scenario.new_objects import fields_of, pod_groups_named_in
from kscheduler.scenario.object_files import Document

Tree = dict[str, Any]
# As many as `kscheduler.explain.queries.new_pods_request.MAX_EXPLAINED`, which only a scheduler imports.
MAX_QUERIED_AT_ONCE: Final = 16


class PodManifest(NamedTuple):
    """A manifest of a pod, or of what makes pods."""

    document: Document
    pod: Tree
    """Its first pod; empty: it cannot be read."""
    admitted: Tree | str | None
    """What the API server makes of the pod."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked at once."""

    body: Tree
    parts: Sequence["Question"] = ()
    """What to ask instead if the service finds too many pods in it."""


# Makes the body of a question about some manifests, and about the groups that go along with them.
MakeBody = Callable[[Sequence[PodManifest], Sequence[Document]], Tree]


@dataclass(slots=True, eq=False)
class _Unit:
    """Pods and groups that have to be in one question."""

    makers: list[PodManifest] = field(default_factory=list)
    groups: list[Document] = field(default_factory=list)

    @property
    def size(self) -> int:
        return max(1, len(self.makers))


def questions_about(
    makers: Sequence[PodManifest], groups: Sequence[Document], namespace: str, make_body: MakeBody
) -> list[Question]:
    """The questions. `groups`: of the manifests. `namespace`: of objects that name none."""
    alone = [maker for maker in makers if not pod_groups_named_in(maker.pod)]
    members = [maker for maker in makers if pod_groups_named_in(maker.pod)]
    packed: list[list[_Unit]] = []
    for unit in _units(members, groups, namespace):
        if not packed or sum(each.size for each in packed[-1]) + unit.size > MAX_QUERIED_AT_ONCE:
            packed.append([])
        packed[-1].append(unit)
    return [*_by_sixteen(alone, make_body), *(_question(units, make_body) for units in packed)]


def _question(units: Sequence[_Unit], make_body: MakeBody) -> Question:
    makers = [maker for unit in units for maker in unit.makers]
    groups = [group for unit in units for group in unit.groups]
    parts = [_question([unit], make_body) for unit in units] if units[1:] else [*_by_sixteen(makers, make_body)]
    return Question(make_body(makers, groups), parts if len(parts) > 1 else ())


def _by_sixteen(makers: Sequence[PodManifest], make_body: MakeBody) -> Iterator[Question]:
    for begin in range(0, len(makers), MAX_QUERIED_AT_ONCE):
        yield Question(make_body(makers[begin : begin + MAX_QUERIED_AT_ONCE], ()))


def _units(members: Sequence[PodManifest], groups: Sequence[Document], namespace: str) -> list[_Unit]:
    """The units, in the order of their first pod, then of their first group."""
    unit_of: dict[tuple[str, str, str], _Unit] = {}
    units: list[_Unit] = []

    def joined(keys: Sequence[tuple[str, str, str]]) -> _Unit:
        """The one unit of all these groups."""
        known = [*dict.fromkeys(unit_of[key] for key in keys if key in unit_of)]
        first = known[0] if known else _Unit()
        if not known:
            units.append(first)
        for other in known[1:]:
            first.makers += other.makers
            first.groups += other.groups
            units.remove(other)
            unit_of.update(dict.fromkeys([key for key, unit in unit_of.items() if unit is other], first))
        unit_of.update(dict.fromkeys(keys, first))
        return first

    for maker in members:
        place = str(maker.pod["metadata"]["namespace"])
        joined([("PodGroup", place, name) for name in pod_groups_named_in(maker.pod)]).makers.append(maker)
    for group in groups:
        joined([*_keys_of(group, namespace)]).groups.append(group)
    return units


def _keys_of(group: Document, namespace: str) -> Iterator[tuple[str, str, str]]:
    """The group itself, and the group of groups that it is in. APIs are not told apart: it is enough to ask at once."""
    metadata, spec = fields_of(group.tree, "metadata"), fields_of(group.tree, "spec")
    place = str(metadata.get("namespace") or namespace)
    yield str(group.tree.get("kind")), place, str(metadata.get("name"))
    parent = spec.get("parentCompositePodGroupName")
    if parent:
        yield "CompositePodGroup", place, str(parent)
