"""The pods that plugins are held back from: what the watch tells of them, and what people are told.

A hold ends early when the pods that were slow are edited or gone (`holds`). So the handlers of pods tell this
here; as long as no call has taken too long, `are_any` is false, and a pod costs a look at it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.supervision.holds import HELD_BACK
from kscheduler.scheduling.supervision.supervisor import Supervisor

_MAX_NOTES: Final = 10


class HeldPods:
    """Over all profiles in force."""

    def __init__(
        self,
        supervisor_of: Callable[[str], Supervisor | None],
        supervisors: Callable[[], Iterable[Supervisor]],
        on_end: Callable[[str], None],
    ) -> None:
        """`supervisor_of`: by scheduler name. `supervisors`: all that are in force. `on_end` is called with a namespace
        whose hold has ended early.
        """
        self._supervisor_of = supervisor_of
        self._supervisors = supervisors
        self.are_any = False
        """Whether a hold has begun; set by the observer of holds."""
        self._on_end = on_end

    def changed(self, pod: Pod, *, is_gone: bool) -> None:
        """A pod was edited, or is gone. To be told before the queue hears of an edit: it may be tried at once."""
        supervisor = self._supervisor_of(pod.spec.scheduler_name)
        namespace = pod.metadata.namespace
        if supervisor is not None and supervisor.pod_changed(namespace, pod.metadata.uid, is_gone=is_gone):
            self._on_end(namespace)

    def seconds_held(self, pod: PodInfo) -> float:
        """For how long some plugin is not called for this pod; 0: all are."""
        supervisor = self._supervisor_of(pod.pod.spec.scheduler_name)
        return 0.0 if supervisor is None else supervisor.seconds_held(pod)

    def notes(self) -> Iterator[str]:
        """Lines of `/readyz?verbose`: the holds in force."""
        if not self.are_any:
            return
        holds = [(each, *found) for each in self._supervisors() for found in each.holds()]
        for supervisor, plugin, held in holds[:_MAX_NOTES]:
            yield f'plugin "{plugin}" of profile "{supervisor.profile}" {HELD_BACK} {held.subject}'
        if len(holds) > _MAX_NOTES:
            yield f"plugins are held back {len(holds) - _MAX_NOTES} times more"
