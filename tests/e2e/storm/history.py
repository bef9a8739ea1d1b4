"""What a watch on pods saw of a storm of preemptions, in order: the material of its audit.

Each event becomes a `Sight`, the few fields that preemption is about. The order is the API server's, the times are
those at which the sights arrived.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.controlplane.pod_watch import PodWatch
from tests.controlplane.rest import Api, Object
from tests.e2e.audit import Amounts, requests_of

DISRUPTION = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"


@dataclass(frozen=True)
class Subject:
    """What never changes about a pod."""

    uid: str
    name: str
    priority: int
    requests: Amounts = field(hash=False)
    guarded: bool = False
    """Covered by a budget that allows no disruption at all."""
    selector: Mapping[str, str] = field(default_factory=dict, hash=False)
    """`spec.nodeSelector`."""


@dataclass(frozen=True)
class Sight:
    """A pod as one event of the watch showed it."""

    subject: Subject
    at: float
    """Monotonic seconds."""
    node: str = ""
    nominated: str = ""
    is_chosen: bool = False
    """It carries the condition that a scheduler gives to a victim."""
    is_terminating: bool = False
    is_gone: bool = False

    @property
    def uid(self) -> str:
        """The pod's."""
        return self.subject.uid


def sight_of(pod: Object, guarded: frozenset[str], *, gone: bool, at: float) -> Sight:
    """`guarded`: the values of the label `guard` that budgets without any allowance select."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    subject = Subject(
        uid=metadata["uid"],
        name=metadata["name"],
        priority=spec.get("priority", 0),
        requests=requests_of(pod),
        guarded=metadata.get("labels", {}).get("guard") in guarded,
        selector=spec.get("nodeSelector", {}),
    )
    return Sight(
        subject=subject,
        at=at,
        node=spec.get("nodeName", ""),
        nominated=status.get("nominatedNodeName", ""),
        is_chosen=any(is_choice(condition) for condition in status.get("conditions", [])),
        is_terminating="deletionTimestamp" in metadata,
        is_gone=gone,
    )


def is_choice(condition: Object) -> bool:
    return (condition["type"], condition["status"], condition.get("reason")) == (DISRUPTION, "True", BY_SCHEDULER)


class History(PodWatch):
    """A watch that forgets nothing about the pods of one namespace."""

    def __init__(self, api: Api, namespace: str, guarded: frozenset[str]) -> None:
        super().__init__(api, "storm-history")
        self._namespace = namespace
        self._guarded = guarded
        self._lock = threading.Lock()
        self._sights: list[Sight] = []

    def seen(self, pod: Object) -> None:
        """Notes the pod as it is."""
        self._note(pod, gone=False)

    def deleted(self, pod: Object) -> None:
        """Notes its last state."""
        self._note(pod, gone=True)

    def _note(self, pod: Object, *, gone: bool) -> None:
        if pod["metadata"]["namespace"] != self._namespace:
            return
        sight = sight_of(pod, self._guarded, gone=gone, at=time.monotonic())
        with self._lock:
            self._sights.append(sight)

    def sights(self) -> list[Sight]:
        """A copy of all so far."""
        with self._lock:
            return list(self._sights)
