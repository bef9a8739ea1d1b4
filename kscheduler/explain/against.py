"""Why this node and not that one: a pod's node beside another, plugin by plugin."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kscheduler.explain.rejections import plugin_rejections
from kscheduler.explain.situation import NO_SITUATION, Situation
from kscheduler.framework.status import Status
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.fields import nearest_node

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PluginPoints:
    """The weighted points of a plugin."""

    plugin: str
    weight: int
    chosen: int
    other: int


@dataclass(frozen=True, slots=True)
class Against:
    """Another node beside the pod's."""

    node: str
    chosen: str
    """The node that the pod is on, or would go to; empty if it has none."""
    problem: str = ""
    """Why they cannot be compared: an unknown node, a pod that was not judged, a node that was not looked at."""
    status: Status | None = None
    """Why the node was rejected; `None`: the pod fits there."""
    details: tuple[str, ...] = ()
    """What exactly was wrong with it."""
    points: tuple[PluginPoints, ...] = ()
    """Empty where one of them was rejected, or nothing was scored."""

    @property
    def behind(self) -> int:
        """By how many points the node is behind; below 0 if it is ahead, as for a pod that was bound earlier."""
        return sum(each.chosen - each.other for each in self.points)


def against(decision: Decision, node: str, situation: Situation = NO_SITUATION) -> Against:
    """The node beside the one that the pod is on, or else the one that it would go to."""
    record = decision.record
    chosen = situation.node_name or (record.node_name if record is not None else "")
    if record is None:
        return Against(node, chosen, problem="the pod was not judged: no node was looked at")
    if node not in record.diagnosis.names:
        near = nearest_node(node, record.diagnosis.names)
        return Against(node, chosen, problem=f"there is no node {node}{near or f' among the {record.num_all_nodes}'}")
    rejected = record.diagnosis.pre_filter
    if rejected.is_rejected:
        return Against(node, chosen, status=rejected)
    names = record.feasible_names()
    if node in names:
        return Against(node, chosen, points=tuple(_points(decision, node, chosen)))
    for rejections in plugin_rejections(decision, record):
        for status, rejected_nodes in rejections.by_status.items():
            if node in rejected_nodes:
                details = tuple(each.detail.text for each in rejections.details if node in each.node_names)
                return Against(node, chosen, status=status, details=details)
    return Against(node, chosen, problem=f"node {node} was not looked at: the search had ended, or its nomination held")


def runner_up(decision: Decision, situation: Situation = NO_SITUATION) -> Against | None:
    """The best node besides the one that the pod is on, or goes to; `None` where no two nodes were scored."""
    record = decision.record
    if record is None or not len(record.totals):
        return None
    names, chosen = record.feasible_names(), situation.node_name or record.node_name
    others = [at for at in range(len(names)) if names[at] != chosen]
    if not others or chosen not in names:
        return None
    # Of nodes with equal points the one that the cycle itself would take comes first.
    best = min(others, key=lambda at: (-int(record.totals[at]), names[at] != record.node_name, names[at]))
    return against(decision, names[best], situation)


def runner_up_tree(compared: Against | None) -> Tree | None:
    return None if compared is None else {"node": compared.node, "behind": compared.behind}


def _points(decision: Decision, node: str, chosen: str) -> Iterator[PluginPoints]:
    record = decision.record
    names = record.feasible_names() if record is not None else []
    if record is None or chosen not in names or not len(record.totals):
        return
    this, that = names.index(chosen), names.index(node)
    for score in record.scores:
        yield PluginPoints(score.plugin, score.weight, int(score.points[this]), int(score.points[that]))


def against_tree(compared: Against) -> Tree:
    status = compared.status
    return {
        "node": compared.node,
        "chosen": compared.chosen or None,
        "problem": compared.problem or None,
        "turnedDown": None
        if status is None
        else {
            "plugin": status.plugin,
            "code": status.code.label,
            "reasons": list(status.reasons),
            "details": list(compared.details),
        },
        "points": [
            {"plugin": each.plugin, "weight": each.weight, "chosen": each.chosen, "other": each.other}
            for each in compared.points
        ],
        "behind": compared.behind if compared.points else None,
    }
