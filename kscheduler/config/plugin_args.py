"""Arguments of the in-tree plugins and of the policies that take arguments, with defaults and meanings."""

from typing import Annotated

import msgspec

from kscheduler.api.core import NodeAffinity, TopologySpreadConstraint
from kscheduler.config.durations import Duration, seconds

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the configuration: immutable, spelled in camelCase in files."""


class ResourceSpec(Settings, frozen=True):
    """A resource that counts in a score."""

    name: str = ""
    """A resource as in `requests`: `cpu`, `memory`, `example.com/gpu`."""
    weight: Int64 = 0
    """Its share of the score, 1 to 100; 0 or missing means 1."""


DEFAULT_RESOURCES = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


class UtilizationShapePoint(Settings, frozen=True):
    """A point of a piecewise linear score."""

    utilization: Int32 = 0
    """Percent, 0 to 100, rising from point to point."""
    score: Int32 = 0
    """Points, 0 to 10, at this utilization; nodes get ten times as many."""


class RequestedToCapacityRatioParam(Settings, frozen=True):
    """The shape of the score RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()
    """At least one point. A rising shape packs pods on few nodes, a falling shape spreads them."""


LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ScoringStrategy(Settings, frozen=True):
    """How NodeResourcesFit scores the nodes with room."""

    type: str = ""
    """`LeastAllocated` (spread), `MostAllocated` (pack) or `RequestedToCapacityRatio` (by `shape`)."""
    resources: tuple[ResourceSpec, ...] = ()
    """The resources that count; empty means cpu and memory, with weight 1 each."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None
    """Required with the type of this name, forbidden with all others."""


class NodeResourcesFitArgs(Settings, frozen=True):
    """NodeResourcesFit: room for what the pod requests."""

    ignored_resources: tuple[str, ...] = ()
    """Extended resources that are not checked on nodes: for those that an extender accounts for."""
    ignored_resource_groups: tuple[str, ...] = ()
    """The same by prefix: `example.com` ignores `example.com/gpu` and `example.com/fpga`."""
    scoring_strategy: ScoringStrategy | None = None
    """Missing means LeastAllocated over cpu and memory."""


class NodeResourcesBalancedAllocationArgs(Settings, frozen=True):
    """NodeResourcesBalancedAllocation: prefer nodes whose resources would be used evenly."""

    resources: tuple[ResourceSpec, ...] = ()
    """The resources that are compared; empty means cpu and memory. Weights must be 1."""


class NodeAffinityArgs(Settings, frozen=True):
    """NodeAffinity."""

    added_affinity: NodeAffinity | None = None
    """A node affinity that every pod of the profile has in addition to its own."""


class InterPodAffinityArgs(Settings, frozen=True):
    """InterPodAffinity."""

    hard_pod_affinity_weight: Int32 = 1
    """Points, 0 to 100, for nodes where a running pod's *required* affinity matches the incoming pod."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Ignore running pods' preferences in the score: faster for pods without preferences."""


SYSTEM_DEFAULTING = "System"
LIST_DEFAULTING = "List"


class PodTopologySpreadArgs(Settings, frozen=True):
    """PodTopologySpread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """For pods that have no constraints; selectors are deduced from the pod's services and controllers."""
    defaulting_type: str = SYSTEM_DEFAULTING
    """`System`: soft spreading over zones and host names. `List`: `defaultConstraints`, possibly none."""


class VolumeBindingArgs(Settings, frozen=True):
    """VolumeBinding."""

    bind_timeout_seconds: Int64 = 600
    """Seconds that a pod waits for its volumes to be bound before it is scheduled again."""
    shape: tuple[UtilizationShapePoint, ...] | None = None
    """Score by free storage capacity; only with the feature gate StorageCapacityScoring."""


class DefaultPreemptionArgs(Settings, frozen=True):
    """DefaultPreemption: how many nodes are tried before victims are chosen."""

    min_candidate_nodes_percentage: Int32 = 10
    """Percent of all nodes, 0 to 100, and at least `minCandidateNodesAbsolute` of them."""
    min_candidate_nodes_absolute: Int32 = 100
    """Nodes. With more candidates, preemption does less harm and takes longer."""


class DynamicResourcesArgs(Settings, frozen=True):
    """DynamicResources: device claims."""

    filter_timeout: Duration | None = None
    """How long the search for a device allocation may take per node; missing means 10 s, 0 no limit."""
    binding_timeout: Duration | None = None
    """How long a pod waits for its devices to be ready; missing means 600 s, at least 1 s."""


# --- policies: not in kube-scheduler, and enabled by no default profile -----------------------------------------------


class RandomScoreArgs(Settings, frozen=True):
    """RandomScore."""

    seed: Int64 = 0
    """Another seed, other points. The points of a pod and a node are the same in every process with the same seed."""


class LabelPrices(Settings, frozen=True):
    """Prices by the value of a node label."""

    label: str = ""
    """The label's key: `node.kubernetes.io/instance-type`, `topology.kubernetes.io/zone`."""
    prices: dict[str, float] = {}
    """From a value of the label to the price."""


class NodeCostArgs(Settings, frozen=True):
    """NodeCost: the cheapest node that fits. Prices are in one currency per one unit of time, whichever."""

    key: str = "hightower.com/cost"
    """The node's annotation or, without such an annotation, its label that holds its price."""
    node_prices: dict[str, float] = {}
    """Prices by node name, for nodes without a price of their own."""
    label_prices: tuple[LabelPrices, ...] = ()
    """Prices by label, for nodes with neither; the first entry that knows the node's value wins."""
    unpriced_score: Int32 = 0
    """Points, 0 to 100, of a node whose price is unknown; 0 is what the most expensive of several prices gets."""


REQUIRED, PREFERRED = "Required", "Preferred"


class MatchedKey(Settings, frozen=True):
    """A pod annotation that a node must or should match."""

    key: str = ""
    """The pod's annotation, such as cluster.type. A pod without it does not mind."""
    node_key: str = ""
    """The node's label or annotation that must have the same value; empty: the same key."""
    mode: str = REQUIRED
    """`Required`: other nodes are rejected. `Preferred`: they get fewer points."""


class AnnotationMatchArgs(Settings, frozen=True):
    """AnnotationMatch: nodes whose labels or annotations say what an annotation of the pod says."""

    keys: tuple[MatchedKey, ...] = ()
    """At least one."""


class HTTPSource(Settings, frozen=True):
    """A server that is asked by HTTP GET, in the background."""

    url: str = ""
    """`http://` or `https://`. Redirects are not followed, proxies of the environment not used, link-local addresses
    refused."""
    bearer_token_file: str = ""
    """A file with a token for the header Authorization, read each time. Not the scheduler's own for the API server."""
    ca_file: str = ""
    """A file with the certificates to trust; empty: those of the system."""
    timeout: Duration = seconds(5)
    """For the whole answer, at most 10 s."""


class PrometheusUsage(HTTPSource, frozen=True):
    """Usage of nodes by two instant queries of a Prometheus server."""

    cpu_query: str = ""
    """A series per node, with the fraction of its CPU that is in use: 0 to 1."""
    memory_query: str = ""
    """The same of its memory."""
    node_label: str = "node"
    """The label with the node's name; a port behind it does not matter."""
    window: Duration = seconds(120)
    """The range that the queries look back on: a pod that began within it is not wholly in the figures yet."""


class LoadAwareArgs(Settings, frozen=True):
    """LoadAware: real usage, by its age, with requests where it is not known."""

    prometheus: PrometheusUsage | None = None
    """Missing: metrics-server, through the API server. The scheduler's role then must allow to list
    nodes of metrics.k8s.io (the chart's value `rbac.nodeMetrics`)."""
    refresh_interval: Duration = seconds(15)
    """The time between two fetches: 1 s to 10 min. metrics-server itself measures every 15 s."""
    fresh_for: Duration = seconds(60)
    """Up to this age a measurement counts wholly."""
    stale_after: Duration = seconds(300)
    """From this age on it does not count at all; between the two it counts the less the older it is."""
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    """`cpu` and `memory`, with the weights of their points."""
    unseen_pods_percent: Int32 = 100
    """Percent of its requests, 0 to 1000, that a pod counts with until a measurement shows it. 0 invites herds."""


NEUTRAL_WHEN_STALE, KEEP_WHEN_STALE, FAIL_WHEN_STALE = "Neutral", "Keep", "Fail"


class ExternalScoreArgs(HTTPSource, frozen=True):
    """ExternalScore: a number per node from an HTTP server, as JSON, or from a Prometheus query."""

    query: str = ""
    """An instant query: `url` is then a Prometheus server. Empty: `url` itself answers with JSON."""
    node_label: str = "node"
    """Of the query's series: the label with the node's name; a port behind it does not matter."""
    path: str = ""
    """Of JSON: where the object `{node name: number}` is, keys with dots between (`data.scores`); empty: at the top."""
    refresh_interval: Duration = seconds(30)
    """The time between two fetches: 1 s to 10 min."""
    lower_is_better: bool = False
    """Whether the lowest number is the best; not with `worst` and `best`, which say it themselves."""
    worst: float | None = None
    """With `best`: the number that is worth 0 points. Without both, the worst of the nodes that fit."""
    best: float | None = None
    """The number that is worth 100 points."""
    missing_score: Int32 = 0
    """Points, 0 to 100, of a node that the source does not name."""
    stale_after: Duration = seconds(300)
    """The age of the last good answer from which on `whenStale` holds."""
    when_stale: str = NEUTRAL_WHEN_STALE
    """`Neutral`: all nodes get the same points. `Keep`: the numbers go on to count. `Fail`: no node fits."""


class SharedDevices(Settings, frozen=True):
    """Devices of a node that pods use whole, or share in thousandths."""

    resource: str = "nvidia.com/gpu"
    """The extended resource that counts whole devices. Devices of DRA whose class stands for it are among them,
    but for DeviceShares."""
    share_resource: str = "example.com/gpu-milli"
    """The one that a pod requests instead for a part of one device, in thousandths, 1 to 1000. Nodes offer a thousand
    times their devices."""
    annotation: str = "example.com/gpu-index"
    """The pod's annotation that says on which devices it runs: `0,1`. Written with the Binding."""


class DeviceSharesArgs(Settings, frozen=True):
    """DeviceShares: devices that pods share."""

    devices: SharedDevices = SharedDevices()


class BestFitResource(Settings, frozen=True):
    """A resource whose rest counts."""

    name: str = ""
    """A resource as in `requests`: `cpu`, `memory`, `example.com/gpu`. Devices of DRA count as the extended resource
    that their class stands for, or as `deviceclass.resource.kubernetes.io/` and the name of the class."""
    largest: str = ""
    """How much the largest node has, a quantity: so much left over counts as everything."""
    weight: Int32 = 1
    """Its share of the score, 1 to 100; 0 means 1."""


class BestFitArgs(Settings, frozen=True):
    """BestFit: the node on which the least is left over."""

    resources: tuple[BestFitResource, ...] = (BestFitResource("cpu", "128"), BestFitResource("memory", "1Ti"))
    """At least one."""
    devices: SharedDevices | None = None
    """Where pods share devices: `resource` among the resources counts them with their shares."""


class DominantMostAllocatedArgs(Settings, frozen=True):
    """DominantMostAllocated: the fuller in its scarcest resource, the better."""

    resources: tuple[str, ...] = ()
    """The resources that count, as in BestFit; empty means cpu and memory."""


class TypicalPod(Settings, frozen=True):
    """A shape of pods, and how many there are of it."""

    requests: dict[str, str] = {}
    """As in a container; what is neither CPU nor devices is not read."""
    node_affinity: NodeAffinity | None = None
    """As in a pod: where it may run. Only required terms count."""
    node_selector: dict[str, str] = {}
    """As in a pod."""
    count: Int64 = 1
    """How many: only the ratio to other shapes matters."""


class FragmentationAwareArgs(Settings, frozen=True):
    """FragmentationAware: room that typical pods cannot use grows least."""

    devices: SharedDevices = SharedDevices()
    """The devices whose room counts."""
    typical_pods: tuple[TypicalPod, ...] = ()
    """The mix of pods that is expected; empty: learned from the pods that run and wait."""
    stranded_weight: float = 1.0
    """What devices count for which the node has no CPU left, 0 to 100, beside fragments; 0: as in the FGD paper."""
    learning_interval: Duration = seconds(60)
    """How often the mix is looked at, where it is learned."""


# Plugins with typed arguments. The arguments of all others stay the dict that the file has.
ARGS_KINDS: dict[str, type[Settings]] = {
    "AnnotationMatch": AnnotationMatchArgs,
    "BestFit": BestFitArgs,
    "DefaultPreemption": DefaultPreemptionArgs,
    "DeviceShares": DeviceSharesArgs,
    "DominantMostAllocated": DominantMostAllocatedArgs,
    "DynamicResources": DynamicResourcesArgs,
    "ExternalScore": ExternalScoreArgs,
    "FragmentationAware": FragmentationAwareArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "LoadAware": LoadAwareArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeCost": NodeCostArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "RandomScore": RandomScoreArgs,
    "VolumeBinding": VolumeBindingArgs,
}
