"""A trial: the cycle's PreEnqueue, PreFilter and Filter over the cluster with some objects changed, then all as before.

The changes are made in the cache itself and taken back before anybody can look: a trial does not await.

Which plugins object to which nodes says what need not be tried. A cycle stops at the first filter that rejects a node.
For `Objections` each filter is asked about every node, once. A change can then only help where every plugin that
objects to some node is one whose verdict the change touches:

    node   objectors                      dropping the nodeSelector touches {NodeAffinity, PodTopologySpread}
    a      NodeAffinity                   may help: on a
    b      NodeAffinity, NodePorts        not on b; but with a host port given up, too

A plugin that is not asked here (devices, custom plugins) counts as one that does not object, so nothing is left
out because of it. Where PreFilter rejects the pod, or room must be left for nominated pods, nothing is left out.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim, ResourceClaimTemplate
from kscheduler.explain.suggestions.group_domains import GroupDomains
from kscheduler.explain.suggestions.object_changes import ObjectChange, Operation, changed_meanwhile, patched
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimNotReadyError, named_claims
from kscheduler.scenario.owners import Owners, owner_of
from kscheduler.scheduling.cycle.evaluator import CycleInputs
from kscheduler.scheduling.cycle.passes import Filters, pre_filter_pass
from kscheduler.scheduling.cycle.schedule import find_feasible
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.timing import UNTIMED
from kscheduler.state.cache import Cache

# By name, as far as they are known; `None`: there is none.
ClaimTemplates = Mapping[str, ResourceClaimTemplate | None]
NO_TEMPLATES: Final[ClaimTemplates] = MappingProxyType({})

BY_NODE_AFFINITY: Final = "NodeAffinity"
SPREAD: Final = "PodTopologySpread"
OF_PODS: Final = "InterPodAffinity"
OF_VOLUMES: Final = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
TAINTS: Final = ("NodeUnschedulable", "TaintToleration")
_QUERIED: Final = (*TAINTS, "NodeName", BY_NODE_AFFINITY, "NodePorts", "NodeResourcesFit", *OF_VOLUMES, SPREAD, OF_PODS)
# Spread constraints leave out nodes by the pod's selectors and, if they say so, by its tolerations.
BY_TAINTS: Final = frozenset((*TAINTS, SPREAD))
BY_SELECTORS: Final = frozenset((BY_NODE_AFFINITY, SPREAD))
BY_VOLUMES: Final = frozenset(OF_VOLUMES)
ANY: Final = frozenset(_QUERIED)
NOTHING: Final = frozenset[str]()


@dataclass(frozen=True, slots=True)
class Objections:
    """The sets of plugins that object to some node, each set once."""

    sets: frozenset[frozenset[str]] = frozenset((frozenset(),))
    """An empty set: a node to which nobody objects, or nothing is known."""

    def may_help(self, *touched: frozenset[str]) -> bool:
        """Whether changes that touch the verdicts of these plugins, all made together, could help on any node."""
        settled = NOTHING.union(*touched)
        return any(objectors <= settled for objectors in self.sets)

    def without(self, touched: frozenset[str]) -> "Objections":
        """As if all that a change may touch were settled."""
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


def without_plugins(profile: Profile, names: Collection[str]) -> Profile:
    """The profile without the plugins where they may reject a pod or a node."""
    return replace(
        profile,
        pre_enqueue=tuple(plugin for plugin in profile.pre_enqueue if plugin.name not in names),
        pre_filter=tuple(plugin for plugin in profile.pre_filter if plugin.name not in names),
        filter=tuple(plugin for plugin in profile.filter if plugin.name not in names),
    )


_NOWHERE: Rows = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class SearchInputs:
    """What a search knows beside the profile, the pod and the cluster."""

    owners: Owners = owner_of
    """Whose replica a pod is."""
    budgets: DisruptionBudgets | None = None
    """Pods to avoid deleting."""
    claim_templates: ClaimTemplates = field(default_factory=lambda: NO_TEMPLATES)
    """Of the pod's claims."""
    time: SearchTime = field(default_factory=lambda: SearchTime(inf))
    """The budget for trying changes."""
    domains: GroupDomains | None = None
    """Those that the pod's group may not leave; `None`: it may be on any node."""


class Trials:
    """Tries changes for one pod. The cluster must not change in between."""

    def __init__(self, profile: Profile, pod: PodInfo, cache: Cache, inputs: SearchInputs | None = None) -> None:
        status = msgspec.structs.replace(pod.pod.status, nominated_node_name="")
        self.pod = PodInfo(msgspec.structs.replace(pod.pod, status=status))
        """Without its nomination, as only the nominated node would be tried."""
        self.profile, self.cache, self.inputs = profile, cache, inputs or SearchInputs()
        self.shapes: list[tuple[int, int]] | None = None
        """A row of each shape of node, with the number of its rows, once somebody has worked them out."""
        self._reduced: dict[frozenset[str], Profile] = {}

    @cached_property
    def objections(self) -> Objections:
        """Who objects to which nodes now: changes that cannot help need not be tried."""
        return objections_to(self.profile, self.pod, self.cache)

    def but(self, patch: Iterable[Operation], objections: Objections) -> "Trials":
        """The same for another version of the pod, with what is known of the objections to it."""
        other = Trials(self.profile, self.patched(patch), self.cache, self.inputs)
        other.objections, other.shapes = objections, self.shapes  # a pod that asks for less cannot tell more apart
        other._reduced = self._reduced
        return other

    def rows_without(self, plugins: Iterable[str], pod: PodInfo) -> Rows:
        """The rows that a version of the pod would fit on if these plugins rejected nobody. Raises as `rows`."""
        self.inputs.time.check()
        names = frozenset(plugins)
        profile = self._reduced.get(names)
        if profile is None:  # a profile reads the methods of all its plugins when it is made: a millisecond
            profile = self._reduced[names] = without_plugins(self.profile, names)
        return Trials(profile, pod, self.cache).rows_of(pod)

    def claims(self) -> Iterator[tuple[str, ResourceClaim]]:
        """The pod's resource claims, each with the name of its entry, up to the first that is not there."""
        try:
            yield from named_claims(self.pod.pod, self.cache.devices.claims)
        except ClaimNotReadyError:
            return  # the pod waits for the claim; nothing in it can help

    @property
    def lacks_devices(self) -> bool:
        """Whether the pod needs devices that it does not have yet."""
        lacks = any(claim.status.allocation is None for _, claim in self.claims())
        return lacks or self.cache.devices.serve(self.pod)

    def of_pod(self, patch: Iterable[Operation]) -> ObjectChange:
        """A change of the pod."""
        return ObjectChange("pods", self.pod.namespace, self.pod.name, tuple(patch))

    def patched(self, patch: Iterable[Operation]) -> PodInfo:
        """Another version of the pod."""
        after = patched(self.pod.pod, patch)
        assert isinstance(after, Pod)  # noqa: S101  a patched pod is a pod
        return PodInfo(after)

    def rows(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Rows:
        """The rows that the pod fits on with these changes and without these pods; of new nodes, too.

        Empty if it fits nowhere. Raises `SearchOverError`.
        """
        self.inputs.time.check()
        with self.made(changes, gone) as pod:
            return self.rows_of(pod)

    @contextmanager
    def made(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Iterator[PodInfo]:
        """The cluster with these changes and without these pods, meanwhile; yields the pod as changed."""
        listed = tuple(changes)
        pod = self.pod
        for change in listed:
            if self._is_of_the_pod(change):
                pod = self.patched(change.patch)
        others = [change for change in listed if not self._is_of_the_pod(change)]
        with self.changed(others, gone):
            yield pod

    def rows_of(self, pod: PodInfo) -> Rows:
        """The rows that another version of the pod fits on, in the cluster as it is."""
        if not self.profile.run_pre_enqueue(pod).is_success:
            return _NOWHERE
        record = find_feasible(self.profile, pod, self.cache)
        return record.feasible if record.status.is_success else _NOWHERE

    @contextmanager
    def changed(self, changes: Iterable[ObjectChange], gone: Iterable[PodInfo] = ()) -> Iterator[None]:
        """The cluster is changed meanwhile. Nothing may await."""
        with changed_meanwhile(self.cache, changes, gone):
            yield

    def _is_of_the_pod(self, change: ObjectChange) -> bool:
        key = change.resource, change.namespace, change.name
        return key == ("pods", self.pod.namespace, self.pod.name)
