"""One more node like those that are there."""

from collections.abc import Iterator
from typing import Final

import msgspec

from kscheduler.api.core import Node
from kscheduler.api.well_known import HOSTNAME
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.whatif.suggestions.changed import ADD, ObjectChange, Operation
from kscheduler.whatif.suggestions.suggestion import ChangeKind, Step

_SHAPES: Final = 8
"""How many are tried, those of most nodes first."""
_OF_CONTROLLERS: Final = "node.kubernetes.io/"
_OF_ONE_NODE: Final = (HOSTNAME, "kubernetes.io/metadata.name", "topology.hostpath.csi/node")


def more_nodes(nodes: NodeTable) -> Iterator[Step]:
    """Proposals: a copy of a node of each shape, empty and ready. They are not tried yet."""
    counts: dict[object, int] = {}
    first: dict[object, Node] = {}
    for row in nodes.rows().tolist():
        node = nodes.info(row).node
        if node is not None:
            shape = _shape(node)
            counts[shape] = counts.get(shape, 0) + 1
            first.setdefault(shape, node)
    for shape in sorted(counts, key=lambda each: (-counts[each], first[each].metadata.name))[:_SHAPES]:
        copy = _copy(first[shape], nodes)
        change = ObjectChange("nodes", "", copy.metadata.name, (Operation(ADD, "", copy),))
        yield Step(ChangeKind.ADD_NODE, (change,), 1.0, {"like": first[shape].metadata.name, "of": counts[shape]})


def _shape(node: Node) -> object:
    labels = frozenset((key, value) for key, value in node.metadata.labels.items() if key not in _OF_ONE_NODE)
    taints = frozenset((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
    return labels, frozenset(node.status.allocatable.items()), taints


def _copy(node: Node, nodes: NodeTable) -> Node:
    number = 1
    while nodes.row_of(f"{node.metadata.name}-copy-{number}") >= 0:
        number += 1
    name = f"{node.metadata.name}-copy-{number}"
    labels = {key: name if key in _OF_ONE_NODE else value for key, value in node.metadata.labels.items()}
    metadata = msgspec.structs.replace(node.metadata, name=name, uid="", resource_version="", labels=labels)
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_OF_CONTROLLERS))
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints, provider_id="")
    return msgspec.structs.replace(node, metadata=metadata, spec=spec)
