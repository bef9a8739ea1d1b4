"""Taints that the pod does not tolerate: one by one, and all of a key where two of them keep the pod off one node.

To tolerate taints that are there to keep such a pod away comes last (`taints.keeps_away`). Others are there for pods
like this one: a pod whose node rules ask for the label dedicated=batch is meant for the nodes with the taint
dedicated=batch, and to tolerate that comes first.

A toleration that tolerates no taint of any node is probably a mistake: of the same key, or nearly the same, it is
changed where another one would be added.

    nvidia.com/gpu=true            the taint is nvidia.com/gpu=present          the value becomes present
    nvidia.com/gpus                the taint is nvidia.com/gpu                  the key becomes nvidia.com/gpu
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType

from kscheduler.api.core import Pod, Taint, Toleration
from kscheduler.api.selectors import Operator
from kscheduler.explain.suggestions.kinds.taints import (
    CORDON,
    KEEPING_OUT,
    NamedTaint,
    is_of_kubernetes,
    keeps_away,
    key_value_effect,
)
from kscheduler.explain.suggestions.object_changes import ADD, REPLACE, Operation, pointer
from kscheduler.explain.suggestions.suggestion import HALF, Demand, Patch, PodChange, Step
from kscheduler.explain.suggestions.trials import BY_TAINTS
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.node_match import has_untolerated, tolerates
from kscheduler.scenario.fields import nearest
from kscheduler.state.cache import Cache

_SIZE_OF_KEY: Final = 0.6
# The size of a toleration that says what the pod's node rules say already.
_MEANT: Final = 0.05


class TolerateTaint(PodChange, frozen=True):
    """A toleration of a taint, or of all taints of a key, in the place of one that tolerates nothing (`now`)."""

    kind = "toleration"
    is_in_place = True
    touched = BY_TAINTS

    key: str
    value: str | UnsetType = UNSET
    effect: str | UnsetType = UNSET
    now: NamedTaint | None = None

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        """One per taint of any node, those of most nodes first; then one per key that has several taints."""
        counts: dict[Taint, int] = {}
        last: set[str] = set()
        every: set[Taint] = set()
        for taints, resources, count in _taint_sets(cache.nodes):
            every.update(taints)
            for taint in taints:
                if taint.effect in KEEPING_OUT and has_untolerated((taint,), pod.tolerations):
                    counts[taint] = counts.get(taint, 0) + count
                    if keeps_away(taint, resources, pod):
                        last.add(taint.key)
        idle = _idle(pod.pod, every)
        by_key: dict[str, int] = {}
        meant: set[str] = set()
        for taint in sorted(counts, key=lambda each: (-counts[each], each.key, each.value, each.effect)):
            by_key[taint.key] = by_key.get(taint.key, 0) + 1
            tree = {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
            patch, now = _with(pod.pod, tree, idle)
            if is_meant := _is_meant(taint, pod):
                meant.add(taint.key)
            yield Demand(
                cls(taint.key, taint.value, taint.effect, now=now),
                patch,
                _MEANT if is_meant or now is not None else HALF,
                _family(taint.key),
                comes_last=taint.key in last,
            )
        for key in (key for key, number in by_key.items() if number > 1):
            patch, now = _with(pod.pod, {"key": key, "operator": "Exists"}, idle)
            size = _MEANT if key in meant else _SIZE_OF_KEY
            yield Demand(cls(key, now=now), patch, size, _family(key), is_last_resort=True, comes_last=key in last)

    def text(self, step: Step) -> str:
        instead = ""
        if self.now is not None:
            instead = f": there is a toleration of {self.now.text}, which no node has"
        if self.value is UNSET or self.effect is UNSET:
            return f"tolerate all taints with the key {self.key}{instead}"
        return f"tolerate the taint {key_value_effect(self.key, self.value, self.effect)}{instead}"


def _family(key: str) -> str:
    return f"taint {key}"


def _is_meant(taint: Taint, pod: PodInfo) -> bool:
    """Whether the pod's node rules ask for a label with the taint's key and value; not of Kubernetes' own."""
    if is_of_kubernetes(taint.key):
        return False
    terms = pod.required_node_terms or ()
    of_terms = any(
        requirement.key == taint.key and requirement.operator is Operator.IN and taint.value in requirement.values
        for term in terms
        for requirement in term.labels
    )
    return of_terms or pod.pod.spec.node_selector.get(taint.key) == taint.value


def _idle(pod: Pod, every: Collection[Taint]) -> dict[int, Toleration]:
    """By place the tolerations of a key that tolerate no taint that any node has; not Kubernetes' own.

    One that tolerates something is meant: a pod that tolerates dedicated=a does not mean dedicated=b.
    """
    return {
        place: each
        for place, each in enumerate(pod.spec.tolerations)
        if each.key and not is_of_kubernetes(each.key) and not any(tolerates(each, taint) for taint in every)
    }


def _with(pod: Pod, tree: Mapping[str, str], idle: Mapping[int, Toleration]) -> tuple[Patch, NamedTaint | None]:
    """The pod with this toleration: in the place of an idle one, which is returned as well, else behind all others."""
    key = tree["key"] if any(each.key == tree["key"] for each in idle.values()) else ""
    key = key or nearest(tree["key"], [each.key for each in idle.values()])
    place = next((place for place, each in idle.items() if each.key == key), None)
    if place is not None:
        before = idle[place]
        changed: dict[str, object] = {name: value for name, value in tree.items() if name != "effect" or before.effect}
        if before.toleration_seconds is not None and changed.get("effect") == "NoExecute":
            changed["tolerationSeconds"] = before.toleration_seconds
        now = NamedTaint(before.key, before.value, before.effect)
        return (Operation(REPLACE, pointer("spec", "tolerations", place), changed),), now
    if pod.spec.tolerations:
        return (Operation(ADD, "/spec/tolerations/-", dict(tree)),), None
    return (Operation(ADD, "/spec/tolerations", [dict(tree)]),), None


def _taint_sets(nodes: NodeTable) -> Iterator[tuple[tuple[Taint, ...], Collection[str], int]]:
    """Each set of taints that a node has, with the resources of one of its nodes, and their number.

    A cordoned node counts as one with that taint.
    """
    rows = nodes.rows()
    cordoned = int(nodes.unschedulable[rows].sum())
    if cordoned:
        yield (CORDON,), (), cordoned
    _, first, counts = np.unique(nodes.taint_set[rows], return_index=True, return_counts=True)
    for row, count in zip(rows[first].tolist(), counts.tolist(), strict=True):
        info = nodes.info(row)
        if taints := info.taints:
            others = tuple(taint for taint in taints if not (cordoned and taint == CORDON))
            yield others, info.allocatable, count
