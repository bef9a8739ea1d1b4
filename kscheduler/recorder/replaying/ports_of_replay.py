"""What a scheduler is connected to while a recording is played: recorded objects, and a journal that collects."""

from collections.abc import Mapping
from typing import Any

from kscheduler.api.kinds import POD_DISRUPTION_BUDGETS, PODS, WORKLOAD_KINDS, Kind
from kscheduler.assembly import Ports
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.informers.store import Store
from kscheduler.recorder.entries import Output
from kscheduler.recorder.flight_recorder import failed_output, preempts_output
from kscheduler.recorder.redacted_objects import numbers_in
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.handlers.workloads import StoredWorkloads
from kscheduler.scheduling.journal import AttemptFailure, Journal


def recorded_ports(stores: Mapping[Kind, Store[Any]], journal: Journal) -> Ports:
    """Ports that read what was recorded, and write nothing."""
    empty: Store[Any] = Store()
    budgets = stores.get(POD_DISRUPTION_BUDGETS)
    return Ports(
        pod_of=stores[PODS].get,
        workloads=StoredWorkloads(*(stores.get(kind, empty) for kind in WORKLOAD_KINDS)),
        budgets=None if budgets is None else StoredBudgets(budgets),
        journal=journal,
    )


class OutputJournal(Journal):
    """Collects the outputs of a step, as the recorder writes them."""

    def __init__(self, *, is_redacted: bool) -> None:
        self.outputs: list[tuple[Any, ...]] = []
        self._is_redacted = is_redacted

    def failed(self, queued: QueuedPodInfo, failure: AttemptFailure) -> None:
        """Note it, as the recorder does."""
        op, pod, message, *rest = failed_output(queued, failure)
        self.outputs.append((op, pod, numbers_in(message) if self._is_redacted else message, *rest))

    def let_go(self, queued: QueuedPodInfo) -> None:
        self.outputs.append((Output.LET_GO, queued.key))

    def preempting(self, preemption: Preemption) -> None:
        self.outputs.append(preempts_output(preemption))

    def continues_in_background(self, pod: PodInfo, node_name: str) -> None:
        self.outputs.append((Output.CONTINUES_IN_BACKGROUND, pod.key, node_name))

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
