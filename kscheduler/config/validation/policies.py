"""What the arguments of the policies (`plugins.policies`) must satisfy."""

from collections.abc import Iterator, Mapping

from kscheduler.config import plugin_args as args_kinds
from kscheduler.config.errors import Problem, duplicate, invalid, required, unsupported
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.validation.names import qualified_name_faults

Problems = Iterator[Problem]

MOST_PRICE = 1e9
"""Of a node: prices are compared as millionths, which must fit into 64 bits."""


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


def _key(path: str, key: str) -> Problems:
    """A key of labels and annotations."""
    if not key:
        yield required(path)
        return
    yield from (invalid(path, key, fault) for fault in qualified_name_faults(key))


def _prices(path: str, prices: Mapping[str, float]) -> Problems:
    for name, price in prices.items():
        if not 0 <= price <= MOST_PRICE:  # false also for NaN
            yield invalid(f"{path}[{name}]", price, f"not in valid range [0-{MOST_PRICE:.0f}]")


def _percentage(path: str, value: int) -> Problems:
    if not 0 <= value <= 100:
        yield invalid(path, value, "not in valid range [0-100]")
