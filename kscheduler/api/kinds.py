"""The table of kinds: each with its place in the API and its struct."""

from collections.abc import Callable
from types import MappingProxyType

import msgspec

from kscheduler.api.core import Namespace, Node, Pod
from kscheduler.api.devices import (
    GROUP,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kscheduler.api.meta import KubeObject
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet


class Kind(msgspec.Struct, frozen=True, eq=False):
    """A kind of object that can be listed and watched. Each kind has a single instance, compared by identity."""

    group: str
    """API group, empty for core."""
    version: str
    """API version, such as `v1`."""
    plural: str
    """Resource name in URLs and in RBAC rules."""
    name: str
    """Kind name, as in `kind: Pod`."""
    type: type[KubeObject]
    """The struct that its objects are decoded into."""
    namespaced: bool = False
    """Whether its objects are in namespaces."""
    field_selector: str = ""
    """The field selector of list and watch."""

    def __reduce__(self) -> tuple[Callable[..., "Kind"], tuple[object, ...]]:
        """Pickled for another process (of a benchmark), a kind becomes that process's instance."""
        if KINDS.get(self.plural) is self:
            return _kind_named, (self.plural,)
        if _SINGLE.get(self.event_resource) is self:
            return _single_of, (self.event_resource,)
        return Kind, msgspec.structs.astuple(self)

    @property
    def path(self) -> str:
        """The collection over all namespaces, as a URL path."""
        prefix = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{prefix}/{self.plural}"

    @property
    def may_have_namespaces(self) -> bool:
        """Whether its objects may have a namespace. Kinds of plugins need not say so."""
        return self.namespaced or KINDS.get(self.plural) is not self

    @property
    def group_version(self) -> str:
        """`group/version` as in discovery and `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`plural.group` as in kube-scheduler and RBAC, for logs and metrics."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def event_resource(self) -> str:
        """`plural.version.group`: under which plugins register events of a kind of their own, as in kube-scheduler."""
        return f"{self.plural}.{self.version}.{self.group}" if self.group else f"{self.plural}.{self.version}"

    def object_path(self, name: str, namespace: str = "") -> str:
        """The URL path of an object; subresources are appended to it."""
        prefix, _, plural = self.path.rpartition("/")
        place = f"{prefix}/namespaces/{namespace}/{plural}" if self.namespaced else self.path
        return f"{place}/{name}"


PODS = Kind(
    "", "v1", "pods", "Pod", Pod, namespaced=True, field_selector="status.phase!=Succeeded,status.phase!=Failed"
)
NODES = Kind("", "v1", "nodes", "Node", Node)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", Namespace)
SERVICES = Kind("", "v1", "services", "Service", Service, namespaced=True)
REPLICATION_CONTROLLERS = Kind(
    "", "v1", "replicationcontrollers", "ReplicationController", ReplicationController, namespaced=True
)
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet", ReplicaSet, namespaced=True)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet", StatefulSet, namespaced=True)
# Default spreading takes its selectors from these.
WORKLOAD_KINDS = (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
PERSISTENT_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = Kind(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", PersistentVolumeClaim, namespaced=True
)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", StorageClass)
CSI_NODES = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", CSINode)
CSI_DRIVERS = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", CSIDriver)
CSI_STORAGE_CAPACITIES = Kind(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", CSIStorageCapacity, namespaced=True
)
VOLUME_ATTACHMENTS = Kind("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", VolumeAttachment)
# The volume plugins read these.
STORAGE_KINDS = (
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)

POD_DISRUPTION_BUDGETS = Kind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", PodDisruptionBudget, namespaced=True
)

RESOURCE_CLAIMS = Kind(GROUP, "v1", "resourceclaims", "ResourceClaim", ResourceClaim, namespaced=True)
RESOURCE_SLICES = Kind(GROUP, "v1", "resourceslices", "ResourceSlice", ResourceSlice)
DEVICE_CLASSES = Kind(GROUP, "v1", "deviceclasses", "DeviceClass", DeviceClass)
# In v1 since Kubernetes 1.37. Rules count with the gate DRADeviceTaintRules only.
DEVICE_TAINT_RULES = Kind(GROUP, "v1", "devicetaintrules", "DeviceTaintRule", DeviceTaintRule)
# DynamicResources reads these.
DEVICE_KINDS = (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES)
# No rule reads them, and nobody watches them: an explanation says how a pod's claim differs from its template.
RESOURCE_CLAIM_TEMPLATES = Kind(
    GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", ResourceClaimTemplate, namespaced=True
)

KINDS = MappingProxyType(
    {
        kind.plural: kind
        for kind in (
            PODS,
            NODES,
            NAMESPACES,
            *WORKLOAD_KINDS,
            *STORAGE_KINDS,
            POD_DISRUPTION_BUDGETS,
            *DEVICE_KINDS,
        )
    }
)


def _kind_named(plural: str) -> Kind:
    return KINDS[plural]


# By resource and version.
_SINGLE: dict[str, Kind] = {}


def single(kind: Kind) -> Kind:
    """Declares a kind of another module, whose plural others share, to have one instance in every process."""
    _SINGLE[kind.event_resource] = kind
    return kind


def _single_of(event_resource: str) -> Kind:
    return _SINGLE[event_resource]
