"""What became of a pod that was given to an extender to be bound: the API server decides, not the answer.

    the extender says                                    then
    it has bound the pod                                 look where the pod is, until it shows up on its node
    an error, or a status that is not 200                look where the pod is: it may have been bound all the same
    nothing (too slow, half an answer, connection lost)  the same, for a while: it may still be at work
    nothing: it was not reached                          the pod is not bound

The problem: a node's room must not be given away while the pod may be bound there, and must not be held forever for
an extender that says yes and does nothing. kube-scheduler believes the answer, and counts the pod on the node until
the watch says otherwise, or gives its room away.

The idea: as with a Binding of our own (`attempt.binding`), the pod stays assumed until it is known where it is. Where
the API server cannot be read, that takes as long as it takes. A pod that has no node there `MAX_SECONDS` after the
answer, or after none, is given up: it is tried again, or bound by the plugins if the extender is ignorable. An
extender is not asked twice about one decision: it may count what it gives out.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.aio.rate_limiters import Backoff
from kscheduler.api.core import Pod
from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.status import SUCCESS, Fault, Status, error
from kscheduler.scheduling.attempt_events import BindingInDoubt, BindingSettled
from kscheduler.scheduling.extenders.http_extender import BindFailure
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers
from kscheduler.telemetry.logs import get_logger

_log = get_logger("extenders")

# How long a pod may have no node in the API server after an extender has said that it has bound it, or nothing.
MAX_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Where the API server has a pod."""

    node: str = ""
    """Empty: it has none."""
    is_known: bool = True
    """Whether the API server has told."""
    is_gone: bool = False
    """The pod was deleted, and perhaps made again."""


UNKNOWN_PLACE: Final = PodPlace(is_known=False)


def not_seen(extender: str, node_name: str) -> str:
    """The error of a pod that an extender has bound by its own account only."""
    return f"extender {extender} says that it has bound the pod to node {node_name}, and the API server shows no node"


class BindOutcomes:
    """Finds out what became of pods that extenders bind."""

    def __init__(
        self,
        place_of: Callable[[Pod], Awaitable[PodPlace]],
        may_bind: Callable[[], bool],
        clock: Clock = REAL_CLOCK,
        observers: Observers = NO_OBSERVERS,
    ) -> None:
        """`place_of`: where the pod is. `may_bind`: whether this process leads; if not, nothing can be found out."""
        self._place_of = place_of
        self._may_bind = may_bind
        self._clock = clock
        self._tell = observers.tell

    async def settle(self, extender: str, pod: Pod, node_name: str, failure: BindFailure | None) -> Status | None:
        """The outcome; returns when it is certain. `None`: the pod is not bound, as far as anybody knows.

        `failure`: how the call failed; `None`: the extender says that it has bound the pod.
        """
        if failure is not None and not failure.may_be_bound:
            return None
        if failure is not None:
            self._tell(BindingInDoubt(pod, node_name, str(failure)))
        status = await self._settled(extender, pod, node_name, failure)
        if failure is not None:
            outcome = "bound" if status is not None and status.is_success else "lost"
            self._tell(BindingSettled(pod, node_name, outcome, str(failure)))
        return status

    async def _settled(self, extender: str, pod: Pod, node_name: str, failure: BindFailure | None) -> Status | None:
        began = self._clock.monotonic()
        pauses = Backoff(0.1, cap_seconds=5.0, jitter=0.5, rng=random.Random(pod.metadata.uid), clock=self._clock)  # noqa: S311
        why = f": {failure}" if failure is not None else ""
        while self._may_bind():
            place = await self._place_of(pod)
            if place.is_gone:
                return error(f"pod {pod.key} is gone{why}", plugin=EXTENDER, fault=Fault.GONE)
            if place.node == node_name:
                return SUCCESS
            if place.node:
                return error(f"pod {pod.key} is on node {place.node} already{why}", plugin=EXTENDER)
            seconds = self._clock.monotonic() - began
            if place.is_known and failure is not None and failure.is_answer:
                return None
            if place.is_known and seconds >= MAX_SECONDS:
                if failure is None:
                    self._not_seen(extender, pod, node_name, seconds)
                return None
            await self._clock.sleep(pauses.next())
        return SUCCESS if failure is None else error(str(failure), plugin=EXTENDER)

    def _not_seen(self, extender: str, pod: Pod, node_name: str, seconds: float) -> None:
        advice = "it says that it has bound the pod, and the API server shows no node for it: look into its log"
        _log.warning(
            "extender_bind_not_seen",
            extender=extender,
            pod=pod.key,
            node=node_name,
            seconds=round(seconds, 3),
            advice=advice,
        )
