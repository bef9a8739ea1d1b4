"""The pods that wait, by reason: for programs, from the queue as it is.

Read in slices, so the answer of a busy scheduler is not of one moment. The message is the one that the pod's
condition has at the API server, or what keeps it or its group out of the queue, of which no condition tells; who
rejected the pod is what the queue knows. Of claims it is what they say now: one that was deleted wakes nobody, and a
pod that has a node may wait there for its devices.

Members of a pod group are decided about together, so those in one place are one entry, though they may have different
messages: the entry has each with its number of members, that of most of them first. Gated pods whose messages differ
only in names of their namespace are one entry, too, without these names: of a thousand replicas each waits for a
claim of its own, and all for the same reason.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from kscheduler.aio.tasks import Slicer
from kscheduler.answers.pending_in_queue import PendingInQueue, PodInQueue, ReasonInQueue
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.storage import SELECTED_NODE
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.plugin_args import DynamicResourcesArgs
from kscheduler.framework.cluster.claim_writing import BINDING_TIMEOUT_SECONDS
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.cluster.volumes import claim_name
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.rules.device_readiness import awaited_devices
from kscheduler.plugins.dynamic_resources.in_cycle import missing_claim
from kscheduler.scheduling.drift.cache_comparer import PodsStored
from kscheduler.state.cache import Cache
from kscheduler.state.queue.group_queue import INCOMPLETE
from kscheduler.state.queue.scheduling_queue import GATED, SchedulingQueue

# What a pod with a node waits for in PreBind before it is bound: devices that must become ready, and volumes.
#
# A pod waits there for up to ten minutes, in no queue. What it waits for stands in its claims:
#
#     allocation names conditions, and the driver has not reported them all as true     the device is being made ready
#     claim has a selected node and no volume                                           the volume is being made


@dataclass(frozen=True, slots=True)
class DeviceWait:
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


MAX_REASONS: Final = 200
# Pods of a reason that are named, the oldest.
MAX_PODS: Final = 100
# Of a group's members, those of most.
MAX_MESSAGES: Final = 3
_SLICE_SECONDS: Final = 0.002
# In the place of a queue's name: it is being decided or bound, or waits for extenders or Permit.
_UNDER_WAY: Final = "underWay"

_OF_CLAIMS: Final = "DynamicResources"

# The plugins that rejected a pod, and its message.
_Said = tuple[tuple[str, ...], str]


class _Reason(NamedTuple):
    """What the pods of an entry have in common."""

    queue: str
    profile: str
    cause: _Said | None
    """Of gated pods without names. `None`: members of a group, of whom each may have been told something else."""
    group: str


class PendingPods:
    """The pods of the served profiles that have no node."""

    def __init__(
        self,
        queue: SchedulingQueue,
        pods: PodsStored,
        serves: Callable[[str], bool],
        claims: ClaimsNow | None = None,
    ) -> None:
        """`serves`: whether a scheduler name is a profile of this service. `claims`: what they say now."""
        self._queue, self._pods, self._serves, self._claims = queue, pods, serves, claims

    async def all(self, namespace: str = "") -> PendingInQueue:
        """All of them, or those of a namespace, counted."""
        return await self._answer(self._pods.keys(), namespace)

    async def of(self, keys: Iterable[str]) -> PendingInQueue:
        """Those with these keys, as `all` counts them: with the keys known, no bound pod is looked at."""
        return await self._answer(keys, "")

    async def _answer(self, keys: Iterable[str], namespace: str) -> PendingInQueue:
        others: Counter[str] = Counter()  # by scheduler that is no profile here; nobody may run these
        found: dict[_Reason, list[tuple[str, str]]] = {}
        cause: dict[_Reason, Counter[_Said]] = {}
        shown: dict[str, tuple[Pod, QueuedPodInfo | None]] = {}
        slicer = Slicer(_SLICE_SECONDS)
        for key in keys:
            pod = self._pods.get(key)
            if pod is not None and _has_no_node(pod) and namespace in ("", pod.metadata.namespace):
                if self._serves(pod.spec.scheduler_name):
                    queued = self._queue.find(key)
                    shown[key] = pod, queued[1] if queued is not None else None
                    reason, own = self._reason_of(pod, queued)
                    found.setdefault(reason, []).append((pod.metadata.creation_timestamp or "~", key))
                    cause.setdefault(reason, Counter())[own] += 1
                else:
                    others[pod.spec.scheduler_name] += 1
            if slicer.used_up():
                await slicer.turn()
        reasons = sorted(found, key=lambda reason: (-len(found[reason]), reason.queue, _words(cause[reason])))
        return PendingInQueue(
            count=len(shown),
            by_plugin=_counted(
                (plugin, number) for counts in cause.values() for own, number in counts.items() for plugin in own[0]
            ),
            by_profile=_counted((reason.profile, len(pods)) for reason, pods in found.items()),
            by_namespace=_counted((pod.metadata.namespace, 1) for pod, _ in shown.values()),
            reasons=tuple(_answer_of(reason, cause[reason], found[reason], shown) for reason in reasons[:MAX_REASONS]),
            reasons_left_off=max(len(reasons) - MAX_REASONS, 0),
            not_served=_counted(others.items()),
        )

    def _reason_of(self, pod: Pod, found: tuple[str, QueuedPodInfo] | None) -> tuple[_Reason, _Said]:
        """The entry that the pod belongs to, and what it has been told itself."""
        group = self._queue.group_of(pod)
        queue, cause = _UNDER_WAY if found is None else found[0], _said_of(pod, found)
        if queue == INCOMPLETE:  # no condition says it, or an old one says something else
            cause = (), self._queue.why_incomplete(pod) or cause[1]
        elif queue == GATED and found is not None:  # it was not attempted, so no condition says what it waits for
            cause = cause[0], self._queue.why_gated(found[1]) or cause[1]
        elif self._claims is not None:  # the condition is of the last attempt
            if found is None:
                cause = cause[0], self._claims.waits(pod) or cause[1]
            elif missing := self._claims.missing(pod):
                cause = (_OF_CLAIMS,), missing
        profile = pod.spec.scheduler_name
        if group is None:
            alike = (cause[0], _without_names(cause[1], pod.metadata.namespace)) if queue == GATED else cause
            return _Reason(queue, profile, alike, ""), cause
        return _Reason(queue, profile, None, group.text), cause


def _has_no_node(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.is_terminal


def _said_of(pod: Pod, found: tuple[str, QueuedPodInfo] | None) -> _Said:
    condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    message = condition.message if condition is not None and condition.status == "False" else ""
    if found is None:
        return (), message
    queued = found[1]
    gate = {queued.gating_plugin} if queued.gating_plugin else set()
    return tuple(sorted(gate | set(queued.unschedulable_plugins) | set(queued.pending_plugins))), message


def _without_names(message: str, namespace: str) -> str:
    """`could not find ResourceClaim "shop/…"` for each claim of namespace `shop`."""
    start = f"{namespace}/"
    return re.sub(rf'(?<![^\s"]){re.escape(start)}[^\s":]+', f"{start}…", message) if start in message else message


def _words(cause: Counter[_Said]) -> str:
    """The message, or those of most members of a group, with their numbers."""
    counts: Counter[str] = Counter()
    for (_, message), number in cause.items():
        counts[message] += number
    if len(counts) == 1:
        return next(iter(counts))
    ordered = sorted(((number, message) for message, number in counts.items() if message), key=_most_first)
    more = [f"and {len(ordered) - MAX_MESSAGES} more messages"] if len(ordered) > MAX_MESSAGES else []
    reported = [
        f"{message} ({number} {'member' if number == 1 else 'members'})" for number, message in ordered[:MAX_MESSAGES]
    ]
    return "; ".join((*reported, *more))


def _most_first(counted: tuple[int, str]) -> tuple[int, str]:
    return -counted[0], counted[1]


def _answer_of(
    reason: _Reason,
    cause: Counter[_Said],
    pods: list[tuple[str, str]],
    shown: dict[str, tuple[Pod, QueuedPodInfo | None]],
) -> ReasonInQueue:
    oldest = heapq.nsmallest(MAX_PODS, pods)
    return ReasonInQueue(
        queue=reason.queue,
        profile=reason.profile,
        pod_group=reason.group or None,
        plugins=tuple(sorted({plugin for plugins, _ in cause for plugin in plugins})),
        message=_words(cause) if reason.cause is None or len(cause) == 1 else reason.cause[1],
        count=len(pods),
        since=oldest[0][0] if oldest[0][0] != "~" else None,
        pods=tuple(_pod(*shown[key]) for _, key in oldest),
    )


def _pod(pod: Pod, queued: QueuedPodInfo | None) -> PodInQueue:
    return PodInQueue(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        priority=pod.spec.priority or 0,
        attempts=queued.attempts if queued is not None else None,
        creation_timestamp=pod.metadata.creation_timestamp,
        nominated_node_name=pod.status.nominated_node_name or None,
    )


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name, number in pairs:
        counts[name] += number
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
