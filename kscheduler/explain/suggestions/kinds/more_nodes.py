"""One more node like those that are there.

Two nodes have the same shape if the pod cannot tell them apart when they are empty: the same amounts of what it asks
for, the same taints, and the same values of the labels that its rules, its neighbours' rules or its volumes look at.
For a pod that needs devices they also have as many devices of each driver. A copy has its own.

A copy is in the same domains as its node. Of a group that may not leave a domain (a rack, a block) nodes of one shape
in different domains are therefore tried one by one: those of the domains with room for the most members.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node
from kscheduler.api.well_known import HOSTNAME, REGION, ZONE
from kscheduler.explain.suggestions.object_changes import ADD, ObjectChange, Operation
from kscheduler.explain.suggestions.suggestion import GroupScale, Step, Suggestion, SuggestionKind
from kscheduler.explain.suggestions.trials import ANY, Trials
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.requests import PODS
from kscheduler.framework.rules.node_match import has_untolerated
from kscheduler.scenario.device_claims import slices_like
from kscheduler.state.cache import Cache

# How many are tried, those of most nodes first.
_SHAPES: Final = 16
_SHAPES_OF_GROUP: Final = 4
# Of each of these shapes, where the group may not leave a domain.
_DOMAINS_OF_SHAPE: Final = 4
_OF_CONTROLLERS: Final = "node.kubernetes.io/"
_OF_ONE_NODE: Final = (HOSTNAME, "kubernetes.io/metadata.name", "topology.hostpath.csi/node")


class AddNodes(SuggestionKind, frozen=True):
    """A copy of a node, empty and ready."""

    kind = "addNode"
    is_far = True
    is_last_pair = True
    touched = ANY
    by_kubectl = False

    like: str
    of: int
    """How many nodes have this shape."""
    count: int

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        """One of each shape."""
        nodes, pod = trials.cache.nodes, trials.pod
        tried = 0
        if trials.shapes is None:
            trials.shapes = _shapes(trials)
        for row, count in trials.shapes:
            node = nodes.info(row).node
            if node is not None and _has_the_size(trials, row):
                copy = _copied(node, 1, nodes)
                if not has_untolerated(copy.spec.taints, pod.tolerations):
                    changes = _changes_of(node, copy, trials.cache, with_devices=_needs_devices(trials))
                    yield Step(cls(node.metadata.name, count, 1), changes, 1.0)
                    tried += 1
            if tried == _SHAPES:
                return

    @classmethod
    def found(cls, trials: Trials) -> Iterator[Suggestion]:
        """The first shape that helps."""
        for step in cls.proposals(trials):
            if len(rows := trials.rows(step.changes)):
                yield Suggestion((step,), step.changes, len(rows))
                return

    @classmethod
    def for_group(cls, group: GroupDefinition, members: int, trials: Sequence[Trials]) -> Iterator[GroupScale[Step]]:
        """Several nodes of a shape that some member would fit on; with a node for each member more do not help."""
        shapes: dict[str, tuple[AddNodes, Trials]] = {}
        for each in trials:
            for step in cls.proposals(each):
                if isinstance(step.facts, AddNodes):
                    shapes.setdefault(step.facts.like, (step.facts, each))
        found = [facts._by_domain(each) for facts, each in list(shapes.values())[:_SHAPES_OF_GROUP]]
        # The best domain of each shape first, then the second best.
        for facts, each in filter(None, chain.from_iterable(zip_longest(*found))):
            yield GroupScale(members, partial(facts._several, each))

    def _by_domain(self, trials: Trials) -> "list[tuple[AddNodes, Trials]]":
        """Of the nodes of this shape one in each of the domains in which more nodes may help the group most."""
        domains, nodes = trials.inputs.domains, trials.cache.nodes
        if domains is None:
            return [(self, trials)]
        rows = nodes.rows()
        numbers = _shape_numbers(trials, rows)
        alike = rows[numbers == numbers[rows == nodes.row_of(self.like)]]
        return [
            (msgspec.structs.replace(self, like=nodes.name_of(int(each[0])), of=len(each)), trials)
            for each in domains.roomiest(alike, _DOMAINS_OF_SHAPE)
        ]

    def _several(self, trials: Trials, count: int) -> Step:
        nodes = trials.cache.nodes
        node = nodes.info(nodes.row_of(self.like)).node
        assert node is not None  # noqa: S101  it was proposed
        changes: list[ObjectChange] = []
        number = 0
        for _ in range(count):
            number += 1
            while nodes.row_of(f"{self.like}-copy-{number}") >= 0:
                number += 1
            copy = _copied(node, number, nodes)
            changes += _changes_of(node, copy, trials.cache, with_devices=_needs_devices(trials))
        return Step(msgspec.structs.replace(self, count=count), tuple(changes), 1.0)

    def text(self, step: Step) -> str:
        return f"add a node like {self.like}" if self.count == 1 else f"add {self.count} nodes like {self.like}"


def _changes_of(node: Node, copy: Node, cache: Cache, *, with_devices: bool) -> tuple[ObjectChange, ...]:
    """The copy of a node comes, with the devices that are in the node if anybody needs them."""
    known = cache.devices.slices() if with_devices else ()
    slices = slices_like(known, node.metadata.name, copy.metadata.name)
    new = [ObjectChange("nodes", "", copy.metadata.name, (Operation(ADD, "", copy),))]
    new += (ObjectChange("resourceslices", "", each.metadata.name, (Operation(ADD, "", each),)) for each in slices)
    return tuple(new)


def _copied(node: Node, number: int, nodes: NodeTable) -> Node:
    """A node like this one, empty and ready, under a name that no node has; `number` of several from 1 on."""
    while nodes.row_of(name := f"{node.metadata.name}-copy-{number}") >= 0:
        number += 1
    labels = {key: name if key in _OF_ONE_NODE else value for key, value in node.metadata.labels.items()}
    metadata = msgspec.structs.replace(node.metadata, name=name, uid="", resource_version="", labels=labels)
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_OF_CONTROLLERS))
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints, provider_id="")
    return msgspec.structs.replace(node, metadata=metadata, spec=spec)


def _shapes(trials: Trials) -> list[tuple[int, int]]:
    """A row of each shape with the number of its rows, the shape of most rows first; of equals the first name."""
    nodes = trials.cache.nodes
    rows = nodes.rows()
    if not len(rows):
        return []
    _, first, counts = np.unique(_shape_numbers(trials, rows), return_index=True, return_counts=True)
    found = zip(rows[first].tolist(), counts.tolist(), strict=True)
    return sorted(found, key=lambda shape: (-shape[1], nodes.name_of(shape[0])))


def _shape_numbers(trials: Trials, rows: Rows) -> NDArray[np.int64]:
    """The same number for rows of the same shape: int64 [rows]."""
    group = np.zeros(len(rows), dtype=np.int64)
    for column in _columns(trials, trials.cache.nodes, rows):
        if (column == column[0]).all():
            continue  # most are: it tells no two nodes apart
        # A pair (group so far, value) gets one number: the two are numbered from 0 on, so no two pairs collide.
        values, numbers = np.unique(column, return_inverse=True)
        _, group = np.unique(group * len(values) + numbers, return_inverse=True)
    return group


def _columns(trials: Trials, nodes: NodeTable, rows: Rows) -> Iterator[NDArray[np.int64]]:
    yield nodes.taint_set[rows].astype(np.int64)
    yield nodes.allowed_pods[rows]
    for resource in sorted(trials.pod.requests):
        if resource != PODS:
            yield nodes.amounts(nodes.allocatable, resource, rows)
    if _needs_devices(trials):
        yield _device_column(trials, nodes, rows)
    for key in sorted(_label_keys(trials)):
        yield nodes.label_values(key, rows)[0].astype(np.int64)


def _needs_devices(trials: Trials) -> bool:
    """Whether the pod claims devices, or requests a resource that devices stand for."""
    return bool(trials.pod.pod.spec.resource_claims) or trials.cache.devices.serve(trials.pod)


def _device_column(trials: Trials, nodes: NodeTable, rows: Rows) -> NDArray[np.int64]:
    """A number for how many devices of each driver are in the node: int64 [rows]."""
    counts: dict[str, Counter[str]] = {}
    for piece in trials.cache.devices.slices():
        for device in piece.spec.devices:
            name = device.node_name or piece.spec.node_name
            if name:
                counts.setdefault(name, Counter())[piece.spec.driver] += 1
    numbers: dict[frozenset[tuple[str, int]], int] = {}
    kinds = (frozenset(counts.get(nodes.name_of(row), Counter()).items()) for row in rows.tolist())
    return np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=np.int64)


def _label_keys(trials: Trials) -> set[str]:
    """The labels that may matter to the pod, without those that no two nodes share."""
    pod = trials.pod
    spec, terms = pod.pod.spec, pod.affinity_terms
    keys = {ZONE, REGION, *spec.node_selector}
    for term in pod.required_node_terms or ():
        keys.update(requirement.key for requirement in term.labels)
    keys.update(term.topology_key for term in (*terms.required_affinity, *terms.required_anti_affinity))
    keys.update(constraint.topology_key for constraint in spec.topology_spread_constraints)
    keys.update(held.topology_key for held in trials.cache.counters.required_anti_affinity(pod))
    return keys - set(_OF_ONE_NODE)


def _has_the_size(trials: Trials, row: int) -> bool:
    """Whether the pod fits on such a node by what it requests, while nobody else is there; devices may stand for it."""
    allocatable, devices = trials.cache.nodes.info(row).allocatable, trials.cache.devices
    return all(
        allocatable.get(name, 0) >= amount or devices.class_of_resource(name) is not None
        for name, amount in trials.pod.requests.items()
    )
