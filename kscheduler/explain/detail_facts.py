"""The facts of details, by their kind: what `facts` in an explanation has where kscheduler's plugins reject nodes.

Plugins give them as mappings (`framework.reasons.details.Detail`); users' own plugins may have other kinds. The
published schema checks each kind, and the recorded decisions of the tests are checked against it.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from kscheduler.answers import Answer, Names


class TaintFact(Answer, frozen=True):
    """A taint, or a toleration of it."""

    key: str
    value: str
    effect: str


class UntoleratedTaint(Answer, frozen=True):
    """Taints that the pod does not tolerate."""

    taints: tuple[TaintFact, ...]


class Cordoned(Answer, frozen=True):
    """The node is cordoned; `tolerate` is what a pod on it would have to tolerate."""

    tolerate: TaintFact


class OtherNodeName(Answer, frozen=True):
    """The pod names another node."""

    node_name: str
    exists: bool


class FoundValue(Answer, frozen=True):
    """A value of a label, and how many of the nodes have it; null: no such label."""

    value: str | None
    nodes: int


class FailingRequirement(Answer, frozen=True):
    """A requirement that nodes do not meet, and what they have instead."""

    key: str
    operator: str
    values: Names
    found: tuple[FoundValue, ...]


class TermFact(Answer, frozen=True):
    """One of several terms, each of which would do."""

    term: str
    failing: tuple[FailingRequirement, ...]


class NodeLabelsMismatch(Answer, frozen=True):
    """The node selector or affinity of the pod is not met; `source` says which."""

    source: str
    terms: tuple[TermFact, ...]


class ConflictingNodeNames(Answer, frozen=True):
    """The required terms name different nodes."""


class HostPortFact(Answer, frozen=True):
    """A port of the host that the pod wants."""

    host_port: int
    protocol: str
    host_ip: str = field(name="hostIP")


class PortHolder(Answer, frozen=True):
    """A pod that has the port already."""

    node: str
    pod: str
    host_port: int
    protocol: str
    host_ip: str = field(name="hostIP")


class HostPortTaken(Answer, frozen=True):
    """Ports of the host are taken."""

    ports: tuple[HostPortFact, ...]
    held_by: tuple[PortHolder, ...]


class NodeShortage(Answer, frozen=True):
    """A node that lacks least."""

    node: str
    free: int
    allocatable: int
    short: int
    could_if_empty: bool


class InsufficientResource(Answer, frozen=True):
    """Too little of a resource is free."""

    resource: str
    requested: int
    unit: Annotated[
        Literal["thousandths", "units"],
        Meta(description="cpu is counted in thousandths, all else in units (bytes, devices)"),
    ]
    closest: tuple[NodeShortage, ...]


class NodePodCount(Answer, frozen=True):
    """A node with its number of pods, and how many it may have."""

    node: str
    pods: int
    allowed: int


class TooManyPods(Answer, frozen=True):
    """The nodes may have no more pods."""

    closest: tuple[NodePodCount, ...]


class FeatureNotDeclared(Answer, frozen=True):
    """Features that the pod needs and the nodes do not declare."""

    features: Names


class DiskInUse(Answer, frozen=True):
    """Disks that pods on the node use, of which one alone may."""

    disks: Names
    pods: Names


class ClaimUser(Answer, frozen=True):
    """A pod that uses the claim."""

    node: str
    pod: str


class ClaimInUse(Answer, frozen=True):
    """A claim that one pod alone may use is in use."""

    claim: str
    users: tuple[ClaimUser, ...]


class NodeVolumeCount(Answer, frozen=True):
    """A node with its attached volumes."""

    node: str
    limit: int
    attached: int
    needed: int


class VolumeLimit(Answer, frozen=True):
    """The nodes may have no more volumes of a CSI driver."""

    driver: str
    closest: tuple[NodeVolumeCount, ...]


class ClaimMissing(Answer, frozen=True):
    """A claim that does not exist, or is not made yet."""

    claim: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


class ClaimUnbound(Answer, frozen=True):
    """What is known of a claim to a volume that cannot be had there."""

    claim: str
    volume: str
    storage_class: str
    provisioner: str
    requested: str
    selected_node: str


class HeldByLessImportant(Answer, frozen=True):
    """Devices are held by pods that are less important; nobody is preempted for devices."""

    pods: Annotated[int, Meta(description="Of a lower priority that use claims with devices on these nodes.")]


class ClaimsCompete(Answer, frozen=True):
    """Claims that want the same volume."""

    claims: Names


class RequirementFact(Answer, frozen=True):
    """A requirement of labels."""

    key: str
    operator: str
    values: Names


class VolumeElsewhere(Answer, frozen=True):
    """The volume of a claim is reached from other nodes."""

    claim: str
    volume: str
    requirement: RequirementFact
    found: Names


class UnevenSpread(Answer, frozen=True):
    """A topology spread constraint would be violated."""

    topology_key: str
    max_skew: int
    selector: str
    min_domains: int
    existing_domains: int
    domains: Names
    matching_pods: int
    minimum: int
    skew: int


class MissingTopologyLabel(Answer, frozen=True):
    """The nodes lack the label of a topology."""

    topology_key: str


class AffinityNotMet(Answer, frozen=True):
    """No pod that the affinity asks for is there."""

    topology_key: str
    terms: Names
    matching_pods: int
    domains: Names


class DomainFact(Answer, frozen=True):
    """A topology domain, and the pods in it that matter."""

    domain: str
    pods: Annotated[Names, Meta(description="Ten at most.")]
    count: int


class AntiAffinity(Answer, frozen=True):
    """Pods that are there keep the pod away: by its own anti-affinity, or by theirs (`repelled`)."""

    topology_key: str
    selector: str
    domains: tuple[DomainFact, ...]


class BesideNominated(Answer, frozen=True):
    """Only with pods that are nominated there does the pod not fit."""

    pods: Names


class DetailsFailed(Answer, frozen=True):
    """The plugin could not tell details."""

    error: str


class AnnotationFact(Answer, frozen=True):
    """An annotation that the pod wants, and what the nodes have."""

    key: str
    wanted: str
    found: str | None


class AnnotationMismatch(Answer, frozen=True):
    """Annotations of the nodes are not as the pod wants them."""

    annotations: tuple[AnnotationFact, ...]


class ClaimElsewhere(Answer, frozen=True):
    """The devices of a claim are reached from other nodes."""

    claim: str
    devices: Names
    terms: Names


class DevicesNotReady(Answer, frozen=True):
    """Devices of a claim are not ready."""

    claim: str
    message: str


class DeviceRequestFact(Answer, frozen=True):
    """A request of a claim."""

    request: str
    device_class: str = field(name="class")
    count: str


class AttributeFact(Answer, frozen=True):
    """An attribute that a selector reads."""

    attribute: str
    values: Annotated[Names, Meta(description="As CEL writes them, at most five; none: no device has it.")]
    more: Annotated[int, Meta(description="Values that are left off.")]
    instead: Annotated[Names, Meta(description="Where no device has it: attributes that some device has.")]


class UnmatchedSelectorFacts(Answer, frozen=True):
    """A CEL selector that too few devices pass."""

    expression: str
    excludes_all: Annotated[
        bool, Meta(description="Whether no device passes this one alone; else none passes all of the request's.")
    ]
    attributes: tuple[AttributeFact, ...]


class DeviceTaintFact(Answer, frozen=True):
    """A taint of devices that the request does not tolerate."""

    key: str
    value: str
    effect: str
    rules: Annotated[Names, Meta(description="The DeviceTaintRules that set it; none: the driver did.")]
    devices: int


class RequestObstacleFacts(Answer, frozen=True):
    """Why a request of a claim cannot be met."""

    request: Annotated[str, Meta(description="`request`, or `request/subrequest`.")]
    device_class: str = field(name="class")
    count: Annotated[int | None, Meta(description="null: all that match.")]
    is_short: Annotated[bool, Meta(description="Whether the request by itself cannot have its devices.")]
    of_class: Annotated[int, Meta(description="Devices of the class that the node reaches.")]
    matching: Annotated[
        int,
        Meta(
            description="Those that pass the request's selectors, too. Of them, each counted once: `tooSmall`, "
            "`tainted`, `inUse`, `withoutCounters`, `free`."
        ),
    ]
    unmatched: tuple[UnmatchedSelectorFacts, ...]
    too_small: int
    tainted: int
    taints: tuple[DeviceTaintFact, ...]
    in_use: int
    without_counters: Annotated[int, Meta(description="Those for which the counters that they share are not enough.")]
    free: int


class DeviceConstraintFact(Answer, frozen=True):
    """A constraint across requests."""

    attribute: str
    is_distinct: bool
    needed: int
    best: Annotated[int, Meta(description="How many devices it lets have together.")]
    value: Annotated[str, Meta(description="What these have in common.")]


class PoolFact(Answer, frozen=True):
    """A pool whose slices are incomplete or contradict each other."""

    driver: str
    pool: str
    generation: int
    slices: Annotated[int, Meta(description="Of this generation that are published.")]
    slice_count: Annotated[int, Meta(description="Of this generation that there should be.")]
    problem: Annotated[
        str, Meta(description="What contradicts itself; empty: slices are missing, the driver is updating the pool.")
    ]


class ObstacleFacts(Answer, frozen=True):
    """What stands in the way of a claim."""

    requests: tuple[RequestObstacleFacts, ...]
    constraints: Annotated[
        tuple[DeviceConstraintFact, ...], Meta(description="Those that too few free devices meet together.")
    ]
    pools: tuple[PoolFact, ...]


class DevicesLacking(Answer, frozen=True):
    """Too few devices are free for a claim."""

    claim: str
    requests: tuple[DeviceRequestFact, ...]
    reached: int
    in_use: int
    obstacles: Annotated[ObstacleFacts | None, Meta(description="What stands in the way; null where a selector fails.")]


class PoolInvalid(Answer, frozen=True):
    """Pools of which nothing is allocated."""

    pools: tuple[PoolFact, ...]


# By `kind` the struct of its facts.
FACTS: Final[Mapping[str, type[Answer]]] = {
    "untoleratedTaint": UntoleratedTaint,
    "cordoned": Cordoned,
    "otherNodeName": OtherNodeName,
    "nodeLabelsMismatch": NodeLabelsMismatch,
    "conflictingNodeNames": ConflictingNodeNames,
    "hostPortTaken": HostPortTaken,
    "insufficientResource": InsufficientResource,
    "tooManyPods": TooManyPods,
    "featureNotDeclared": FeatureNotDeclared,
    "diskInUse": DiskInUse,
    "claimInUse": ClaimInUse,
    "volumeLimit": VolumeLimit,
    "claimMissing": ClaimMissing,
    "claimUnbound": ClaimUnbound,
    "volumeUnreachable": ClaimUnbound,
    "claimNotServed": ClaimUnbound,
    "notEnoughStorage": ClaimUnbound,
    "volumeMissing": ClaimUnbound,
    "heldByLessImportant": HeldByLessImportant,
    "claimsCompete": ClaimsCompete,
    "volumeElsewhere": VolumeElsewhere,
    "unevenSpread": UnevenSpread,
    "missingTopologyLabel": MissingTopologyLabel,
    "affinityNotMet": AffinityNotMet,
    "antiAffinity": AntiAffinity,
    "repelled": AntiAffinity,
    "besideNominated": BesideNominated,
    "detailsFailed": DetailsFailed,
    "annotationMismatch": AnnotationMismatch,
    "claimElsewhere": ClaimElsewhere,
    "devicesNotReady": DevicesNotReady,
    "devicesLacking": DevicesLacking,
    "poolInvalid": PoolInvalid,
}
