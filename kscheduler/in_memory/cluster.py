"""The objects of a cluster, and an API server that answers the scheduler at once.

    put, remove    a user, a controller or a watch changes an object: it is stored, and shown at once
    bind, evict_pod, patch_status, nominate   the scheduler's requests, which succeed if their pod is still there
    write          a request has changed an object: it is stored, and shown at once; a policy may show it later
    apply_eviction a victim goes: at once; a policy may let it take its time
    deliver        a change reaches the handlers, as an informer would tell them; a policy may use real informers
    before, after  hooks around each request: what they raise, or the `Status` they return, is the answer, before the
                   request took effect or, as if the response was lost, after it
    ports          all of this for an `Assembly`; `reading_ports` for a scheduler that must not write

An `Assembly` over these ports must `listen_to(cluster.listeners)` before the first object is put.

Limits: there are no resource versions, and so no conflicts. What a handler raises, the caller gets. The hooks see
requests about pods only; claims to devices (`in_memory.claims`), volumes and pod groups are a policy's to fail.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import POD_DISRUPTION_BUDGETS, PODS, WORKLOAD_KINDS, Kind
from kscheduler.api.meta import Condition, KubeObject
from kscheduler.assembly import Ports
from kscheduler.assembly.ports import NoStatuses, no_waiters
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.pods.pod_info import placed
from kscheduler.framework.status import SUCCESS, Fault, Status, error
from kscheduler.informers.informer import Handler
from kscheduler.informers.store import Store
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.stored_workloads import StoredWorkloads

T = TypeVar("T", bound=KubeObject)


class APIRequest(Enum):
    """What the scheduler asks of the API server."""

    BIND = "bind"
    EVICT = "evict"
    STATUS = "status"


# Looks at a request about a pod. A `Status` is the answer to a Binding; of any other request it must raise.
Hook = Callable[[APIRequest, Pod], Awaitable[Status | None]]


class Listeners(list[Handler[Any]]):
    """The handlers of a kind, in the order in which they hear of a change."""

    def add_handler(self, handler: Handler[Any]) -> None:
        """Call it for each change from now on."""
        self.append(handler)


class InMemoryCluster:
    """Objects by kind, and who hears of them. Implements `Writer`, `VictimWriter` and `StatusPatcher`."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        """`kinds`: whose stores are there from the beginning, in this order; others come when they are needed."""
        self.stores: dict[Kind, Store[Any]] = {kind: Store() for kind in (*kinds, PODS)}
        """What is true; what a policy shows later is here already."""
        self.listeners: defaultdict[Kind, Listeners] = defaultdict(Listeners)
        self.before: Hook | None = None
        self.after: Hook | None = None
        self.wake: Callable[[], None] = no_waiters
        """Called on each arrival in the queue; `workers_over` sets it."""

    def store(self, kind: Kind) -> Store[Any]:
        """The objects of a kind."""
        found = self.stores.get(kind)
        if found is None:
            found = self.stores[kind] = Store()
        return found

    def listed(self, kind: Kind) -> Sequence[Any]:
        """All objects of a kind."""
        return self.store(kind).list()

    def pod_of(self, key: str) -> Pod | None:
        """The pod under `namespace/name`."""
        found: Pod | None = self.stores[PODS].get(key)
        return found

    def pods(self) -> list[Pod]:
        """All pods."""
        return self.stores[PODS].list()

    # --- the ports of a scheduler -------------------------------------------------------------------------------------

    def reading_ports(self, **more: Any) -> Ports:
        """Ports that read the stores and write nothing. `more`: other ports, by name."""
        return msgspec.structs.replace(
            Ports(
                pod_of=self.store(PODS).get,
                workloads=StoredWorkloads(*map(self.store, WORKLOAD_KINDS)),
                budgets=StoredBudgets(self.store(POD_DISRUPTION_BUDGETS)),
            ),
            **more,
        )

    def ports(self, **more: Any) -> Ports:
        """The same, with this as the API server: Bindings, evictions and nominations. `more`: other ports, by name."""
        mine = {"binder": self, "evictor": self, "statuses": WrittenNominations(self), "wake_worker": self._wake}
        return self.reading_ports(**(mine | more))

    def _wake(self) -> None:
        self.wake()

    # --- users, controllers, kubelets ---------------------------------------------------------------------------------

    def put(self, kind: Kind, obj: KubeObject, *, initial: bool = False) -> None:
        """An object is there, or is another one now. With another UID it is a deletion and an addition."""
        store, key = self.store(kind), obj.key
        old = store.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            self.remove(kind, key)
            old = None
        store.put(key, obj)
        self.deliver(kind, old, obj, initial=initial)

    def remove(self, kind: Kind, key: str) -> None:
        """An object is gone, if it was there."""
        store = self.store(kind)
        old = store.get(key)
        if old is not None:
            store.remove(key)
            self.deliver(kind, old, None)

    def deliver(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, *, initial: bool = False) -> None:
        """Tell the handlers of a change: an addition has no old state, a deletion no new one."""
        for handler in self.listeners[kind]:
            if old is None:
                handler.on_add(new, initial)
            elif new is None:
                handler.on_delete(old)
            else:
                handler.on_update(old, new)

    # --- the API server: requests of the scheduler --------------------------------------------------------------------

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Status:
        """Implements `framework.handle.Writer`."""
        if self.before is not None and (refusal := await self.before(APIRequest.BIND, pod)) is not None:
            return refusal
        current = self.current(pod)
        if current is None:
            return error(f"pod {pod.key} is gone", fault=Fault.GONE)
        if annotations:
            metadata = current.metadata
            merged = {**metadata.annotations, **annotations}
            current = msgspec.structs.replace(current, metadata=msgspec.structs.replace(metadata, annotations=merged))
        self.apply_binding(current, node_name)
        if self.after is not None and (lost := await self.after(APIRequest.BIND, pod)) is not None:
            return lost
        return SUCCESS

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        """A Binding takes effect."""
        self.write(PODS, pod, placed(pod, node_name))

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        """Implements `scheduling.eviction.victims.VictimWriter`."""
        if self.before is not None:
            await self.before(APIRequest.EVICT, pod)
        current = self.current(pod)
        if current is None:
            return False
        self.apply_eviction(current, condition)
        if self.after is not None:
            await self.after(APIRequest.EVICT, pod)
        return True

    def apply_eviction(self, pod: Pod, condition: Condition) -> None:
        """A victim goes, without a grace period."""
        del condition
        self.remove(PODS, pod.key)

    async def patch_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
        """Implements `scheduling.failures.status_writer.StatusPatcher`."""
        if self.before is not None:
            await self.before(APIRequest.STATUS, pod)
        patched = self.apply_status(pod, condition, nominated_node_name)
        if self.after is not None:
            await self.after(APIRequest.STATUS, pod)
        return patched

    def apply_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
        """A condition and a nomination take effect, if they change anything."""
        current = self.current(pod)
        if current is None:
            return pod
        status = current.status
        if condition is not None:
            status = msgspec.structs.replace(status, conditions=(condition,))
        if nominated_node_name is not None:
            status = msgspec.structs.replace(status, nominated_node_name=nominated_node_name)
        if status == current.status:
            return current
        return self.write(PODS, current, msgspec.structs.replace(current, status=status))

    def current(self, pod: Pod) -> Pod | None:
        """The newest state of the pod that a request names; `None`: it is gone."""
        found: Pod | None = self.stores[PODS].get(pod.key)
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None

    def write(self, kind: Kind, old: KubeObject, new: T) -> T:
        """A request has changed an object. Returns it as it is stored."""
        self.store(kind).put(new.key, new)
        self.deliver(kind, old, new)
        return new


class ShownSoon(InMemoryCluster):
    """The watch shows what a request has changed in the next turn of the event loop."""

    def write(self, kind: Kind, old: KubeObject, new: T) -> T:
        """A request has changed an object."""
        self.store(kind).put(new.key, new)
        asyncio.get_running_loop().call_soon(self.deliver, kind, old, new)
        return new


class KeptConditions(NoStatuses):
    """Keeps the newest condition of each pod, which nobody writes; nominations are dropped."""

    def __init__(self) -> None:
        self.conditions: dict[str, Condition] = {}
        """By the keys of pods."""

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        """A pod was not scheduled."""
        del note, nominated_node_name
        self.conditions[pod.key] = condition


class WrittenNominations(KeptConditions):
    """The same, but nominations that must be there before anything else happens are written, each at once."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        super().__init__()
        self._cluster = cluster

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Write the nomination."""
        if condition is not None:
            self.report(pod, condition, "")
        await self._cluster.patch_status(pod, None, nominated_node_name)
        return True
