"""A change that makes a pod fit, as it was tried."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kscheduler.whatif.suggestions.changed import ObjectChange


class ChangeKind(Enum):
    """What is changed."""

    GATE = "schedulingGate"
    REQUEST = "request"
    TOLERATION = "toleration"
    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "nodeAffinity"
    POD_AFFINITY = "podAffinity"
    POD_ANTI_AFFINITY = "podAntiAffinity"
    MAX_SKEW = "maxSkew"
    SPREAD_CONSTRAINT = "topologySpreadConstraint"
    HOST_PORT = "hostPort"
    CLAIM_CLASS = "claimClass"
    UNCORDON = "uncordon"
    TAINT = "taint"
    NODE_LABEL = "nodeLabel"
    DELETE_PODS = "deletePods"
    ADD_NODE = "addNode"


_OF_THE_POD = (
    ChangeKind.GATE,
    ChangeKind.REQUEST,
    ChangeKind.TOLERATION,
    ChangeKind.NODE_SELECTOR,
    ChangeKind.NODE_AFFINITY,
    ChangeKind.POD_AFFINITY,
    ChangeKind.POD_ANTI_AFFINITY,
    ChangeKind.MAX_SKEW,
    ChangeKind.SPREAD_CONSTRAINT,
    ChangeKind.HOST_PORT,
    ChangeKind.CLAIM_CLASS,
)
_ORDER = {kind: position for position, kind in enumerate(ChangeKind)}


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one kind."""

    kind: ChangeKind
    changes: tuple[ObjectChange, ...]
    size: float
    """0..1: how much of what the pod asks for is given up."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the text says, by name; see `explain.suggestions`."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change after which the cycle finds a node: one step, or two where no single one helps."""

    steps: tuple[Step, ...]
    changes: tuple[ObjectChange, ...]
    """Of all steps; one per object."""
    nodes: int
    """How many nodes the pod would then fit on."""

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts the smallest first.

        Fewer steps; the pod alone before nodes, other pods and new nodes; less that is given up; more nodes.
        """
        farthest = max((0 if step.kind in _OF_THE_POD else _ORDER[step.kind]) for step in self.steps)
        disturbed = sum(change.delete for change in self.changes)
        size = sum(step.size for step in self.steps)
        return len(self.steps), farthest, disturbed, size, -self.nodes, [_ORDER[step.kind] for step in self.steps]
