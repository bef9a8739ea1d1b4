"""The cluster in memory of the benchmark, which plays the service's informers, too, and controllers and kubelets.

Each change becomes a watch event, and `deliver_all` passes the events to the informers' stores and handlers, in order.
A Binding comes back as MODIFIED, a deleted victim as DELETED, a condition as MODIFIED; a claim with a selected node
gets a volume for the node's zone and is bound to it, as a provisioner and the volume controller would do.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.groups import POD_GROUPS, KubernetesPodGroup
from kscheduler.api.kinds import (
    KINDS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    Kind,
)
from kscheduler.api.meta import Condition, KubeObject, ObjectMeta
from kscheduler.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CSIPersistentVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from kscheduler.api.well_known import ZONE
from kscheduler.assembly import Assembly, Ports
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.assembly.ports import no_waiters
from kscheduler.bench.template import TemplateError
from kscheduler.client.watch import WatchEvent
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.in_memory.claims import InMemoryClaims
from kscheduler.in_memory.cluster import InMemoryCluster, T
from kscheduler.informers.informer import Informer
from kscheduler.scheduling.failures.status_writer import StatusWriter
from kscheduler.scheduling.groups.group_status_writer import GroupStatusWriter
from kscheduler.scheduling.reports import EventSink

_SCHEDULED: Final = (Condition(type="PodScheduled", status="True"),)
_replace = msgspec.structs.replace


class StandIn(InMemoryCluster):
    """The cluster as the scheduler sees it. Implements the protocols for writes to volumes and groups, too."""

    def __init__(self, kinds: Iterable[Kind] = (*KINDS.values(), POD_GROUPS)) -> None:
        super().__init__()
        self.informers: Mapping[Kind, Informer[Any]] = {kind: Informer(kind) for kind in kinds}
        self.stores = {kind: informer.store for kind, informer in self.informers.items()}
        self.on_bound: Callable[[str], None] = lambda _uid: None
        """Called with the UID of each pod that gets a node."""
        self._events: deque[tuple[Kind, WatchEvent[Any]]] = deque()
        self._version = 1

    def deliver_all(self) -> None:
        """Deliver all changes as watch events."""
        events, informers = self._events, self.informers
        while events:
            kind, event = events.popleft()
            informers[kind].apply(event)

    # --- actions of users, controllers and kubelets -------------------------------------------------------------------

    def create(self, kind: Kind, obj: KubeObject) -> None:
        """Create an object and show it at once. Raises `TemplateError` if the name is taken."""
        if obj.key in self.informers[kind].store:
            raise TemplateError(f"{kind.name} {obj.key} is created twice")
        self.informers[kind].apply(WatchEvent("ADDED", obj))

    def put(self, kind: Kind, obj: KubeObject, *, initial: bool = False) -> None:
        """Show an object at once, or a newer version of it."""
        del initial
        self.informers[kind].apply(WatchEvent("MODIFIED", obj))

    def remove(self, kind: Kind, key: str) -> None:
        """Remove the object of this key, if it has been shown."""
        found = self.stores[kind].get(key)
        if found is not None:
            self.delete(kind, found)

    def delete(self, kind: Kind, obj: KubeObject) -> None:
        """Remove an object."""
        self._events.append((kind, WatchEvent("DELETED", obj)))

    def terminate(self, pod: Pod) -> None:
        """Mark a pod as terminating; a finalizer keeps it."""
        metadata = _replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z")
        self.write(PODS, pod, _replace(pod, metadata=metadata))

    def show(self, kind: Kind, obj: KubeObject) -> None:
        """Show a newer version of an object that another client has written; it has its own resource version."""
        self._events.append((kind, WatchEvent("MODIFIED", obj)))

    def write(self, kind: Kind, old: KubeObject, new: T) -> T:
        """Give a changed object a new resource version, and show it with the next events."""
        del old
        self._version += 1
        new.metadata = _replace(new.metadata, resource_version=str(self._version))
        self._events.append((kind, WatchEvent("MODIFIED", new)))
        return new

    # --- requests of the scheduler ------------------------------------------------------------------------------------

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Status:
        """Accept a Binding, without a look at the store or a hook: what is measured is the scheduler."""
        del annotations
        status = _replace(pod.status, conditions=_SCHEDULED, nominated_node_name="")
        self.write(PODS, pod, _replace(pod, spec=_replace(pod.spec, node_name=node_name), status=status))
        self.on_bound(pod.metadata.uid)
        return SUCCESS

    def apply_eviction(self, pod: Pod, condition: Condition) -> None:
        """Delete a victim without a grace period."""
        del condition
        self.delete(PODS, pod)

    async def patch_condition(
        self, collection: str, namespace: str, name: str, uid: str, condition: Condition, since: str | None
    ) -> None:
        """Accept the condition of a pod group. Implements `scheduling.groups.group_status_writer.ConditionPatcher`."""
        del collection, uid, since
        group: KubernetesPodGroup | None = self.informers[POD_GROUPS].store.get(f"{namespace}/{name}")
        if group is not None:
            status = _replace(group.status, conditions=(condition,))
            self.write(POD_GROUPS, group, _replace(group, status=status))

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume | Status:
        """Accept a claim reference, and bind the claim. Implements `framework.cluster.volumes.VolumeWriter`."""
        bound = _replace(volume, status=PersistentVolumeStatus(phase="Bound"))
        self.write(PERSISTENT_VOLUMES, volume, bound)
        owner = volume.spec.claim_ref
        claim = self._claim(f"{owner.namespace}/{owner.name}") if owner is not None else None
        if claim is not None:
            self._bind_claim(claim, volume.metadata.name)
        return bound

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        """Accept a selected node, create a volume for it and bind both."""
        selected = self.write(PERSISTENT_VOLUME_CLAIMS, claim, _replace(claim))
        volume = self._volume_for(selected)
        self._events.append((PERSISTENT_VOLUMES, WatchEvent("ADDED", volume)))
        self._bind_claim(selected, volume.metadata.name)
        return selected

    def _claim(self, key: str) -> PersistentVolumeClaim | None:
        found: PersistentVolumeClaim | None = self.informers[PERSISTENT_VOLUME_CLAIMS].store.get(key)
        return found

    def _bind_claim(self, claim: PersistentVolumeClaim, volume_name: str) -> None:
        annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
        spec = _replace(claim.spec, volume_name=volume_name)
        metadata = _replace(claim.metadata, annotations=annotations)
        status = PersistentVolumeClaimStatus(phase="Bound")
        self.write(PERSISTENT_VOLUME_CLAIMS, claim, _replace(claim, metadata=metadata, spec=spec, status=status))

    def _volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        meta = claim.metadata
        name = f"pvc-{meta.uid}"
        node = self.informers[NODES].store.get(meta.annotations[SELECTED_NODE])
        zone = node.metadata.labels.get(ZONE, "") if node is not None else ""
        spec = PersistentVolumeSpec(
            capacity=claim.spec.resources.requests,
            access_modes=claim.spec.access_modes,
            claim_ref=ObjectReference("PersistentVolumeClaim", meta.namespace, meta.name, meta.uid, "v1"),
            node_affinity=_reached_from(zone) if zone else None,
            storage_class_name=claim.storage_class,
            csi=CSIPersistentVolumeSource("ebs.csi.aws.com", name),
        )
        metadata = ObjectMeta(name=name, uid=f"volume-{meta.uid}", resource_version=meta.resource_version)
        return PersistentVolume(metadata=metadata, spec=spec, status=PersistentVolumeStatus(phase="Bound"))


def _reached_from(zone: str) -> VolumeNodeAffinity:
    term = NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(ZONE, "In", (zone,)),))
    return VolumeNodeAffinity(required=NodeSelector((term,)))


# The scheduler that is measured: the service's assembly with a stand-in for the cluster.
#
# Metrics, records, classes of pods, conditions and preemption are on, as in the service. Left out are the parts that
# talk to a network: the client, the workers that only wait for it, and the sending of Events.

SCHEDULER_NAME: Final = "kscheduler"


class CountedEvents:
    """Counts Events without building or sending them. Implements `EventSink`."""

    def __init__(self) -> None:
        self.count = 0

    def record(self, *_: Any, **__: Any) -> None:
        """Count an Event."""
        self.count += 1


class ServiceInProcess(Assembly):
    """A scheduler without a network; only the tasks that write conditions run on their own."""

    def __init__(
        self,
        cluster: StandIn,
        *,
        clock: Clock = REAL_CLOCK,
        events: EventSink | None = None,
        plugins: Sequence[str] = (),
        gates: FeatureGates = DEFAULT_GATES,
        journal: object | None = None,
        configuration: str = "",
    ) -> None:
        """`events`: where Events are recorded; by default they are counted. `plugins`: as of `--plugin`.

        `gates` may be of another version of Kubernetes, whose rules are followed then. `configuration`: a
        KubeSchedulerConfiguration instead of the default one. Raises `ConfigError` for plugins that cannot be used.
        """
        self.cluster = cluster
        self.events = CountedEvents() if events is None else events
        self.status_writer = StatusWriter(cluster, self.events, cluster.stores[PODS].get, clock=clock)
        reader = ConfigurationReader(gates, plugins, enables_plugins=True)
        configured = reader.default(SCHEDULER_NAME)
        if configuration:
            configured = reader.read_bytes(configuration.encode(), "configuration")
        self.group_writer = GroupStatusWriter(cluster, clock)
        super().__init__(configured.config, configured.registry, self._cluster_ports(journal), clock)
        self.listen_to(cluster.informers)

    def _cluster_ports(self, journal: object | None) -> Ports:
        return self.cluster.ports(
            statuses=self.status_writer,
            group_statuses=self.group_writer,
            events=self.events,
            volume_writer=self.cluster,
            claim_storage=StandInClaims(self.cluster),
            wake_worker=no_waiters,
            journal=journal,
        )


class StandInClaims(InMemoryClaims):
    """Claims whose writes are shown with the next events."""

    def __init__(self, cluster: StandIn) -> None:
        super().__init__(cluster)
        self._stand_in = cluster
        self._unseen: dict[str, ResourceClaim] = {}
        """Claims by key whose newest version is not shown yet."""

    def find(self, key: str) -> ResourceClaim | None:
        """The newest version."""
        shown: ResourceClaim | None = self._stand_in.informers[RESOURCE_CLAIMS].store.get(key)
        unseen = self._unseen.get(key)
        if unseen is not None and (shown is None or shown is unseen):
            del self._unseen[key]  # it has been shown, and may be gone since
            unseen = None
        return unseen or shown

    def put(self, claim: ResourceClaim) -> ResourceClaim:
        """Accept a write. A new claim is shown at once: who waits for it looks once a second."""
        if self.find(claim.key) is None:
            self._stand_in.create(RESOURCE_CLAIMS, claim)
            return claim
        changed = self._unseen[claim.key] = self._stand_in.write(RESOURCE_CLAIMS, claim, _replace(claim))
        return changed

    async def delete(self, claim: ResourceClaim) -> None:
        """Accept that a claim goes."""
        self._stand_in.delete(RESOURCE_CLAIMS, claim)
