"""A scheduler with pod groups at work on a virtual clock, beside a stand-in for the API server and its watch."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.groups import (
    COMPOSITE_POD_GROUPS,
    CompositePodGroup,
    KubernetesPodGroup,
    SchedulerPluginsPodGroup,
    VolcanoPodGroup,
)
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import Condition
from kscheduler.assembly import Assembly, Ports, group_apis
from kscheduler.client.errors import APIError, APIStatus
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.pods.pod_info import placed
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.claims.claim_storage import ClaimStorage
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.work.concurrency import AdaptiveLimit
from kscheduler.scheduling.work.workers import Workers
from tests.builders import make_node, make_pod
from tests.scheduling.around import RecordedEvents, ReportedFailures

ON = "GenericWorkload=true"


def pod_group(name: str, min_count: int | None, *, priority: int = 0, **spec: Any) -> KubernetesPodGroup:
    """A group of Kubernetes; without a minimum it is basic."""
    policy: dict[str, Any] = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-group-{name}"}
    return convert(
        {"metadata": metadata, "spec": {"schedulingPolicy": policy, "priority": priority, **spec}}, KubernetesPodGroup
    )


def composite(
    name: str, least: int | None, parent: str = "", *, priority: int = 0, created: str = "", **spec: Any
) -> CompositePodGroup:
    """A group of groups; without a minimum it is basic."""
    policy: dict[str, Any] = {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-of-composite-{name}"}
    above = {"parentCompositePodGroupName": parent} if parent else {}
    stamp = {"creationTimestamp": created} if created else {}
    return convert(
        {
            "metadata": {**metadata, **stamp},
            "spec": {"schedulingPolicy": policy, "priority": priority, **above, **spec},
        },
        CompositePodGroup,
    )


def member(name: str, group: str, **fields: Any) -> Pod:
    """A pod of a group of Kubernetes."""
    return make_pod(name, schedulingGroup={"podGroupName": group}, **fields)


class ReportedGroups:
    """Keeps the conditions. Implements `GroupStatusSink`."""

    def __init__(self) -> None:
        self.conditions: list[tuple[str, Condition]] = []

    def report_group(self, group: GroupDefinition, condition: Condition) -> None:
        self.conditions.append((group.key.name, condition))

    def last(self, group: str) -> Condition:
        """What was said last of a group."""
        return next(condition for name, condition in reversed(self.conditions) if name == group)


class World:
    """Objects, and everything that decides."""

    def __init__(
        self,
        config: LoadedConfig | None = None,
        *,
        gates: str = ON,
        workers: int = 4,
        known: Registry | None = None,
        claim_storage: ClaimStorage | None = None,
        extenders: Extenders | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.pods: dict[str, Pod] = {}
        self.bindings: list[tuple[str, str]] = []
        self.refused: dict[str, Status] = {}
        """By name of a pod: what its Binding is answered."""
        self.evicted: list[tuple[str, Condition]] = []
        self.lingering: set[str] = set()
        """Names of pods that do not end when they are evicted: they terminate until `delete`."""
        self.refuses_evictions = False
        self.groups = ReportedGroups()
        self.reported = ReportedFailures()
        self.events = RecordedEvents()
        self.config = config or default_configuration("kscheduler", parse_feature_gates(gates, version="1.37"))
        self.wake: Callable[[], None] = lambda: None
        ports = Ports(
            binder=self,
            evictor=self,
            statuses=self.reported,
            group_statuses=self.groups,
            events=self.events,
            claim_storage=claim_storage,
            pod_of=self.pods.get,
            extenders=lambda _: extenders,
            on_arrival=lambda: self.wake(),  # noqa: PLW0108  # the workers come later
        )
        self.assembly = Assembly(self.config, known or registry(), ports, self.clock)
        self.queue, self.cache = self.assembly.queue, self.assembly.cache
        limit = AdaptiveLimit(workers, workers)
        self.workers = Workers(workers, self.queue, self.assembly.scheduler, limit, self.clock)
        self.kinds: list[Kind] = [api.kind for api in group_apis(self.config)]

    # --- the API server -----------------------------------------------------------------------------------------------

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Implements `framework.handle.Writer`: the watch shows the pod on its node at once."""
        if pod.metadata.name in self.refused:
            return self.refused[pod.metadata.name]
        if pod.key not in self.pods:
            return error("gone")
        self.bindings.append((pod.metadata.name, node_name))
        await asyncio.sleep(0)
        old = self.pods.get(pod.key)
        if old is None:
            return error("gone meanwhile")
        self.pods[pod.key] = placed(old, node_name)
        self.assembly.pod_handler.on_update(old, self.pods[pod.key])
        return SUCCESS

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        """Implements `VictimWriter`: the watch shows the pod terminating at once."""
        await asyncio.sleep(0)
        if self.refuses_evictions:
            raise APIError(APIStatus(kind="Status", code=500, message="refused"))
        name = pod.metadata.name
        self.evicted.append((name, condition))
        terminating = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        status = replace(pod.status, conditions=(*pod.status.conditions, condition))
        self.replace_pod(replace(pod, metadata=terminating, status=status))
        if name not in self.lingering:
            self.delete(name)
        return True

    def nodes(self, count: int, **allocatable: Any) -> None:
        """Nodes appear."""
        for number in range(count):
            self.assembly.node_handler.on_add(make_node(f"node-{number}", **allocatable), initial=True)

    def add(self, *pods: Pod) -> None:
        """Pods appear."""
        for pod in pods:
            self.pods[pod.key] = pod
            self.assembly.pod_handler.on_add(pod, initial=False)

    def replace_pod(self, pod: Pod) -> None:
        """A pod changes."""
        old = self.pods[pod.key]
        self.pods[pod.key] = pod
        self.assembly.pod_handler.on_update(old, pod)
        self.assembly.evictions.pod_change_waits.on_update(old, pod)

    def delete(self, name: str) -> None:
        """A pod goes."""
        gone = self.pods.pop(f"default/{name}")
        self.assembly.pod_handler.on_delete(gone)
        self.assembly.evictions.pod_change_waits.on_delete(gone)

    def add_group(self, group: KubernetesPodGroup | SchedulerPluginsPodGroup | VolcanoPodGroup, api: int = 0) -> None:
        """A group appears."""
        self.assembly.handlers[self.kinds[api]].on_add(group, initial=False)

    def add_composite(self, group: CompositePodGroup) -> None:
        """A composite group appears."""
        self.assembly.handlers[COMPOSITE_POD_GROUPS].on_add(group, initial=False)

    def delete_composite(self, group: CompositePodGroup) -> None:
        """A composite group goes."""
        self.assembly.handlers[COMPOSITE_POD_GROUPS].on_delete(group)

    def update_group(self, old: KubernetesPodGroup, new: KubernetesPodGroup) -> None:
        """A group changes."""
        self.assembly.handlers[self.kinds[0]].on_update(old, new)

    def delete_group(self, group: KubernetesPodGroup) -> None:
        """A group goes."""
        self.assembly.handlers[self.kinds[0]].on_delete(group)

    def gang(self, name: str, size: int, min_count: int | None = None, **fields: Any) -> None:
        """A gang appears with all its members."""
        self.add_group(pod_group(name, size if min_count is None else min_count))
        self.add(*(member(f"{name}-{number}", name, **fields) for number in range(size)))

    # --- at work ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The workers at work."""
        self.wake = self.workers.wake
        running = asyncio.ensure_future(self.workers.run())
        await self.settle()
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def settle(self, turns: int = 60) -> None:
        """Let every task do what it can."""
        for _ in range(turns):
            await asyncio.sleep(0)

    async def rest(self) -> None:
        """Wait until nobody is ready to be tried, or being tried."""
        while True:
            sizes = self.queue.statistics()
            if not (sizes.active or sizes.in_flight or self.workers.binding):
                return
            await self.settle(5)

    async def pass_seconds(self, seconds: int) -> None:
        """Time passes; back-off is flushed each second."""
        for _ in range(seconds):
            await self.clock.advance(1.0)
            self.queue.flush_backoff(self.clock.time())
            await self.settle(20)

    def bound(self, group: str = "") -> list[str]:
        """Names of the members that have a node in the API server."""
        return sorted(
            pod.metadata.name
            for pod in self.pods.values()
            if pod.spec.node_name and pod.metadata.name.startswith(group)
        )

    def sizes(self) -> Counter[str]:
        """By gang (`NAME-NUMBER`) the number of bound members."""
        return Counter(pod.metadata.name.rpartition("-")[0] for pod in self.pods.values() if pod.spec.node_name)

    def where(self, name: str) -> str:
        """Where a pod waits."""
        found = self.queue.find(f"default/{name}")
        return found[0] if found is not None else ""


def with_other_apis(*names: str) -> LoadedConfig:
    """A configuration that follows groups of other projects, on the oldest followed version."""
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podGroupAPIs": list(names),
        "profiles": [{"schedulerName": "kscheduler"}],
    }
    return from_tree(tree, "", parse_feature_gates(""))


def without_gates(pod: Pod) -> Pod:
    """The pod, let go by its owner."""
    return replace(pod, spec=replace(pod.spec, scheduling_gates=()))
