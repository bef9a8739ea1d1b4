"""The rejected nodes, by plugin and reason, with the plugins' details, and where a user's own plugin is written.

A reader of a rejection knows kube-scheduler's plugins, or finds them in its documentation. Of
a policy of one's own only its file says what it means, so the answer names that.
"""

from collections.abc import Iterator
from typing import Any

from kscheduler.explain.answer import NamedDetail, PluginRejections, RejectedNodes
from kscheduler.framework.per_node_declaration import place_of
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import Code, Status
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.cycle.rejection_details import rejection_details
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.supervision.supervised import unsupervised


def plugin_rejections(decision: Decision, record: SchedulingRecord) -> tuple[PluginRejections, ...]:
    """In the order in which the plugins ran; `record` is the decision's, or another over the same view."""
    by_plugin: dict[str, dict[Status, list[str]]] = {}
    for status, names in record.diagnosis.by_status():
        by_plugin.setdefault(status.plugin, {}).setdefault(status, []).extend(names)
    details = named_details(decision, record)
    # Rows with nominated pods are filtered first, so the rejections are not in the order of the plugins.
    order = [plugin.name for plugin in decision.profile.filter] if decision.profile is not None else []
    ran = sorted(by_plugin, key=lambda plugin: order.index(plugin) if plugin in order else -1)
    return tuple(
        PluginRejections(
            plugin=plugin,
            source=source_of(decision.profile, plugin) or None,
            count=sum(map(len, by_plugin[plugin].values())),
            statuses=_most_first(by_plugin[plugin]),
            details=details.get(plugin, ()),
        )
        for plugin in ran
    )


def _most_first(by_status: dict[Status, list[str]]) -> tuple[RejectedNodes, ...]:
    ordered = sorted(by_status.items(), key=lambda entry: (-len(entry[1]), entry[0].reasons))
    return tuple(
        RejectedNodes(
            code=status.code.label,
            reasons=tuple(status.reasons),
            preemption_might_help=status.code is Code.UNSCHEDULABLE,
            nodes=tuple(sorted(names)),
        )
        for status, names in ordered
    )


def named_details(decision: Decision, record: SchedulingRecord) -> dict[str, tuple[NamedDetail, ...]]:
    """Details by plugin; includes a plugin whose PreFilter rejected the pod for all nodes."""
    if decision.profile is None or decision.cache is None:
        return {}
    found: dict[str, tuple[NamedDetail, ...]] = {}
    names = record.diagnosis.names
    for rejected in rejection_details(decision.profile, record, decision.cache):
        details = [
            NamedDetail(
                kind=detail.kind,
                text=detail.text,
                nodes=tuple(sorted(names[row] for row in detail.rows.tolist())),
                beside=rejected.beside,
                facts=dict(detail.facts),
            )
            for detail in rejected.details
        ]
        found[rejected.plugin] = (*found.get(rejected.plugin, ()), *details)
    return found


def source_of(profile: Profile | None, name: str, method: str = "filter") -> str:
    """`FILE:LINE` of the code that the plugin rejects nodes with; empty for an in-tree plugin."""
    plugin = _own(profile, name)
    if plugin is None:
        return ""
    written_at = getattr(plugin, "written_at", "")  # of a function
    return written_at or place_of(getattr(type(plugin), method, None) or type(plugin).__init__)


def _own(profile: Profile | None, name: str) -> Any:
    """The plugin if the profile has it and it is not in-tree, otherwise `None`."""
    if profile is None or name not in profile.traits or profile.traits[name].is_in_tree:
        return None
    found: Plugin | None = next((plugin for plugin in profile.instances if plugin.name == name), None)
    return None if found is None else unsupervised(found)


def permit_lines(decision: Decision) -> Iterator[str]:
    """Who may hold the pod once it has a node: no condition tells of that."""
    profile = decision.profile
    own = [plugin.name for plugin in profile.permit if _own(profile, plugin.name)] if profile is not None else []
    if own:
        yield (
            f"before it is bound, Permit plugin{'s' if len(own) > 1 else ''} {', '.join(own)} may hold it or "
            "reject it: the service lists whom they hold in /debug/queue (queue: permit) and GET /waiting-pods"
        )
