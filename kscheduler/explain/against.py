"""Why this node and not that one: a pod's node beside another, plugin by plugin."""

from collections.abc import Iterator

from kscheduler.explain.answer import Against, PluginPoints, WhyNotThere
from kscheduler.explain.rejections import plugin_rejections
from kscheduler.explain.situation import NO_SITUATION, Situation
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.fields import nearest_node
from kscheduler.scheduling.record import SchedulingRecord


def against(decision: Decision, node: str, situation: Situation = NO_SITUATION) -> Against:
    """The node beside the one that the pod is on, or else the one that it would go to."""
    record = decision.record
    chosen = situation.node_name or (record.node_name if record is not None else "") or None
    if record is None:
        return Against(node, chosen, problem="the pod was not judged: no node was looked at")
    if node not in record.diagnosis.names:
        near = nearest_node(node, record.diagnosis.names)
        return Against(node, chosen, problem=f"there is no node {node}{near or f' among the {record.num_all_nodes}'}")
    whole = record.diagnosis.pre_filter
    if whole.is_rejected:
        return Against(
            node, chosen, status=WhyNotThere(whole.plugin, whole.code.label, tuple(whole.reasons), details=())
        )
    if node in record.feasible_names():
        points = tuple(_points(record, node, chosen))
        behind = sum(each.chosen - each.other for each in points) if points else None
        return Against(node, chosen, points=points, behind=behind)
    for rejections in plugin_rejections(decision, record):
        for status in rejections.statuses:
            if node in status.nodes:
                details = tuple(each.text for each in rejections.details if node in each.nodes)
                return Against(
                    node, chosen, status=WhyNotThere(rejections.plugin, status.code, status.reasons, details)
                )
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


def _points(record: SchedulingRecord, node: str, chosen: str | None) -> Iterator[PluginPoints]:
    names = record.feasible_names()
    if chosen not in names or not len(record.totals):
        return
    this, that = names.index(chosen), names.index(node)
    for score in record.scores:
        yield PluginPoints(score.plugin, score.weight, int(score.points[this]), int(score.points[that]))
