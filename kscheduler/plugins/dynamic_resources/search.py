"""The devices that a pod's claims would get on a node.

An allocator holds for the claims of one cycle and for the state when it was made. If anything has changed since (an
extender was asked in between), a new one is made before the next node is looked at.
"""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Node
from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.layouts import DeviceLayout, moved
from kscheduler.devices.wanted import AllocationError, BadPoolError, FailedOnThisNodeError
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.decision_time import DECISION_TIME, DecisionEndedError
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.status import Fault, StatusError
from kscheduler.plugins.dynamic_resources.long_evaluations import WAIT_SECONDS, StillEvaluatingError
from kscheduler.plugins.dynamic_resources.node_result_cache import LayoutResult, NodeResult, NodeResultCache, OfClaims

NO_DEVICES: Final = -1
NOT_AVAILABLE: Final = -2
# Codes of Filter: no preemption can help against any of them.
INVALID_POOLS: Final = -3

REASONS: Final = {
    NO_DEVICES: "cannot allocate all claims",
    NOT_AVAILABLE: "resourceclaim not available on the node",
    INVALID_POOLS: "invalid resource pools were encountered",
}


# Codes of Filter for nodes with a pool that is not whole, where all devices are asked for: this one and those below.
_FIRST_BAD_POOL: Final = -100
# Each names a request and a pool, so that there may be one for each node.
MAX_BAD_POOLS: Final = 10_000


class BadPools:
    """A code for each text about such pools. What the codes stand for stays the same, because they are kept."""

    def __init__(self) -> None:
        self._codes: dict[tuple[int, str], int] = {}
        self._problems: list[tuple[int, str]] = []

    def code_of(self, bad_pool: BadPoolError) -> int:
        """The code of a problem; that of invalid pools once there are very many."""
        key = bad_pool.number, bad_pool.problem
        code = self._codes.get(key)
        if code is None:
            if len(self._problems) >= MAX_BAD_POOLS:
                return INVALID_POOLS
            code = self._codes[key] = _FIRST_BAD_POOL - len(self._problems)
            self._problems.append(key)
        return code

    def problem(self, code: int) -> tuple[int, str] | None:
        """The place of the claim among all that are searched for, and the problem; `None` for other codes."""
        return self._problems[_FIRST_BAD_POOL - code] if is_bad_pool(code) else None


def is_bad_pool(code: object) -> bool:
    """Whether a code of Filter is about a pool that is not whole."""
    return isinstance(code, int) and code <= _FIRST_BAD_POOL


# Nodes of known layouts: each takes some microseconds.
BETWEEN_CHECKS: Final = 32
# How often a node is searched in the background while its devices change; then the cycle does it.
MAX_TRIES: Final = 3


class OverdueError(StatusError):
    """The search on a node has taken longer than it may. The text is kube-scheduler's."""


class UnfinishedError(Exception):
    """The cycle's search time budget is used up."""


class AllocatorMaker(Protocol):
    """Makes an allocator for the claims and the state as it is now."""

    def __call__(self, *, lasting_on: Node | None) -> Allocator:
        """`lasting_on`: it is used on this node only, also after what is allocated has changed, and does not see that.

        `None`: on any node, until something changes.
        """
        ...


@dataclass(slots=True)
class DeviceSearch:
    """Searches the devices of nodes for the claims of one pod."""

    claims: Sequence[ResourceClaim]
    devices: Devices
    follow: Callable[[], None]
    """Brings `kept` up to date."""
    make: AllocatorMaker
    layout_of: Callable[[Node], DeviceLayout | None]
    """The layout of a node, as things are now."""
    clock: Clock
    timeout_seconds: float
    """How long the search on a node may take; 0: as long as it takes."""
    kept: NodeResultCache
    bad_pools: BadPools
    search_budget: SearchTimeBudget | None = None
    """`None`: the search goes on to its end."""
    _uids: OfClaims = ()
    _allocator: Allocator | None = None
    _seen: int = -1
    """The revision of the state that `kept` and the allocator know."""
    _until_check: int = BETWEEN_CHECKS
    """Nodes before the search time budget is looked at."""

    def __post_init__(self) -> None:
        self._uids = tuple([claim.metadata.uid for claim in self.claims])

    def on(self, node: Node) -> NodeResult:
        """What each claim gets on the node, or a code why they do not all get something.

        Raises `StatusError`: the claims or their classes are wrong, or the time is over; `UnfinishedError`.
        """
        self._catch_up()
        answer = self.kept.get(node, self._uids)
        if answer is None:
            overdue = self.kept.overdue.pop(node.metadata.name, "")
            if overdue:
                raise OverdueError(overdue)
            answer = self._by_layout(node)
            if answer is None:
                answer = self._searched(node)
                self._learn_layout(node, answer)
            self.kept.put(node, answer, self._uids)
        return answer

    def _layout_result(self, node: Node) -> tuple[DeviceLayout, LayoutResult] | None:
        """The layout of a node, with what was found on another node that has it."""
        if not self.kept.by_layout:
            return None
        layout = self.layout_of(node)
        known = None if layout is None else self.kept.by_layout.get(layout.key)
        return None if layout is None or known is None else (layout, known)

    def _by_layout(self, node: Node) -> NodeResult | None:
        """What was found on another node of its layout, as it is on this one."""
        found = self._layout_result(node)
        if found is None:
            return None
        layout, (answer, found_in, *_) = found
        return answer if isinstance(answer, int) else moved(answer, found_in, layout, node.metadata.name)

    def _learn_layout(self, node: Node, answer: NodeResult) -> None:
        layout = self.layout_of(node)
        if layout is not None:
            self.kept.put_layout(layout, answer)

    def _known(self, node: Node) -> LayoutResult | None:
        """What was found on another node of its layout, as it is there. Raises `UnfinishedError`."""
        self._until_check -= 1
        if not self._until_check:
            self._until_check = BETWEEN_CHECKS
            self._search_budget()
            if DECISION_TIME.is_up:
                raise DecisionEndedError
        found = self._layout_result(node)
        return None if found is None else found[1]

    def learns(self, nodes: NodeTable, row: int, node: Node) -> bool:
        """Whether the code of a row of the live table is known without a search; then it is kept."""
        self._catch_up()
        if self.kept.knows(nodes, row):
            return True
        found = self._layout_result(node)
        if found is not None:
            self.kept.learn(row, found[1])
        return found is not None

    def to_its_end(self, node: Node) -> NodeResult:
        """As `on` of a node that has passed Filter: its devices may have changed since, by a member of the pod's group,
        and the search time budget may be used up. Raises `StatusError`.
        """
        search_budget, self.search_budget = self.search_budget, None
        try:
            return self.on(node)
        finally:
            self.search_budget = search_budget

    def _searched(self, node: Node) -> NodeResult:
        """Search the node now. Raises `StatusError`, `UnfinishedError`."""
        end = self._end()
        while True:
            try:
                return _last_of(self._in_parts(self._current(), node, self._search_budget(), end))
            except StillEvaluatingError as still:
                if self.search_budget is not None:
                    raise UnfinishedError from None
                still.wait()

    def beforehand(self, node: Node) -> Generator[None, bool, None]:
        """Search the node in the background, and keep the answer for it.

        Who runs it sends at each `yield` whether others have had a turn: what is allocated may have changed then. An
        error is left to the cycle, which comes to it by itself. Raises `StatusError`.
        """
        name = node.metadata.name
        for _ in range(MAX_TRIES):
            self._catch_up()
            if self.kept.get(node, self._uids) is not None:
                return
            search = self.kept.searched[name] = object()
            try:
                answer = yield from self._in_turns(node)
            except OverdueError as overdue:
                self._catch_up()
                if self.kept.searched.get(name) is search:
                    self.kept.overdue[name] = str(overdue)
                return
            self._catch_up()
            if self.kept.searched.get(name) is search:
                del self.kept.searched[name]
                self.kept.put(node, answer, self._uids)
                self._learn_layout(node, answer)
                return

    def _in_turns(self, node: Node) -> Generator[None, bool, NodeResult]:
        """The answer about a node; after the first turn of others, the search begins again in a state that lasts."""
        end = self._end()
        parts, is_lasting = self._in_parts(self._current(), node, None, end), False
        while True:
            is_cut_short = False
            try:
                next(parts)
            except StopIteration as ended:
                answer: NodeResult = ended.value
                return answer
            except StillEvaluatingError as still:
                still.wait(WAIT_SECONDS)
                is_cut_short = True
            had_turn = yield
            if is_cut_short or (had_turn and not is_lasting):
                self._catch_up()
                parts, is_lasting = self._in_parts(self.make(lasting_on=node), node, None, end), True

    def _current(self) -> Allocator:
        if self._allocator is None:
            self._allocator = self.make(lasting_on=None)
        return self._allocator

    def _search_budget(self) -> SearchTimeBudget | None:
        """The search time budget of the cycle. Raises `UnfinishedError`."""
        if self.search_budget is not None and self.search_budget.is_over:
            raise UnfinishedError
        return self.search_budget

    def on_rows(self, nodes: NodeTable, rows: Rows) -> tuple[Codes, dict[str, NodeResult]]:
        """The same for rows of the live table, as `NodeResultCache.on_rows` returns it. Raises `StatusError`."""
        self._catch_up()
        return self.kept.on_rows(nodes, rows, self._known, self.on)

    def points_on_rows(self, nodes: NodeTable, rows: Rows) -> Scores | None:
        """As `NodeResultCache.points_on_rows`."""
        self._catch_up()
        return self.kept.points_on_rows(nodes, rows)

    def _catch_up(self) -> None:
        if self._seen != self.devices.revision:
            self._seen, self._allocator = self.devices.revision, None
            self.follow()

    def _end(self) -> float | None:
        """When a search that begins now has taken too long; `None`: never."""
        return self.clock.monotonic() + self.timeout_seconds if self.timeout_seconds else None

    def _in_parts(
        self, allocator: Allocator, node: Node, search_budget: SearchTimeBudget | None, end: float | None
    ) -> Generator[None, None, NodeResult]:
        name = node.metadata.name
        parts = allocator.allocate_in_parts(name, node.metadata.labels)
        while True:
            try:
                next(parts)
            except StopIteration as ended:
                results: list[AllocationResult] | None = ended.value
                return NO_DEVICES if results is None or len(results) != len(self.claims) else results
            except BadPoolError as bad_pool:
                return self.bad_pools.code_of(bad_pool)
            except FailedOnThisNodeError:
                return INVALID_POOLS
            except AllocationError as problem:
                raise StatusError(str(problem), Fault.CLAIM) from None
            if end is not None and self.clock.monotonic() >= end:
                raise OverdueError(f"node {name}: timed out trying to allocate devices")
            if search_budget is not None and search_budget.is_over:
                raise UnfinishedError
            if DECISION_TIME.is_up:  # the cycle has no budget, or its clock stands still
                raise DecisionEndedError
            yield


def _last_of(parts: Generator[None, None, NodeResult]) -> NodeResult:
    """What a search finds that nobody interrupts."""
    while True:
        try:
            next(parts)
        except StopIteration as ended:
            answer: NodeResult = ended.value
            return answer


# The rest of a search for devices that took longer than its budget: done in slices, beside other pods.
#
# Once the nodes are searched for a template's claims, the answers are kept, and a pod costs the nodes that have
# changed. But the first pod has to search them all, half a second for 5,000 nodes; and where devices can be combined in
# very many ways, one node may take as long as `filterTimeout`. What is found here is kept in the same place, where the
# pod's next cycle finds it. An answer about a node whose devices changed meanwhile is not kept, and the node is
# searched again.


class LookAhead:
    """Nodes that a cycle has asked about. Implements `UnfinishedSearch`."""

    def __init__(
        self,
        nodes: NodeTable,
        rows: Rows,
        search_on: Callable[[NodeInfo], DeviceSearch | None],
        *,
        is_live: bool = False,
    ) -> None:
        """`search_on`: the search for a node, `None` if nothing has to be searched there. `is_live`: of the live table.

        Of many pods that ask at once only the first one's is run, so nothing is worked out before: not even names. A
        row may become another node's meanwhile; what is found there is true of that one.
        """
        self._nodes, self._rows, self._search_on, self._is_live = nodes, rows, search_on, is_live
        self._work = self._all()
        next(self._work)

    def run(self, seconds: float) -> bool:
        """Search for at most so long, and at least one step, from where it was left. Returns whether all is done."""
        end = time.perf_counter() + seconds
        had_turn = True
        try:
            while True:
                self._work.send(had_turn)
                had_turn = False
                if time.perf_counter() >= end:
                    return False
        except StopIteration:
            return True

    def _all(self) -> Generator[None, bool, None]:
        yield
        until_pause = BETWEEN_CHECKS
        for row in self._rows.tolist():
            info = self._nodes.infos[row]
            search = self._search_on(info) if info is not None else None
            if info is None or info.node is None or search is None:
                continue
            if self._is_live and search.learns(self._nodes, row, info.node):
                until_pause -= 1
                if not until_pause:
                    until_pause = BETWEEN_CHECKS
                    yield
                continue
            try:
                yield from search.beforehand(info.node)
            except StatusError:
                return  # the cycle comes to it as well: all nodes before this one are kept
