"""What a pod with a node waits for in PreBind before it is bound: devices that must become ready, and volumes.

A pod waits there for up to ten minutes, in no queue. What it waits for stands in its claims:

    allocation names conditions, and the driver has not reported them all as true     the device is being made ready
    claim has a selected node and no volume                                           the volume is being made
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.storage import SELECTED_NODE
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.plugin_args import DynamicResourcesArgs
from kscheduler.framework.cluster.claim_writing import BINDING_TIMEOUT_SECONDS
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.cluster.volumes import claim_name
from kscheduler.framework.rules.device_readiness import awaited_devices
from kscheduler.plugins.dynamic_resources.in_cycle import missing_claim
from kscheduler.state.cache import Cache


class DeviceWait(msgspec.Struct, frozen=True):
    """A device that is not ready yet. Times as the API has them; empty if nobody has written when it was allocated."""

    claim: str
    device: str
    """`driver/pool/device`."""
    conditions: tuple[str, ...]
    """Those that its driver has not reported as true."""
    since: str = ""
    until: str = ""
    """When the scheduler gives up, and the pod is tried again."""

    @property
    def text(self) -> str:
        """Without the pod's name."""
        names = " and ".join(self.conditions)
        when = f" (since {self.since}, until {self.until} at most)" if self.since else ""
        driver = self.device.partition("/")[0]
        what = f"device {self.device} of claim {self.claim}"
        return f"waits in PreBind for {what}: driver {driver} has to report {names}{when}"


def device_waits(
    pod: Pod, claims: Iterable[ResourceClaim], timeout_seconds: float = BINDING_TIMEOUT_SECONDS
) -> list[DeviceWait]:
    """The devices of the claims that are reserved for the pod, as far as they are not ready."""
    found = []
    for claim in claims:
        if not any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for):
            continue
        allocation = claim.status.allocation
        since = "" if allocation is None else allocation.allocation_timestamp or ""
        until = _later(since, timeout_seconds) if since else ""
        for result, conditions in awaited_devices(claim):
            device = f"{result.driver}/{result.pool}/{result.device}"
            found.append(DeviceWait(claim.metadata.name, device, conditions, since, until))
    return found


class ClaimsNow:
    """What the claims of a waiting pod say at this moment, whatever its condition says."""

    def __init__(self, cache: Cache, config: Callable[[], LoadedConfig]) -> None:
        """`config`: the one in force."""
        self._cache, self._config = cache, config

    def missing(self, pod: Pod) -> str:
        """Why the pod could not even enter the queue: a claim that is gone, or going. Empty: all are there."""
        if not pod.spec.resource_claims:
            return ""
        status = missing_claim(pod, self._cache.devices.claims)
        return "" if status is None else status.message

    def waits(self, pod: Pod) -> str:
        """What the pod waits for on the node that it has got; empty if nothing is known."""
        node = self._cache.node_of(pod.metadata.uid)
        if not node:
            return ""
        timeout = binding_timeout(self._config(), pod.spec.scheduler_name)
        reported = [wait.text for wait in waits_of(pod, self._cache.devices.claims, timeout)]
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            claim = None if name is None else self._cache.volumes.confirmed_claim(pod.metadata.namespace, name)
            if claim is not None and not claim.is_fully_bound and claim.metadata.annotations.get(SELECTED_NODE):
                reported.append(f"waits in PreBind for the volume of claim {name}, which is being made")
        return f"has node {node}, and {'; '.join(reported)}" if reported else ""


def waits_of(pod: Pod, claims: Claims, timeout_seconds: float) -> list[DeviceWait]:
    """The devices of the pod's claims that are not ready."""
    return device_waits(pod, _claims_of(pod, claims), timeout_seconds)


def binding_timeout(config: LoadedConfig, scheduler_name: str) -> float:
    """How many seconds a pod of this profile waits for its devices."""
    for profile in config.configuration.profiles:
        if profile.scheduler_name == scheduler_name:
            args = profile.args("DynamicResources", DynamicResourcesArgs)
            return BINDING_TIMEOUT_SECONDS if args.binding_timeout is None else args.binding_timeout / 1e9
    return BINDING_TIMEOUT_SECONDS


def _claims_of(pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or made.get(entry.name)
        claim = claims.get(f"{pod.metadata.namespace}/{name}") if name else None
        if claim is not None:
            yield claim
    extended = claims.for_extended_resources(pod)
    if extended is not None:
        yield extended


def _later(since: str, seconds: float) -> str:
    try:
        end = datetime.fromisoformat(since) + timedelta(seconds=seconds)
    except ValueError:
        return "an unknown time"
    return end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
