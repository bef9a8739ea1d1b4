"""One binding judged: what we would have done in the view just before it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.storage import SELECTED_NODE, PersistentVolumeClaim
from kscheduler.assembly import Assembly
from kscheduler.config.extenders import is_queried_about
from kscheduler.framework.cluster.volumes import claim_names
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.scheduling.cycle.schedule import schedule, score_feasible
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.shadow.comparison import (
    Compared,
    Comparison,
    DifferenceKind,
    Facts,
    FollowedScheduler,
    Order,
    kind_of,
    reason_of,
)
from kscheduler.shadow.order_search import MAX_TRIES, OrderClues, find_order

# Puts a node beside the one that was decided: `explain.against.against`.
Compare = Callable[[Decision, str], Compared]
# A claim for a volume, by `namespace/name`.
ClaimOf = Callable[[str], PersistentVolumeClaim | None]

# `percentageOfNodesToScore` of a shadow, whatever its configuration says: what a sample would have held depends on
# every decision before.
EVERY_NODE: Final = 0


@dataclass(frozen=True, slots=True)
class _Query:
    """A pod, and the node that the other took."""

    pod: PodInfo
    profile: Profile
    theirs: str


class ShadowEvaluator:
    """Decides pods on the view of an assembly, and compares."""

    def __init__(self, assembly: Assembly, followed: FollowedScheduler, compare: Compare, claim_of: ClaimOf) -> None:
        self._assembly = assembly
        self._followed = followed
        self._compare = compare
        self._claim_of = claim_of

    def would_go(self, pod: Pod) -> SchedulingRecord | None:
        """The record of our decision now; `None`: something decides this pod that is not played here, or no profile."""
        profile = self._profile(pod)
        if profile is None or self.unplayed(pod) or profile.run_pre_enqueue(PodInfo(pod)).is_rejected:
            return None
        return self._decided(profile, PodInfo(pod))

    def judge(self, pod: Pod, theirs: str, clues: OrderClues | None) -> Comparison:
        """Compare our choice for a pod (as it was before it had a node) with the other's.

        `clues` `None`: there is no time to look for an order.
        """
        profile, unplayed = self._profile(pod), self.unplayed(pod)
        if profile is None or unplayed:
            return _comparison(pod, theirs, "", DifferenceKind.UNKNOWN_RULE, unplayed or "no profile has its name")
        query = _Query(PodInfo(pod), profile, theirs)
        record = self._decided(profile, query.pod)
        if record.status.code is Code.ERROR:
            reason = f"{record.status.plugin or 'the cycle'} failed: {record.status.message}"
            return _comparison(pod, theirs, "", DifferenceKind.UNKNOWN_RULE, reason)
        if record.node_name == theirs:
            return _comparison(pod, theirs, theirs, DifferenceKind.SAME)
        return self._differs(query, clues)

    def unplayed(self, pod: Pod) -> str:
        """Why a shadow cannot tell how this pod is decided; empty: it can."""
        configuration = self._assembly.config.configuration
        if any(is_queried_about(extender, pod) for extender in configuration.extenders):
            return "an extender decides too, and a shadow asks none"
        if self._assembly.cache.pod_groups.key_of(pod) is not None:
            return "its pod group is decided as a whole"
        if pod.spec.resource_claims:
            return "its device claims were given devices before it was bound: they name the node"
        for name in claim_names(pod):
            claim = self._claim_of(f"{pod.metadata.namespace}/{name}")
            if claim is not None and SELECTED_NODE in claim.metadata.annotations:
                return "a volume was made for its node before it was bound: the claim names it"
        return ""

    def _profile(self, pod: Pod) -> Profile | None:
        profile = self._assembly.profiles.get(pod.spec.scheduler_name)
        if profile is None or profile.percentage_of_nodes_to_score == EVERY_NODE:
            return profile
        return replace(profile, percentage_of_nodes_to_score=EVERY_NODE)

    def _decided(self, profile: Profile, pod: PodInfo) -> SchedulingRecord:
        engine = self._assembly.scheduler.engines.get(profile.name)
        return schedule(profile, pod, self._assembly.cache, engine=engine)

    def _differs(self, query: _Query, clues: OrderClues | None) -> Comparison:
        record = self._in_full(query)
        facts = facts_of(record, query.theirs)
        is_chance = self._followed.ties_by_chance and kind_of(facts, self._followed) is DifferenceKind.TIE
        order: Order | None = None
        if clues is not None and not is_chance:
            order = find_order(self._assembly.cache, clues, lambda: self._agrees(query))
        kind = kind_of(facts, self._followed, order)
        compared = self._compared(query, record) if kind is not DifferenceKind.ORDER else None
        comparison = _comparison(query.pod.pod, query.theirs, record.node_name, kind, reason_of(kind, compared))
        return replace(
            comparison,
            message=record.message,
            order=order,
            compared=compared,
            was_searched=is_chance or order is not None or (clues is not None and clues.most_tries == MAX_TRIES),
        )

    def _agrees(self, query: _Query) -> bool:
        """Whether we would do as the other did, in the view as it is."""
        record = self._decided(query.profile, query.pod)
        if record.node_name == query.theirs or not self._followed.ties_by_chance or not record.node_name:
            return record.node_name == query.theirs
        return query.theirs in self._in_full(query).best_names()

    def _in_full(self, query: _Query) -> SchedulingRecord:
        """The decision with points and rejections of each node, the pod's nomination aside: it hides other nodes."""
        pod = query.pod.pod
        if pod.status.nominated_node_name:
            pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=""))
        record = schedule(query.profile, PodInfo(pod), self._assembly.cache)
        if len(record.feasible) == 1:
            try:
                score_feasible(query.profile, record, self._assembly.cache.nodes)
            except PluginFailure:
                return record  # it is the only node even unscored
        return record

    def _compared(self, query: _Query, record: SchedulingRecord) -> Compared:
        scenario = Scenario(ClusterObjects(), query.pod.pod, self._assembly.config)
        decision = Decision(scenario, record=record, profile=query.profile, cache=self._assembly.cache)
        return self._compare(decision, query.theirs)


def facts_of(record: SchedulingRecord, theirs: str) -> Facts:
    """What a full record says of the other's node."""
    names = record.feasible_names()
    searched = record.num_all_nodes if record.node_names is None else len(record.node_names)
    if theirs not in names:
        return Facts(is_feasible=False, feasible=len(names), searched=searched)
    if not len(record.totals):
        return Facts(is_feasible=True, feasible=len(names), searched=searched)
    points = record.totals[names.index(theirs)]
    behind, better = int(record.totals.max() - points), int(np.count_nonzero(record.totals > points))
    return Facts(is_feasible=True, behind=behind, feasible=len(names), better=better, searched=searched)


def _comparison(pod: Pod, theirs: str, ours: str, kind: DifferenceKind, reason: str = "") -> Comparison:
    return Comparison(pod.key, pod.metadata.uid, pod.spec.scheduler_name, theirs, ours, kind, reason)
