"""Taints that the pod does not tolerate: one by one, and all of a key where two of them keep the pod off one node.

Some taints are there so that a pod like this one stays away, and to tolerate them, or to take them off, comes last:

    node.kubernetes.io/unschedulable, node-role.kubernetes.io/control-plane      the node should take nobody new
    kubernetes.io/arch=arm64, nvidia.com/gpu on a node with nvidia.com/gpu       it is for pods that ask for it

Others are there for pods like this one: a pod whose node rules ask for the label dedicated=batch is meant for the nodes
with the taint dedicated=batch, and to tolerate that comes first.

A toleration that tolerates no taint of any node is probably a mistake: of the same key, or nearly the same, it is
changed where another one would be added.

    nvidia.com/gpu=true            the taint is nvidia.com/gpu=present          the value becomes present
    nvidia.com/gpus                the taint is nvidia.com/gpu                  the key becomes nvidia.com/gpu
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import numpy as np

from kscheduler.api.core import Pod, Taint, Toleration
from kscheduler.api.selectors import Operator
from kscheduler.api.well_known import UNSCHEDULABLE
from kscheduler.explain.suggestions.changed import ADD, REPLACE, Operation, pointer
from kscheduler.explain.suggestions.pod_changes.demand import HALF, Demand, Patch
from kscheduler.explain.suggestions.suggestion import ChangeKind
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.node_match import has_untolerated, tolerates
from kscheduler.scenario.fields import nearest

_CORDON: Final = Taint(UNSCHEDULABLE, "", "NoSchedule")
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_KUBERNETES: Final = "kubernetes.io"
# The size of a toleration that says what the pod's node rules say already.
_MEANT: Final = 0.05


def tolerations(pod: PodInfo, nodes: NodeTable) -> Iterator[Demand]:
    """One per taint of any node, those of most nodes first; then one per key that has several taints."""
    counts: dict[Taint, int] = {}
    last: set[str] = set()
    every: set[Taint] = set()
    for taints, resources, count in _taint_sets(nodes):
        every.update(taints)
        for taint in taints:
            if taint.effect in _EFFECTS and has_untolerated((taint,), pod.tolerations):
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
        facts = {"key": taint.key, "value": taint.value, "effect": taint.effect, "now": now}
        family, comes_last = f"taint {taint.key}", taint.key in last
        is_meant = _is_meant(taint, pod)
        if is_meant:
            meant.add(taint.key)
        size = _MEANT if is_meant or now is not None else HALF
        yield Demand(ChangeKind.TOLERATION, patch, size, facts, family=family, comes_last=comes_last)
    for key in (key for key, number in by_key.items() if number > 1):
        patch, now = _with(pod.pod, {"key": key, "operator": "Exists"}, idle)
        family, facts, size = f"taint {key}", {"key": key, "now": now}, _MEANT if key in meant else 0.6
        yield Demand(
            ChangeKind.TOLERATION, patch, size, facts, family=family, is_last_resort=True, comes_last=key in last
        )


def keeps_away(taint: Taint, resources: Collection[str], pod: PodInfo) -> bool:
    """Whether the taint is there to keep such a pod away: it is Kubernetes' own, or has the name of a resource.

    A pod that asks for what the taint names, by its requests or its node rules, belongs there. `resources`: the node's.
    """
    return (_is_of_kubernetes(taint.key) or taint.key in resources) and not _asks_for(taint.key, pod)


def _is_of_kubernetes(key: str) -> bool:
    prefix = key.rpartition("/")[0]
    return prefix == _KUBERNETES or prefix.endswith(f".{_KUBERNETES}")


def _is_meant(taint: Taint, pod: PodInfo) -> bool:
    """Whether the pod's node rules ask for a label with the taint's key and value; not of Kubernetes' own."""
    if _is_of_kubernetes(taint.key):
        return False
    terms = pod.required_node_terms or ()
    of_terms = any(
        requirement.key == taint.key and requirement.operator is Operator.IN and taint.value in requirement.values
        for term in terms
        for requirement in term.labels
    )
    return of_terms or pod.pod.spec.node_selector.get(taint.key) == taint.value


def _asks_for(name: str, pod: PodInfo) -> bool:
    terms = pod.required_node_terms or ()
    of_terms = any(requirement.key == name for term in terms for requirement in term.labels)
    of_tolerations = any(each.key == name for each in pod.tolerations)  # of whatever value: it is meant to be there
    return name in pod.requests or name in pod.pod.spec.node_selector or of_terms or of_tolerations


def _idle(pod: Pod, every: Collection[Taint]) -> dict[int, Toleration]:
    """By place the tolerations of a key that tolerate no taint that any node has; not Kubernetes' own.

    One that tolerates something is meant: anyone who tolerates dedicated=a does not mean dedicated=b.
    """
    return {
        place: each
        for place, each in enumerate(pod.spec.tolerations)
        if each.key and not _is_of_kubernetes(each.key) and not any(tolerates(each, taint) for taint in every)
    }


def _with(pod: Pod, tree: dict[str, Any], idle: Mapping[int, Toleration]) -> tuple[Patch, dict[str, Any] | None]:
    """The pod with this toleration: in the place of an idle one, which is returned as well, else behind all others."""
    key = tree["key"] if any(each.key == tree["key"] for each in idle.values()) else ""
    key = key or nearest(tree["key"], [each.key for each in idle.values()])
    place = next((place for place, each in idle.items() if each.key == key), None)
    if place is not None:
        before = idle[place]
        changed = {name: value for name, value in tree.items() if name != "effect" or before.effect}
        if before.toleration_seconds is not None and changed.get("effect") == "NoExecute":
            changed["tolerationSeconds"] = before.toleration_seconds
        now = {"key": before.key, "value": before.value, "effect": before.effect}
        return (Operation(REPLACE, pointer("spec", "tolerations", place), changed),), now
    if pod.spec.tolerations:
        return (Operation(ADD, "/spec/tolerations/-", tree),), None
    return (Operation(ADD, "/spec/tolerations", [tree]),), None


def _taint_sets(nodes: NodeTable) -> Iterator[tuple[tuple[Taint, ...], Collection[str], int]]:
    """Each set of taints that a node has, with the resources of one of its nodes, and their number.

    A cordoned node counts as one with that taint.
    """
    rows = nodes.rows()
    cordoned = int(nodes.unschedulable[rows].sum())
    if cordoned:
        yield (_CORDON,), (), cordoned
    _, first, counts = np.unique(nodes.taint_set[rows], return_index=True, return_counts=True)
    for row, count in zip(rows[first].tolist(), counts.tolist(), strict=True):
        info = nodes.info(row)
        if taints := info.taints:
            others = tuple(taint for taint in taints if not (cordoned and taint == _CORDON))
            yield others, info.allocatable, count
