"""Claims of others that give their devices back, with the pods that use them: preemption never does that.

The filter of claims says no for good (`UnschedulableAndUnresolvable`), so preemption looks at no such node, and a pod
of the highest priority waits for devices that the lowest one holds.

The search is that of preemption, by node. All holders of the cluster give up at once; where the pod then fits, they get
their devices back one by one as long as it still does:

    node      held by                       the pod needs 4 of 8 devices
    a         a1 .. a8, a device each       a5 .. a8 go: the least important
    b         b1 with 4, b2 .. b5           b1 goes, alone: the fewest pods

Once the most important come first, once those with the fewest devices; what is left is compared. That is as few as
can be of a node for holders of one size, and nearly so for others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kscheduler.api.devices import ResourceClaim
from kscheduler.explain.suggestions.kinds.pods_that_go import (
    MAX_NAMED,
    PodThatGoes,
    deleted,
    few,
    harm_of,
    made_again_text,
    priorities_text,
)
from kscheduler.explain.suggestions.kubectl_lines import deletion
from kscheduler.explain.suggestions.object_changes import ObjectChange
from kscheduler.explain.suggestions.suggestion import Harm, Step, Suggestion, SuggestionKind
from kscheduler.explain.suggestions.trials import Trials
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.dynamic_resources.in_cycle import is_made_for
from kscheduler.state.cache import Cache

# Claims that are looked at.
_HOLDERS_READ: Final = 4096
# Of these the least important, all over the cluster.
_HOLDERS_TRIED: Final = 512
_NODES_TRIED: Final = 4
# Holders of one node that may give up: a trial each, twice.
_OF_A_NODE: Final = 64


class ReleasedClaim(msgspec.Struct, frozen=True, rename="camel"):
    """A claim that gives its devices back."""

    claim: str
    devices: Sequence[str]
    goes_with_its_pod: bool
    """Whether it was made for a pod: to delete it, too, would end in NotFound."""


class ReleaseDevices(SuggestionKind, frozen=True):
    """The fewest pods, then the least important, that hold what the pod lacks, go with their claims."""

    kind = "releaseDevices"
    is_far = True

    claim: str
    """All of them."""
    claims: Sequence[ReleasedClaim]
    devices: Sequence[str]
    pods: Sequence[str]
    users: Sequence[PodThatGoes]
    """The same pods."""
    priority: int
    """Of the pod that waits."""
    goes_with_its_pod: bool
    """Whether all claims do."""

    @classmethod
    def found(cls, trials: Trials) -> Iterator[Suggestion]:
        """Nothing where no node would do."""
        if not trials.lacks_devices:
            return
        holders = _holders(trials)
        if not holders or not len(rows := _rows_without(holders, trials)):
            return
        names = {trials.cache.nodes.name_of(row) for row in rows.tolist()}
        orders = [
            sorted(local, key=order)
            for local in _by_node(holders, names)[:_NODES_TRIED]
            for order in (_least_important, _most_devices)
        ]
        found = [kept for holders in orders if (kept := _fewest(holders, trials)) is not None]
        if found:
            least, nodes = min(found, key=lambda each: _cost(each[0]))
            step = _step(least, trials.pod)
            yield Suggestion((step,), step.changes, nodes)

    def text(self, step: Step) -> str:
        pods, devices, several = self.pods, few(self.devices, "devices"), len(self.claims) > 1
        claims = f"claims {', '.join(each.claim for each in self.claims)}" if several else f"claim {self.claim}"
        if len(self.claims) > MAX_NAMED:
            claims = f"{len(self.claims)} claims"
        hold = "hold" if several else "holds"
        if self.goes_with_its_pod:
            go = "go" if several else "goes"
            what = f"delete {few(pods, 'pods')}, with which {claims} {go}, which {hold} {devices}"
        else:
            them = "them" if several else "it"
            users = f", and delete {few(pods, 'pods')}, which use{'s' if len(pods) == 1 else ''} {them}"
            what = f"delete {claims}, which {hold} {devices}{users if pods else ''}"
        after = made_again_text(self.users, len(pods), self.priority).removeprefix("; ")
        priorities = f"{priorities_text(self.users)}; " if pods else ""
        reported = f"{priorities}{after}".removesuffix("; ")
        return f"{what} ({reported})" if reported else what

    def command(self, step: Step) -> str:
        gone = {each.claim for each in self.claims if each.goes_with_its_pod}
        return deletion(
            change
            for change in step.changes
            if change.resource == "pods" or f"{change.namespace}/{change.name}" not in gone
        )


@dataclass(frozen=True, slots=True)
class _Holder:
    """A claim with devices, and the pods that use it."""

    claim: ResourceClaim
    pods: tuple[PodInfo, ...]
    nodes: frozenset[str]
    """Whose devices it has; empty for devices that several nodes reach."""
    harm: Harm

    @property
    def priority(self) -> int:
        """Of the most important pod."""
        return max((pod.priority for pod in self.pods), default=0)

    @property
    def devices(self) -> list[str]:
        allocation = self.claim.status.allocation
        results = () if allocation is None else allocation.devices.results
        return [f"{each.driver}/{each.pool}/{each.device}" for each in results]

    @property
    def importance(self) -> tuple[object, ...]:
        """Sorts those first that are missed least."""
        return self.harm, self.priority, len(self.pods), self.claim.key


def _holders(trials: Trials) -> list[_Holder]:
    """The holders of other claims, the least important first."""
    cache = trials.cache
    own = {claim.key for _, claim in trials.claims()}
    node_of_pool = {
        (each.spec.driver, each.spec.pool.name): each.spec.node_name or "" for each in cache.devices.slices()
    }
    found = []
    for claim in cache.devices.claims.allocated()[:_HOLDERS_READ]:
        allocation = claim.status.allocation
        if claim.key in own or allocation is None:
            continue
        pods = _users(claim, cache)
        nodes = frozenset(node_of_pool.get((each.driver, each.pool), "") for each in allocation.devices.results)
        found.append(_Holder(claim, pods, nodes - {""}, harm_of(pods, trials.pod)))
    return sorted(found, key=_least_important)[:_HOLDERS_TRIED]


def _users(claim: ResourceClaim, cache: Cache) -> tuple[PodInfo, ...]:
    users = (cache.pod_of(consumer.uid) for consumer in claim.status.reserved_for)
    return tuple(user for user in users if user is not None)


def _by_node(holders: Sequence[_Holder], names: set[str]) -> list[list[_Holder]]:
    """The holders by node on which the pod would fit, that of the least important first.

    Devices that several nodes reach are held on each of them.
    """
    local: dict[str, list[_Holder]] = {}
    anywhere = [each for each in holders if not each.nodes]
    for each in holders:
        for name in each.nodes & names:
            local.setdefault(name, []).append(each)
    groups = [[*sorted((*found, *anywhere), key=_least_important)][:_OF_A_NODE] for _, found in sorted(local.items())]
    return sorted(groups, key=lambda found: found[0].importance) or ([anywhere[:_OF_A_NODE]] if anywhere else [])


def _fewest(holders: Sequence[_Holder], trials: Trials) -> tuple[list[_Holder], int] | None:
    """Those that have to give up, where the last of these are kept first; with the number of nodes that it opens."""
    rows = _rows_without(holders, trials)
    if not len(rows):
        return None
    least, nodes = list(holders), len(rows)
    for each in reversed(holders):
        fewer = [other for other in least if other is not each]
        if fewer and len(rows := _rows_without(fewer, trials)):
            least, nodes = fewer, len(rows)
    return least, nodes


def _rows_without(holders: Sequence[_Holder], trials: Trials) -> Rows:
    """The rows that the pod fits on when these claims and their pods are gone."""
    pods = _pods_of(holders)
    return trials.rows(tuple(_of_claim(each.claim) for each in holders), pods)


def _pods_of(holders: Sequence[_Holder]) -> tuple[PodInfo, ...]:
    """Each once: a pod may use several of the claims."""
    return tuple({pod.uid: pod for each in holders for pod in each.pods}.values())


def _cost(holders: Sequence[_Holder]) -> tuple[object, ...]:
    harm, priority = max(each.harm for each in holders), max(each.priority for each in holders)
    return harm, len(_pods_of(holders)), len(holders), priority, [each.claim.key for each in holders]


def _least_important(holder: _Holder) -> tuple[object, ...]:
    return holder.importance


def _most_devices(holder: _Holder) -> tuple[object, ...]:
    return holder.harm, -len(holder.devices), *holder.importance


def _of_claim(claim: ResourceClaim) -> ObjectChange:
    return ObjectChange("resourceclaims", claim.metadata.namespace, claim.metadata.name, delete=True)


def _step(holders: Sequence[_Holder], own: PodInfo) -> Step:
    pods = _pods_of(holders)
    claims = [
        ReleasedClaim(each.claim.key, each.devices, any(is_made_for(user.pod, each.claim) for user in each.pods))
        for each in holders
    ]
    facts = ReleaseDevices(
        claim=", ".join(each.claim for each in claims),
        claims=claims,
        devices=[device for each in holders for device in each.devices],
        pods=[user.key for user in pods],
        users=[PodThatGoes.of(user) for user in pods],
        priority=own.priority,
        goes_with_its_pod=all(each.goes_with_its_pod for each in claims),
    )
    changes = (*deleted(pods), *(_of_claim(each.claim) for each in holders))
    return Step(facts, changes, 1.0, harm=harm_of(pods, own), gone=pods)
