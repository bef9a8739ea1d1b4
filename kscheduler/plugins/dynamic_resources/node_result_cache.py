"""What claims that ask for the same were told about each node, kept until something there changes.

The claims of a template's pods ask for the same. What they get on a node depends on the node's labels, the slices that
it reaches, the classes, and what is allocated in its pools. As long as none of these changes, the next pod is told the
same as the one before. Most pools are those of one node, so that a decision changes the answers about one node only.

An answer with shares of devices is kept for the claims that it is about: each share has an identity of its own.

What is found on one node holds for all nodes of the same layout (`devices.layouts`). Their codes are kept by row, and
what the claims get there is written down for the node that is chosen.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np

from kscheduler.api.core import Node
from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimSpec
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight
from kscheduler.devices.layouts import DeviceLayout, LayoutKey
from kscheduler.devices.slices import SliceIndex
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.plugins.dynamic_resources.alternatives import have_alternatives, points_of

# What each claim gets, or a code of Filter.
NodeResult = Sequence[AllocationResult] | int

# UIDs of the claims that an answer is about.
OfClaims = tuple[str, ...]

# No code of Filter: those are negative, and 0 passes.
_UNKNOWN: Final = 1
MAX_TEMPLATES: Final = 128
_TEMPLATES_BYTES: Final = 2**20
# Devices in the answers of all templates together: half a kilobyte each. An answer without devices counts as one.
MAX_RESULTS_KEPT: Final = 200_000
# The same, in the answers for layouts of one template: with more, all are forgotten.
MAX_LAYOUT_RESULTS: Final = 1_024
# Names of nodes; with more, the codes of all rows are.
_MAX_FORGOTTEN: Final = 1_024


class LayoutResult(NamedTuple):
    """What was found on a node for all that have its layout."""

    answer: NodeResult
    found_in: DeviceLayout
    """It keeps the devices, so that no others get their ids."""
    code: int
    """Of Filter."""
    points: int
    """For the alternatives that the claims get."""


@dataclass(slots=True)
class NodeResultCache:
    """The answers about nodes, for claims that ask for the same."""

    specs: Sequence[ResourceClaimSpec] = ()
    """What the claims ask for, if they name alternatives: else nodes have no points."""
    answers: dict[str, tuple[Mapping[str, str], NodeResult, OfClaims | None]] = field(default_factory=dict)
    """By name of a node, with its labels, and for which claims it holds; `None`: for all that ask for the same."""
    revision: int = -1
    """Of what is allocated, as far as the answers know of it."""
    size: int = 0
    """Of all answers about nodes, in devices."""
    layout_size: int = 0
    """Of those for layouts."""
    by_layout: dict[LayoutKey, LayoutResult] = field(default_factory=dict)
    """They hold whatever is taken, as long as no class changes."""
    attributes_read: frozenset[str] | None = None
    """The attributes that tell layouts apart; `None`: all, or it is not known."""
    knows_attributes_read: bool = False
    searched: dict[str, object] = field(default_factory=dict)
    """Nodes that are being searched in the background, as long as nothing has changed there; with the latest search."""
    overdue: dict[str, str] = field(default_factory=dict)
    """By node, the error of a search in the background that has taken too long: for the next cycle that asks."""
    _codes: Codes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """By row of the live table: the answer as a code of Filter, or `_UNKNOWN`."""
    _points: Scores = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """By row with a code, the points; empty without alternatives."""
    _nodes_seen: int = 0
    """The position in the table's log of changed nodes."""
    _forgotten: set[str] = field(default_factory=set)
    """Nodes whose rows are not unknown yet."""

    def on_rows(
        self,
        nodes: NodeTable,
        rows: Rows,
        known: Callable[[Node], LayoutResult | None],
        ask: Callable[[Node], NodeResult],
    ) -> tuple[Codes, dict[str, NodeResult]]:
        """The codes of Filter at rows of the live table, int64 [rows], and what was found there for these claims only.

        `known`: the result for a node whose layout is known. `ask`: the answer about a node, which `put` has kept.
        """
        self._follow_rows(nodes)
        codes: Codes = self._codes[rows]
        passing: dict[str, NodeResult] = {}
        for place in (codes == _UNKNOWN).nonzero()[0].tolist():
            node = nodes.info(int(rows[place])).node
            assert node is not None  # noqa: S101  a live row
            like = known(node)
            if like is not None:
                codes[place] = like.code
                self.learn(rows[place], like)
                continue
            answer = ask(node)
            codes[place] = answer if isinstance(answer, int) else 0
            if self.answers[node.metadata.name][2] is None:
                self._codes[rows[place]] = codes[place]
                if self.specs:
                    self._points[rows[place]] = self._points_of(answer)
            else:
                passing[node.metadata.name] = answer
        return codes, passing

    def points_on_rows(self, nodes: NodeTable, rows: Rows) -> Scores | None:
        """The points at rows of the live table, int64 [rows]; `None` where what is found holds for some claims only."""
        self._follow_rows(nodes)
        if not self.specs or self._codes[rows].any():
            return None
        return self._points[rows]

    def _points_of(self, answer: NodeResult) -> int:
        if isinstance(answer, int) or not self.specs:
            return 0
        return sum([points_of(spec, each) for spec, each in zip(self.specs, answer, strict=True)])

    def knows(self, nodes: NodeTable, row: int) -> bool:
        """Whether the code of a row of the live table is known."""
        self._follow_rows(nodes)
        return bool(self._codes[row] != _UNKNOWN)

    def learn(self, row: int, result: LayoutResult) -> None:
        """Keep the result for the layout of a row, of which `knows` has just told that it is not known."""
        self._codes[row] = result.code
        if self.specs:
            self._points[row] = result.points

    def _follow_rows(self, nodes: NodeTable) -> None:
        """Mark the rows unknown of which the answer may be another one now."""
        is_made = len(self._codes) == nodes.capacity
        if is_made and not self._forgotten and self._nodes_seen == nodes.node_changes.position:
            return
        changed = nodes.node_changes.since(self._nodes_seen)
        self._nodes_seen = nodes.node_changes.position
        if changed is None or not is_made:
            self._codes = np.full(nodes.capacity, _UNKNOWN, dtype=np.int64)
            if self.specs:
                self._points = np.zeros(nodes.capacity, dtype=np.int64)
        else:
            self._codes[changed] = _UNKNOWN
            gone = [row for name in self._forgotten if (row := nodes.row_of(name)) >= 0]
            self._codes[gone] = _UNKNOWN
        self._forgotten.clear()

    def get(self, node: Node, claims: OfClaims) -> NodeResult | None:
        """What is known of the node."""
        known = self.answers.get(node.metadata.name)
        if known is None or (known[2] is not None and known[2] != claims):
            return None
        labels = node.metadata.labels
        return known[1] if known[0] is labels or known[0] == labels else None

    def put(self, node: Node, answer: NodeResult, claims: OfClaims) -> None:
        """Keep an answer that was found for these claims."""
        is_for_all = isinstance(answer, int) or not any(_is_shared(each) for each in answer)
        name = node.metadata.name
        self._drop(name)
        self.answers[name] = node.metadata.labels, answer, None if is_for_all else claims
        self.size += _size_of(answer)
        while self.size > MAX_RESULTS_KEPT and len(self.answers) > 1:
            self.forget([next(iter(self.answers))])

    def forget(self, names: Collection[str] | None) -> None:
        """Drop what is known of these nodes; `None`: of all."""
        if names is None:
            self.searched.clear()
            self.overdue.clear()
            self.answers.clear()
            self.size = 0
            self._codes.fill(_UNKNOWN)
            self._forgotten.clear()
            return
        for name in names:
            self.searched.pop(name, None)
            self.overdue.pop(name, None)
            self._drop(name)
            self._forgotten.add(name)
        if len(self._forgotten) > _MAX_FORGOTTEN:  # nobody asks about these claims
            self._codes.fill(_UNKNOWN)
            self._forgotten.clear()

    def _drop(self, name: str) -> None:
        known = self.answers.pop(name, None)
        if known is not None:
            self.size -= _size_of(known[1])

    @property
    def total(self) -> int:
        """Of what is found on nodes and for layouts, in devices."""
        return self.size + self.layout_size

    # --- layouts ------------------------------------------------------------------------------------------------------

    def put_layout(self, layout: DeviceLayout, answer: NodeResult) -> None:
        """Keep what was found on a node for those of its layout."""
        if layout.key in self.by_layout:
            return
        if self.layout_size >= MAX_LAYOUT_RESULTS:
            self.forget_layouts()
        self.layout_size += _size_of(answer)
        code = answer if isinstance(answer, int) else 0
        self.by_layout[layout.key] = LayoutResult(answer, layout, code, self._points_of(answer))

    def forget_layouts(self) -> None:
        """Drop what is known of layouts."""
        self.by_layout.clear()
        self.layout_size = 0

    def classes_changed(self) -> None:
        """Drop what is known of layouts, and of what they are made of."""
        self.forget_layouts()
        self.attributes_read, self.knows_attributes_read = None, False


class ResultsByTemplate:
    """The answers for each group of claims that ask for the same."""

    def __init__(self) -> None:
        self._kept: RecentlyUsed[bytes, NodeResultCache] = RecentlyUsedByWeight(
            MAX_TEMPLATES, _TEMPLATES_BYTES, lambda key, _: len(key)
        )
        self._classes = -1

    def of(self, claims: Sequence[ResourceClaim]) -> NodeResultCache:
        """The answers for claims that ask for what these ask for."""
        specs = [claim.spec for claim in claims]
        key = msgspec.json.encode(specs)
        kept = self._kept.use(key)
        if kept is None:
            kept = self._kept[key] = NodeResultCache(specs if have_alternatives(specs) else ())
        while len(self._kept) > 1 and sum([each.total for each in self._kept.values()]) > MAX_RESULTS_KEPT:
            self._kept.popitem(last=False)
        return kept

    def slices_changed(self, nodes: Collection[str] | None) -> None:
        """These nodes reach other devices now; `None`: perhaps all."""
        for kept in self._kept.values():
            kept.forget(nodes)

    def follow(self, kept: NodeResultCache, devices: Devices, index: SliceIndex) -> None:
        """Drop the answers that are out of date."""
        if self._classes != devices.class_changes:
            self._classes = devices.class_changes
            self.slices_changed(None)
            for each in self._kept.values():
                each.classes_changed()
        pools = devices.claims.pools_changed_since(kept.revision)
        kept.revision = devices.claims.revision
        owners = None if pools is None else {index.owner_of_pool(pool) for pool in pools}
        if owners is None or None in owners:
            kept.forget(None)
        else:
            kept.forget([name for name in owners if name])


def _size_of(answer: NodeResult) -> int:
    return 1 if isinstance(answer, int) else sum([len(each.devices.results) for each in answer])


def _is_shared(allocation: AllocationResult) -> bool:
    return any(result.share_id is not None for result in allocation.devices.results)
