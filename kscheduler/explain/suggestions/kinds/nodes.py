"""Changes of one node: labels that it lacks, taints that keep the pod off, and that it is cordoned.

The pod without the rule in question says on which nodes nothing else is in the way; of those the one that needs least
is proposed. Left are taints that Kubernetes' own controllers set, which come back until their cause is gone, and labels
that say what a machine is.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node, Pod, Taint, Toleration
from kscheduler.api.selectors import NodeTerm
from kscheduler.api.well_known import ARCH, HOSTNAME, OS, REGION, UNSCHEDULABLE, ZONE
from kscheduler.explain.suggestions.kinds.label_changes import LabelChange, Labels, label_patch, missing_labels
from kscheduler.explain.suggestions.kinds.taints import CORDON, NamedTaint, keeps_away
from kscheduler.explain.suggestions.kubectl_lines import kubectl
from kscheduler.explain.suggestions.object_changes import REMOVE, REPLACE, ObjectChange, Operation, pointer
from kscheduler.explain.suggestions.suggestion import HALF, Patch, Step, SuggestionKind
from kscheduler.explain.suggestions.trials import BY_NODE_AFFINITY, BY_TAINTS, OF_PODS, OF_VOLUMES, SPREAD, Trials
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.node_match import has_untolerated
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

# Nodes that are tried for each kind of change, those that need least first.
_TRIED: Final = 3
# In a cluster of so few nodes all are tried.
_FEW: Final = 16
# Nodes whose taints and labels are read one by one.
_LOOKED_AT: Final = 64
# Of one node: who needs more of them does not mean this node.
_MAX_LABELS: Final = 16
_OF_CONTROLLERS: Final = "node.kubernetes.io/"
_OF_THE_MACHINE: Final = (HOSTNAME, ARCH, OS)
_ALL_TAINTS: Final = Toleration(operator="Exists")

# How much each row lacks: int64 [rows].
Needs = Callable[[Rows], NDArray[np.int64]]


class UncordonNode(SuggestionKind, frozen=True):
    """A node is uncordoned. Proposes taints that go, too: both are read of the same nodes."""

    kind = "uncordon"
    is_paired_with_demands = True
    touched = BY_TAINTS

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        """The best of each kind first."""
        if trials.objections.may_help(cls.touched):
            yield from _without_taints(trials)

    def text(self, step: Step) -> str:
        return f"uncordon node {step.changes[0].name}"

    def command(self, step: Step) -> str:
        return kubectl("uncordon", step.changes[0].name)


class RemoveTaints(SuggestionKind, frozen=True):
    """A node loses taints; proposed with nodes that are uncordoned."""

    kind = "taint"
    touched = BY_TAINTS

    taints: Sequence[NamedTaint]

    def text(self, step: Step) -> str:
        return f"take {', '.join(taint.text for taint in self.taints)} off node {step.changes[0].name}"

    def command(self, step: Step) -> str:
        return kubectl("taint", "node", step.changes[0].name, *(f"{taint.text}-" for taint in self.taints))


class LabelNode(LabelChange, frozen=True):
    """A node is labelled."""

    kind = "nodeLabel"
    is_paired_with_demands = True
    touched = frozenset((BY_NODE_AFFINITY, SPREAD, OF_PODS, *OF_VOLUMES))

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        """The best first."""
        if not trials.objections.may_help(cls.touched):
            return
        rules = _rules(trials)
        other, needs = _without_node_rules(trials.pod.pod), partial(_unmet, trials, rules)
        wanted = [
            (len(labels), node, labels)
            for node in _candidates(trials, other, needs, (NodeAffinity.name,), _readers_of_labels(trials))
            if (labels := missing_labels(rules, node)) and _may_be_labelled(node, labels)
        ]
        for _, node, labels in sorted(wanted, key=lambda entry: entry[0])[: _shown(trials)]:
            yield _labelled(node, labels)

    @classmethod
    def pairs(cls, trials: Trials) -> Iterator[tuple[Step, Step]]:
        """Two changes of the same node: it is uncordoned or loses its taints, and gets labels."""
        if not trials.objections.without(BY_TAINTS).may_help(cls.touched):
            return
        rules, found = _rules(trials), []
        other = _without_node_rules(_tolerating(trials.pod.pod))
        needs, moved = partial(_unmet, trials, rules), _readers_of_labels(trials)
        for node in _candidates(trials, other, needs, (NodeAffinity.name,), moved):
            labels, (cordoned, taints) = missing_labels(rules, node), _in_the_way(trials, node)
            if any(taint.key.startswith(_OF_CONTROLLERS) for taint in taints):
                continue
            opened = [_uncordoned(node)] if cordoned else []
            opened += [_untainted(node, taints, trials.pod)] if taints else []
            if labels and _may_be_labelled(node, labels):
                opened.append(_labelled(node, labels))
            if len(opened) == 2:  # one is no pair, and three are too many
                found.append((len(taints) + len(labels), opened[0], opened[1]))
        for _, first, second in sorted(found, key=lambda entry: entry[0])[: _shown(trials)]:
            yield first, second

    def text(self, step: Step) -> str:
        return f"label node {step.changes[0].name}: {self.labels_text}"

    def command(self, step: Step) -> str:
        return self.label_command("node", step)


def _shown(trials: Trials) -> int:
    return _FEW if len(trials.cache.nodes) <= _FEW else _TRIED


# --- taints -----------------------------------------------------------------------------------------------------------


def _without_taints(trials: Trials) -> Iterator[Step]:
    cordoned, tainted = [], []
    for node in _candidates(trials, _tolerating(trials.pod.pod), partial(_untolerated, trials), (), _spread_of(trials)):
        is_cordoned, others = _in_the_way(trials, node)
        if any(taint.key.startswith(_OF_CONTROLLERS) for taint in others):
            continue
        if is_cordoned and not others:
            cordoned.append(node)
        elif others and not is_cordoned:
            tainted.append((len(others), node, others))
    for node in cordoned[: _shown(trials)]:
        yield _uncordoned(node)
    for _, node, taints in sorted(tainted, key=lambda entry: entry[0])[: _shown(trials)]:
        yield _untainted(node, taints, trials.pod)


def _in_the_way(trials: Trials, node: Node) -> tuple[bool, list[Taint]]:
    """Whether the node is cordoned, and the other taints that the pod does not tolerate."""
    taints = [taint for taint in node.spec.taints if has_untolerated((taint,), trials.pod.tolerations)]
    others = [taint for taint in taints if taint.key != UNSCHEDULABLE]
    is_tolerated = not has_untolerated((CORDON,), trials.pod.tolerations)
    return (node.spec.unschedulable and not is_tolerated) or len(others) < len(taints), others


def _tolerating(pod: Pod) -> Pod:
    spec = msgspec.structs.replace(pod.spec, tolerations=(*pod.spec.tolerations, _ALL_TAINTS))
    return msgspec.structs.replace(pod, spec=spec)


def _uncordoned(node: Node) -> Step:
    cleared = [taint for taint in node.spec.taints if taint.key == UNSCHEDULABLE]
    patch = _without(node, cleared)
    if node.spec.unschedulable:
        patch = (Operation(REPLACE, "/spec/unschedulable", False), *patch)  # noqa: FBT003  a value of JSON
    return Step(UncordonNode(), (ObjectChange("nodes", "", node.metadata.name, patch),), HALF, node.metadata.name)


def _untainted(node: Node, taints: list[Taint], pod: PodInfo) -> Step:
    facts = RemoveTaints([NamedTaint(each.key, each.value, each.effect) for each in taints])
    change = ObjectChange("nodes", "", node.metadata.name, _without(node, taints))
    comes_last = any(keeps_away(taint, node.status.allocatable, pod) for taint in taints)
    return Step(facts, (change,), HALF * len(taints), node.metadata.name, comes_last)


def _without(node: Node, taints: list[Taint]) -> Patch:
    positions = [number for number, taint in enumerate(node.spec.taints) if taint in taints]
    return tuple(Operation(REMOVE, pointer("spec", "taints", number)) for number in reversed(positions))


# --- labels -----------------------------------------------------------------------------------------------------------


def _labelled(node: Node, labels: Labels) -> Step:
    name, has = node.metadata.name, node.metadata.labels
    facts = LabelNode(labels=labels, replaced={key: has[key] for key in labels if key in has})
    return Step(facts, (ObjectChange("nodes", "", name, label_patch(labels, has)),), HALF * len(labels), name)


def _may_be_labelled(node: Node, labels: Labels) -> bool:
    return len(labels) <= _MAX_LABELS and all(_may_be_set(key, node) for key in labels)


def _may_be_set(key: str, node: Node) -> bool:
    """Whether the label is nobody else's: what a machine is, and where it stands, does not change with its label."""
    if key in _OF_THE_MACHINE or key.startswith(_OF_CONTROLLERS):
        return False
    return key not in (ZONE, REGION) or key not in node.metadata.labels


def _rules(trials: Trials) -> list[Sequence[NodeTerm]]:
    """What is required of labels: of each list one term must hold."""
    pod, plugins = trials.pod, trials.profile.instances
    added = next((plugin.added_terms for plugin in plugins if isinstance(plugin, NodeAffinity)), None)
    own = (None if pod.node_selector is None else (pod.node_selector,), pod.required_node_terms)
    return [terms for terms in (*own, added) if terms is not None]


def _candidates(trials: Trials, pod: Pod, needs: Needs, settled: Sequence[str], moved: Sequence[str]) -> Iterator[Node]:
    """Nodes that this version of the pod fits on without the `settled` plugins; then those that only `moved` forbid.

    The change of the node may change the verdict of the `moved` plugins, too, in either direction. Spread constraints
    may leave out nodes that the pod's own rules forbid: a pod without these rules is spread over more nodes than the
    real one. A volume or another pod's anti-affinity may look at the very label that the node is to get. Of very many
    nodes those that need least, by `needs`.
    """
    version = PodInfo(pod)
    strict = trials.rows_without(settled, version)
    yield from _least(trials, strict, needs)
    if moved:
        loose = trials.rows_without((*settled, *moved), version)
        yield from _least(trials, np.setdiff1d(loose, strict, assume_unique=True), needs)


def _spread_of(trials: Trials) -> list[str]:
    """The plugin of the spread constraints, if the pod has any."""
    return [PodTopologySpread.name] if trials.pod.pod.spec.topology_spread_constraints else []


def _readers_of_labels(trials: Trials) -> list[str]:
    """The plugins, beside that of the pod's own node rules, that may judge a node otherwise by its labels."""
    pod, terms = trials.pod, trials.pod.affinity_terms
    names = _spread_of(trials)
    if pod.pod.spec.volumes:
        names += OF_VOLUMES
    of_others = trials.cache.counters.required_anti_affinity(pod)
    if terms.required_affinity or terms.required_anti_affinity or of_others:
        names.append(OF_PODS)
    return names


def _least(trials: Trials, rows: Rows, needs: Needs) -> list[Node]:
    if len(rows) > _LOOKED_AT:
        rows = rows[np.argsort(needs(rows), kind="stable")[:_LOOKED_AT]]
    infos = (trials.cache.nodes.info(row).node for row in rows.tolist())
    return sorted((node for node in infos if node is not None), key=lambda node: node.metadata.name)


def _untolerated(trials: Trials, rows: Rows) -> NDArray[np.int64]:
    """How many taints of each row the pod does not tolerate: int64 [rows]."""
    nodes = trials.cache.nodes
    _, first, numbers = np.unique(nodes.taint_set[rows], return_index=True, return_inverse=True)
    taints = [nodes.info(row).taints for row in rows[first].tolist()]
    counts = [sum(has_untolerated((taint,), trials.pod.tolerations) for taint in listed) for listed in taints]
    return np.array(counts, dtype=np.int64)[numbers]


def _unmet(trials: Trials, rules: Sequence[Sequence[NodeTerm]], rows: Rows) -> NDArray[np.int64]:
    """How many requirements of the rules each row does not meet, by the best term of each rule: int64 [rows]."""
    total = np.zeros(len(rows), dtype=np.int64)
    for terms in rules:
        each = [
            sum((~trials.cache.nodes.matches(requirement, rows)).astype(np.int64) for requirement in term.labels)
            for term in terms
        ]
        total += np.min([np.broadcast_to(count, len(rows)) for count in each], axis=0) if each else 0
    return total


def _without_node_rules(pod: Pod) -> Pod:
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        rules = msgspec.structs.replace(
            affinity.node_affinity, required_during_scheduling_ignored_during_execution=None
        )
        affinity = msgspec.structs.replace(affinity, node_affinity=rules)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_selector={}, affinity=affinity))
