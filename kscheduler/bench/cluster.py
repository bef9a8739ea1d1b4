"""A stand-in for API server, controllers and kubelets that executes every request at once.

Each change becomes a watch event, and `deliver` passes the events to the informers' stores and handlers, in order. So a
Binding comes back as MODIFIED, a deleted victim as DELETED, a condition as MODIFIED; a claim with a selected node gets
a volume for the node's zone and is bound to it, as a provisioner and the volume controller would do.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.core import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodExtendedResourceClaimStatus,
)
from kscheduler.api.devices import (
    DELETE_PROTECTION,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kscheduler.api.groups import POD_GROUPS, KubernetesPodGroup
from kscheduler.api.kinds import (
    KINDS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIMS,
    WORKLOAD_KINDS,
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
from kscheduler.bench.template import TemplateError
from kscheduler.client.claim_writes import StoredClaim
from kscheduler.client.errors import APIError, APIStatus
from kscheduler.client.watch import WatchEvent
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.informers.informer import Informer
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.failures.status_writer import StatusWriter
from kscheduler.scheduling.groups.group_status_writer import GroupStatusWriter
from kscheduler.scheduling.handlers.workloads import StoredWorkloads
from kscheduler.scheduling.reports import EventSink

_SCHEDULED: Final = (Condition(type="PodScheduled", status="True"),)
_replace = msgspec.structs.replace


class StandIn:
    """The cluster as the scheduler sees it. Implements the protocols for writes to pods, victims and volumes."""

    def __init__(self) -> None:
        self.informers: Mapping[Kind, Informer[Any]] = {kind: Informer(kind) for kind in (*KINDS.values(), POD_GROUPS)}
        self.on_bound: Callable[[str], None] = lambda _uid: None
        """Called with the UID of each pod that gets a node."""
        self._events: deque[tuple[Kind, WatchEvent[Any]]] = deque()
        self._version = 1

    def pod_of(self, key: str) -> Pod | None:
        """A pod in the state that the watch showed last."""
        found: Pod | None = self.informers[PODS].store.get(key)
        return found

    def deliver(self) -> None:
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

    def delete(self, kind: Kind, obj: KubeObject) -> None:
        """Remove an object."""
        self._events.append((kind, WatchEvent("DELETED", obj)))

    def terminate(self, pod: Pod) -> None:
        """Mark a pod as terminating; a finalizer keeps it."""
        metadata = _replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z")
        self._modify(PODS, _replace(pod, metadata=metadata))

    def show(self, kind: Kind, obj: KubeObject) -> None:
        """Show a newer version of an object that another client has written; it has its own resource version."""
        self._events.append((kind, WatchEvent("MODIFIED", obj)))

    def change(self, kind: Kind, obj: KubeObject) -> None:
        """The same, with a new resource version, as for the scheduler's own writes."""
        self._modify(kind, obj)

    def _modify(self, kind: Kind, obj: Any) -> Any:
        """Give a changed object a new resource version, and show it."""
        self._version += 1
        obj.metadata = _replace(obj.metadata, resource_version=str(self._version))
        self._events.append((kind, WatchEvent("MODIFIED", obj)))
        return obj

    # --- requests of the scheduler ------------------------------------------------------------------------------------

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Accept a Binding. Implements `framework.handle.Writer`."""
        status = _replace(pod.status, conditions=_SCHEDULED, nominated_node_name="")
        self._modify(PODS, _replace(pod, spec=_replace(pod.spec, node_name=node_name), status=status))
        self.on_bound(pod.metadata.uid)
        return SUCCESS

    async def patch_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
        """Accept a condition and a nomination. Implements `scheduling.failures.status_writer.StatusPatcher`."""
        status = pod.status
        if condition is not None:
            status = _replace(status, conditions=(condition,))
        if nominated_node_name is not None:
            status = _replace(status, nominated_node_name=nominated_node_name)
        if status == pod.status:
            return pod
        changed: Pod = self._modify(PODS, _replace(pod, status=status))
        return changed

    async def patch_condition(
        self, collection: str, namespace: str, name: str, uid: str, condition: Condition, since: str | None
    ) -> None:
        """Accept the condition of a pod group. Implements `scheduling.groups.group_status_writer.ConditionPatcher`."""
        del collection, uid, since
        group: KubernetesPodGroup | None = self.informers[POD_GROUPS].store.get(f"{namespace}/{name}")
        if group is not None:
            status = _replace(group.status, conditions=(condition,))
            self._modify(POD_GROUPS, _replace(group, status=status))

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        """Delete a victim without a grace period. Implements `scheduling.eviction.victims.VictimWriter`."""
        del condition
        known = self.pod_of(pod.key)
        if known is None or known.metadata.uid != pod.metadata.uid:
            return False
        self.delete(PODS, known)
        return True

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume | Status:
        """Accept a claim reference, and bind the claim. Implements `framework.cluster.volumes.VolumeWriter`."""
        bound = _replace(volume, status=PersistentVolumeStatus(phase="Bound"))
        self._modify(PERSISTENT_VOLUMES, bound)
        owner = volume.spec.claim_ref
        claim = self._claim(f"{owner.namespace}/{owner.name}") if owner is not None else None
        if claim is not None:
            self._bind_claim(claim, volume.metadata.name)
        return bound

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        """Accept a selected node, create a volume for it and bind both."""
        selected: PersistentVolumeClaim = self._modify(PERSISTENT_VOLUME_CLAIMS, _replace(claim))
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
        self._modify(PERSISTENT_VOLUME_CLAIMS, _replace(claim, metadata=metadata, spec=spec, status=status))

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
    ) -> None:
        """`events`: where Events are recorded; by default they are counted. `plugins`: as of `--plugin`.

        `gates` may be of another version of Kubernetes, whose rules are followed then. Raises `ConfigError` for plugins
        that cannot be used.
        """
        self.cluster = cluster
        self.events = CountedEvents() if events is None else events
        self.status_writer = StatusWriter(cluster, self.events, cluster.pod_of, clock=clock)
        configured = ConfigurationReader(gates, plugins).default(SCHEDULER_NAME)
        self.group_writer = GroupStatusWriter(cluster, clock)
        super().__init__(configured.config, configured.registry, self._cluster_ports(journal), clock)
        self.listen_to(cluster.informers)

    def _cluster_ports(self, journal: object | None) -> Ports:
        cluster = self.cluster
        return Ports(
            binder=cluster,
            evictor=cluster,
            statuses=self.status_writer,
            group_statuses=self.group_writer,
            events=self.events,
            volume_writer=cluster,
            claim_storage=StandInClaims(cluster),
            pod_of=cluster.pod_of,
            workloads=StoredWorkloads(*(cluster.informers[kind].store for kind in WORKLOAD_KINDS)),
            budgets=StoredBudgets(cluster.informers[POD_DISRUPTION_BUDGETS].store),
            journal=journal,
        )


# The stand-in's claims to devices: writes are accepted at once, and shown with the next events.

_PROTECTED: dict[str, Any] = {"metadata": {"finalizers": [DELETE_PROTECTION]}}
_UNPROTECTED: dict[str, Any] = {"metadata": {}}


class StandInClaims:
    """Implements `scheduling.claims.claim_storage.ClaimStorage`."""

    def __init__(self, cluster: StandIn) -> None:
        self._cluster = cluster
        self._unseen: dict[str, ResourceClaim] = {}
        """Claims by key whose newest version is not shown yet."""
        self._created = 0

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """The newest version. Raises `APIError` (404)."""
        key = f"{namespace}/{name}"
        shown: ResourceClaim | None = self._cluster.informers[RESOURCE_CLAIMS].store.get(key)
        unseen = self._unseen.get(key)
        if unseen is not None and (shown is None or shown is unseen):
            del self._unseen[key]  # it has been shown, and may be gone since
            unseen = None
        claim = unseen or shown
        if claim is None:
            raise APIError(APIStatus(kind="Status", code=404, reason="NotFound", message=f"{key} not found"))
        return StoredClaim(claim, _PROTECTED if claim.status.allocation is not None else _UNPROTECTED)

    async def protect(self, stored: StoredClaim) -> StoredClaim:
        """Accept the finalizer."""
        return StoredClaim(self._modified(stored.claim, stored.claim.status), _PROTECTED)

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Accept that it goes."""
        return StoredClaim(self._modified(stored.claim, stored.claim.status), _UNPROTECTED)

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """Accept an allocation and a reservation."""
        status = stored.claim.status
        given = status.allocation if allocation is None else _replace(allocation, allocation_timestamp=allocated_at)
        status = _replace(status, allocation=given, reserved_for=(*status.reserved_for, consumer))
        return StoredClaim(self._modified(stored.claim, status), stored.tree)

    async def free(self, stored: StoredClaim) -> StoredClaim:
        """Accept that the claim holds nothing."""
        return StoredClaim(self._modified(stored.claim, ResourceClaimStatus()), stored.tree)

    async def release(self, namespace: str, name: str, claim_uid: str, pod_uid: str) -> StoredClaim:
        """Accept that a pod's reservation goes."""
        del claim_uid
        stored = await self.get_claim(namespace, name)
        status = stored.claim.status
        users = tuple(user for user in status.reserved_for if user.uid != pod_uid)
        return StoredClaim(self._modified(stored.claim, _replace(status, reserved_for=users)), stored.tree)

    async def create(self, claim: ResourceClaim, generate_name: str) -> StoredClaim:
        """Accept a claim for extended resources."""
        self._created += 1
        name = f"{generate_name}{self._created}"
        meta: ObjectMeta = _replace(claim.metadata, name=name, uid=f"uid-of-{name}", resource_version="1")
        created = _replace(claim, metadata=meta)
        self._cluster.create(RESOURCE_CLAIMS, created)
        return StoredClaim(created, _UNPROTECTED)

    async def delete(self, claim: ResourceClaim) -> None:
        """Accept that a claim goes."""
        self._cluster.delete(RESOURCE_CLAIMS, claim)

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Accept a pod's status."""
        self._cluster.change(PODS, _replace(pod, status=_replace(pod.status, extended_resource_claim_status=status)))

    def _modified(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        changed = _replace(claim, status=status)
        self._cluster.change(RESOURCE_CLAIMS, changed)
        self._unseen[changed.key] = changed
        return changed
