"""Tells operators about overcommitted nodes: a log line at the beginning and at the end, an Event, a count.

The Event is about the Node, where `kubectl describe node` shows it beside the kubelet's, and names the pod that came
last (`related`). The pod's own owner hears from the kubelet, if it rejects the pod.
"""

from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.kinds import NODES
from kscheduler.client.events.recorder import reference_to
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.overcommit.excess import HOST_PORTS, resource_label, shown_amount
from kscheduler.scheduling.overcommit.incidents import Overcommit, OvercommitCause
from kscheduler.scheduling.reports import EventSink
from kscheduler.telemetry.logs import get_logger

_log = get_logger("kscheduler.overfill")

SHOWN_PODS: Final = 10
_WHY: Final = {
    OvercommitCause.ANOTHER_SCHEDULER: "another scheduler has placed pods here at the same time",
    OvercommitCause.OWN: "a profile without the filter that counts this has placed pods here",
    OvercommitCause.ALLOCATABLE: "the node has less than it had",
    OvercommitCause.RESIZE: "a pod asks for more than it had",
    OvercommitCause.FOUND_AT_START: "it was so when the scheduler began",
}


class OvercommitReporter:
    """Implements `incidents.OvercommitReports`."""

    def __init__(self, events: EventSink, observations: Observations, controller: str) -> None:
        """`controller`: who reports the Events, a scheduler name of ours."""
        self._events = events
        self._observations = observations
        self._controller = controller

    def began(self, overcommit: Overcommit, info: NodeInfo) -> None:
        """Warn, count, and record an Event of the node."""
        resource, requested, allocatable = overcommit.excess
        self._observations.node_overcommitted(resource_label(resource), overcommit.cause.value)
        _log.warning(
            "node_overfilled",
            node=overcommit.node_name,
            resource=resource,
            requested=shown_amount(resource, requested),
            allocatable=shown_amount(resource, allocatable),
            excess=shown_amount(resource, overcommit.excess.amount),
            cause=overcommit.cause.value,
            latest=[key for key, _, _ in overcommit.latest[:SHOWN_PODS]],
            schedulers=sorted({scheduler for _, _, scheduler in overcommit.latest}),
        )
        if info.node is None:
            return
        last = [pod for key, uid, _ in overcommit.latest[:1] if (pod := info.pods.get(uid)) is not None]
        self._events.record(
            reference_to(info.node, NODES),
            type="Warning",
            reason="NodeOverfilled",
            action="Scheduling",
            note=_note(overcommit),
            reporting_controller=self._controller,
            related=reference_to(last[0].pod) if last else None,
        )

    def ended(self, overcommit: Overcommit, seconds: float, *, is_node_gone: bool) -> None:
        """Say that it is over."""
        _log.info(
            "node_overfilled_ended",
            node=overcommit.node_name,
            resource=overcommit.excess.resource,
            cause=overcommit.cause.value,
            seconds=round(max(0.0, seconds), 3),
            reason="the node is gone" if is_node_gone else "its pods are within its allocatable",
        )

    def evicted(self, pod: Pod, node_name: str) -> None:
        """A pod of ours was evicted to repair its node."""
        _log.info("pod_evicted_from_overfilled_node", pod=pod.key, uid=pod.metadata.uid, node=node_name)
        self._events.record(
            pod,
            type="Normal",
            reason="EvictedFromOverfilledNode",
            action="Evicting",
            note=f"Node {node_name} is overfilled and the pod has not started: its controller makes another",
            reporting_controller=pod.spec.scheduler_name,
        )


def summary_of(overcommit: Overcommit) -> str:
    """One line for people: `node a is overcommitted: cpu by 500m (4500m of 4): ...`."""
    resource, requested, allocatable = overcommit.excess
    if resource == HOST_PORTS:
        amounts = f"{requested} claims to {allocatable} host ports"
    else:
        amounts = f"{shown_amount(resource, requested)} of {shown_amount(resource, allocatable)} {resource} requested"
    return f"{amounts}: {_WHY[overcommit.cause]}"


def _note(overcommit: Overcommit) -> str:
    came = ", ".join(f"{key} ({scheduler})" for key, _, scheduler in overcommit.latest[:SHOWN_PODS])
    return f"Node is overfilled: {summary_of(overcommit)}; the last to come: {came}"
