"""Sends pods of ours back from nodes that another scheduler has overcommitted. Off by default.

A pod is evicted only if all of this holds:

    the node        is overcommitted because another scheduler placed pods there, or because it has less than it had
    the pod         names a profile of ours and was bound by us; it has a controller that makes another
    not started     its phase is Pending and the kubelet has not taken it up (no startTime, no container)
    it helps        it takes some of a resource that is exceeded even without the pods that are on their way out

Of several the one with the lowest priority goes, of equals the youngest. Pods of a DaemonSet stay: they could only come
back to this node. So do mirror pods, whose owner is the Node.

The eviction goes through the eviction API with the version of the pod that was judged as a precondition: if the kubelet
has touched the pod meanwhile, the API server refuses. It also asks the pod's disruption budgets, where it asks them of
pods at all: those that are Pending are not disrupted by it (see `canIgnorePDB` in Kubernetes), and count as unhealthy.

No room is kept free for anybody. As long as the node is overcommitted, the filter rejects all pods that want some of
the resource; once it is not, its room is as good as any.

Limits: the kubelet decides within a second, as a rule before us. A pod that it has rejected is Failed and does not
count any more, so the incident is over. Repair is for kubelets that are late, away, or starting.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from kscheduler.aio.clock import Clock
from kscheduler.aio.rate_limiters import TokenBucket
from kscheduler.aio.tasks import BackgroundService
from kscheduler.api.core import Pod
from kscheduler.client.errors import APIError, ClientError
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.foreign_bindings import ForeignBindings
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.overcommit.excess import HOST_PORTS, contested_claims, excess_left, share_of
from kscheduler.scheduling.overcommit.incidents import LOOK_SECONDS, OvercommitCause, OvercommittedNodes
from kscheduler.scheduling.overcommit.overcommit_reports import OvercommitReporter, summary_of
from kscheduler.scheduling.reports import EventSink
from kscheduler.state.cache import Cache
from kscheduler.telemetry.logs import get_logger

_log = get_logger("kscheduler.overfill")

EVICTIONS_PER_SECOND: Final = 0.2
# Together with one at a time on a node: a mistake of this module takes twelve pods a minute, not a cluster.
EVICTIONS_AT_ONCE: Final = 5
# For a node whose eviction was refused, or changed nothing.
PAUSE_SECONDS: Final = 10.0
# For all nodes, after the API server has refused for another reason: a missing right concerns each of them.
REFUSED_SECONDS: Final = 60.0
# A profile of ours that overfills nodes would do it again; a resize waits at the kubelet until there is room.
CAUSES: Final = frozenset({OvercommitCause.ANOTHER_SCHEDULER, OvercommitCause.ALLOCATABLE})


class UnstartedPodEvictor(Protocol):
    """The part of `client.pod_writes.PodWriter` that repair needs."""

    async def evict_as_seen(self, pod: Pod) -> None:
        """Evict this version of the pod through the eviction API. Raises `ClientError`."""
        ...


class OvercommitRepair:
    """Evicts, one pod at a time. Runs only while this process schedules."""

    def __init__(
        self,
        cache: Cache,
        nodes: OvercommittedNodes,
        evictor: UnstartedPodEvictor,
        reporter: OvercommitReporter,
        observations: Observations,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._nodes = nodes
        self._evictor = evictor
        self._reporter = reporter
        self._observations = observations
        self._clock = clock
        self._bucket = TokenBucket(EVICTIONS_PER_SECOND, EVICTIONS_AT_ONCE, clock)
        self._pauses: dict[str, float] = {}
        """By node: until when nothing is tried there, in monotonic seconds. Ends with the incident."""
        self._reported: dict[str, Mapping[str, int]] = {}
        """By node: why nobody goes, as it was told last. Ends with the incident."""

    async def run(self) -> None:
        """Repair until cancelled."""
        while True:
            await self.repair()
            await self._clock.sleep(LOOK_SECONDS)

    async def repair(self) -> None:
        """Evict at most one pod of each node that is overcommitted now."""
        exceeded = self._exceeded()
        self._pauses = {name: until for name, until in self._pauses.items() if name in exceeded}
        self._reported = {name: why for name, why in self._reported.items() if name in exceeded}
        for name, resources in exceeded.items():
            if self._clock.monotonic() < self._pauses.get(name, 0.0):
                continue
            if self._choice(name, resources) is None:
                self._report_who_stays(name, resources)
                continue
            await self._bucket.take()
            pod = self._choice(name, self._exceeded().get(name, []))  # the node may be well by now
            if pod is not None:
                await self._evict(name, pod)

    def _exceeded(self) -> dict[str, list[str]]:
        """By node, the resources that others, or the node itself, have made too few."""
        exceeded: dict[str, list[str]] = {}
        for overcommit in self._nodes.incidents():
            if overcommit.cause in CAUSES:
                exceeded.setdefault(overcommit.node_name, []).append(overcommit.excess.resource)
        return exceeded

    def _choice(self, name: str, resources: Sequence[str]) -> PodInfo | None:
        """The pod of the node that would go now, if any."""
        info = self._cache.node_info(name)
        if info is None or not resources:
            return None
        return pod_to_evict(info, resources, [pod for pod in info.pods.values() if self._why_it_stays(pod) is None])

    def _why_it_stays(self, pod: PodInfo) -> str | None:
        if not self._nodes.is_ours(pod):
            return "another scheduler's"
        if self._cache.is_assumed(pod.uid):
            return "not bound yet"
        if not is_untouched(pod.pod):
            return "taken up by the kubelet"
        return None if comes_back_elsewhere(pod.pod) else "no controller makes it again elsewhere"

    def _report_who_stays(self, name: str, resources: Sequence[str]) -> None:
        """Say why nobody goes, once, and again when it is another reason; nothing while pods on their way out help."""
        info = self._cache.node_info(name)
        if info is None:
            return
        why = Counter(self._why_it_stays(pod) or "" for pod in pods_that_help(info, resources, info.pods.values()))
        if why and self._reported.get(name) != why:
            self._reported[name] = why
            _log.info("overfill_not_repaired", node=name, result="nobody_may_go", stay=dict(why))

    async def _evict(self, node_name: str, pod: PodInfo) -> None:
        current = self._cache.pod_of(pod.uid)
        if current is None or current.pod is not pod.pod:
            return  # it has changed while the limit held it up: the next round judges it again
        self._pauses[node_name] = self._clock.monotonic() + PAUSE_SECONDS  # until the watch shows what this has done
        try:
            await self._evictor.evict_as_seen(pod.pod)
        except ClientError as failure:
            result = _result_of(failure)
            self._observations.overcommit_eviction(result)
            _log.warning("overfill_not_repaired", pod=pod.key, node=node_name, result=result, err=str(failure))
            if result == "failed":
                await self._clock.sleep(REFUSED_SECONDS)
        else:
            self._observations.overcommit_eviction("evicted")
            self._reporter.evicted(pod.pod, node_name)


def _result_of(failure: ClientError) -> str:
    """`budget`: a disruption budget forbids it; `changed`: the pod is another by now, or gone; `failed`: all else."""
    if not isinstance(failure, APIError):
        return "failed"
    if failure.is_too_many_requests:
        return "budget"
    return "changed" if failure.is_conflict or failure.is_not_found else "failed"


def pod_to_evict(info: NodeInfo, resources: Iterable[str], candidates: Sequence[PodInfo]) -> PodInfo | None:
    """The candidate whose eviction lowers an excess that pods on their way out do not end; `None` if there is none.

    The lowest priority goes first; of equals the youngest, and of those that were made in the same second the one that
    was counted last.
    """
    helping = pods_that_help(info, resources, candidates)
    if not helping:
        return None
    lowest = min(pod.priority for pod in helping)
    lowly = [pod for pod in helping if pod.priority == lowest]
    # `max` takes the first of equals, so the order is turned round: the last one counted comes first
    return max(reversed(lowly), key=lambda pod: pod.pod.metadata.creation_timestamp or "")


def pods_that_help(info: NodeInfo, resources: Iterable[str], candidates: Iterable[PodInfo]) -> list[PodInfo]:
    """The candidates that take some of what is exceeded even without the pods that are on their way out."""
    staying = [pod for pod in info.pods.values() if not pod.is_terminating]
    exceeded = [resource for resource in resources if excess_left(info, resource, staying) > 0]
    return [pod for pod in candidates if any(_takes_some(pod, resource, staying) for resource in exceeded)]


def _takes_some(pod: PodInfo, resource: str, staying: Sequence[PodInfo]) -> bool:
    """Whether there is more of the resource without the pod; a host port has to be one that others claim, too."""
    if resource == HOST_PORTS:
        return any(claimant is pod for claimant, _ in contested_claims(staying))
    return share_of(pod, resource) > 0


def is_untouched(pod: Pod) -> bool:
    """Whether the kubelet has not taken the pod up: neither admitted nor started nor rejected it."""
    status = pod.status
    is_seen = status.start_time is not None or status.container_statuses or status.init_container_statuses
    return status.phase in ("", "Pending") and not is_seen and pod.metadata.deletion_timestamp is None


def comes_back_elsewhere(pod: Pod) -> bool:
    """Whether a controller makes another pod, which may go to any node."""
    return pod.metadata.controller is not None and not pod.belongs_to_node


# Assembling what looks for overcommitted nodes: the background services and what `/readyz?verbose` and metrics show.

MAX_NOTES: Final = 10


class OvercommitKeeping:
    """Looks for overcommitted nodes; repairs them where that is wanted."""

    def __init__(
        self,
        cache: Cache,
        profiles: Collection[str],
        taken: ForeignBindings,
        events: EventSink,
        evictor: UnstartedPodEvictor | None,
        observations: Observations,
        clock: Clock,
    ) -> None:
        """`profiles`: our scheduler names, as they are now. `evictor`: `None` where nothing is to be repaired."""
        reporter = OvercommitReporter(events, observations, next(iter(profiles)))
        self.nodes = OvercommittedNodes(cache, profiles, taken, reporter, clock)
        self._taken = taken
        self._repair = None
        if evictor is not None:
            self._repair = OvercommitRepair(cache, self.nodes, evictor, reporter, observations, clock)
        self._shown: dict[tuple[str, str], float] = {}

    def begin_scheduling(self) -> None:
        """This process binds pods from now on, and speaks for all replicas."""
        self._taken.is_scheduling = self.nodes.is_reporting = True

    def services_with_cache(self) -> tuple[BackgroundService, ...]:
        """What runs as soon as the cache is filled, also on a replica that stands by."""
        return (BackgroundService("overfilled nodes", self.nodes.run),)

    def services_with_workers(self) -> tuple[BackgroundService, ...]:
        """What runs only while pods are scheduled."""
        return () if self._repair is None else (BackgroundService("repair of overfilled nodes", self._repair.run),)

    def notes(self) -> Iterable[str]:
        """Lines for `/readyz?verbose`: the longest incidents first."""
        incidents = sorted(self.nodes.incidents(), key=lambda overcommit: overcommit.since)
        for overcommit in incidents[:MAX_NOTES]:
            yield f"node {overcommit.node_name} is overfilled: {summary_of(overcommit)}"
        if len(incidents) > MAX_NOTES:
            yield f"{len(incidents) - MAX_NOTES} more resources of nodes are overfilled"

    def counts(self) -> Mapping[tuple[str, str], float]:
        """Overcommitted nodes by (resource, cause), for the gauge. What has been there stays at zero."""
        self._shown = {**dict.fromkeys(self._shown, 0.0), **self.nodes.nodes_by_cause()}
        return self._shown
