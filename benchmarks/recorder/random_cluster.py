"""A scheduler at work in a cluster in which anything may happen: the service's parts, with a random API server.

Pods of several shapes come and go, nodes come, go and change, Bindings succeed late or fail, victims of preemption take
their time. The seed decides what happens and when: time passes by turns of the play, so the same seed is the same
story on any machine. With `QuickClock` real time passes, and two runs differ, as two days of a service do. With a
recorder, all of it can be decided again.
"""

import asyncio
import heapq
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import Clock, RealClock, VirtualClock
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import KINDS, NODES, POD_DISRUPTION_BUDGETS, PODS, WORKLOAD_KINDS, Kind
from kscheduler.api.meta import Condition, KubeObject
from kscheduler.assembly import Assembly, Ports
from kscheduler.assembly.plugin_loading import PluginOrigin
from kscheduler.assembly.ports import NoStatuses
from kscheduler.client.errors import NotSentError
from kscheduler.client.watch import WatchEvent
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import Fault, Status, error
from kscheduler.in_memory.at_work import turns as some_turns
from kscheduler.in_memory.at_work import workers_over
from kscheduler.in_memory.cluster import APIRequest, InMemoryCluster, T
from kscheduler.informers.informer import Informer
from kscheduler.plugins.in_tree import registry
from kscheduler.recorder.building import recorded_state_of, tie_name_of
from kscheduler.recorder.flight_recorder import FlightRecorder, tap
from kscheduler.scheduling.attempt_events import SchedulingBegan
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.stored_workloads import StoredWorkloads
from kscheduler.state.cache import Cache

ZONES: Final = ("north", "south", "west")
APPS: Final = ("web", "db", "job", "cache")
WORKERS: Final = 8


class QuickClock(RealClock):
    """Real order, faster seconds: backoffs and flushes come often enough to matter."""

    def __init__(self, pace: float) -> None:
        self._pace = pace
        self._wall, self._began = RealClock.time(), RealClock.monotonic()
        self.monotonic = lambda: (RealClock.monotonic() - self._began) * pace
        self.time = lambda: self._wall + self.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep for a part of it."""
        await asyncio.sleep(max(0.0, seconds) / self._pace)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        """Likewise."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds) / self._pace, callback)


class TurnClock(VirtualClock):
    """As many seconds in each turn of the play, however busy the machine is."""

    TURN_SECONDS: Final = 0.05

    def pass_turn(self) -> None:
        """Time goes on, and those whose time has come wake up in the same turn of the event loop."""
        self._now += self.TURN_SECONDS
        while (deadline := self._next_deadline()) is not None and deadline <= self._now:
            _, _, future = heapq.heappop(self._sleepers)
            future.set_result(None)


class RandomCluster(InMemoryCluster):
    """The cluster, its API server and a scheduler. What the stores have is true; informers show it some turns later."""

    more_kinds: tuple[Kind, ...] = ()
    """Which stories with pod groups add."""

    origins: Sequence[PluginOrigin] = ()
    """Of the plugins of its configuration, as a recorder writes them."""

    def __init__(
        self,
        config: LoadedConfig,
        seed: int,
        *,
        clock: Clock | None = None,
        recorder: Callable[[Clock], FlightRecorder] | None = None,
        known: Registry | None = None,
        nodes: int = 20,
        most_pods: int = 0,
    ) -> None:
        super().__init__()
        self.before = self._fail
        self._random = random.Random(seed)
        self._clock = clock or TurnClock()
        self.recorder = recorder(self._clock) if recorder is not None else None
        self.clock: Clock = self._clock if self.recorder is None else self.recorder.clock
        self.kinds = (*KINDS.values(), *self.more_kinds)
        self.informers = {kind: Informer[Any](kind, clock=self._clock) for kind in self.kinds}
        if self.recorder is not None:
            tap(self.recorder, self.informers, self.kinds)
        self._version = 0
        self._serial = 0
        self._nodes: dict[str, Node] = {}
        self._most_nodes = nodes
        self._most_pods = most_pods or 12 * nodes
        self.decided = 0
        self._tasks: set[asyncio.Task[None]] = set()
        cache = Cache(tie_name=tie_name_of(self.recorder), why_awaited=self.why_awaited)
        self.assembly = Assembly(config, known or registry(), self._ports(self.recorder), self.clock, cache=cache)
        self.assembly.listen_to(self.informers)
        self.workers = workers_over(self.assembly, self, WORKERS)

    def why_awaited(self, kind: Kind) -> str:
        """Why the objects of a kind that names levels of the topology are not known."""
        del kind
        return ""

    def _ports(self, journal: Any) -> Ports:
        return self.ports(
            statuses=_Statuses(self),
            pod_of=self.informers[PODS].store.get,
            workloads=StoredWorkloads(*(self.informers[kind].store for kind in WORKLOAD_KINDS)),
            budgets=StoredBudgets(self.informers[POD_DISRUPTION_BUDGETS].store),
            journal=journal,
        )

    # --- the API server's part ----------------------------------------------------------------------------------------

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _show(self, kind: Any, event: str, obj: KubeObject) -> None:
        obj.metadata.resource_version = self._next_version()
        self.informers[kind].apply(WatchEvent(event, obj))

    def _show_pod(self, pod: Pod, event: str = "MODIFIED") -> None:
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata))
        if event == "DELETED":
            self.stores[PODS].remove(pod.key)
        else:
            self.stores[PODS].put(pod.key, pod)
        self._show(PODS, event, pod)

    def _soon(self, work: Callable[[], None]) -> None:
        """Some turns later, as an answer and its watch event are."""

        async def wait() -> None:
            await some_turns(self._random.randrange(5))
            work()

        task = asyncio.ensure_future(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fail(self, request: APIRequest, _pod: Pod) -> Status | None:
        """Mostly a request succeeds, some turns later."""
        if request is APIRequest.EVICT:
            await some_turns(self._random.randrange(3))
            if self._random.random() < 0.1:
                raise NotSentError("no connection")
            return None
        self.decided += 1
        await some_turns(self._random.randrange(4))
        chance = self._random.random()
        if chance < 0.02:
            return error("the webhook says no", fault=Fault.REFUSED)
        return error("a passing failure") if chance < 0.03 else None

    def write(self, kind: Kind, old: KubeObject, new: T) -> T:
        """A Binding is shown some turns later, unless the pod is another one by then."""
        del old
        self.store(kind).put(new.key, new)
        self._soon(lambda: self._show_bound(new))
        return new

    def _show_bound(self, bound: Any) -> None:
        current = self.pod_of(bound.key)
        if current is not None and current is bound:
            self._show_pod(current)

    def apply_eviction(self, pod: Pod, condition: Condition) -> None:
        """It is terminating at first, then gone."""
        del condition
        metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        self._show_pod(msgspec.structs.replace(pod, metadata=metadata))
        self._soon(lambda: self._delete(pod.key))

    def _delete(self, key: str) -> None:
        pod = self.pod_of(key)
        if pod is not None:
            self._show_pod(pod, "DELETED")

    def nominate(self, pod: Pod, node_name: str) -> None:
        """The watch shows a nomination, as the service's status writer makes it."""
        current = self.pod_of(pod.key)
        if current is not None and current.status.nominated_node_name != node_name and not current.spec.node_name:
            status = msgspec.structs.replace(current.status, nominated_node_name=node_name)
            self._show_pod(msgspec.structs.replace(current, status=status))

    # --- what happens -------------------------------------------------------------------------------------------------

    def populate(self) -> None:
        """The first nodes, and budgets."""
        for _ in range(self._most_nodes):
            self._add_node()
        for app in APPS[:2]:
            tree = {
                "metadata": {"name": app, "namespace": "default", "uid": f"pdb-{app}"},
                "spec": {"selector": {"matchLabels": {"app": app}}},
                "status": {"disruptionsAllowed": 1},
            }
            self._show(POD_DISRUPTION_BUDGETS, "ADDED", _decoded(POD_DISRUPTION_BUDGETS, tree))

    def happen(self) -> None:
        """Something."""
        chance = self._random.random()
        if chance < 0.68:
            self._add_pod()
        elif chance < 0.90:
            self._remove_pod()
        elif chance < 0.93:
            self._label_pod()
        elif chance < 0.95:
            self._add_node()
        elif chance < 0.96:
            self._remove_node()
        else:
            self._change_node()

    def _add_node(self) -> None:
        if len(self._nodes) >= self._most_nodes + 5:
            return
        self._serial += 1
        name = f"node-{self._serial}"
        gives = {"cpu": str(self._random.choice((4, 8))), "memory": "16Gi", "pods": "30"}
        tree = {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {
                    "kubernetes.io/hostname": name,
                    "topology.kubernetes.io/zone": self._random.choice(ZONES),
                    "disk": self._random.choice(("ssd", "hdd")),
                },
            },
            "status": {"capacity": gives, "allocatable": gives, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        node: Node = _decoded(NODES, tree)
        self._nodes[name] = node
        self._show(NODES, "ADDED", node)

    def _remove_node(self) -> None:
        if len(self._nodes) > self._most_nodes // 2:
            name = self._random.choice(list(self._nodes))
            node = self._nodes.pop(name)
            self._show(NODES, "DELETED", msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata)))

    def _change_node(self) -> None:
        name = self._random.choice(list(self._nodes))
        node = self._nodes[name]
        metadata, spec = msgspec.structs.replace(node.metadata), node.spec
        chance = self._random.random()
        if chance < 0.3:
            metadata.labels = {**metadata.labels, "disk": self._random.choice(("ssd", "hdd"))}
        elif chance < 0.6:
            spec = msgspec.structs.replace(spec, unschedulable=not spec.unschedulable)
        changed = self._nodes[name] = msgspec.structs.replace(node, metadata=metadata, spec=spec)
        self._show(NODES, "MODIFIED", changed)

    def _add_pod(self) -> None:
        if len(self.stores[PODS]) > self._most_pods:
            self._remove_pod()
            return
        self._serial += 1
        app = self._random.choice(APPS)
        name = f"{app}-{self._serial}"
        tree: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"{self._random.getrandbits(64):016x}",
                "labels": {"app": app},
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "schedulerName": "kscheduler",
                "priority": self._random.choice((0, 0, 0, 10, 100)),
                "containers": [
                    {
                        "name": "c",
                        "image": "pause",
                        "resources": {
                            "requests": {
                                "cpu": self._random.choice(("100m", "500m", "1", "3")),
                                "memory": self._random.choice(("64Mi", "1Gi", "2Gi")),
                            }
                        },
                    }
                ],
            },
        }
        self._constrain(tree["spec"], app)
        self.report(tree)
        self._show_pod(_decoded(PODS, tree), "ADDED")

    def _constrain(self, spec: dict[str, Any], app: str) -> None:
        chance = self._random.random()
        if chance < 0.15:
            spec["nodeSelector"] = {"disk": "ssd"}
        elif chance < 0.3:
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 2,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": self._random.choice(("DoNotSchedule", "ScheduleAnyway")),
                    "labelSelector": {"matchLabels": {"app": app}},
                }
            ]
        elif chance < 0.4:
            term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        elif chance < 0.43:
            spec["nodeSelector"] = {"disk": "tape"}
        elif chance < 0.46:
            spec["schedulingGates"] = [{"name": "example.com/wait"}]

    def report(self, pod: dict[str, Any]) -> None:
        """What a story of its own makes of a new pod's manifest."""

    def _remove_pod(self) -> None:
        if self.pods():
            self._delete(self._random.choice(self.pods()).key)

    def _label_pod(self) -> None:
        if not self.pods():
            return
        pod = self._random.choice(self.pods())
        metadata, spec = msgspec.structs.replace(pod.metadata), pod.spec
        metadata.labels = {**metadata.labels, "app": self._random.choice(APPS)}
        if spec.scheduling_gates:
            spec = msgspec.structs.replace(spec, scheduling_gates=())
        self._show_pod(msgspec.structs.replace(pod, metadata=metadata, spec=spec))

    # --- the play -----------------------------------------------------------------------------------------------------

    async def play(self, turns: int, on_turn: Callable[[int], object] | None = None) -> None:
        """Let things happen in so many turns, at most until `on_turn` says true, while the scheduler works."""
        if self.recorder is not None:
            self.recorder.start(recorded_state_of(self.assembly, self.informers, self.kinds, lambda: self.origins))
        self.populate()
        self.assembly.queue.begin_scheduling()
        if self.recorder is not None:
            self.assembly.observers.tell(SchedulingBegan())
        work = (self.workers.run(), self.workers.keep_flushing(), self.assembly.evictions.run())
        tasks = [asyncio.ensure_future(each) for each in work]
        for number in range(turns):
            for _ in range(self._random.randrange(3)):
                self.happen()
            await asyncio.sleep(0)
            if isinstance(self._clock, TurnClock):
                self._clock.pass_turn()
            if on_turn is not None and on_turn(number):
                break
        ending = asyncio.ensure_future(self._end(tasks))
        if isinstance(self._clock, TurnClock):
            while not ending.done():  # what is still being written waits between its tries
                self._clock.pass_turn()
                await asyncio.sleep(0)
        await ending
        if self.recorder is not None:
            await self.recorder.stop()

    async def _end(self, tasks: Sequence[asyncio.Future[Any]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self.assembly.scheduler.awaited.drain(0.0)
        if self.assembly.claims is not None:
            await self.assembly.claims.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)


class _Statuses(NoStatuses):
    def __init__(self, cluster: RandomCluster) -> None:
        self._cluster = cluster

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        del condition, note
        if nominated_node_name:
            self._cluster._soon(lambda: self._cluster.nominate(pod, nominated_node_name))

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        del condition
        await asyncio.sleep(0)
        self._cluster.nominate(pod, nominated_node_name)
        return True


def _decoded(kind: Kind, tree: dict[str, Any]) -> Any:
    return msgspec.convert(tree, kind.type)
