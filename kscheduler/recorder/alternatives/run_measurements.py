"""What came of a run: who is where, who waited how long, how full and how even the nodes are, what they cost."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kscheduler.api.core import Node
from kscheduler.api.well_known import ZONE
from kscheduler.config.plugin_args import NodeCostArgs
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.plugins.policies.node_cost import parse_price
from kscheduler.scheduling.runtime.partial_results import MissingPoints
from kscheduler.state.cache import Cache

_RESOURCES: Final = ("cpu", "memory")
# Of the label or annotation that says what a node costs.
PRICE_KEY: Final = NodeCostArgs().key


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Where a pod went."""

    pod: str
    node: str
    queue_seconds: float
    """From its arrival to its node, in recorded time."""


@dataclass(frozen=True, slots=True)
class NodesInUse:
    """The nodes at one moment."""

    in_use: int
    """Nodes with pods."""
    use: Mapping[str, float]
    """By resource: requested by pods, of what the nodes in use have; 0 to 1."""
    zone_skew: int
    """Most pods in a zone less fewest, over the zones that have nodes."""
    price: float | None
    """The sum of the prices of nodes in use; `None`: no node has one."""


@dataclass(slots=True)
class FailedScorePlugin:
    """A score plugin that failed: its points did not count, so the run is not one of what it would prefer."""

    plugin: str
    cause: str
    """Of its first failure."""
    decisions: int = 0
    """Those in which no node got points from it."""
    partly: int = 0
    """Those in which some nodes got none."""


@dataclass(slots=True)
class RunMeasurements:
    """What came of a run."""

    version: str
    """The kube-scheduler whose rules decided, `1.37`."""
    placed: dict[str, PodPlacement] = field(default_factory=dict)
    """By UID, the last one of each pod."""
    pending: dict[str, str] = field(default_factory=dict)
    """By key, why the pod waits at the end."""
    evicted: list[tuple[str, str]] = field(default_factory=list)
    """Victims, each with its preemptor."""
    decisions: int = 0
    scored: int = 0
    """Decisions between several nodes, members of groups included: plugins give points to no single one."""
    without_points: dict[str, FailedScorePlugin] = field(default_factory=dict)
    """By plugin, of the decisions that were scored."""
    samples: list[NodesInUse] = field(default_factory=list)
    """Once a minute of recorded time, more often in a short recording, and at the end."""
    fragments: list[tuple[ResourceFragmentation, ...]] = field(default_factory=list)
    """What of the free room was of no use: once an hour of recorded time, and at the end."""

    def note_scored(self, left_out: Iterable[MissingPoints]) -> None:
        """A decision between several nodes. `partial_results`: the score plugins that failed in it."""
        self.scored += 1
        failed = dict[str, bool]()
        for each in left_out:  # a plugin's kept points and its live ones may both be in it
            self.without_points.setdefault(each.plugin, FailedScorePlugin(each.plugin, each.cause))
            failed[each.plugin] = failed.get(each.plugin, False) or each.nodes == each.total
        for plugin, is_whole in failed.items():
            noted = self.without_points[plugin]
            noted.decisions += is_whole
            noted.partly += not is_whole

    @property
    def queue_seconds(self) -> Sequence[float]:
        """Of all pods that got a node, ascending."""
        return sorted(each.queue_seconds for each in self.placed.values())

    def mean(self, of: str) -> float:
        """The mean over the samples of `in_use`, `zone_skew`, `price` or a resource."""
        values = [_value(sample, of) for sample in self.samples]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else 0.0

    def mean_unusable(self) -> dict[str, float]:
        """By resource the mean, over the looks, of the share of all that was free and of no use.

        Of all, not of what is free: of two policies the one that places more pods leaves less free.
        """
        return self._mean_share(lambda each: each.unusable)

    def mean_fragmented(self) -> dict[str, float]:
        """The same of what was free and a typical pod could not use, on average."""
        return self._mean_share(lambda each: each.fragmented)

    def _mean_share(self, part: Callable[[ResourceFragmentation], int]) -> dict[str, float]:
        sums = dict[str, float]()
        for found in self.fragments:
            of_all, there = Counter[str](), Counter[str]()
            for each in found:  # of devices of a class one for each driver
                of_all[each.resource] += part(each)
                there[each.resource] += each.allocatable
            for resource, amount in there.items():
                sums[resource] = sums.get(resource, 0.0) + (of_all[resource] / amount if amount else 0.0)
        return {resource: sums[resource] / len(self.fragments) for resource in sorted(sums)}


def _value(sample: NodesInUse, of: str) -> float | None:
    return sample.use.get(of) if of in _RESOURCES else getattr(sample, of)


def quantile(ascending: Sequence[float], share: float) -> float:
    """0 for no values."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else 0.0


def nodes_in_use(cache: Cache) -> NodesInUse:
    """As they are now."""
    table = cache.nodes
    pods_by_zone: Counter[str] = Counter()
    price, has_price = 0.0, False
    used_rows = []
    for name in cache.node_names():
        info = cache.node_info(name)
        if info is None or info.node is None:
            continue
        pods_by_zone[info.node.metadata.labels.get(ZONE, "")] += len(info.pods)
        if info.pods:
            used_rows.append(table.row_of(name))
            own = price_of(info.node)
            has_price = has_price or own is not None
            price += own or 0.0
    counts = pods_by_zone.values()
    skew = max(counts) - min(counts) if len(pods_by_zone) > 1 else 0
    return NodesInUse(len(used_rows), _use(table, used_rows), skew, price if has_price else None)


def _use(table: NodeTable, used: Iterable[int]) -> dict[str, float]:
    rows = table.rows()
    chosen = rows[[row in set(used) for row in rows.tolist()]] if len(rows) else rows
    found = {}
    for resource in _RESOURCES:
        has = table.total(table.allocatable, resource, chosen) if len(chosen) else 0
        requested = table.total(table.requested, resource, chosen) if len(chosen) else 0
        found[resource] = requested / has if has else 0.0
    return found


def price_of(node: Node) -> float | None:
    """As the policy NodeCost reads it without arguments; `None`: the node has none."""
    for values in (node.metadata.annotations, node.metadata.labels):
        text = values.get(PRICE_KEY)
        micros = parse_price(text) if text is not None else None
        if micros is not None:
            return micros / 1_000_000
    return None
