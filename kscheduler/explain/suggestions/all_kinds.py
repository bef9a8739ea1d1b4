"""All kinds of suggestions. Their order is that in which changes of equal weight are shown (`order`).

How a new kind is added: "Where to look" in CONTRIBUTING.md.
"""

from collections.abc import Iterator
from typing import Final

from kscheduler.explain.suggestions.kinds.deleted_pods import DeleteOtherPods
from kscheduler.explain.suggestions.kinds.device_claims import (
    ChangeDeviceClass,
    ChangeDeviceConstraint,
    ChangeDeviceSelector,
    FewerDevices,
    RecreateClaims,
    TolerateDeviceTaint,
)
from kscheduler.explain.suggestions.kinds.device_supply import AwaitPoolUpdate, DeleteDeviceTaintRule
from kscheduler.explain.suggestions.kinds.host_ports import DropHostPort
from kscheduler.explain.suggestions.kinds.more_nodes import AddNodes
from kscheduler.explain.suggestions.kinds.node_rules import ChangeNodeSelector, RelaxNodeAffinity
from kscheduler.explain.suggestions.kinds.nodes import LabelNode, RemoveTaints, UncordonNode
from kscheduler.explain.suggestions.kinds.pod_affinity import (
    DropPodAntiAffinity,
    LabelNamespace,
    RelaxPodAffinity,
)
from kscheduler.explain.suggestions.kinds.pod_groups import AddMembers, DropGroupTopology, ShrinkGang
from kscheduler.explain.suggestions.kinds.refusals import AskExtenderOwner, AskPluginOwner
from kscheduler.explain.suggestions.kinds.released_devices import ReleaseDevices
from kscheduler.explain.suggestions.kinds.requests import LowerRequest
from kscheduler.explain.suggestions.kinds.resource_names import RenameResource
from kscheduler.explain.suggestions.kinds.scheduling_gates import RemoveGates
from kscheduler.explain.suggestions.kinds.spread import PreferSpread, RaiseMaxSkew
from kscheduler.explain.suggestions.kinds.tolerations import TolerateTaint
from kscheduler.explain.suggestions.kinds.volumes import (
    ChangeClaimClass,
    DetachVolume,
    MoveVolume,
    ShrinkClaim,
    WidenStorageClass,
)
from kscheduler.explain.suggestions.suggestion import Demand, PodChange, Suggestion, SuggestionKind
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache

# Changes of the pod itself.
POD_KINDS: Final[tuple[type[PodChange], ...]] = (
    RemoveGates,
    LowerRequest,
    RenameResource,
    TolerateTaint,
    ChangeNodeSelector,
    RelaxNodeAffinity,
    RelaxPodAffinity,
    DropPodAntiAffinity,
    RaiseMaxSkew,
    PreferSpread,
    DropHostPort,
)

KINDS: Final[tuple[type[SuggestionKind], ...]] = (
    *POD_KINDS,
    ShrinkClaim,
    ChangeClaimClass,
    RecreateClaims,
    FewerDevices,
    ChangeDeviceSelector,
    ChangeDeviceConstraint,
    TolerateDeviceTaint,
    ChangeDeviceClass,
    ShrinkGang,
    AddMembers,
    DropGroupTopology,
    AwaitPoolUpdate,
    LabelNamespace,
    WidenStorageClass,
    MoveVolume,
    UncordonNode,
    RemoveTaints,
    LabelNode,
    DeleteDeviceTaintRule,
    DetachVolume,
    AskPluginOwner,
    AskExtenderOwner,
    ReleaseDevices,
    DeleteOtherPods,
    AddNodes,
)

_RANK: Final = {kind.kind: position for position, kind in enumerate(KINDS)}


def demands(pod: PodInfo, cache: Cache) -> Iterator[Demand]:
    """All that may keep the pod from a node, each as its largest relaxation."""
    for kind in POD_KINDS:
        yield from kind.demands(pod, cache)


def order(suggestion: Suggestion) -> tuple[object, ...]:
    """Sorts the smallest first.

    No harm; fewer steps; nothing that comes last; the pod alone before nodes, other pods and new nodes; less that is
    given up; more nodes.
    """
    steps = suggestion.steps
    farthest = max((0 if step.facts.is_of_the_pod else _RANK[step.facts.kind]) for step in steps)
    disturbed = sum(change.delete for change in suggestion.changes)
    size = sum(step.size for step in steps)
    comes_last = any(step.comes_last for step in steps)
    kinds = [_RANK[step.facts.kind] for step in steps]
    return suggestion.harm, len(steps), comes_last, farthest, disturbed, size, -suggestion.nodes, kinds
