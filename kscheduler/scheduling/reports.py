"""The Events of an attempt, in kube-scheduler's words."""

from kscheduler.api.core import Pod
from kscheduler.client.events import EventRecorder


class Reporter:
    """Records what became of a pod."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def scheduled(self, pod: Pod, node_name: str) -> None:
        """It was bound."""
        self._record(pod, "Normal", "Scheduled", "Binding", f"Successfully assigned {pod.key} to {node_name}")

    def skipped_deleting(self, pod: Pod) -> None:
        """It is being deleted and was not tried."""
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", f"skip schedule deleting pod: {pod.key}")

    def _record(self, pod: Pod, kind: str, reason: str, action: str, note: str) -> None:
        controller = pod.spec.scheduler_name
        self._recorder.record(pod, type=kind, reason=reason, action=action, note=note, reporting_controller=controller)
