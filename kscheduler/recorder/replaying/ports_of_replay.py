"""What a scheduler is connected to while a recording is played: recorded objects, and a journal that collects."""

from collections.abc import Mapping
from typing import Any

from kscheduler.api.kinds import POD_DISRUPTION_BUDGETS, PODS, WORKLOAD_KINDS, Kind
from kscheduler.assembly import Ports
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
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.handlers.workloads import StoredWorkloads
from kscheduler.scheduling.observers import hears


def recorded_ports(stores: Mapping[Kind, Store[Any]], journal: object) -> Ports:
    """Ports that read what was recorded, and write nothing. `journal`: an observer."""
    empty: Store[Any] = Store()
    budgets = stores.get(POD_DISRUPTION_BUDGETS)
    return Ports(
        pod_of=stores[PODS].get,
        workloads=StoredWorkloads(*(stores.get(kind, empty) for kind in WORKLOAD_KINDS)),
        budgets=None if budgets is None else StoredBudgets(budgets),
        journal=journal,
    )


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
