"""How far a claim's devices are, as PreBind waits for them, and the word for it in metrics."""

from dataclasses import dataclass
from enum import StrEnum

from kscheduler.api.devices import ResourceClaim
from kscheduler.framework.rules.device_readiness import DeviceFailedError, is_overdue, is_ready

TIMEOUT = "device binding timeout"


class WaitResult(StrEnum):
    """How a wait ended: the label `status` of kube-scheduler's metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is known now."""

    is_ready: bool = False
    result: WaitResult = WaitResult.SUCCESS
    problem: str = ""
    """Why the wait is over without success."""


WAITING = Readiness()
READY = Readiness(is_ready=True)


def readiness(claim: ResourceClaim, timeout_seconds: float, now: float) -> Readiness:
    """Of all devices of a claim. `now` is Unix time."""
    try:
        if is_ready(claim):
            return READY
    except DeviceFailedError as failure:
        return Readiness(result=WaitResult.FAILURE, problem=str(failure))
    if is_overdue(claim, timeout_seconds, now):
        return Readiness(result=WaitResult.TIMEOUT, problem=f"{TIMEOUT}: claim={claim.metadata.name}")
    return WAITING
