"""ExternalScore: points from any source of truth that answers by HTTP with a number per node.

The hand-made scheduler asks its source while a pod waits, once per pod. Here the numbers are fetched in the background,
each `refreshInterval`; a decision never waits for them, and a source that is slow, away or hostile costs nothing but
its own answer (`measurements` has the bounds).

Numbers become points among the nodes that fit: the best gets 100 and no other does, the worst 0; or on a fixed scale
from `worst` to `best`. A node that the source does not name gets `missingScore`.

Numbers are stale when the last good answer is older than `staleAfter`, which is noticed at the next refresh. Then
`whenStale` decides: `Neutral` gives all nodes the same points, `Keep` goes on with what was known last, and `Fail`
rejects every node until the source answers again, for policies that must not guess. Before the first answer nothing
is known: `Keep` is as `Neutral` then.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.config.plugin_args import FAIL_WHEN_STALE, KEEP_WHEN_STALE, ExternalScoreArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import PLUGIN_DATA_UPDATE, ClusterEventWithHint
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, PASS_ALL, Plugin, PreFilterResult, RefreshError, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS
from kscheduler.plugins.policies.measurements import fetched, in_thread_if_large, query_samples

_UNKNOWN: Final = float("nan")


class ExternalScore(Plugin):
    """Points by numbers that somebody else knows."""

    name = "ExternalScore"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    normalizes_points_only = True
    STALE = -1
    reasons: ClassVar = {STALE: "node(s) had no current number from the external source of their scores"}

    def __init__(self, args: ExternalScoreArgs | None, handle: Handle) -> None:
        self._args = args or ExternalScoreArgs()
        self._handle = handle
        self.refresh_interval = self._args.refresh_interval.seconds
        self._numbers: Mapping[str, float] = {}
        """By node name: those that count now."""
        self._fetched_at: float | None = None
        """Monotonic seconds of the last good answer."""
        self._fails = self._args.when_stale == FAIL_WHEN_STALE
        """Whether no node may be used now."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """The source's answers: nothing in the cluster changes a verdict."""
        return (ClusterEventWithHint(PLUGIN_DATA_UPDATE),)

    async def refresh(self) -> None:
        """Fetch the numbers, or find out that the ones before are stale. Raises `RefreshError`."""
        try:
            numbers = await self._fetch()
            self._check_names(numbers)
        except Exception:
            if self._is_stale():
                self._forget()
            raise
        self._fetched_at = self._handle.clock.monotonic()
        self._take_over(numbers, fails=False)

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing: a node's number is the same for all pods."""
        del pod
        return ()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip, unless stale numbers are a reason to reject nodes."""
        del cycle, pod, nodes
        return PreFilterResult(SUCCESS if self._args.when_stale == FAIL_WHEN_STALE else SKIP)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """All pass, or none: int64 [rows]."""
        del cycle, pod, nodes
        return np.full(len(rows), self.STALE, dtype=np.int64) if self._fails else PASS_ALL

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The numbers, NaN for none: int64 [rows], which are the bits of float64. `normalize` alone reads them."""
        del cycle, pod
        numbers = self._numbers
        found = (numbers.get(nodes.name_of(row), _UNKNOWN) for row in rows.tolist())
        return np.fromiter(found, dtype=np.float64, count=len(rows)).view(np.int64)

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0..100, int64 [rows]."""
        del cycle, pod, rows
        numbers = np.ascontiguousarray(scores).view(np.float64)
        is_known = ~np.isnan(numbers)
        points = np.full(len(scores), self._args.missing_score, dtype=np.int64)
        known = numbers[is_known]
        if len(known):
            points[is_known] = self._points(known)
        return points

    def _points(self, numbers: NDArray[np.float64]) -> Scores:
        worst, best = self._args.worst, self._args.best
        if worst is not None and best is not None:
            with np.errstate(all="ignore"):  # the distance may be beyond float64: clipped, and NaN counts as the worst
                share = np.nan_to_num((numbers - worst) / (best - worst), nan=0.0)
            return np.floor(MAX_NODE_SCORE * np.clip(share, 0.0, 1.0)).astype(np.int64)
        numbers = -numbers if self._args.lower_is_better else numbers
        lowest, highest = float(numbers.min()), float(numbers.max())
        if lowest == highest:
            return np.full(len(numbers), MAX_NODE_SCORE, dtype=np.int64)
        # halves, because the distance of two numbers may be beyond float64; 99 at most for all but the best
        share = (numbers / 2 - lowest / 2) / (highest / 2 - lowest / 2)
        below = np.floor((MAX_NODE_SCORE - 1) * share).astype(np.int64)
        return np.where(numbers == highest, MAX_NODE_SCORE, below)

    async def _fetch(self) -> Mapping[str, float]:
        if self._args.query:
            return await query_samples(self._args, self._args.query, self._args.node_label)
        path = self._args.path
        return await in_thread_if_large(lambda body: parsed_numbers(body, path), await fetched(self._args))

    def _check_names(self, numbers: Mapping[str, float]) -> None:
        """Raises `RefreshError` where no number is about a node of ours."""
        ours = self._our_nodes()
        if ours and not any(name in numbers for name in ours):
            example = min(numbers)
            raise RefreshError(
                f"the answer names none of the {len(ours)} nodes; it names {example[:100]!r}, for example"
            )

    def _our_nodes(self) -> list[str]:
        return [name for name in self._handle.view.nodes.names() if name]

    def _is_stale(self) -> bool:
        at = self._fetched_at
        return at is None or self._handle.clock.monotonic() - at >= self._args.stale_after.seconds

    def _forget(self) -> None:
        if self._args.when_stale != KEEP_WHEN_STALE:
            self._take_over({}, fails=self._args.when_stale == FAIL_WHEN_STALE)

    def _take_over(self, numbers: Mapping[str, float], *, fails: bool) -> None:
        """Exchange the numbers; only nodes with another one are judged again.

        Numbers of names that are no nodes are kept: one of them may be the next node's.
        """
        before, changed = self._numbers, self._our_nodes()
        if fails is self._fails:
            changed = [name for name in changed if before.get(name) != numbers.get(name)]
        self._numbers, self._fails = numbers, fails
        if changed:
            self._handle.nodes_changed(changed)


def parsed_numbers(body: bytes, path: str) -> Mapping[str, float]:
    """The object of numbers by node name at `path` (keys with dots between) of a JSON text. Raises `RefreshError`.

    A value that is no number is left out; true and false are none.
    """
    try:
        found: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as mistake:
        raise RefreshError(f"the answer is no JSON: {mistake}") from None
    walked: list[str] = []
    for key in path.split(".") if path else ():
        if not isinstance(found, dict) or key not in found:
            raise RefreshError(f"the answer has no {'.'.join((*walked, key))}")
        found = found[key]
        walked.append(key)
    where = f"the answer's {path}" if path else "the answer"
    if not isinstance(found, dict):
        raise RefreshError(f"{where} is no object of numbers by node name")
    numbers = {name: float(value) for name, value in found.items() if _is_number(value)}
    if not numbers:
        raise RefreshError(f"{where} has no number among {len(found)} values")
    return numbers


def _is_number(value: object) -> bool:
    # an integer of a thousand digits is JSON, and no float64
    return isinstance(value, float) or (type(value) is int and abs(value) < 2**1000)
