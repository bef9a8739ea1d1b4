"""Pod groups: pods that are placed together, as Kubernetes has them and as two other projects have had them before.

    scheduling.k8s.io/v1beta1      PodGroup            of Kubernetes 1.37 and 1.38, feature gate GenericWorkload
    scheduling.k8s.io/v1alpha3     CompositePodGroup   a group of groups, gate CompositePodGroup; of 1.38 in v1beta1
    scheduling.x-k8s.io/v1alpha1   PodGroup            of kubernetes-sigs/scheduler-plugins (Coscheduling)
    scheduling.volcano.sh/v1beta1  PodGroup            of Volcano

Only the fields that a decision reads. The PodGroups have the same plural and kind; the API group tells them apart.
"""

from collections.abc import Mapping
from typing import Final

from kscheduler.api.kinds import Kind, single
from kscheduler.api.meta import Condition, KubeObject, Value

# Groups on the way from root to leaf: as many as a Workload may have templates there.
DEEPEST_TREE: Final = 4
# So many are looked at where trees that are too deep are tried, to report that they are (from Kubernetes 1.38 on).
FARTHEST_LEVEL: Final = 16


class GangPolicy(Value, frozen=True):
    """All or nothing: so many members at once."""

    min_count: int = 1


class PodGroupPolicy(Value, frozen=True):
    """How members are placed: as a gang, or (`basic`, and where nothing is said) one by one."""

    gang: GangPolicy | None = None


class PodGroupTopology(Value, frozen=True):
    """A label of nodes in whose domains the group must stay."""

    key: str = ""


class PodGroupConstraints(Value, frozen=True):
    """Where the group may be placed."""

    topology: tuple[PodGroupTopology, ...] = ()


class EmptyPolicy(Value, frozen=True):
    """A choice without settings."""


class DisruptionMode(Value, frozen=True):
    """Whether preemption may take single members (`single`, the default), or the group only as a whole (`all`)."""

    single: EmptyPolicy | None = None
    all: EmptyPolicy | None = None


class WorkloadReference(Value, frozen=True):
    """The Workload that a group was made for."""

    workload_name: str = ""


class PodGroupSpec(Value, frozen=True):
    """What a group asks for."""

    workload_ref: WorkloadReference | None = None
    scheduling_policy: PodGroupPolicy = PodGroupPolicy()
    scheduling_constraints: PodGroupConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class PodGroupStatus(Value, frozen=True):
    """What the scheduler has reported."""

    conditions: tuple[Condition, ...] = ()


class KubernetesPodGroup(KubeObject):
    """A group of scheduling.k8s.io."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class CompositeGangPolicy(Value, frozen=True):
    """All or nothing: so many groups at once."""

    min_group_count: int = 1


class CompositePolicy(Value, frozen=True):
    """How the groups below are placed: as a gang, or (`basic`, and where nothing is said) one by one."""

    gang: CompositeGangPolicy | None = None


class CompositePodGroupSpec(Value, frozen=True):
    """What a group of groups asks for."""

    workload_ref: WorkloadReference | None = None
    parent_composite_pod_group_name: str | None = None
    scheduling_policy: CompositePolicy = CompositePolicy()
    scheduling_constraints: PodGroupConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class CompositePodGroup(KubeObject):
    """A group of PodGroups and of other composite groups. From 1.38 on the scheduler reports of it, too."""

    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class MinMemberSpec(Value, frozen=True):
    """What a group of other projects asks for, as far as it decides where pods go."""

    min_member: int = 0


class SchedulerPluginsPodGroup(KubeObject):
    """A group of scheduling.x-k8s.io."""

    spec: MinMemberSpec = MinMemberSpec()


class NetworkTopology(Value, frozen=True):
    """How near to each other the members of Volcano's groups must be, in tiers of HyperNodes: tier 1 is the nearest."""

    mode: str = ""
    """`hard` or `soft`; empty means hard."""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class VolcanoGroupSpec(Value, frozen=True):
    """What a group of Volcano asks for, as far as it decides where pods go."""

    min_member: int = 0
    network_topology: NetworkTopology | None = None


class VolcanoPodGroup(KubeObject):
    """A group of scheduling.volcano.sh."""

    spec: VolcanoGroupSpec = VolcanoGroupSpec()


POD_GROUPS: Final = single(
    Kind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", KubernetesPodGroup, namespaced=True)
)
# By the version of their API.
COMPOSITES: Final[Mapping[str, Kind]] = {
    version: single(
        Kind(
            "scheduling.k8s.io", version, "compositepodgroups", "CompositePodGroup", CompositePodGroup, namespaced=True
        )
    )
    for version in ("v1alpha3", "v1beta1")
}
COMPOSITE_POD_GROUPS: Final = COMPOSITES["v1alpha3"]
SCHEDULER_PLUGINS_POD_GROUPS: Final = Kind(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", SchedulerPluginsPodGroup, namespaced=True
)
VOLCANO_POD_GROUPS: Final = Kind(
    "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", VolcanoPodGroup, namespaced=True
)

# The label of a pod that names its group, in scheduler-plugins.
SCHEDULER_PLUGINS_LABEL: Final = "scheduling.x-k8s.io/pod-group"
# The annotation of a pod that names its group, in Volcano.
VOLCANO_ANNOTATION: Final = "scheduling.k8s.io/group-name"
# The condition of a group: once it is True it stays so.
INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
COMPOSITE_INITIALLY_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
# Before the slash of `podgroup/NAME`. A namespace of such a name can be given with `-n`.
GROUP_PREFIXES: Final = ("podgroup", "podgroups", "pg")
