"""PreBind's wait for the devices of a pod: looked at at once and every five seconds, until all are ready.

What is looked at is the claim as the watch shows it. The wait ends with the first failure condition, when devices were
allocated longer ago than the timeout, or when the wait itself has lasted as long.
"""

from kscheduler.aio.clock import Clock
from kscheduler.framework.cluster.claim_writing import PodReservation
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.rules.device_readiness import devices_with_conditions
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.scheduling.claims.binding_conditions import (
    READY,
    TIMEOUT,
    Readiness,
    WaitResult,
    readiness,
)
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.reports import Reporter

POLL_SECONDS = 5.0


class ConditionWait:
    """Waits for the devices of one pod."""

    def __init__(self, claims: Claims, reporter: Reporter, observations: Observations, clock: Clock) -> None:
        self._claims = claims
        self._reporter = reporter
        self._observations = observations
        self._clock = clock

    async def until_ready(self, reservation: PodReservation, timeout_seconds: float) -> Status:
        """Success, or an Error with kube-scheduler's text. Without binding conditions there is nothing to wait for."""
        if not any(any(devices_with_conditions(reserved.claim)) for reserved in reservation.claims):
            return SUCCESS
        pod = reservation.pod.pod
        self._reporter.waits_for_devices(pod, reservation.node_name)
        began = self._clock.monotonic()
        found = Readiness(result=WaitResult.ERROR, problem="the wait was cancelled")
        try:
            found = await self._wait(reservation, timeout_seconds, began + timeout_seconds)
        finally:
            self._observe(reservation, found.result, self._clock.monotonic() - began)
        return SUCCESS if found.is_ready else error(found.problem)

    async def _wait(self, reservation: PodReservation, timeout_seconds: float, deadline: float) -> Readiness:
        while True:
            found = self._look(reservation, timeout_seconds)
            if found.is_ready or found.problem:
                return found
            left = deadline - self._clock.monotonic()
            if left <= 0:
                text = f"{TIMEOUT}: context deadline exceeded"
                return Readiness(result=WaitResult.TIMEOUT, problem=text)
            await self._clock.sleep(min(POLL_SECONDS, left))

    def _look(self, reservation: PodReservation, timeout_seconds: float) -> Readiness:
        """The state of the first claim that is not ready."""
        for reserved in reservation.claims:
            claim = self._claims.get(reserved.claim.key)
            if claim is None:
                problem = f'could not find ResourceClaim "{reserved.claim.key}"'
                return Readiness(result=WaitResult.ERROR, problem=problem)
            reserved.claim = claim
            found = readiness(claim, timeout_seconds, self._clock.time())
            if not found.is_ready:
                return found
        return READY

    def _observe(self, reservation: PodReservation, result: WaitResult, seconds: float) -> None:
        profile = reservation.pod.pod.spec.scheduler_name
        for reserved in reservation.claims:
            allocation = reserved.claim.status.allocation
            for device in allocation.devices.results if allocation is not None else ():
                self._observations.waited_for_device(profile, device.driver, result.value, seconds)
            for device in devices_with_conditions(reserved.claim):
                self._observations.device_with_conditions(profile, device.driver, result.value)
