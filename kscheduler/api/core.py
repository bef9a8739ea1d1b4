"""Pods, nodes and namespaces, with the fields that a scheduler reads."""

import msgspec

from kscheduler.api.meta import Condition, KubeObject, Value
from kscheduler.api.quantity import Quantity
from kscheduler.api.well_known import MIRROR_POD

ResourceList = dict[str, Quantity]


# --- selectors and affinity -------------------------------------------------------------------------------------------


class LabelSelectorRequirement(Value, frozen=True):
    """`key operator values` over labels; operators In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Value, frozen=True):
    """All of `matchLabels` and `matchExpressions`; empty matches everything, `None` nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Value, frozen=True):
    """As a label requirement, with Gt and Lt in addition."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Value, frozen=True):
    """Requirements that must all hold; an empty term matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Value, frozen=True):
    """Terms of which at least one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Value, frozen=True):
    """A term that adds its weight (1 to 100) where it matches."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Value, frozen=True):
    """Which nodes a pod requires and prefers."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Value, frozen=True):
    """Selects pods by labels and namespaces, and names the topology key of their domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Value, frozen=True):
    """A pod affinity term that adds its weight where it matches."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Value, frozen=True):
    """Required and preferred terms; the same shape serves anti-affinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Value, frozen=True):
    """All affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Value, frozen=True):
    """The taints that a pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Value, frozen=True):
    """How evenly matching pods must spread over domains."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


# --- containers -------------------------------------------------------------------------------------------------------


class ContainerPort(Value, frozen=True):
    """A port; only `hostPort` matters to placement."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ResourceRequirements(Value, frozen=True):
    """Requests and limits of a container or of a whole pod."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerRestartRule(Value, frozen=True):
    """An exit-code rule; only its action decides which node feature is needed."""

    action: str = ""


class VolumeMount(Value, frozen=True):
    """Of a mounted volume what a node must support."""

    bind_mount_options: tuple[str, ...] = ()


class SeccompProfile(Value, frozen=True):
    """Where system calls are filtered from: `OCI` is an image."""

    type: str = ""


class SecurityContext(Value, frozen=True):
    """Of a container or of a whole pod what a node must support."""

    seccomp_profile: SeccompProfile | None = None


class EphemeralContainer(Value, frozen=True):
    """Of a container for debugging what a node must support."""

    security_context: SecurityContext | None = None


class Container(Value, frozen=True):
    """A container or init container. An init container with `restartPolicy: Always` is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    security_context: SecurityContext | None = None


# --- volumes ----------------------------------------------------------------------------------------------------------


class PersistentVolumeClaimSource(Value, frozen=True):
    """A volume from a claim."""

    claim_name: str = ""
    read_only: bool = False


class ImageVolumeSource(Value, frozen=True):
    """A volume from an image; it counts in ImageLocality."""

    reference: str = ""


class EphemeralVolumeSource(Value, frozen=True):
    """A volume from a claim that is created for the pod and owned by it."""


class CSIVolumeSource(Value, frozen=True):
    """A volume that a CSI driver creates on the node."""

    driver: str = ""


class GCEPersistentDiskSource(Value, frozen=True):
    """A disk of Google Compute Engine."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreSource(Value, frozen=True):
    """A disk of Amazon EBS."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class AzureDiskSource(Value, frozen=True):
    """A disk of Azure."""

    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class CinderSource(Value, frozen=True):
    """A disk of OpenStack."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolumeSource(Value, frozen=True):
    """A volume of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class ISCSISource(Value, frozen=True):
    """An iSCSI disk."""

    iqn: str = ""
    read_only: bool = False


class RBDSource(Value, frozen=True):
    """An image of Ceph."""

    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class PodCertificateProjection(Value, frozen=True):
    """A certificate that the kubelet requests for the pod."""

    key_type: str = ""


class VolumeProjection(Value, frozen=True):
    """One of the sources of a projected volume."""

    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Value, frozen=True):
    """A volume of tokens, certificates and the like. Without certificates it is dropped when it is stored."""

    sources: tuple[VolumeProjection, ...] = ()


class Volume(Value, frozen=True):
    """A volume with the sources that constrain placement; all others are skipped at decoding."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    image: ImageVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    iscsi: ISCSISource | None = None
    rbd: RBDSource | None = None
    projected: ProjectedVolumeSource | None = None

    @property
    def constrains(self) -> bool:
        """Whether it has a source that may constrain placement."""
        if self.projected is not None:
            return any(source.pod_certificate is not None for source in self.projected.sources)
        return self != Volume(name=self.name)


class PodSchedulingGate(Value, frozen=True):
    """A named reason not to schedule yet."""

    name: str = ""


class PodResourceClaim(Value, frozen=True):
    """A device claim by name or template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Value, frozen=True):
    """The pod group that a pod belongs to."""

    pod_group_name: str | None = None


# --- pod --------------------------------------------------------------------------------------------------------------


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The specification of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None
    security_context: SecurityContext | None = None
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()


class ContainerStatus(Value, frozen=True):
    """Resources that the kubelet has allocated to a container (in-place resize)."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodResourceClaimStatus(Value, frozen=True):
    """Which claim was made from the template of an entry of `spec.resourceClaims`; no name: none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Value, frozen=True):
    """The request of a claim that stands for an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Value, frozen=True):
    """The claim that the scheduler made for the extended resources of a pod."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class PodStatus(Value, frozen=True):
    """The status of a pod."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


# Owners whose pods are each for one node.
_OF_NODES = ("DaemonSet", "Node")


class Pod(KubeObject):
    """A pod."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def is_terminal(self) -> bool:
        """Whether the pod has ended; the scheduler treats it as deleted."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def belongs_to_node(self) -> bool:
        """Whether it is a DaemonSet's or a static pod: it goes with its node, as its successor is for that node."""
        owner = self.metadata.controller
        return (owner is not None and owner.kind in _OF_NODES) or MIRROR_POD in self.metadata.annotations

    @property
    def names_claim_templates(self) -> bool:
        """Whether a claim of the pod is made from a template."""
        return any(entry.resource_claim_template_name for entry in self.spec.resource_claims)


# --- node and namespace -----------------------------------------------------------------------------------------------


class Taint(Value, frozen=True):
    """Keeps pods off a node, unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ContainerImage(Value, frozen=True):
    """An image that a node holds, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodePodPreemptionPolicy(Value, frozen=True):
    """For whom pods on a node may be preempted (from Kubernetes 1.37 on)."""

    disable_resize_preemption: tuple[str, ...] = ()
    """Who does not want pods to go for another pod's resize; empty allows it."""


class NodeSpec(Value, frozen=True):
    """An administrator's settings of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_preemption_policy: NodePodPreemptionPolicy | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(Value, frozen=True):
    """A node's resources, conditions and images."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubeObject):
    """A node."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Namespace(KubeObject):
    """A namespace, whose labels namespace selectors match."""
