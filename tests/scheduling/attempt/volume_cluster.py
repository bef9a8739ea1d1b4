"""A scheduler with the real volume plugins on an embedded API server, and who stands in for controllers and drivers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kscheduler.aio import BackgroundService, VirtualClock, running
from kscheduler.api.kinds import (
    DEVICE_KINDS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_KINDS,
)
from kscheduler.api.storage import BIND_COMPLETED, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from kscheduler.assembly import Assembly, Ports
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.claim_writes import ApiVolumeWriter
from kscheduler.client.pod_writes import PodWriter
from kscheduler.client.rest import MERGE, APIClient
from kscheduler.config.loader import default_configuration
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.informers import InformerFactory
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.attempt.binding import BindingWriter
from kscheduler.scheduling.attempt.volume_writes import VolumeBindingWriter
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.work.concurrency import AdaptiveLimit
from kscheduler.scheduling.work.workers import Workers
from tests.scheduling.around import ReportedFailures

Tree = dict[str, Any]
PATIENCE_SECONDS = 20
WATCHED = (PODS, NODES, NAMESPACES, *STORAGE_KINDS, *DEVICE_KINDS)

VOLUMES_PATH = "/api/v1/persistentvolumes"
CLAIMS_PATH = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS_PATH = "/api/v1/namespaces/default/pods"
CLASSES_PATH = "/apis/storage.k8s.io/v1/storageclasses"


class Changes:
    """Wakes tasks that wait for a change of the cluster. Implements `informers.Handler` for every kind."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.listeners: list[Callable[[Any], None]] = []

    def on_add(self, obj: Any, initial: bool) -> None:
        self.recorded(obj)

    def on_update(self, old: Any, new: Any) -> None:
        self.recorded(new)

    def on_delete(self, obj: Any) -> None:
        self.wake()

    def recorded(self, obj: Any) -> None:
        for listener in self.listeners:
            listener(obj)
        self.wake()

    def wake(self) -> None:
        self._changed.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


class Noticed(ReportedFailures):
    """Failures that wake the test."""

    def __init__(self, changes: Changes) -> None:
        super().__init__()
        self._changes = changes

    def report(self, *reported: Any) -> None:
        super().report(*reported)
        self._changes.wake()


class VolumeCluster:
    """A scheduler that binds pods and volumes on the server. Time stands still."""

    def __init__(self, server: EmbeddedAPIServer, client: APIClient, *, workers: int = 4) -> None:
        self.server = server
        self.client = client
        self.clock = VirtualClock()
        self.changes = Changes()
        self.reported = Noticed(self.changes)
        self.factory = InformerFactory(client, WATCHED)
        limit = AdaptiveLimit(workers, workers)
        ports = self._ports(limit)
        assembly = Assembly(default_configuration("kscheduler"), registry(), ports, self.clock)
        self.cache, self.queue = assembly.cache, assembly.queue
        self.workers = Workers(workers, self.queue, assembly.scheduler, limit, self.clock)
        assembly.listen_to(self.factory)
        for kind in WATCHED:
            self.factory[kind].add_handler(self.changes)

    def _ports(self, limit: AdaptiveLimit) -> Ports:
        observations, pods = Observations(), PodWriter(self.client)
        return Ports(
            binder=BindingWriter(pods, self.clock, observations, lambda *_: limit.refused()),
            evictor=pods,
            statuses=self.reported,
            volume_writer=VolumeBindingWriter(ApiVolumeWriter(self.client)),
            pod_of=self.factory[PODS].store.get,
            wake_worker=lambda: self.workers.wake(),  # noqa: PLW0108  # they come after the queue
            observations=observations,
        )

    # --- what users do ------------------------------------------------------------------------------------------------

    async def create(self, path: str, tree: Tree) -> None:
        await self.client.post(path, msgspec.json.encode(tree))

    async def patch(self, path: str, tree: Tree) -> None:
        await self.client.patch(path, msgspec.json.encode(tree), MERGE)

    async def create_node(self, name: str, zone: str) -> None:
        gives = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        labels = {"zone": zone}
        await self.create(
            "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": gives}}
        )

    async def create_claim(self, name: str, storage_class: str = "fast") -> None:
        wanted = {"requests": {"storage": "1Gi"}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": wanted}
        await self.create(CLAIMS_PATH, {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}})

    async def create_pod(self, name: str, *claims: str, **spec: Any) -> None:
        sources = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": one}} for at, one in enumerate(claims)]
        wanted = {"schedulerName": "kscheduler", "containers": [{"name": "c", "image": "i"}], "volumes": sources}
        await self.create(PODS_PATH, {"metadata": {"name": name}, "spec": {**wanted, **spec}})

    async def create_volume(self, name: str, zone: str, storage_class: str = "local") -> None:
        await self.create(VOLUMES_PATH, volume_tree(name, zone, storage_class))
        await self.patch(f"{VOLUMES_PATH}/{name}/status", {"status": {"phase": "Available"}})

    # --- what can be seen ---------------------------------------------------------------------------------------------

    def node_of(self, pod: str) -> str:
        found = self.factory[PODS].store.get(f"default/{pod}")
        return found.spec.node_name if found is not None else ""

    def claim(self, name: str) -> PersistentVolumeClaim:
        found = self.factory[PERSISTENT_VOLUME_CLAIMS].store.get(f"default/{name}")
        assert isinstance(found, PersistentVolumeClaim)
        return found

    def volume(self, name: str) -> PersistentVolume:
        found = self.factory[PERSISTENT_VOLUMES].store.get(name)
        assert isinstance(found, PersistentVolume)
        return found

    async def until_bound(self, *pods: str) -> None:
        await self.changes.until(lambda: all(map(self.node_of, pods)))

    async def until_reported(self, text: str) -> None:
        """Until a failure was reported that says so."""
        await self.changes.until(lambda: any(text in note for note in self.reported.notes))

    async def until_selected(self, claim: str) -> str:
        """Until the scheduler has asked for the claim's volume; the node that it is to be made for."""
        claims = self.factory[PERSISTENT_VOLUME_CLAIMS].store
        key = f"default/{claim}"
        await self.changes.until(lambda: key in claims and SELECTED_NODE in self.claim(claim).metadata.annotations)
        return self.claim(claim).metadata.annotations[SELECTED_NODE]

    async def until_volume_is(self, name: str, phase: str) -> None:
        """Until the scheduler knows the volume in this phase, and all claims that were made before."""
        await self.changes.until(
            lambda: name in self.factory[PERSISTENT_VOLUMES].store and self.volume(name).status.phase == phase
        )

    async def try_again(self) -> None:
        """Let every pod's backoff end."""
        self.queue.flush_backoff(self.clock.time() + 3600)
        self.workers.wake()


def volume_tree(name: str, zone: str, storage_class: str, claim: PersistentVolumeClaim | None = None) -> Tree:
    """A volume that can be reached from one zone."""
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    spec: Tree = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "csi": {"driver": "csi.test", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    if claim is not None:
        meta = claim.metadata
        kind = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}
        spec["claimRef"] = {**kind, "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return {"metadata": {"name": name}, "spec": spec}


class Provisioner:
    """Stands in for driver and volume controller: makes volumes for selected nodes, and completes what is bound."""

    def __init__(self, cluster: VolumeCluster, *, refusals: int = 0, zone: str = "") -> None:
        """`refusals`: how often it takes the selected node off first. `zone`: makes all volumes there."""
        self._cluster = cluster
        self._refusals = refusals
        self._zone = zone
        self._recorded: asyncio.Queue[Any] = asyncio.Queue()
        for kind in (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES):
            for known in cluster.factory[kind].store.list():
                self._recorded.put_nowait(known)
        cluster.changes.listeners.append(self._recorded.put_nowait)

    async def run(self) -> None:
        while True:
            obj = await self._recorded.get()
            if isinstance(obj, PersistentVolumeClaim) and not obj.spec.volume_name:
                await self._provision(obj)
            elif isinstance(obj, PersistentVolume) and obj.spec.claim_ref is not None:
                await self._complete(obj.metadata.name, obj.spec.claim_ref.name)

    async def _provision(self, claim: PersistentVolumeClaim) -> None:
        node = claim.metadata.annotations.get(SELECTED_NODE)
        name = f"made-for-{claim.metadata.name}"
        if node is None or self._cluster.factory[PERSISTENT_VOLUMES].store.get(name) is not None:
            return
        if self._refusals:
            self._refusals -= 1
            path = f"{CLAIMS_PATH}/{claim.metadata.name}"
            await self._cluster.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})
            return
        zone = self._zone or self._cluster.cache.nodes.info(self._cluster.cache.nodes.row_of(node)).labels["zone"]
        await self._cluster.create(VOLUMES_PATH, volume_tree(name, zone, claim.storage_class, claim))

    async def _complete(self, volume: str, claim: str) -> None:
        if not self._cluster.claim(claim).spec.volume_name:
            completed = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": volume}}
            await self._cluster.patch(f"{CLAIMS_PATH}/{claim}", completed)


@asynccontextmanager
async def volume_cluster(*, workers: int = 4) -> AsyncIterator[VolumeCluster]:
    """Two nodes in two zones, a class whose volumes are made on demand and one whose volumes are there."""
    async with EmbeddedAPIServer(seed=1) as server, APIClient(plain_connection(server.url)) as client:
        cluster = VolumeCluster(server, client, workers=workers)
        await cluster.create_node("node-a", "a")
        await cluster.create_node("node-b", "b")
        mode = {"volumeBindingMode": "WaitForFirstConsumer"}
        await cluster.create(CLASSES_PATH, {"metadata": {"name": "fast"}, "provisioner": "csi.test", **mode})
        none = "kubernetes.io/no-provisioner"
        await cluster.create(CLASSES_PATH, {"metadata": {"name": "local"}, "provisioner": none, **mode})
        async with running(BackgroundService("informers", cluster.factory.run)):
            assert await cluster.factory.wait_for_sync(PATIENCE_SECONDS) == ()
            async with running(BackgroundService("workers", cluster.workers.run)):
                yield cluster


@asynccontextmanager
async def provisioning(provisioner: Provisioner) -> AsyncIterator[None]:
    """The provisioner at work."""
    async with running(BackgroundService("provisioner", provisioner.run)):
        yield
