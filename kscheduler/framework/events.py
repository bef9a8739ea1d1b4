"""Cluster events: changes that may let a parked pod through.

A plugin that rejects pods registers the events that may change its verdict, each with an optional hint that looks at
the objects. Match rule (registered R, incoming I): R is the wildcard, or the resources are equal (`Pod` covers
assigned and unassigned pods) and the action bits overlap. Labels are kube-scheduler's, for metrics and logs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntFlag, auto

import msgspec

from kscheduler.api.meta import KubeObject
from kscheduler.framework.pods.pod_info import PodInfo


class Resource(Enum):
    """The kind of object that changed."""

    POD = "Pod"
    """Pods with and without a node."""
    ASSIGNED_POD = "AssignedPod"
    """Pods that have a node."""
    UNSCHEDULABLE_POD = "UnschedulablePod"
    """Pods that wait for a node."""
    NODE = "Node"
    NAMESPACE = "Namespace"
    """Not in kube-scheduler, where a change of a namespace's labels wakes no pod."""
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    PLUGIN_DATA = "PluginData"
    """Data of a plugin's own (`Handle.nodes_changed`), of which no other plugin hears. Not in kube-scheduler."""
    WILDCARD = "*"
    """Every resource."""

    __hash__ = object.__hash__  # Enum's own `__hash__` is slow (Python code), and events are hashed per waiting pod


class ActionType(IntFlag):
    """How it changed; an event may carry several bits."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    """Taints, or `spec.unschedulable` turning false."""
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_NODE_PREEMPTION_POLICY = auto()
    """`spec.podPreemptionPolicy`, from Kubernetes 1.37 on."""
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    """It requests less than before."""
    UPDATE_POD_SCALE_UP = auto()
    """It requests more than before. From Kubernetes 1.37 on; in 1.36 an `UPDATE_OTHER`, and called so in metrics."""
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    """Its last scheduling gate is gone."""
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    """Its status names claims that were made for it."""
    UPDATE_OTHER = auto()
    """An update that no other bit names."""
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_NODE_PREEMPTION_POLICY
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_SCALE_UP
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
    )
    """Any update."""
    ALL = ADD | DELETE | UPDATE
    """Any change."""

    __hash__ = int.__hash__  # likewise


_ACTION_LABELS = {
    ActionType.ADD: "Add",
    ActionType.DELETE: "Delete",
    ActionType.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    ActionType.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    ActionType.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    ActionType.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    ActionType.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    ActionType.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    ActionType.UPDATE_NODE_PREEMPTION_POLICY: "UpdateNodePreemptionPolicy",
    ActionType.UPDATE_POD_LABEL: "UpdatePodLabel",
    ActionType.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    ActionType.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    ActionType.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    ActionType.UPDATE_OTHER: "Update",
    ActionType.UPDATE: "Update",
    ActionType.ALL: "All",
}

_POD_FAMILY = frozenset((Resource.POD, Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD))


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A resource and what happened to it; `name` overrides the label of the scheduler's own events."""

    resource: Resource | str
    """A kind of a plugin's own is `plural.version.group`, such as `widgets.v1.example.com` (`Kind.event_resource`)."""
    action: ActionType
    """One or several bits."""
    name: str = ""
    """Empty for events that plugins register."""
    label: str = field(init=False, repr=False, compare=False)
    """The name in metrics and logs, such as `NodeUpdateNodeTaint`. No property: it is read several times per pod."""

    def __post_init__(self) -> None:
        if not isinstance(self.resource, Resource) and "." not in self.resource:
            expected = "a member of Resource, or plural.version.group of a kind of your own"
            raise ValueError(f"{self.resource!r} is no resource: {expected} is due")
        object.__setattr__(self, "label", self.name or _label(self.resource, self.action))

    def matches(self, incoming: "ClusterEvent") -> bool:
        """Whether the hints of a plugin that registered this event are called for the incoming event."""
        if self.resource is Resource.WILDCARD or incoming.resource is Resource.WILDCARD:
            return True
        same = self.resource == incoming.resource or (
            self.resource is Resource.POD and incoming.resource in _POD_FAMILY
        )
        return same and bool(self.action & incoming.action)


def _label(resource: Resource | str, action: ActionType) -> str:
    action_label = _ACTION_LABELS.get(action)
    if action_label is None:
        action_label = "|".join(name for bit, name in _ACTION_LABELS.items() if bit in action and bit.bit_count() == 1)
    return f"{resource.value if isinstance(resource, Resource) else resource}{action_label}"


class QueueingHint(Enum):
    """A hint's result."""

    QUEUE = "Queue"
    """The pod may fit now: it is tried again."""
    SKIP = "QueueSkip"
    """The change does not help the pod, which stays parked."""


# `hint(parked pod, old object, new object)`: may this change let the pod through?
HintFunction = Callable[[PodInfo, KubeObject | None, KubeObject | None], QueueingHint]


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """An event that may change a plugin's verdict; without a hint it always wakes the pod."""

    event: ClusterEvent
    hint: HintFunction | None = None
    """`hint(pod, old, new)`: whether the change may let the parked pod through. `old` is `None` for a new object, `new`
    for one that is gone."""


NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, ActionType.DELETE)
ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULABLE_POD_ADD = ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULABLE_POD_UPDATE = ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.UPDATE)
# What a plugin registers that calls `Handle.nodes_changed`.
PLUGIN_DATA_UPDATE = ClusterEvent(Resource.PLUGIN_DATA, ActionType.UPDATE)


def data_of(plugin: str) -> ClusterEvent:
    """The data of this plugin have changed: `PLUGIN_DATA_UPDATE`, as the queue tells plugins apart."""
    return ClusterEvent(f"{plugin}.plugin-data", ActionType.UPDATE, PLUGIN_DATA_UPDATE.label)


EVERYTHING = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "Wildcard")
UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "ForceActivate")
# Other plugins judge from now on. Not in kube-scheduler, which reads its configuration once.
CONFIGURATION_RELOAD = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "ConfigurationReload")

SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
# Labels of moves between queues that no cluster event caused.
POP_FROM_BACKOFF = "PopFromBackoffQ"
