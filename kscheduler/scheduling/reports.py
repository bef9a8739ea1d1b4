"""The Events of an attempt, in kube-scheduler's words."""

from typing import Protocol

from kscheduler.api.core import Pod
from kscheduler.api.groups import POD_GROUPS, SCHEDULER_PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS
from kscheduler.client.events.recorder import EventReference, reference_to
from kscheduler.client.events.scheduled import SuccessPolicy
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.scheduling.attempt_events import DevicesAwaited, PodBound, PodSkipped, VictimEvicted, VictimStopped
from kscheduler.scheduling.observers import hears

_GROUPS = (POD_GROUPS, SCHEDULER_PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS)


class EventSink(Protocol):
    """Where Events go: `client.events.recorder.EventRecorder`."""

    def record(
        self,
        regarding: Pod | EventReference,
        *,
        type: str,  # noqa: A002  # the field's name in the API
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
        related: EventReference | None = None,
    ) -> None:
        """Record one occurrence; never waits, never raises."""
        ...


class Reporter:
    """Records Events about what happened to pods."""

    def __init__(self, recorder: EventSink, successes: SuccessPolicy | None = None) -> None:
        """`successes`: which bound pods get an Event; `None`: each of them."""
        self._recorder = recorder
        self._successes = successes

    @hears(PodBound)
    def scheduled(self, event: PodBound) -> None:
        """The pod was bound. The only Event that may be left out."""
        pod, node_name = event.queued.pod.pod, event.record.node_name
        if self._successes is not None and not self._successes.has_own(pod, node_name):
            return
        self._record(pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.key} to {node_name}")

    @hears(DevicesAwaited)
    def waits_for_devices(self, event: DevicesAwaited) -> None:
        """PreBind waits until the pod's devices are ready."""
        note = f"waiting for binding conditions for device on node {event.node_name}"
        self._record(event.pod, "Normal", "BindingConditionsPending", "Scheduling", note)

    @hears(PodSkipped)
    def skipped_deleting(self, event: PodSkipped) -> None:
        """The pod is being deleted and was not tried; of others that are skipped kube-scheduler says nothing."""
        if event.is_reported:
            pod = event.queued.pod.pod
            self._record(pod, "Warning", "FailedScheduling", "Scheduling", f"skip schedule deleting pod: {pod.key}")

    def plugin_failed(self, pod: Pod, note: str) -> None:
        """A plugin failed without ending an attempt: this Event is the only report to the pod's owner."""
        self._record(pod, "Warning", "PluginFailed", "Scheduling", note)

    def plugin_quarantined(self, pod: Pod, note: str) -> None:
        """The failure after which a plugin is quarantined concerned this pod."""
        self._record(pod, "Warning", "PluginQuarantined", "Scheduling", note)

    def plugin_failed_again(self, pod: Pod, note: str) -> None:
        """A quarantined plugin was tried again with this pod, and failed."""
        self._record(pod, "Warning", "PluginTriedAgain", "Scheduling", note)

    def plugin_answers_again(self, pod: Pod, note: str) -> None:
        """The call for this pod has ended the quarantine of a plugin."""
        self._record(pod, "Normal", "PluginAnswersAgain", "Scheduling", note)

    @hears(VictimEvicted)
    def evicted(self, event: VictimEvicted) -> None:
        """The victim was deleted."""
        self._preempted(event.victim.pod, event.preemption, "")

    @hears(VictimStopped)
    def stopped(self, event: VictimStopped) -> None:
        """The victim was not on its node yet, and keeps its object (quirk Q25)."""
        self._preempted(event.victim.pod, event.preemption, " (in kube-scheduler memory).")

    def _preempted(self, victim: Pod, preemption: Preemption, where: str) -> None:
        self._recorder.record(
            victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=f"Preempted by {preemption.kind} {preemption.uid} on node {preemption.node_name}{where}",
            reporting_controller=preemption.preemptor.pod.spec.scheduler_name,
            related=_reference(preemption),
        )

    def _record(self, pod: Pod, kind: str, reason: str, action: str, note: str) -> None:
        controller = pod.spec.scheduler_name
        self._recorder.record(pod, type=kind, reason=reason, action=action, note=note, reporting_controller=controller)


def _reference(preemption: Preemption) -> EventReference:
    """The preemptor: a pod, or a group."""
    group = preemption.group
    if group is None:
        return reference_to(preemption.preemptor.pod)
    key = group.key
    version = next((kind.group_version for kind in _GROUPS if kind.group == key.api), key.api)
    return EventReference(
        api_version=version, kind=POD_GROUPS.name, namespace=key.namespace, name=key.name, uid=group.uid
    )
