"""A scheduler at work on a copy of a cluster, in virtual time: the service's queue, workers, cycle and evictions.

Its API server is the in-memory one: a Binding succeeds at once, an evicted pod is gone at once and made again by its
owner, conditions are kept for the answer. Nothing leaves the process. PreBind is left out, as it prepares the world
outside (volumes, what custom plugins do there): what Reserve has assumed stays assumed. Only claims to devices are
written, into `simulated_claims`: pods that share one wait until it is.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import VirtualClock
from kscheduler.answers import ResourceCapacity
from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.kinds import KINDS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from kscheduler.api.meta import Condition, KubeObject
from kscheduler.assembly import Assembly, group_apis
from kscheduler.assembly.profiles_over import built_profiles
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.pod_groups import why_missing
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.registry import Registry
from kscheduler.in_memory.at_work import at_work, workers_over
from kscheduler.in_memory.cluster import ShownSoon, WrittenNominations
from kscheduler.plugins.dynamic_resources.plugin import DynamicResources
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.decide import scenario_ports
from kscheduler.scenario.device_counts import DevicesByClass
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scheduling.attempt_events import PodBound
from kscheduler.scheduling.observers import hears
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.supervision.supervisor import CircuitObserver
from kscheduler.simulate.cluster_capacity import capacity_before, capacity_in, devices_in
from kscheduler.simulate.simulated_claims import SimulatedClaims
from kscheduler.simulate.simulation_plan import SimulationPlan
from kscheduler.simulate.simulation_result import PENDING, REMOVAL, Evicted, Placed, StillPending
from kscheduler.state.cache import Cache
from kscheduler.state.pod_groups import PodGroupTable

# Turns of the event loop in which a chain of awaits comes to its end.
_QUIET_TURNS: Final = 30
# The longest backoff; virtual.
_BACKOFF_SECONDS: Final = 10.0
# Backoffs that are waited for: ten minutes of the service's time. A pod that still moves then moves forever.
_MAX_ROUNDS: Final = 60
# Without a move, after which nothing is expected of further ones.
_STILL_ROUNDS: Final = 3
# In which pods must move for it to be said that they move forever.
_LAST_ROUNDS: Final = 10
_TO_BE_TRIED: Final = ("active", "backoff")


class SimulatedCluster(ShownSoon):
    """The cluster of a plan."""

    def __init__(self, plan: SimulationPlan) -> None:
        """Raises `ScenarioError` where the configuration cannot be used."""
        super().__init__()
        self.clock = VirtualClock()
        self._ends_at = perf_counter() + plan.seconds
        self._origins: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._statuses = _Statuses(self)
        self._evicted: list[Evicted] = []
        self._placed: list[Placed] = []
        self._placed_uids: list[str] = []
        self._points = _PointsOfBound()
        self._moves_before_the_end = self._moves
        self._plan = plan
        tracker = None if plan.running is None else plan.running.cache.devices.claims
        self._claims = SimulatedClaims(self, plan.objects, plan.where, tracker)
        self._devices = DevicesByClass(plan.config.gates)
        known = registry() if plan.plugins is None else plan.plugins
        self._assembly = self._built(plan.config, known)
        self._workers = workers_over(self._assembly, self)
        self._show_all()

    def _built(self, config: LoadedConfig, known: Registry) -> Assembly:
        given = scenario_ports(self._plan.objects)
        connected = self.ports(
            workloads=given.workloads,
            budgets=given.budgets,
            statuses=self._statuses,
            claim_storage=self._claims,
            journal=self._points,
        )
        try:
            cache = self._new_cache() if self._plan.running is None else self._plan.running.cache
            built = Assembly(config, known, connected, self.clock, cache=cache, build=_that_write_claims_only)
        except ConfigError as problem:
            problems = "; ".join(str(each) for each in problem.problems)
            raise ScenarioError(f"{self._plan.where}: config: {problems}") from None
        built.plugin_reports.ignore_slow_calls()
        built.listen_to(self.listeners)
        return built

    def _new_cache(self) -> Cache:
        """An empty one, which knows what the cluster does not have."""
        absent = self._plan.absent
        return Cache(
            why_group_missing=why_missing(absent.groups),
            why_awaited=lambda kind: absent.topologies.get(kind.resource, ""),
        )

    def _show_all(self) -> None:
        self._show_nodes()
        handlers, objects = self._assembly.handlers, self._plan.objects
        held = ClusterObjects() if self._plan.running is None else self._plan.running.objects
        for kind in (*KINDS.values(), *self._assembly.cache.topology_levels.kinds):
            if kind not in (NODES, PODS) and kind in handlers:
                known = set(map(id, getattr(held, kind.plural)))
                for obj in self._listed(kind):
                    if id(obj) not in known:
                        self.deliver(kind, None, obj, initial=True)
        there = {node.metadata.name for node in objects.nodes} - self._plan.given_nodes
        self._devices_before = devices_in(self._assembly.cache, self._devices, there)
        for api in group_apis(self._plan.config):
            for group in objects.groups(api.kind):
                self.deliver(api.kind, None, group, initial=True)
        for definition in self._plan.groups:
            self._assembly.cache.pod_groups.put(definition)
        gone = set(self._plan.gone_nodes)
        for pod in map(self._as_known, objects.pods):
            if pod.spec.node_name in gone:
                self._lost(pod)
            elif self._plan.running is not None and pod.spec.node_name and not self._assembly.resizes.concerns(pod):
                self.store(PODS).put(pod.key, pod)
                self._origins[pod.key] = PENDING
            else:
                self.show(pod, PENDING)

    def _listed(self, kind: Kind) -> Iterable[KubeObject]:
        """The objects of a kind, with those that come with new nodes."""
        if kind is RESOURCE_CLAIMS:
            return self.store(kind).list()
        listed: Iterable[KubeObject] = getattr(self._plan.objects, kind.plural)
        return (*listed, *self._plan.added_slices()) if kind is RESOURCE_SLICES else listed

    def _show_nodes(self) -> None:
        """Where the cache has them already, only what is different of them."""
        running = self._plan.running
        wanted = self._plan.nodes()
        if running is None:
            for node in wanted:
                self.deliver(NODES, None, node, initial=True)
            return
        held = {node.metadata.name: node for node in running.objects.nodes}
        for node in wanted:
            before = held.get(node.metadata.name)
            if before is not node:
                self.deliver(NODES, before, node, initial=True)
        for name in self._plan.gone_nodes:
            for pod in self._assembly.cache.pods_on(name):
                self._assembly.cache.remove_pod(pod.uid)
            self.deliver(NODES, held[name], None)

    def _as_known(self, pod: Pod) -> Pod:
        """A running service knows more than the watch has shown: what it is about to bind is on its node here."""
        cache = None if self._plan.running is None else self._plan.running.cache
        if cache is None or pod.spec.node_name:
            return pod
        uid = pod.metadata.uid
        if cache.is_assumed(uid):
            placed = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=cache.node_of(uid)))
            cache.add_pod(placed)
            self._claims.settle(placed)
            return placed
        nomination = cache.nominator.nomination(uid)
        if nomination is None or nomination[0] == pod.status.nominated_node_name:
            return pod
        status = msgspec.structs.replace(pod.status, nominated_node_name=nomination[0])
        return msgspec.structs.replace(pod, status=status)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def show(self, pod: Pod, origin: str) -> None:
        """A pod appears, with its claims. One of a manifest has no UID: an API server would give it one."""
        if not pod.metadata.uid:
            pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"uid-of-{pod.key}"))
        if not (pod.spec.node_name or pod.is_terminal):
            pod = self._claims.made_for(pod)
        self.store(PODS).put(pod.key, pod)
        self._origins[pod.key] = origin
        self.deliver(PODS, None, pod)

    def evict(self, pod: Pod, by: str, after_seconds: int = 0) -> str:
        """A pod goes, and its controller makes another; returns its key, or nothing."""
        again = self._again(pod)
        replacement = again.key if again is not None else ""
        gone = Evicted(pod.key, pod.spec.node_name, by, pod.spec.priority or 0, replacement or None, after_seconds)
        self._evicted.append(gone)
        self.remove(PODS, pod.key)
        self._claims.pod_is_gone(pod)
        if again is not None:
            self.show(again, pod.key)
        return replacement

    def _lost(self, pod: Pod) -> None:
        """A pod of a node that is gone."""
        self._claims.pod_is_gone(pod)
        again = self._again(pod)
        replacement = again.key if again is not None else ""
        self._evicted.append(Evicted(pod.key, pod.spec.node_name, REMOVAL, pod.spec.priority or 0, replacement or None))
        if again is not None:
            self.show(again, pod.key)

    def _again(self, pod: Pod) -> Pod | None:
        """The pod that its controller makes when it is gone."""
        owner = pod.metadata.controller
        if owner is None or pod.belongs_to_node or pod.is_terminal:
            return None
        name = pod.metadata.name
        if owner.kind != "StatefulSet":  # which keeps its pods' names
            number = self._numbers[name] = self._numbers.get(name, 0) + 1
            name = f"{name}-again-{number}"
        metadata = msgspec.structs.replace(
            pod.metadata, name=name, uid=f"{pod.metadata.uid}-{name}", deletion_timestamp=None
        )
        spec = msgspec.structs.replace(pod.spec, node_name="")
        return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus())

    @property
    def groups(self) -> PodGroupTable:
        """The pod groups; another one is put there before its members appear."""
        return self._assembly.cache.pod_groups

    def pods_on(self, node_name: str) -> list[Pod]:
        """By name, without those that have ended."""
        found = [pod for pod in self.pods() if pod.spec.node_name == node_name and not pod.is_terminal]
        return sorted(found, key=lambda pod: pod.key)

    def is_there(self, pod: Pod) -> bool:
        """Whether the pod is still on its node: it may have been preempted."""
        return self.current(pod) is not None

    def is_placed(self, key: str) -> bool:
        """Whether the pod has a node."""
        pod = self.pod_of(key)
        return pod is not None and bool(pod.spec.node_name)

    # --- the API server's part ----------------------------------------------------------------------------------------

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        """The Binding takes effect."""
        self.look_at_the_time()
        self._placed.append(Placed(pod.key, node_name, self._origins.get(pod.key, PENDING)))
        self._placed_uids.append(pod.metadata.uid)
        super().apply_binding(pod, node_name)

    def apply_eviction(self, pod: Pod, condition: Condition) -> None:
        """Preemption: the victim goes in the next turn."""
        del condition
        asyncio.get_running_loop().call_soon(self.evict, pod, self._preemptor_on(pod.spec.node_name))

    def _preemptor_on(self, node_name: str) -> str:
        """Whose status names the node: that is written before any victim goes."""
        nominated = [
            pod for pod in self.pods() if not pod.spec.node_name and pod.status.nominated_node_name == node_name
        ]
        return max(nominated, key=lambda pod: pod.spec.priority or 0).key if nominated else "preemption"

    def look_at_the_time(self) -> None:
        """In virtual time no slice of the workers ever ends, so that the play would not notice its own end."""
        if self.is_out_of_time:
            self._workers.end_slice()

    # --- the play -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """With workers and flushes of the queue."""
        self._assembly.queue.begin_scheduling()
        assert self._assembly.claims is not None  # noqa: S101  claims have their storage
        async with at_work(self._assembly, self._workers, self._assembly.claims.run()):
            yield

    @property
    def is_out_of_time(self) -> bool:
        """Whether the play must end where it is."""
        return perf_counter() >= self._ends_at

    async def until_quiet(self) -> bool:
        """Until every pod has a node or waits for something that will not happen.

        False if something moves forever, or if the time is up.
        """
        for rounds_left in range(_MAX_ROUNDS, 0, -1):
            if rounds_left == _LAST_ROUNDS:
                self._moves_before_the_end = self._moves
            await self._turns()
            if self.is_out_of_time:
                return False
            statistics = self._assembly.queue.statistics()
            if not (statistics.active or statistics.backoff or statistics.in_flight):
                return True
            await self.clock.advance(_BACKOFF_SECONDS)
        return False

    async def until_settled(self) -> None:
        """Until nobody has moved for three of the longest backoffs, however many attempts fail again and again."""
        still = 0
        for _ in range(_MAX_ROUNDS):
            before = self._moves
            await self._turns()
            statistics = self._assembly.queue.statistics()
            still = still + 1 if self._moves == before else 0
            is_quiet = not (statistics.active or statistics.backoff or statistics.in_flight)
            if self.is_out_of_time or is_quiet or still == _STILL_ROUNDS:
                return
            await self.clock.advance(_BACKOFF_SECONDS)

    def why_never_quiet(self) -> str:
        """What goes on where `until_quiet` has given up: pods change places, or fail at each attempt.

        A pod does so after an error, such as that there are no nodes, and a pod group whenever it is rejected.
        """
        if self._moves != self._moves_before_the_end:
            return "some pods still change places after ten minutes of virtual time"
        failing = [
            pod.key
            for pod in self.pods()
            if not pod.spec.node_name and (found := self._assembly.queue.find(pod.key)) and found[0] in _TO_BE_TRIED
        ]
        if not failing:
            return "some attempts have not ended after ten minutes of virtual time"
        named = ", ".join(failing[:3]) + (f" and {len(failing) - 3} more" if len(failing) > 3 else "")
        return f"tried again and again, and each attempt fails: {named}"

    @property
    def _moves(self) -> tuple[int, int]:
        return len(self._placed), len(self._evicted)

    async def _turns(self) -> None:
        """Until nobody decides any more."""
        quiet = 0
        while quiet < _QUIET_TURNS and not self.is_out_of_time:
            before = self._moves
            await asyncio.sleep(0)
            statistics = self._assembly.queue.statistics() if before == self._moves else None
            is_busy = statistics is None or statistics.active > 0
            quiet = 0 if is_busy else quiet + 1

    def notes(self) -> list[str]:
        """What had to be presumed."""
        return self._claims.notes()

    # --- the answer ---------------------------------------------------------------------------------------------------

    def placed(self) -> tuple[Placed, ...]:
        """In the order of the bindings."""
        points = self._points.by_uid
        placed = zip(self._placed, self._placed_uids, strict=True)
        return tuple(msgspec.structs.replace(each, score=points.get(uid)) for each, uid in placed)

    def evicted(self) -> tuple[Evicted, ...]:
        """In the order in which they went."""
        return tuple(self._evicted)

    def waiting(self, served: Iterable[str]) -> tuple[StillPending, ...]:
        """The pods of these schedulers without a node."""
        names = set(served)
        return tuple(
            StillPending(pod.key, self._why(pod), self._origins[pod.key], pod.status.nominated_node_name or None)
            for pod in self.pods()
            if not pod.spec.node_name and not pod.is_terminal and pod.spec.scheduler_name in names
        )

    def _why(self, pod: Pod) -> str:
        condition = self._statuses.conditions.get(pod.key)
        if condition is not None and condition.message:
            return condition.message
        found = self._assembly.queue.find(pod.key)
        if found is None:
            return "it waits for a plugin (Permit)"
        template = self._claims.missing_template(pod)
        if template:
            return f"gated: ResourceClaimTemplate {template} is not known, so the pod has no claim"
        place, queued = found
        if place in _TO_BE_TRIED and self.is_out_of_time:
            return "not tried: the simulation was ended before"
        gate = self._assembly.profiles[queued.pod.pod.spec.scheduler_name].run_pre_enqueue(queued.pod)
        return f"{place}: {gate.message}" if gate.message else place

    def objects_after(self) -> ClusterObjects:
        """The cluster as it is now. Volumes are as they were: what Reserve has assumed of them is not written."""
        plan = self._plan
        return msgspec.structs.replace(
            plan.objects,
            nodes=plan.nodes(),
            pods=tuple(self.pods()),
            resourceclaims=tuple(self.store(RESOURCE_CLAIMS).list()),
            resourceslices=tuple(self._listed(RESOURCE_SLICES)),
        )

    def capacity_before(self) -> dict[str, ResourceCapacity]:
        """By resource, of the nodes that the cluster has: those that come are not counted, those that go are."""
        return {**capacity_before(self._assembly.cache, self._plan), **self._devices_before}

    def room(self) -> dict[str, ResourceCapacity]:
        """By resource, of all nodes."""
        cache = self._assembly.cache
        names = [cache.nodes.name_of(row) for row in cache.nodes.rows().tolist()]
        return {**capacity_in(cache), **devices_in(cache, self._devices, names)}


class _PointsOfBound:
    """An observer that keeps what the nodes of bound pods scored."""

    def __init__(self) -> None:
        self.by_uid: dict[str, int | None] = {}

    @hears(PodBound)
    def note_bound(self, event: PodBound) -> None:
        self.by_uid[event.record.pod.uid] = event.record.best_score


class _Statuses(WrittenNominations):
    """A play that is out of time ends here, too."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self._look = cluster.look_at_the_time

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        self._look()
        super().report(pod, condition, note, nominated_node_name)


def _that_write_claims_only(
    config: LoadedConfig, known: Registry, handle: Handle, listener: PluginListener, circuits: CircuitObserver
) -> Profiles:
    """The profiles without PreBind, but for that of claims to devices."""
    built: Any = built_profiles(config, known, handle, listener, circuits)
    return {
        name: replace(profile, pre_bind=tuple(each for each in profile.pre_bind if isinstance(each, DynamicResources)))
        for name, profile in built.items()
    }
