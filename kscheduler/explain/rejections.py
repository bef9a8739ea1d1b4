"""The rejected nodes, by plugin and reason, with the plugins' details."""

from dataclasses import dataclass

from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.status import Status
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.cycle.rejection_details import rejection_details
from kscheduler.scheduling.record import SchedulingRecord


@dataclass(frozen=True, slots=True)
class NamedDetail:
    """A detail with the names of its nodes."""

    detail: Detail
    node_names: tuple[str, ...]
    """Sorted; empty if the pod was rejected for all nodes at once."""
    beside: tuple[str, ...] = ()
    """Keys of the nominated pods without which the plugin would have had no objection."""


@dataclass(frozen=True, slots=True)
class PluginRejections:
    """The rejections of one plugin."""

    plugin: str
    """Empty for nodes that PreFilter plugins excluded by narrowing the search."""
    by_status: dict[Status, tuple[str, ...]]
    """Node names, sorted; the status with the most nodes first."""
    details: tuple[NamedDetail, ...]

    @property
    def count(self) -> int:
        """The number of rejected nodes."""
        return sum(map(len, self.by_status.values()))


def plugin_rejections(decision: Decision, record: SchedulingRecord) -> tuple[PluginRejections, ...]:
    """In the order in which the plugins ran; `record` is the decision's, or another over the same view."""
    nodes: dict[str, dict[Status, list[str]]] = {}
    for status, names in record.diagnosis.by_status():
        nodes.setdefault(status.plugin, {}).setdefault(status, []).extend(names)
    details = named_details(decision, record)
    # Rows with nominated pods are filtered first, so the rejections are not in the order of the plugins.
    order = [plugin.name for plugin in decision.profile.filter] if decision.profile is not None else []
    ran = sorted(nodes, key=lambda plugin: order.index(plugin) if plugin in order else -1)
    return tuple(PluginRejections(plugin, _most_first(nodes[plugin]), details.get(plugin, ())) for plugin in ran)


def named_details(decision: Decision, record: SchedulingRecord) -> dict[str, tuple[NamedDetail, ...]]:
    """Details by plugin; includes a plugin whose PreFilter rejected the pod for all nodes."""
    if decision.profile is None or decision.cache is None:
        return {}
    found: dict[str, tuple[NamedDetail, ...]] = {}
    names = record.diagnosis.names
    for rejected in rejection_details(decision.profile, record, decision.cache):
        details = [
            NamedDetail(detail, tuple(sorted(names[row] for row in detail.rows.tolist())), rejected.beside)
            for detail in rejected.details
        ]
        found[rejected.plugin] = (*found.get(rejected.plugin, ()), *details)
    return found


def _most_first(by_status: dict[Status, list[str]]) -> dict[Status, tuple[str, ...]]:
    ordered = sorted(by_status.items(), key=lambda entry: (-len(entry[1]), entry[0].reasons))
    return {status: tuple(sorted(names)) for status, names in ordered}
