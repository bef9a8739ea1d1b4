"""Of what would free one pod, the change that frees most of the pods that wait for the same reason.

A change is made in each of the pods, and they are placed one after the other. The smallest change for one pod is often
not it: the largest request with which one pod fits leaves no room for the next. So a request is also lowered until as
many fit as can. The amounts that matter are few: what is free on a node, by how many pods share it.

Pods that wait for the same reason may still ask for different things, and a change of one then says nothing about the
others. So the change is looked for with the largest set of pods that ask for the same, whichever pod is older.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.core import PodSpec
from kscheduler.explain.suggestions.kinds.requests import LowerRequest
from kscheduler.explain.suggestions.search import suggestions
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import Demand, Suggestion, of_demands
from kscheduler.explain.suggestions.trials import SearchInputs, Trials
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.owners import Owners, owner_of
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache

# Of those that are alike, how many are placed, the oldest first.
MAX_PODS: Final = 20
# Pods that all trials together place: half a second with 5,000 nodes.
_MAX_PLACED: Final = 600


@dataclass(frozen=True, slots=True)
class CommonChange:
    """A change of each pod, or of something else, and how many of the pods get a node by it."""

    suggestion: Suggestion
    example: PodInfo
    """The oldest pod of the largest set of pods that are alike: the suggestion is made for it."""
    frees: int
    tried: int
    alike: int
    """Pods with the spec of the example, itself among them; of these at most `MAX_PODS` were tried."""


def common_change(
    profile: Profile,
    pods: Sequence[PodInfo],
    cache: Cache,
    budgets: DisruptionBudgets | None,
    owners: Owners = owner_of,
    time: SearchTime | None = None,
) -> CommonChange | None:
    """The change that frees most of the pods that are alike, of equals the smallest; `None` if none helps the example.

    One that does harm is taken only where there is no other (`Harm`).

    `pods`: the oldest first; one that is too large to look for changes stands for no others. `time`: how long to look,
    and afterwards whether that was enough. The cache is changed on the way, and is as before in the end.
    """
    time = time or SearchTime()
    all_alike = most_alike([pod for pod in pods if not pod.is_costly] or pods)
    example, alike = all_alike[0], all_alike[:MAX_PODS]
    trials = _Placing(profile, alike, cache, time)
    best: CommonChange | None = None
    with time.ending(example):
        found = suggestions(profile, example, cache, budgets, owners=owners, time=time)
        for suggestion in _candidates(found, trials):
            if best is not None and suggestion.harm > best.suggestion.harm:
                continue  # whatever number of pods it frees
            frees = trials.freed(suggestion)
            is_milder = best is None or suggestion.harm < best.suggestion.harm
            if frees > (0 if best is None or is_milder else best.frees):
                best = CommonChange(suggestion, example, frees, len(alike), len(all_alike))
            if frees == len(alike) or trials.is_spent:
                break
    return best


def most_alike(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """The largest set of pods with the same spec, in their order; of sets of one size the one that begins first."""
    sets: dict[bytes, list[PodInfo]] = {}
    for pod in pods:
        sets.setdefault(msgspec.json.encode(placement_spec(pod.pod.spec), order="sorted"), []).append(pod)
    return max(sets.values(), key=len)


def placement_spec(spec: PodSpec) -> PodSpec:
    """The spec without volumes of which nothing is read but the name.

    The API server mounts the token of the service account as such a volume, and gives it another name in each pod
    (`kube-api-access-x7k2p`): with it no two replicas would be alike.
    """
    volumes = tuple(volume for volume in spec.volumes if volume.constrains)
    return spec if len(volumes) == len(spec.volumes) else msgspec.structs.replace(spec, volumes=volumes)


def _candidates(found: Sequence[Suggestion], trials: "_Placing") -> Iterator[Suggestion]:
    """The suggestions, the smallest first; then those of a request, lowered as far as more pods need it."""
    yield from found
    for suggestion in found:
        facts = suggestion.steps[0].facts
        if len(suggestion.steps) == 1 and isinstance(facts, LowerRequest):
            lower = trials.lower_request(LowerRequest(facts.resource, facts.amount))
            if lower is not None:
                yield lower


class _Placing:
    """Places the pods one after the other, with a change."""

    def __init__(self, profile: Profile, alike: Sequence[PodInfo], cache: Cache, time: SearchTime) -> None:
        self._alike, self._cache = alike, cache
        self._trials = Trials(profile, alike[0], cache, SearchInputs(time=time))
        self._profile = replace(profile, post_filter=())  # who finds no node need not look for victims, too
        self._placed = 0

    @property
    def is_spent(self) -> bool:
        """Whether the trials have cost enough."""
        return self._placed >= _MAX_PLACED or self._trials.inputs.time.is_up

    def freed(self, suggestion: Suggestion) -> int:
        """How many of the pods would have a node if each of them were changed in this way."""
        cache = self._cache
        assumed: list[str] = []
        made = (*suggestion.changes, *suggestion.awaited)
        profile = self._profile
        for step in suggestion.steps:
            profile = step.facts.without_plugins(profile)
        gone = [pod for step in suggestion.steps for pod in step.gone]
        with self._trials.made(made, gone) as changed:
            for pod in self._alike:
                this = PodInfo(msgspec.structs.replace(changed.pod, metadata=pod.pod.metadata))
                self._placed += 1
                if not profile.run_pre_enqueue(this).is_success:
                    break
                record = schedule(profile, this, cache)
                if not record.node_name:
                    break
                cache.assume_pod(this, record.node_name)
                assumed.append(this.uid)
            for uid in assumed:
                cache.forget_pod(uid)
        return len(assumed)

    def lower_request(self, request: LowerRequest) -> Suggestion | None:
        """The largest request with which as many pods have a node as with none of the resource at all."""
        trials = self._trials
        demand = next((each for each in LowerRequest.demands(trials.pod, trials.cache) if each.facts == request), None)
        if demand is None:
            return None
        widest = trials.rows((trials.of_pod(demand.patch),))
        amount, target = 0, self.freed(self._requesting(0, demand, request, widest))
        amounts = self._amounts(request, widest)
        low, high = -1, len(amounts)  # amounts[low] is enough for as many, amounts[high] is not
        while high - low > 1 and not self.is_spent:
            middle = (low + high) // 2
            tried = self._requesting(amounts[middle], demand, request, widest)
            if self.freed(tried) >= target:
                low, amount = middle, amounts[middle]
            else:
                high = middle
        patch = request.lowered_to(amount, demand, trials).patch
        return self._requesting(amount, demand, request, trials.rows((trials.of_pod(patch),)))

    def _amounts(self, request: LowerRequest, rows: Rows) -> list[int]:
        """What each of 1, 2, 3, ... pods may request on a node, ascending; less than they request now."""
        shares = request.room(rows, self._trials)[:, None] // np.arange(1, len(self._alike) + 1)
        found: list[int] = np.unique(shares[(shares > 0) & (shares < request.amount)]).tolist()
        return sorted({*found, *request.amounts_of_devices(self._trials)})

    def _requesting(self, amount: int, demand: Demand, request: LowerRequest, rows: Rows) -> Suggestion:
        return of_demands((request.lowered_to(amount, demand, self._trials),), rows, self._trials)
