"""The nodes that were turned down, by plugin and reason, with what the plugins can say beyond the reason."""

from dataclasses import dataclass

from kscheduler.framework.details import Detail
from kscheduler.framework.status import Status
from kscheduler.scheduling.cycle.rejection_details import rejection_details
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.whatif.decide import Decision


@dataclass(frozen=True, slots=True)
class NamedDetail:
    """A detail with the names of its nodes."""

    detail: Detail
    node_names: tuple[str, ...]
    """Sorted; none where the pod was turned down for all nodes at once."""
    beside: tuple[str, ...] = ()
    """Keys of the nominated pods without which the plugin would have had no objection."""


@dataclass(frozen=True, slots=True)
class PluginRejections:
    """What one plugin turned down."""

    plugin: str
    """Empty for nodes outside the names that PreFilter plugins narrowed the search to."""
    by_status: dict[Status, tuple[str, ...]]
    """Node names, sorted; the status with the most nodes first."""
    details: tuple[NamedDetail, ...]

    @property
    def count(self) -> int:
        """How many nodes."""
        return sum(map(len, self.by_status.values()))


def plugin_rejections(decision: Decision, record: SchedulingRecord) -> tuple[PluginRejections, ...]:
    """In the order in which the plugins ran; `record` is the decision's, or one over the same view."""
    nodes: dict[str, dict[Status, list[str]]] = {}
    for node, status in record.diagnosis.by_node():
        nodes.setdefault(status.plugin, {}).setdefault(status, []).append(node)
    details = named_details(decision, record)
    # Rows that pods are nominated to are judged first, so the order of the rejections is not that of the plugins.
    order = [one.name for one in decision.profile.filter] if decision.profile is not None else []
    ran = sorted(nodes, key=lambda plugin: order.index(plugin) if plugin in order else -1)
    return tuple(PluginRejections(plugin, _most_first(nodes[plugin]), details.get(plugin, ())) for plugin in ran)


def named_details(decision: Decision, record: SchedulingRecord) -> dict[str, tuple[NamedDetail, ...]]:
    """By plugin; also of the plugin whose PreFilter turned the pod down for all nodes."""
    if decision.profile is None or decision.view is None:
        return {}
    found: dict[str, tuple[NamedDetail, ...]] = {}
    names = record.diagnosis.names
    for one in rejection_details(decision.profile, record, decision.view):
        of_plugin = [
            NamedDetail(detail, tuple(sorted(names[row] for row in detail.rows.tolist())), one.beside)
            for detail in one.details
        ]
        found[one.plugin] = (*found.get(one.plugin, ()), *of_plugin)
    return found


def _most_first(by_status: dict[Status, list[str]]) -> dict[Status, tuple[str, ...]]:
    ordered = sorted(by_status.items(), key=lambda entry: (-len(entry[1]), entry[0].reasons))
    return {status: tuple(sorted(names)) for status, names in ordered}
