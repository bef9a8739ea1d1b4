"""What the arguments of the policies (`plugins.policies`) and of packing (`plugins.packing`) must satisfy."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from kscheduler.api.addresses import why_never_called
from kscheduler.api.quantity import MAX_INT64, QuantityError, milli_value
from kscheduler.api.selectors import parse_node_term
from kscheduler.config import plugin_args as args_kinds
from kscheduler.config.durations import Duration, seconds
from kscheduler.config.errors import Problem, duplicate, forbidden, invalid, required, unsupported
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.validation.names import qualified_name_faults

Problems = Iterator[Problem]

# Between two fetches.
SHORTEST_INTERVAL, LONGEST_INTERVAL = seconds(1), seconds(600)
# Of a fetch: two of them must end within a refresh's deadline, with time to spare.
LONGEST_TIMEOUT = seconds(10)
MAX_UNSEEN_PERCENT = 1000
# Of a node: prices are compared as millionths, which must fit into 64 bits.
MAX_PRICE = 1e9
# Shapes of pods: each takes its share of the time of every decision.
MAX_TYPICAL_PODS = 256
MAX_TYPICAL_COUNT = 10**9
# Resources of nodes whose names have no domain.
_NATIVE = ("cpu", "memory", "ephemeral-storage")


def random_score(path: str, args: args_kinds.RandomScoreArgs, gates: FeatureGates) -> Problems:
    """Any seed will do."""
    del path, args, gates
    yield from ()


def node_cost(path: str, args: args_kinds.NodeCostArgs, _gates: FeatureGates) -> Problems:
    """The problems of NodeCost's arguments."""
    yield from _key(f"{path}.key", args.key)
    yield from _prices(f"{path}.nodePrices", args.node_prices)
    for index, entry in enumerate(args.label_prices):
        where = f"{path}.labelPrices[{index}]"
        yield from _key(f"{where}.label", entry.label)
        if not entry.prices:
            yield required(f"{where}.prices", "a price per value of the label")
        yield from _prices(f"{where}.prices", entry.prices)
    yield from _percentage(f"{path}.unpricedScore", args.unpriced_score)


def annotation_match(path: str, args: args_kinds.AnnotationMatchArgs, _gates: FeatureGates) -> Problems:
    """The problems of AnnotationMatch's arguments."""
    if not args.keys:
        yield required(f"{path}.keys", "name at least one annotation: keys: [{key: cluster.type}]")
    seen: set[str] = set()
    for index, entry in enumerate(args.keys):
        where = f"{path}.keys[{index}]"
        yield from _key(f"{where}.key", entry.key)
        if entry.node_key:
            yield from _key(f"{where}.nodeKey", entry.node_key)
        if entry.mode not in (args_kinds.REQUIRED, args_kinds.PREFERRED):
            yield unsupported(f"{where}.mode", entry.mode, (args_kinds.REQUIRED, args_kinds.PREFERRED))
        if entry.key in seen:
            yield duplicate(f"{where}.key", entry.key)
        seen.add(entry.key)


def hard_rule_of(args: object) -> str:
    """The argument by which a policy rejects nodes, as a path below the arguments; empty if it only scores."""
    if isinstance(args, args_kinds.AnnotationMatchArgs):
        modes = (f"keys[{index}].mode" for index, key in enumerate(args.keys) if key.mode == args_kinds.REQUIRED)
        return next(modes, "")
    if isinstance(args, args_kinds.ExternalScoreArgs) and args.when_stale == args_kinds.FAIL_WHEN_STALE:
        return "whenStale"
    return ""


def load_aware(path: str, args: args_kinds.LoadAwareArgs, _gates: FeatureGates) -> Problems:
    """The problems of LoadAware's arguments."""
    if args.prometheus is not None:
        yield from _source(f"{path}.prometheus", args.prometheus)
        for name, query in (("cpuQuery", args.prometheus.cpu_query), ("memoryQuery", args.prometheus.memory_query)):
            if not query:
                yield required(f"{path}.prometheus.{name}")
        if not args.prometheus.node_label:
            yield required(f"{path}.prometheus.nodeLabel")
        if args.prometheus.window < 0:
            yield invalid(f"{path}.prometheus.window", args.prometheus.window, "must be zero or positive")
    yield from _interval(f"{path}.refreshInterval", args.refresh_interval)
    if args.fresh_for < 0:
        yield invalid(f"{path}.freshFor", args.fresh_for, "must be zero or positive")
    if args.stale_after <= args.fresh_for:
        yield invalid(f"{path}.staleAfter", args.stale_after, "must be greater than `freshFor`")
    yield from _resources(f"{path}.resources", args.resources)
    if not 0 <= args.unseen_pods_percent <= MAX_UNSEEN_PERCENT:
        detail = f"not in valid range [0-{MAX_UNSEEN_PERCENT}]"
        yield invalid(f"{path}.unseenPodsPercent", args.unseen_pods_percent, detail)


def external_score(path: str, args: args_kinds.ExternalScoreArgs, _gates: FeatureGates) -> Problems:
    """The problems of ExternalScore's arguments."""
    yield from _source(path, args)
    if args.query and args.path:
        yield forbidden(f"{path}.path", "is about JSON, and `query` asks a Prometheus server")
    if args.query and not args.node_label:
        yield required(f"{path}.nodeLabel")
    yield from _interval(f"{path}.refreshInterval", args.refresh_interval)
    if (args.worst is None) != (args.best is None):
        missing = "best" if args.best is None else "worst"
        yield required(f"{path}.{missing}", "`worst` and `best` go together")
    elif args.worst is not None and args.worst == args.best:
        yield invalid(f"{path}.best", args.best, "must differ from `worst`")
    elif args.worst is not None and args.lower_is_better:
        yield forbidden(f"{path}.lowerIsBetter", "`worst` and `best` say which end is the better one")
    yield from _percentage(f"{path}.missingScore", args.missing_score)
    if args.stale_after < args.refresh_interval:
        yield invalid(f"{path}.staleAfter", args.stale_after, "must not be less than `refreshInterval`")
    modes = (args_kinds.NEUTRAL_WHEN_STALE, args_kinds.KEEP_WHEN_STALE, args_kinds.FAIL_WHEN_STALE)
    if args.when_stale not in modes:
        yield unsupported(f"{path}.whenStale", args.when_stale, modes)


def best_fit(path: str, args: args_kinds.BestFitArgs, _gates: FeatureGates) -> Problems:
    """The problems of BestFit's arguments."""
    if not args.resources:
        yield required(f"{path}.resources", "name at least one resource: resources: [{name: cpu, largest: 128}]")
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        where = f"{path}.resources[{index}]"
        yield from _resource_name(f"{where}.name", resource.name, seen)
        yield from _positive_amount(f"{where}.largest", resource.largest)
        yield from _percentage(f"{where}.weight", resource.weight)
    if args.devices is not None:
        yield from _devices(f"{path}.devices", args.devices)


def dominant_most_allocated(path: str, args: args_kinds.DominantMostAllocatedArgs, _gates: FeatureGates) -> Problems:
    """The problems of DominantMostAllocated's arguments."""
    seen: set[str] = set()
    for index, name in enumerate(args.resources):
        yield from _resource_name(f"{path}.resources[{index}]", name, seen)


def device_shares(path: str, args: args_kinds.DeviceSharesArgs, _gates: FeatureGates) -> Problems:
    """The problems of DeviceShares' arguments."""
    yield from _devices(f"{path}.devices", args.devices)


def fragmentation_aware(path: str, args: args_kinds.FragmentationAwareArgs, _gates: FeatureGates) -> Problems:
    """The problems of FragmentationAware's arguments."""
    yield from _devices(f"{path}.devices", args.devices)
    yield from _interval(f"{path}.learningInterval", args.learning_interval)
    if not 0 <= args.stranded_weight <= 100:
        yield invalid(f"{path}.strandedWeight", args.stranded_weight, "not in valid range [0-100]")
    if len(args.typical_pods) > MAX_TYPICAL_PODS:
        detail = f"must have at most {MAX_TYPICAL_PODS} entries"
        yield invalid(f"{path}.typicalPods", len(args.typical_pods), detail)
    for index, typical in enumerate(args.typical_pods):
        where = f"{path}.typicalPods[{index}]"
        if not 0 < typical.count <= MAX_TYPICAL_COUNT:
            yield invalid(f"{where}.count", typical.count, f"not in valid range [1-{MAX_TYPICAL_COUNT}]")
        if not typical.requests:
            yield required(f"{where}.requests", "what such a pod requests: {cpu: 4, nvidia.com/gpu: 1}")
        for name, amount in typical.requests.items():
            yield from _known_to_nodes(f"{where}.requests[{name}]", name)
            yield from _amount(f"{where}.requests[{name}]", amount)
        for key in typical.node_selector:
            yield from _key(f"{where}.nodeSelector", key)
        affinity = typical.node_affinity
        required_terms = affinity and affinity.required_during_scheduling_ignored_during_execution
        try:
            for term in required_terms.node_selector_terms if required_terms else ():
                parse_node_term(term)
        except ValueError as mistake:
            yield invalid(f"{where}.nodeAffinity", "", str(mistake))


def _devices(path: str, devices: args_kinds.SharedDevices) -> Problems:
    yield from _resource_name(f"{path}.resource", devices.resource, set())
    if devices.resource and "/" not in devices.resource:
        yield invalid(f"{path}.resource", devices.resource, "must be an extended resource, such as nvidia.com/gpu")
    if devices.share_resource:
        yield from _resource_name(f"{path}.shareResource", devices.share_resource, {devices.resource})
    yield from _key(f"{path}.annotation", devices.annotation)


def _resource_name(path: str, name: str, seen: set[str]) -> Problems:
    if name in seen:
        yield duplicate(path, name)
    seen.add(name)
    yield from _key(path, name)
    yield from _known_to_nodes(path, name)


def _known_to_nodes(path: str, name: str) -> Problems:
    """A name without a domain is one of Kubernetes' own, or a slip that would make all nodes equal."""
    if name and "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        yield unsupported(path, name, (*_NATIVE, "hugepages-SIZE", "DOMAIN/NAME"))


def _positive_amount(path: str, text: str) -> Problems:
    if not text:
        yield required(path, "how much the largest node has: 128")
        return
    yield from _amount(path, text, least=1)


def _amount(path: str, text: str, least: int = 0) -> Problems:
    try:
        amount = milli_value(text)
    except QuantityError as mistake:
        yield invalid(path, text, str(mistake))
        return
    if not least <= amount <= MAX_INT64:
        yield invalid(path, text, "must be positive" if least else "must not be negative")


def _resources(path: str, resources: tuple[args_kinds.ResourceSpec, ...]) -> Problems:
    seen: set[str] = set()
    for index, resource in enumerate(resources):
        where = f"{path}[{index}]"
        if resource.name not in ("cpu", "memory"):
            yield unsupported(f"{where}.name", resource.name, ("cpu", "memory"))
        elif resource.name in seen:
            yield duplicate(f"{where}.name", resource.name)
        seen.add(resource.name)
        yield from _percentage(f"{where}.weight", resource.weight)


def _source(path: str, source: args_kinds.HTTPSource) -> Problems:
    """The server that a policy fetches from."""
    if not source.url:
        yield required(f"{path}.url")
    else:
        yield from _url(f"{path}.url", source.url)
    if not 0 < source.timeout <= LONGEST_TIMEOUT:
        yield invalid(f"{path}.timeout", source.timeout, f"not in valid range (0s-{LONGEST_TIMEOUT}]")


def _url(path: str, url: str) -> Problems:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a port that is none raises
    except ValueError as mistake:
        yield invalid(path, url, str(mistake))
        return
    if parts.scheme not in ("http", "https") or not host:
        yield invalid(path, url, "must be http://HOST or https://HOST, with a port and a path where needed")
    elif parts.username is not None or parts.password is not None:
        yield Problem(path, "Invalid value: credentials do not belong here; see bearerTokenFile")
    elif why := why_never_called(host):
        yield invalid(path, url, f"{why}: nothing is fetched there")


def _interval(path: str, interval: Duration) -> Problems:
    if not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
        yield invalid(path, interval, f"not in valid range [{SHORTEST_INTERVAL}-{LONGEST_INTERVAL}]")


def _key(path: str, key: str) -> Problems:
    """A key of labels and annotations."""
    if not key:
        yield required(path)
        return
    yield from (invalid(path, key, fault) for fault in qualified_name_faults(key))


def _prices(path: str, prices: Mapping[str, float]) -> Problems:
    for name, price in prices.items():
        if not 0 <= price <= MAX_PRICE:  # false also for NaN
            yield invalid(f"{path}[{name}]", price, f"not in valid range [0-{MAX_PRICE:.0f}]")


def _percentage(path: str, value: int) -> Problems:
    if not 0 <= value <= 100:
        yield invalid(path, value, "not in valid range [0-100]")
