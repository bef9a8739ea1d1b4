"""NodeCost: the cheapest node that fits.

A node's price is, in this order: its annotation, its label, the price table's entry for its name, the first of the
table's labels that knows its value. What cannot be read as a price counts as none, and is warned about once per node.

Prices become points among the nodes that fit: the cheapest gets 100 and no other does, so that with this score alone
the cheapest wins however close the others are; the most expensive gets 0, those between them their share of the
distance. A node that fits and has no price gets `unpricedScore`.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from typing import Final

import numpy as np

from kscheduler.api.core import Node
from kscheduler.bounded import RecentlyUsed
from kscheduler.config.plugin_args import LabelPrices, NodeCostArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)

UNPRICED: Final = -1
# Of the currency: the unit of raw points. A cent per thousand hours can still be told from nothing.
MILLIONTHS: Final = 1_000_000
_MOST: Final = 10**9
_PRICE = re.compile(r"[0-9]{1,10}(\.[0-9]{1,18})?")
_LONGEST_SHOWN: Final = 80
# Nodes that are remembered as warned about.
_MAX_WARNED: Final = 10_000


def parse_price(text: str) -> int | None:
    """A price such as `0.096` in millionths; `None` for what is none (`1,5`, `-1`, `$2`, `1e9`, more than 10^9)."""
    if not _PRICE.fullmatch(text):
        return None
    price = float(text)
    return round(price * MILLIONTHS) if price <= _MOST else None


class NodeCost(Plugin):
    """100 points for the cheapest of the nodes that fit, 0 for the most expensive."""

    name = "NodeCost"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    normalizes_points_only = True

    def __init__(self, args: NodeCostArgs | None, handle: Handle) -> None:
        del handle
        args = args or NodeCostArgs()
        self._key = args.key
        self._unpriced_score = args.unpriced_score
        self._of_table = _table_lookup(args.node_prices, args.label_prices)
        self._warned: RecentlyUsed[str, str] = RecentlyUsed(_MAX_WARNED)
        """By node name, the text that was warned about."""

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing: a node costs the same for all pods."""
        del pod
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """Prices in millionths, `UNPRICED` for none: int64 [rows]."""
        del cycle, pod
        found = (self._price_of(nodes.info(row).node) for row in rows.tolist())
        return np.fromiter(found, dtype=np.int64, count=len(rows))

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0..100, int64 [rows]: 100 for the lowest price only."""
        del cycle, pod, rows
        is_priced = scores != UNPRICED
        points = np.full(len(scores), self._unpriced_score, dtype=np.int64)
        priced = scores[is_priced]
        if len(priced):
            points[is_priced] = _points(priced)
        return points

    def _price_of(self, node: Node | None) -> int:
        if node is None:
            return UNPRICED
        metadata, malformed = node.metadata, []
        price = None
        for values in (metadata.annotations, metadata.labels):
            text = values.get(self._key)
            if text is not None:
                price = parse_price(text)
                if price is not None:
                    break
                malformed.append(text)
        self._warn(metadata.name, " ".join(malformed)[:_LONGEST_SHOWN])
        return self._of_table(node) if price is None else price

    def _warn(self, node_name: str, malformed: str) -> None:
        """Once per node, until it says something else."""
        if not malformed:
            self._warned.pop(node_name, None)
        elif self._warned.use(node_name) != malformed:
            self._warned[node_name] = malformed
            _log.warning("node_price_malformed", node=node_name, key=self._key, value=malformed)


def _points(prices: Scores) -> Scores:
    lowest, highest = prices.min(), prices.max()
    if lowest == highest:
        return np.full(len(prices), MAX_NODE_SCORE, dtype=np.int64)
    # 99 at most for all but the cheapest; 99 * 10^15 is within 64 bits
    below = (MAX_NODE_SCORE - 1) * (highest - prices) // (highest - lowest)
    return np.where(prices == lowest, MAX_NODE_SCORE, below)


def _table_lookup(by_name: Mapping[str, float], by_label: tuple[LabelPrices, ...]) -> Callable[[Node], int]:
    names = {name: round(price * MILLIONTHS) for name, price in by_name.items()}
    labels = [
        (entry.label, {value: round(price * MILLIONTHS) for value, price in entry.prices.items()}) for entry in by_label
    ]

    def price_of(node: Node) -> int:
        price = names.get(node.metadata.name)
        if price is not None:
            return price
        for label, prices in labels:
            price = prices.get(node.metadata.labels.get(label, ""))
            if price is not None:
                return price
        return UNPRICED

    return price_of
