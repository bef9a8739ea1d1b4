"""Which plugins object to which nodes, so that changes that cannot help are not tried.

A cycle stops at the first filter that rejects a node. Here each filter is asked about every node, once. A change
can then only help where every plugin that objects to some node is one that the change touches:

    node   objectors                      dropping the nodeSelector touches {NodeAffinity, PodTopologySpread}
    a      NodeAffinity                   may help: on a
    b      NodeAffinity, NodePorts        not on b; but with a host port given up, too

A plugin that is not asked here (devices, custom plugins) counts as one that does not object, so nothing is left
out because of it. Where PreFilter rejects the pod, or room must be left for nominated pods, nothing is left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from kscheduler.explain.suggestions.suggestion import ChangeKind
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.cycle.evaluator import CycleInputs
from kscheduler.scheduling.cycle.passes import Filters, pre_filter_pass
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.timing import UNTIMED
from kscheduler.state.cache import Cache

_SPREAD: Final = "PodTopologySpread"
OF_PODS: Final = "InterPodAffinity"
OF_VOLUMES: Final = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
_TAINTS: Final = ("NodeUnschedulable", "TaintToleration")
_QUERIED: Final = (*_TAINTS, "NodeName", "NodeAffinity", "NodePorts", "NodeResourcesFit", *OF_VOLUMES, _SPREAD, OF_PODS)
# Spread constraints leave out nodes by the pod's selectors and, if they say so, by its tolerations.
_BY_TAINTS: Final = frozenset((*_TAINTS, _SPREAD))
_BY_SELECTORS: Final = frozenset(("NodeAffinity", _SPREAD))
_BY_VOLUMES: Final = frozenset(OF_VOLUMES)
_ALL: Final = frozenset(_QUERIED)

# The plugins whose verdict a change of this kind may change, of those that are asked; none, if the kind is missing.
TOUCHED: Final[Mapping[ChangeKind, frozenset[str]]] = MappingProxyType(
    {
        ChangeKind.GATE: frozenset(),
        ChangeKind.REQUEST: frozenset(("NodeResourcesFit",)),
        ChangeKind.RESOURCE_NAME: frozenset(("NodeResourcesFit",)),
        ChangeKind.TOLERATION: _BY_TAINTS,
        ChangeKind.NODE_SELECTOR: _BY_SELECTORS,
        ChangeKind.NODE_AFFINITY: _BY_SELECTORS,
        ChangeKind.POD_AFFINITY: frozenset((OF_PODS,)),
        ChangeKind.POD_ANTI_AFFINITY: frozenset((OF_PODS,)),
        ChangeKind.MAX_SKEW: frozenset((_SPREAD,)),
        ChangeKind.SPREAD_CONSTRAINT: frozenset((_SPREAD,)),
        ChangeKind.HOST_PORT: frozenset(("NodePorts",)),
        ChangeKind.CLAIM_SIZE: _BY_VOLUMES,
        ChangeKind.CLAIM_CLASS: _BY_VOLUMES,
        ChangeKind.CLAIM_ZONE: _BY_VOLUMES,
        ChangeKind.CLASS_TOPOLOGY: _BY_VOLUMES,
        ChangeKind.DETACH_VOLUME: _BY_VOLUMES,
        ChangeKind.NAMESPACE_LABEL: frozenset((OF_PODS,)),
        ChangeKind.UNCORDON: _BY_TAINTS,
        ChangeKind.TAINT: _BY_TAINTS,
        ChangeKind.NODE_LABEL: frozenset(("NodeAffinity", _SPREAD, OF_PODS, *OF_VOLUMES)),
        ChangeKind.DELETE_PODS: _ALL - {*_TAINTS, "NodeName", "NodeAffinity"},
        ChangeKind.ADD_NODE: _ALL,
    }
)


@dataclass(frozen=True, slots=True)
class Objections:
    """The sets of plugins that object to some node, each set once."""

    sets: frozenset[frozenset[str]] = frozenset((frozenset(),))
    """An empty set: a node to which nobody objects, or nothing is known."""

    def may_help(self, *kinds: ChangeKind) -> bool:
        """Whether changes of these kinds together could help on any node."""
        touched = frozenset[str]().union(*(TOUCHED.get(kind, frozenset()) for kind in kinds))
        return any(objectors <= touched for objectors in self.sets)

    def without(self, kind: ChangeKind) -> "Objections":
        """As if all that a change of this kind may touch were settled."""
        touched = TOUCHED.get(kind, frozenset())
        return Objections(frozenset(objectors - touched for objectors in self.sets))


NOTHING_KNOWN: Final = Objections()


def objections_to(profile: Profile, pod: PodInfo, cache: Cache) -> Objections:
    """Ask each filter about every node."""
    if cache.nominated.before(pod) is not None:
        return NOTHING_KNOWN
    inputs, state = CycleInputs(profile, pod, cache.nodes, None, UNTIMED), CycleState()
    try:
        found = pre_filter_pass(profile.pre_filter, inputs, state, set())
        if not found.status.is_success:
            return NOTHING_KNOWN
        return _queried(Filters(inputs, found.skipped), state)
    except PluginFailure:
        return NOTHING_KNOWN


def _queried(filters: Filters, state: CycleState) -> Objections:
    inputs = filters.inputs
    objectors = np.zeros(inputs.nodes.capacity, dtype=np.int64)
    for number, plugin in enumerate(plugin for plugin in inputs.profile.filter if plugin.name in _QUERIED):
        objectors[inputs.rows] |= 1 << number
        objectors[filters.passing([plugin], inputs.nodes, state, inputs.rows, [])] ^= 1 << number
    names = [plugin.name for plugin in inputs.profile.filter if plugin.name in _QUERIED]
    return Objections(frozenset(_named(bits, names) for bits in np.unique(objectors[inputs.rows]).tolist()))


def _named(bits: int, names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for number, name in enumerate(names) if bits >> number & 1)
