"""A change that makes a pod fit, as it was tried."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final

from kscheduler.explain.suggestions.changed import ObjectChange

_POD_KINDS: Final = frozenset(
    (
        *(
            "schedulingGate",
            "request",
            "resourceName",
            "toleration",
            "nodeSelector",
            "nodeAffinity",
            "podAffinity",
            "podAntiAffinity",
        ),
        *("maxSkew", "topologySpreadConstraint", "hostPort", "claimSize", "claimClass"),
        *("newClaim", "deviceCount", "deviceSelector", "deviceConstraint", "deviceToleration", "deviceClass"),
        *("groupMinCount", "groupMembers", "groupTopology"),
    )
)


class ChangeKind(Enum):
    """What is changed."""

    GATE = "schedulingGate"
    REQUEST = "request"
    RESOURCE_NAME = "resourceName"
    TOLERATION = "toleration"
    NODE_SELECTOR = "nodeSelector"
    NODE_AFFINITY = "nodeAffinity"
    POD_AFFINITY = "podAffinity"
    POD_ANTI_AFFINITY = "podAntiAffinity"
    MAX_SKEW = "maxSkew"
    SPREAD_CONSTRAINT = "topologySpreadConstraint"
    HOST_PORT = "hostPort"
    CLAIM_SIZE = "claimSize"
    CLAIM_CLASS = "claimClass"
    NEW_CLAIM = "newClaim"
    DEVICE_COUNT = "deviceCount"
    DEVICE_SELECTOR = "deviceSelector"
    DEVICE_CONSTRAINT = "deviceConstraint"
    DEVICE_TOLERATION = "deviceToleration"
    DEVICE_CLASS = "deviceClass"
    GROUP_MIN_COUNT = "groupMinCount"
    GROUP_MEMBERS = "groupMembers"
    GROUP_TOPOLOGY = "groupTopology"
    POOL_UPDATE = "poolUpdate"
    NAMESPACE_LABEL = "namespaceLabel"
    CLASS_TOPOLOGY = "storageClassTopology"
    CLAIM_ZONE = "claimZone"
    UNCORDON = "uncordon"
    TAINT = "taint"
    NODE_LABEL = "nodeLabel"
    DEVICE_TAINT_RULE = "deviceTaintRule"
    DETACH_VOLUME = "detachVolume"
    PLUGIN = "plugin"
    EXTENDER = "extender"
    RELEASE_DEVICES = "releaseDevices"
    DELETE_PODS = "deletePods"
    ADD_NODE = "addNode"


# Changes of what the pod, its claims or its group ask for; all others are of what the cluster has.
OF_THE_POD: Final = frozenset(kind for kind in ChangeKind if kind.value in _POD_KINDS)
# Changes beside which a pair of smaller ones is of interest.
FAR: Final = frozenset(
    (
        *(ChangeKind.DELETE_PODS, ChangeKind.RELEASE_DEVICES, ChangeKind.ADD_NODE),
        *(ChangeKind.PLUGIN, ChangeKind.EXTENDER),
    )
)
_ORDER: Final = {kind: position for position, kind in enumerate(ChangeKind)}


class Harm(IntEnum):
    """What a change takes that may be worth more than the pod's place. All others come before, alone or as pairs."""

    NONE = 0
    OF_OTHERS = 1
    """A pod goes that is more important than this one, or that nobody makes again."""
    OF_THE_POD = 2
    """The pod gives up what it is for: it would run without the device that it asks for."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one kind."""

    kind: ChangeKind
    changes: tuple[ObjectChange, ...]
    size: float
    """0..1: how much of what the pod asks for is given up."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the text says, by name; see `explain.suggestions`."""
    subject: str = ""
    """Of proposals of the same kind and subject the first that helps is shown."""
    comes_last: bool = False
    """Whether all others come before: the pod would be where it hardly belongs, have nothing, or it is soon undone."""
    harm: Harm = Harm.NONE


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change after which the cycle finds a node: one step, or two where no single one helps."""

    steps: tuple[Step, ...]
    changes: tuple[ObjectChange, ...]
    """Of all steps; one per object."""
    nodes: int
    """How many nodes the pod would then fit on."""
    awaited: tuple[ObjectChange, ...] = ()
    """What others are about to do, as it was tried: nothing to be applied."""

    @property
    def harm(self) -> Harm:
        """The worst that one of its steps does."""
        return max(step.harm for step in self.steps)

    @property
    def order(self) -> tuple[object, ...]:
        """Sorts the smallest first.

        No harm; fewer steps; nothing that comes last; the pod alone before nodes, other pods and new nodes; less that
        is given up; more nodes.
        """
        farthest = max((0 if step.kind in OF_THE_POD else _ORDER[step.kind]) for step in self.steps)
        disturbed = sum(change.delete for change in self.changes)
        size = sum(step.size for step in self.steps)
        kinds = [_ORDER[step.kind] for step in self.steps]
        comes_last = any(step.comes_last for step in self.steps)
        return self.harm, len(self.steps), comes_last, farthest, disturbed, size, -self.nodes, kinds
