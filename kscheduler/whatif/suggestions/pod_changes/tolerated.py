"""Taints that the pod does not tolerate: one by one, and all of a key where two of them keep the pod off one node."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kscheduler.api.core import Pod, Taint
from kscheduler.api.well_known import UNSCHEDULABLE
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.tolerations import has_untolerated
from kscheduler.whatif.suggestions.changed import ADD, Operation
from kscheduler.whatif.suggestions.pod_changes.demand import Demand, Patch
from kscheduler.whatif.suggestions.suggestion import ChangeKind

_CORDON: Final = Taint(UNSCHEDULABLE, "", "NoSchedule")
_EFFECTS: Final = ("NoSchedule", "NoExecute")


def tolerations(pod: PodInfo, nodes: NodeTable) -> Iterator[Demand]:
    """One per taint of any node, those of most nodes first; then one per key that has several taints."""
    counts: dict[Taint, int] = {}
    for taints, count in _taint_sets(nodes):
        for taint in taints:
            if taint.effect in _EFFECTS and has_untolerated((taint,), pod.tolerations):
                counts[taint] = counts.get(taint, 0) + count
    by_key: dict[str, int] = {}
    for taint in sorted(counts, key=lambda each: (-counts[each], each.key, each.value, each.effect)):
        by_key[taint.key] = by_key.get(taint.key, 0) + 1
        facts = {"key": taint.key, "value": taint.value, "effect": taint.effect}
        patch = _appended(
            pod.pod, {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        )
        yield Demand(ChangeKind.TOLERATION, patch, facts=facts, family=f"taint {taint.key}")
    for key in (key for key, number in by_key.items() if number > 1):
        patch = _appended(pod.pod, {"key": key, "operator": "Exists"})
        yield Demand(ChangeKind.TOLERATION, patch, 0.6, {"key": key}, family=f"taint {key}", is_last_resort=True)


def _appended(pod: Pod, tree: dict[str, Any]) -> Patch:
    if pod.spec.tolerations:
        return (Operation(ADD, "/spec/tolerations/-", tree),)
    return (Operation(ADD, "/spec/tolerations", [tree]),)


def _taint_sets(nodes: NodeTable) -> Iterator[tuple[tuple[Taint, ...], int]]:
    """Each set of taints that a node has, with a number of nodes; a cordoned node counts as one with that taint."""
    rows = nodes.rows()
    cordoned = int(nodes.unschedulable[rows].sum())
    if cordoned:
        yield (_CORDON,), cordoned
    _, first, counts = np.unique(nodes.taint_set[rows], return_index=True, return_counts=True)
    for row, count in zip(rows[first].tolist(), counts.tolist(), strict=True):
        if taints := nodes.info(row).taints:
            yield tuple(taint for taint in taints if not (cordoned and taint == _CORDON)), count
