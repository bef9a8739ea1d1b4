"""Pods that would have to go, whatever their priority.

The search is that of preemption, for the pod with the highest priority there is: it weighs disruption budgets and
priorities as kube-scheduler does. It gives back as many as it can from the most important on, which is not always the
fewest; so where it wants several, each pod of its best nodes is tried alone, and in a small cluster each pod there is.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kscheduler.framework.cluster.preemption import Candidate, DisruptionBudgets, PreemptionSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.whatif.suggestions.changed import ObjectChange
from kscheduler.whatif.suggestions.suggestion import ChangeKind, Step
from kscheduler.whatif.suggestions.trial import Trials

_HIGHEST: Final = 2**31 - 1
_NODES_TRIED: Final = 3
_PODS_TRIED: Final = 40
"""Pods of each that are tried alone."""
_FEW_PODS: Final = 128
"""A cluster with at most so many is small: a trial with so few takes a fifth of a millisecond."""


def making_room(trials: Trials, budgets: DisruptionBudgets | None = None) -> Iterator[tuple[Step, tuple[PodInfo, ...]]]:
    """Proposals with the pods that go, the fewest first. They are not tried yet."""
    rules = BudgetRules(budgets)
    search = _search(trials)
    candidates = sorted(search.candidates(), key=_order) if search is not None else []
    one = [candidate for candidate in candidates if len(candidate.victims) == 1]
    for candidate in one[:_NODES_TRIED]:
        yield _proposal(candidate)
    for candidate in candidates[:_NODES_TRIED] if not one else ():
        for pod in _large_enough(trials, candidate):
            yield _alone(candidate.node_name, pod, rules)
    if trials.cache.statistics().pods <= _FEW_PODS:
        yield from _each(trials, rules)
    for candidate in candidates[:_NODES_TRIED]:
        yield _proposal(candidate)


def _each(trials: Trials, rules: BudgetRules) -> Iterator[tuple[Step, tuple[PodInfo, ...]]]:
    """Each pod of a small cluster: one on another node may be what keeps a zone closed."""
    cache = trials.cache
    pods = [pod for uid in cache.pod_uids() if (pod := cache.pod_of(uid)) is not None]
    for pod in sorted(pods, key=lambda each: (rules.broken_by([[each]]), each.priority, each.key)):
        yield _alone(cache.node_of(pod.uid), pod, rules)


def _alone(node_name: str, pod: PodInfo, rules: BudgetRules) -> tuple[Step, tuple[PodInfo, ...]]:
    (broken,) = rules.broken_by([[pod]])
    return _step(node_name, (pod,), broken), (pod,)


def _proposal(candidate: Candidate) -> tuple[Step, tuple[PodInfo, ...]]:
    return _step(candidate.node_name, candidate.victims, candidate.broken_budgets), candidate.victims


def _search(trials: Trials) -> PreemptionSearch | None:
    pod = trials.pod.pod
    spec = msgspec.structs.replace(pod.spec, priority=_HIGHEST, preemption_policy=None, scheduling_gates=())
    highest = PodInfo(msgspec.structs.replace(pod, spec=spec))
    if not trials.profile.run_pre_enqueue(highest).is_success:
        return None
    return schedule(trials.profile, highest, trials.cache).state.find(PreemptionSearch)


def _large_enough(trials: Trials, candidate: Candidate) -> list[PodInfo]:
    """The pods of a node that hold enough of each resource that is short there, the least important first."""
    nodes = trials.cache.nodes
    row = nodes.row_of(candidate.node_name)
    info = nodes.info(row)
    short = {
        name: amount - (info.allocatable.get(name, 0) - info.requested.get(name, 0))
        for name, amount in trials.pod.requests.items()
    }
    enough = [
        pod
        for pod in info.pods.values()
        if all(pod.accounted.get(name, 0) >= lacking for name, lacking in short.items() if lacking > 0)
    ]
    return sorted(enough, key=lambda pod: (pod.priority, pod.key))[:_PODS_TRIED]


def _step(node_name: str, pods: tuple[PodInfo, ...], broken_budgets: int) -> Step:
    changes = tuple(ObjectChange("pods", pod.namespace, pod.name, delete=True) for pod in pods)
    facts = {
        "node": node_name,
        "pods": [{"namespace": pod.namespace, "name": pod.name, "priority": pod.priority} for pod in pods],
        "brokenBudgets": broken_budgets,
    }
    return Step(ChangeKind.DELETE_PODS, changes, 1.0, facts)


def _order(candidate: Candidate) -> tuple[int, int, int, str]:
    most = max(pod.priority for pod in candidate.victims)
    return len(candidate.victims), candidate.broken_budgets, most, candidate.node_name
