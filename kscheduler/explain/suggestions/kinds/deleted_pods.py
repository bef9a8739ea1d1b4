"""Pods that would have to go, whatever their priority, and the disruption budgets that protect them.

The search is that of preemption, for the pod with the highest priority there is: it weighs disruption budgets and
priorities as kube-scheduler does, and looks at each node by itself. It gives back as many pods as it can from the most
important on, which is not always the fewest, and it knows nothing of pods elsewhere. So these are tried alone as well:

    pods that hold enough of what is short on a node
    pods of other nodes that hold the pod's claims, keep its zone closed, or make its zone too full
    in a small cluster each pod there is

Two kinds come last, as their controllers undo what the deletion does: pods of the pod's own controller, one of which
then waits as before, and pods of a higher priority, which go first in the queue when they are made again. Pods of a
higher priority and those that nobody makes again come behind everything else (`Harm`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.storage import READ_WRITE_ONCE_POD
from kscheduler.explain.suggestions.kinds.pods_that_go import (
    MAX_NAMED,
    PodThatGoes,
    deleted,
    few,
    harm_of,
    made_again_text,
)
from kscheduler.explain.suggestions.kubectl_lines import deletion
from kscheduler.explain.suggestions.suggestion import Harm, Step, Suggestion, SuggestionKind
from kscheduler.explain.suggestions.trials import ANY, BY_NODE_AFFINITY, TAINTS, Trials
from kscheduler.framework.cluster.preemption import Candidate, PreemptionSearch
from kscheduler.framework.cluster.topology import CountColumn, HeldTerm, TopologyCounters
from kscheduler.framework.cluster.volumes import claim_name
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import DO_NOT_SCHEDULE, parse_spread_constraint, unless_empty
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.scheduling.cycle.schedule import schedule

_HIGHEST: Final = 2**31 - 1
_NODES_TRIED: Final = 3
# Nodes whose pods are tried alone, where preemption wants several of each.
_NODES_SEARCHED: Final = 24
# Pods of each that are tried alone.
_PODS_TRIED: Final = 8
_DOMAINS_TRIED: Final = 8
# A cluster with at most so many is small: a trial with so few takes a fifth of a millisecond.
_FEW_PODS: Final = 128

# Pods of a small cluster each of which would be enough.
_MAX_SHOWN: Final = 16

IsMeant = Callable[[PodInfo], bool]


class ProtectingBudget(msgspec.Struct, frozen=True):
    """A disruption budget that protects pods which go."""

    namespace: str
    name: str
    allowed: int
    """The disruptions that it allows."""
    pods: int
    """That go."""


class DeleteOtherPods(SuggestionKind, frozen=True):
    """Pods of a node go."""

    kind = "deletePods"
    is_far = True
    is_last_pair = True
    touched = ANY - {*TAINTS, "NodeName", BY_NODE_AFFINITY}

    node: str
    priority: int
    """Of the pod that waits."""
    pods: Sequence[PodThatGoes]
    broken_budgets: int
    budgets: Sequence[ProtectingBudget]
    come_again: Sequence[str]
    """Those that the pod's own controller makes again."""

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        """The fewest pods first."""
        if not trials.objections.may_help(cls.touched):
            return
        seen: set[frozenset[str]] = set()
        for step in _DeletionProposals(trials).proposals():
            uids = frozenset(pod.uid for pod in step.gone)
            if uids not in seen:
                seen.add(uids)
                yield step

    @classmethod
    def found(cls, trials: Trials) -> Iterator[Suggestion]:
        """The first; of a small cluster each pod that is enough."""
        most, shown, shown_last = (_MAX_SHOWN if _is_small(trials) else 1), 0, 0
        for step in cls.proposals(trials):
            if shown and (shown == most or len(step.gone) > 1):
                break  # where one pod is enough, no more need go
            # Pods that come again, or are missed, do not stand for others: the search goes on for those.
            is_last = step.comes_last or step.harm is not Harm.NONE
            if (not is_last or shown_last < most) and len(rows := trials.rows(step.changes, step.gone)):
                yield Suggestion((step,), step.changes, len(rows))
                shown, shown_last = shown + (not is_last), shown_last + is_last

    def text(self, step: Step) -> str:
        pods = self.pods
        names = few([f"{pod.namespace}/{pod.name}" for pod in pods], "pods")
        priorities = sorted({pod.priority for pod in pods})
        span = f"{priorities[0]}" if len(priorities) == 1 else f"{priorities[0]} to {priorities[-1]}"
        broken = f"; {self.broken_budgets} of them against a disruption budget" if self.broken_budgets else ""
        budgets = "".join(
            f"; budget {each.namespace}/{each.name} allows {each.allowed}" for each in self.budgets[:MAX_NAMED]
        )
        come_again = few(self.come_again, "of them")
        again = f"; the pod's own controller recreates {come_again}" if come_again else ""
        others = [pod for pod in pods if pod.name not in self.come_again]
        after = made_again_text(others, len(pods), self.priority)
        return f"delete {names} on {self.node} (priority {span}{broken}{budgets}{again}{after})"

    def command(self, step: Step) -> str:
        return deletion(step.changes)


def _is_small(trials: Trials) -> bool:
    return trials.cache.statistics().pods <= _FEW_PODS


def _budgets_of(pods: Iterable[PodInfo], rules: BudgetRules) -> list[ProtectingBudget]:
    """Each budget that protects one of the pods."""
    found: dict[str, ProtectingBudget] = {}
    for pod in pods:
        for budget in rules.protecting(pod):
            count = found[budget.key].pods + 1 if budget.key in found else 1
            allowed = budget.status.disruptions_allowed
            found[budget.key] = ProtectingBudget(pod.namespace, budget.metadata.name, allowed, count)
    return [found[key] for key in sorted(found)]


class _DeletionProposals:
    """Proposes which pods to delete for one pod."""

    def __init__(self, trials: Trials) -> None:
        self._trials, self._cache = trials, trials.cache
        self._rules = BudgetRules(trials.inputs.budgets, trials.profile.behaviours)

    def proposals(self) -> Iterator[Step]:
        if _is_small(self._trials):
            yield from self._each()
            yield from self._all_claim_users()
            yield from (self._of(candidate) for candidate in self._candidates()[:_NODES_TRIED])
            return
        candidates = self._candidates()
        alone = [candidate for candidate in candidates if len(candidate.victims) == 1]
        yield from (self._of(candidate) for candidate in alone[:_NODES_TRIED])
        if not alone:
            for candidate in candidates[:_NODES_SEARCHED]:
                yield from (self._alone(pod) for pod in self._large_enough(candidate))
        yield from (self._alone(pod) for pod in self._elsewhere())
        yield from self._all_claim_users()
        yield from (self._of(candidate) for candidate in candidates[:_NODES_TRIED])

    # --- as preemption does -------------------------------------------------------------------------------------------

    def _candidates(self) -> list[Candidate]:
        """Nodes where preemption would make room, the fewest pods first."""
        trials, pod = self._trials, self._trials.pod.pod
        spec = msgspec.structs.replace(pod.spec, priority=_HIGHEST, preemption_policy=None, scheduling_gates=())
        highest = PodInfo(msgspec.structs.replace(pod, spec=spec))
        if not trials.profile.run_pre_enqueue(highest).is_success:
            return []
        search = schedule(trials.profile, highest, self._cache).state.find(PreemptionSearch)
        return [] if search is None else sorted(search.candidates(), key=self._order)

    def _large_enough(self, candidate: Candidate) -> list[PodInfo]:
        """The pods of a node that hold enough of each resource that is short there, the least important first."""
        nodes = self._cache.nodes
        info = nodes.info(nodes.row_of(candidate.node_name))
        short = {
            name: amount - (info.allocatable.get(name, 0) - info.requested.get(name, 0))
            for name, amount in self._trials.pod.requests.items()
        }
        enough = [
            pod
            for pod in info.pods.values()
            if all(pod.accounted.get(name, 0) >= lacking for name, lacking in short.items() if lacking > 0)
        ]
        return sorted(enough, key=lambda pod: (self._cost(pod), pod.priority, pod.key))[:_PODS_TRIED]

    # --- one by one ---------------------------------------------------------------------------------------------------

    def _each(self) -> Iterator[Step]:
        """Each pod of a small cluster: one on another node may be what keeps a zone closed."""
        pods = [pod for uid in self._cache.pod_uids() if (pod := self._cache.pod_of(uid)) is not None]
        for pod in sorted(pods, key=self._importance):
            yield self._alone(pod)

    def _importance(self, pod: PodInfo) -> tuple[object, ...]:
        return self._cost(pod), self._rules.broken_by([[pod]]), pod.priority, pod.key

    def _elsewhere(self) -> Iterator[PodInfo]:
        """Pods that matter to more than their own node."""
        found: dict[str, PodInfo] = {}
        for pod in (*self._claim_users(), *self._in_the_way()):
            found.setdefault(pod.uid, pod)
        yield from found.values()

    def _claim_users(self) -> Iterator[PodInfo]:
        """Who uses a claim that only one pod may use."""
        volumes, pod = self._cache.volumes, self._trials.pod.pod
        for name in {claim_name(pod, volume) for volume in pod.spec.volumes} - {None}:
            claim = volumes.confirmed_claim(pod.metadata.namespace, name or "")
            if claim is None or READ_WRITE_ONCE_POD not in claim.spec.access_modes:
                continue
            for node_name in volumes.claim_users(pod.metadata.namespace, claim.metadata.name):
                for other in volumes.pods_on(node_name):
                    uses = other.namespace == pod.metadata.namespace and any(
                        claim_name(other.pod, volume) == name for volume in other.pod.spec.volumes
                    )
                    if uses:
                        yield other

    def _all_claim_users(self) -> Iterator[Step]:
        users = tuple({pod.uid: pod for pod in self._claim_users()}.values())
        if len(users) > 1:
            (broken,) = self._rules.broken_by([users])
            yield self._step(self._cache.node_of(users[0].uid), users, broken)

    def _in_the_way(self) -> Iterator[PodInfo]:
        """The only pod of a domain that anti-affinity keeps this one out of; and a pod of each domain that is full."""
        counters, pod = self._cache.counters, self._trials.pod
        for term in pod.affinity_terms.required_anti_affinity:
            column = counters.matching(term.match)
            yield from self._one_of_each(term.topology_key, column, _selects(counters, term.match), most=1)
        for held in counters.required_anti_affinity(pod):
            yield from self._one_of_each(held.topology_key, held.holders, _holds(held), most=1)
        counts_all = self._trials.profile.behaviours.empty_selectors_count_all_pods
        for constraint in pod.pod.spec.topology_spread_constraints:
            if constraint.when_unsatisfiable == DO_NOT_SCHEDULE:
                parsed = parse_spread_constraint(constraint, pod.namespace, pod.labels)
                counted = (parsed if counts_all else unless_empty(parsed)).counted
                if counted is not None:
                    yield from self._one_of_each(
                        constraint.topology_key, counters.matching(counted), _selects(counters, counted), most=0
                    )

    def _one_of_each(self, key: str, column: CountColumn, is_meant: IsMeant, most: int) -> Iterator[PodInfo]:
        """A pod of each domain of the label that has such pods, but not more than `most`."""
        nodes = self._cache.nodes
        rows = nodes.rows()
        numbers, _ = nodes.label_values(key, rows)
        sums = np.bincount(numbers, weights=column[rows]).astype(np.int64)
        domains = [number for number in np.flatnonzero(sums).tolist() if number and (not most or sums[number] <= most)]
        for number in sorted(domains, key=lambda each: int(sums[each]))[:_DOMAINS_TRIED]:
            row = rows[(numbers == number) & (column[rows] > 0)][0]
            pods = [pod for pod in nodes.info(int(row)).pods.values() if is_meant(pod)]
            yield from sorted(pods, key=lambda pod: (pod.priority, pod.key))[:1]

    # --- as steps -----------------------------------------------------------------------------------------------------

    def _alone(self, pod: PodInfo) -> Step:
        (broken,) = self._rules.broken_by([[pod]])
        return self._step(self._cache.node_of(pod.uid), (pod,), broken)

    def _of(self, candidate: Candidate) -> Step:
        return self._step(candidate.node_name, tuple(candidate.victims), candidate.broken_budgets)

    def _order(self, candidate: Candidate) -> tuple[object, ...]:
        most = max(pod.priority for pod in candidate.victims)
        cost = max(map(self._cost, candidate.victims))
        return len(candidate.victims), cost, candidate.broken_budgets, most, candidate.node_name

    def _comes_again(self, pod: PodInfo) -> bool:
        """Whether the pod's own controller has made this one, too: a Deployment also through an older ReplicaSet."""
        own, owners = self._trials.pod, self._trials.inputs.owners
        maker = owners(own.pod)
        return maker is not None and pod.namespace == own.namespace and owners(pod.pod) == maker

    def _is_undone(self, pod: PodInfo) -> bool:
        """Whether the deletion of the pod is of no use for long: what its controller makes takes the room."""
        outranks = pod.priority > self._trials.pod.priority
        return self._comes_again(pod) or (outranks and pod.pod.metadata.controller is not None)

    def _cost(self, pod: PodInfo) -> tuple[Harm, bool]:
        return harm_of((pod,), self._trials.pod), self._is_undone(pod)

    def _step(self, node_name: str, pods: tuple[PodInfo, ...], broken_budgets: int) -> Step:
        elsewhere = sorted({self._cache.node_of(pod.uid) for pod in pods} - {node_name})
        facts = DeleteOtherPods(
            node=", ".join((node_name, *elsewhere)),
            priority=self._trials.pod.priority,
            pods=[PodThatGoes.of(pod) for pod in pods],
            broken_budgets=broken_budgets,
            budgets=_budgets_of(pods, self._rules),
            come_again=[pod.name for pod in pods if self._comes_again(pod)],
        )
        comes_last, harm = any(map(self._is_undone, pods)), harm_of(pods, self._trials.pod)
        return Step(facts, deleted(pods), 1.0, comes_last=comes_last, harm=harm, gone=pods)


def _selects(counters: TopologyCounters, match: PodMatch) -> IsMeant:
    return lambda other: counters.selects(match, other.pod)


def _holds(held: HeldTerm) -> IsMeant:
    term = held.match, held.topology_key
    return lambda other: any(
        (each.match, each.topology_key) == term for each in other.affinity_terms.required_anti_affinity
    )
