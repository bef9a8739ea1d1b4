"""What a scheduler is connected to while a recording is played: recorded objects, and a journal that collects."""

import contextlib
from typing import Any

from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.informers.store import Store
from kscheduler.recorder.entries import Output
from kscheduler.recorder.flight_recorder import failed_output, preempts_output
from kscheduler.recorder.redacted_objects import numbers_in
from kscheduler.scheduling.attempt_events import (
    PodAwaitsOthersVictims,
    PodLetGo,
    PodNotScheduled,
    PodSkipped,
    PreemptionChosen,
)
from kscheduler.scheduling.observers import hears


class RecordedCluster(InMemoryCluster):
    """Recorded objects. One that a handler cannot read costs that object and not the run, as with an informer."""

    def deliver(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, *, initial: bool = False) -> None:
        """Tell the handlers of a change."""
        with contextlib.suppress(Exception):
            super().deliver(kind, old, new, initial=initial)


class OutputJournal:
    """An observer that collects the outputs of a step, as the recorder writes them."""

    def __init__(self, *, is_redacted: bool) -> None:
        self.outputs: list[tuple[Any, ...]] = []
        self._is_redacted = is_redacted

    @hears(PodNotScheduled)
    def failed(self, event: PodNotScheduled) -> None:
        """The pod has no node, and this is why."""
        op, pod, message, *rest = failed_output(event.queued, event.failure)
        self.outputs.append((op, pod, numbers_in(message) if self._is_redacted else message, *rest))

    @hears(PodLetGo)
    def let_go(self, event: PodLetGo) -> None:
        """An attempt failed, and the pod needs no node any more."""
        self.outputs.append((Output.LET_GO, event.queued.key))

    @hears(PodSkipped)
    def skipped(self, event: PodSkipped) -> None:
        """The pod was not tried."""
        self.outputs.append((Output.LET_GO, event.queued.key))

    @hears(PreemptionChosen)
    def preempting(self, event: PreemptionChosen) -> None:
        """Victims are chosen."""
        self.outputs.append(preempts_output(event.preemption))

    @hears(PodAwaitsOthersVictims)
    def continues_in_background(self, event: PodAwaitsOthersVictims) -> None:
        """The pod preempts nobody."""
        self.outputs.append((Output.CONTINUES_IN_BACKGROUND, event.pod.key, event.node_name))

    def take(self) -> list[tuple[Any, ...]]:
        """The outputs since the last call."""
        outputs, self.outputs = self.outputs, []
        return outputs


class RecordedLister:
    """Objects of a kind, for plugins; nothing is heard of changes. Implements `framework.cluster.lister.Lister`."""

    has_synced = True

    def __init__(self, store: Store[Any]) -> None:
        self.get, self.list = store.get, store.list

    def on_change(self, call: Any) -> None:
        """What plugins follow by themselves is not in the recording."""
