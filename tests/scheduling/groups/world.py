"""A scheduler with pod groups at work on a virtual clock, beside a stand-in for the API server and its watch."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.groups import (
    CompositePodGroup,
    KubernetesPodGroup,
    SchedulerPluginsPodGroup,
    VolcanoPodGroup,
)
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.meta import Condition
from kscheduler.assembly import group_apis
from kscheduler.client.errors import APIError, APIStatus
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import Status
from kscheduler.in_memory.at_work import turns
from kscheduler.in_memory.cluster import APIRequest
from kscheduler.scheduling.claims.claim_storage import ClaimStorage
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.groups.group_status_writer import GroupReport
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod
from tests.scheduling.scheduler_in_memory import SchedulerInMemory

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

    def report_group(self, report: GroupReport) -> None:
        self.conditions.append((report.group.key.name, report.condition))

    def last(self, group: str) -> Condition:
        """What was said last of a group."""
        return next(condition for name, condition in reversed(self.conditions) if name == group)


class World(SchedulerInMemory):
    """A scheduler of pod groups."""

    def __init__(
        self,
        config: LoadedConfig | None = None,
        *,
        gates: str = ON,
        version: str = "1.37",
        workers: int = 4,
        known: Registry | None = None,
        claim_storage: ClaimStorage | None = None,
        extenders: Extenders | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.bindings: list[tuple[str, str]] = []
        self.refused: dict[str, Status] = {}
        """By name of a pod: what its Binding is answered."""
        self.evicted: list[tuple[str, Condition]] = []
        self.lingering: set[str] = set()
        """Names of pods that do not end when they are evicted: they terminate until `delete`."""
        self.refuses_evictions = False
        self.groups = ReportedGroups()
        self.config = config or default_configuration("kscheduler", parse_feature_gates(gates, version=version))
        super().__init__(
            self.config,
            known,
            workers=workers,
            cache=cache,
            group_statuses=self.groups,
            claim_storage=claim_storage,
            extenders=lambda _: extenders,
        )
        self.before = self._refuse
        self.kinds: list[Kind] = [api.kind for api in group_apis(self.config)]

    async def _refuse(self, request: APIRequest, pod: Pod) -> Status | None:
        if request is APIRequest.BIND and pod.metadata.name in self.refused:
            return self.refused[pod.metadata.name]
        await turns(1)
        if request is APIRequest.EVICT and self.refuses_evictions:
            raise APIError(APIStatus(kind="Status", code=500, message="refused"))
        return None

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        """The watch shows the pod on its node at once."""
        self.bindings.append((pod.metadata.name, node_name))
        super().apply_binding(pod, node_name)

    def apply_eviction(self, pod: Pod, condition: Condition) -> None:
        """The watch shows the pod terminating at once."""
        name = pod.metadata.name
        self.evicted.append((name, condition))
        terminating = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        status = replace(pod.status, conditions=(*pod.status.conditions, condition))
        self.add(replace(pod, metadata=terminating, status=status))
        if name not in self.lingering:
            self.delete(name)

    def nodes(self, count: int, **allocatable: Any) -> None:
        """Nodes appear."""
        self.add(*(make_node(f"node-{number}", **allocatable) for number in range(count)), initial=True)

    def delete(self, name: str) -> None:
        """A pod goes."""
        self.remove(PODS, f"default/{name}")

    def add_group(self, group: KubernetesPodGroup | SchedulerPluginsPodGroup | VolcanoPodGroup, api: int = 0) -> None:
        """A group appears."""
        self.put(self.kinds[api], group)

    def add_composite(self, group: CompositePodGroup) -> None:
        """A composite group appears."""
        self.put(self.kinds[1], group)

    def delete_composite(self, group: CompositePodGroup) -> None:
        """A composite group goes."""
        self.remove(self.kinds[1], group.key)

    def delete_group(self, group: KubernetesPodGroup) -> None:
        """A group goes."""
        self.remove(self.kinds[0], group.key)

    def gang(self, name: str, size: int, min_count: int | None = None, **fields: Any) -> None:
        """A gang appears with all its members."""
        self.add_group(pod_group(name, size if min_count is None else min_count))
        self.add(*(member(f"{name}-{number}", name, **fields) for number in range(size)))

    # --- at work ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """The workers at work."""
        running = asyncio.ensure_future(self.workers.run())
        await self.settle()
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def rest(self) -> None:
        """Wait until nobody is ready to be tried, or being tried."""
        while True:
            sizes = self.queue.statistics()
            if not (sizes.active or sizes.in_flight or self.workers.binding):
                return
            await self.settle(5)

    async def pass_seconds(self, seconds: int) -> None:
        """Time passes; backoff is flushed each second."""
        for _ in range(seconds):
            await self.clock.advance(1.0)
            self.queue.flush_backoff(self.clock.time())
            await self.settle(20)

    def bound(self, group: str = "") -> list[str]:
        """Names of the members that have a node in the API server."""
        return sorted(
            pod.metadata.name for pod in self.pods() if pod.spec.node_name and pod.metadata.name.startswith(group)
        )

    def sizes(self) -> Counter[str]:
        """By gang (`NAME-NUMBER`) the number of bound members."""
        return Counter(pod.metadata.name.rpartition("-")[0] for pod in self.pods() if pod.spec.node_name)


def with_other_apis(*names: str, version: str = "1.36", gates: str = "", without: str = "") -> LoadedConfig:
    """A configuration that follows groups of other projects; `without` any plugin at an extension point."""
    disabled = {"plugins": {without: {"disabled": [{"name": "*"}]}}} if without else {}
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podGroupAPIs": list(names),
        "profiles": [{"schedulerName": "kscheduler", **disabled}],
    }
    return from_tree(tree, "", parse_feature_gates(gates, version=version))


def without_gates(pod: Pod) -> Pod:
    """The pod, let go by its owner."""
    return replace(pod, spec=replace(pod.spec, scheduling_gates=()))
