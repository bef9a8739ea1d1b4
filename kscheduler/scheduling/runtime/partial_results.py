"""What becomes of a user's score or filter that fails for some nodes: they are left out, and the others are judged.

The problem: a score is a preference, and one node with an odd annotation, or one pod with an odd label, must not keep
pods from running. kube-scheduler fails the attempt where a Score plugin returns an error; here this holds for in-tree
plugins alone. Of any other plugin

    score fails for some nodes           they get no points from it; the points of the others count
    score fails for the pod              none of its points count
    pre_score or normalize fails         none of its points count
    filter fails for some nodes          the pod may not go there
    filter fails for the pod             the attempt ends with an Error

A per-node function knows at which nodes it has failed (`PartialAnswerError`). A columnar plugin does not: it is asked
again about halves, down to the rows for which it raises, and then once more about all others together, because what it
answers may depend on which nodes it is asked about. Where it fails for the first, the middle and the last node alone,
or for each of up to eight, it fails for the pod, and is not asked any further. The search ends after `MAX_CALLS` calls
or `MAX_SECONDS`: what has not been asked about by then gets no points.

The failure is reported once for all its nodes, and the record of the cycle names them (`MissingPoints`).
"""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.trial_table import TrialTable
from kscheduler.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, NOT_EVALUATED, FilterPlugin, ScorePlugin
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.plugin_results import NotCalledError, PartialAnswerError, probes, text_of, with_place
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.cycle_calls import call_normalize
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import FILTER, NORMALIZE_SCORE, SCORE

MAX_CALLS: Final = 128
MAX_SECONDS: Final = 0.05
# Nodes that are named where a plugin has left some out.
MAX_NAMED: Final = 10


class MissingPoints(msgspec.Struct, frozen=True):
    """A score plugin that has given no points to some of the nodes, or to none."""

    plugin: str
    extension_point: str
    nodes: int
    """How many got no points from it."""
    total: int
    """How many it was asked about."""
    node_names: tuple[str, ...]
    """The first of them."""
    cause: str

    @property
    def message(self) -> str:
        """In one sentence."""
        return f"plugin {self.plugin} gives no points to {self.subject}: {self.cause}"

    @property
    def subject(self) -> str:
        """The nodes in words."""
        if self.nodes == self.total:
            return f"any of the {self.total} nodes"
        names = ", ".join(self.node_names) + (", ..." if self.nodes > len(self.node_names) else "")
        return f"{self.nodes} of {self.total} nodes ({names})"


class PartialResults(NamedTuple):
    """Points, or a filter's codes, with the rows for which there are some."""

    points: Scores
    """An int64 per row, of use where `is_known` is set."""
    is_known: NDArray[np.bool_]
    """In the shape of `points`."""


def points_after(
    failure: PluginFailure,
    plugin: ScorePlugin,
    traits: PluginTraits,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
    listener: PluginListener,
) -> tuple[Scores, MissingPoints]:
    """What a plugin gives after its `score` or `normalize` has failed: 0..100, an int64 per entry of `rows`.

    Reports the failure. Never raises.
    """
    found = _final_after(failure, plugin, traits, state, pod, nodes, rows)
    points = np.where(found.is_known, found.points, 0)
    return points, report(failure, listener, pod, nodes, rows, found.is_known)


def _final_after(
    failure: PluginFailure,
    plugin: ScorePlugin,
    traits: PluginTraits,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
) -> PartialResults:
    cause = failure.__cause__
    if isinstance(cause, PartialAnswerError) and cause.are_final:
        return PartialResults(cause.answers, cause.is_known)
    if failure.point == NORMALIZE_SCORE.label:
        return _nothing(rows)
    points, is_known = raw_after(failure, plugin, traits, state, pod, nodes, rows)
    if not is_known.any():
        return PartialResults(points, is_known)
    final, places = np.zeros(len(rows), dtype=np.int64), np.flatnonzero(is_known)
    try:
        final[places] = call_normalize(plugin, traits, state, pod, rows.take(places), points.take(places))
    except PluginFailure as later:
        out_of_bounds = later.__cause__
        if not (isinstance(out_of_bounds, PartialAnswerError) and out_of_bounds.are_final):
            return _nothing(rows)
        final[places] = out_of_bounds.answers
        is_known[places] = out_of_bounds.is_known
    return PartialResults(final, is_known)


def raw_after(
    failure: PluginFailure,
    plugin: ScorePlugin,
    traits: PluginTraits,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
) -> PartialResults:
    """The raw points of the rows for which `score` does not fail. Never raises.

    Points that are out of range and are not normalised count as failures as well.
    """
    cause = failure.__cause__
    if isinstance(cause, PartialAnswerError):
        found = PartialResults(cause.answers, cause.is_known.copy())
    elif cause is None or isinstance(cause, NotCalledError) or not _is_ordinary(cause):
        found = _nothing(rows)  # an Error that the plugin returned, or a call that was ended at its time budget
    else:
        found = _Search(partial(SCORE.call, plugin.name, plugin.score, state, pod, nodes), rows).run()
    return found if traits.normalizes else within_bounds(found)


def codes_after(
    failure: PluginFailure,
    plugin: FilterPlugin,
    state: CycleState,
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
    listener: PluginListener,
    kept: int = 0,
) -> PartialResults | None:
    """A filter's codes after it has failed: `NOT_EVALUATED` for the rows for which it fails. Reports the failure.

    `None`, and nothing is reported, if it answers for no node at all: then it fails for the pod. Never raises.
    `kept`: how many other nodes there are whose answers are known, so that it need not be asked about all.
    """
    found = _codes_found(failure, plugin, state, pod, nodes, rows)
    if kept:
        found = found or _nothing(rows)
    elif found is not None and not found.is_known.any():
        found = _found_among_all(plugin, state, pod, nodes, rows)
    if found is None:
        return None
    report(failure, listener, pod, nodes, rows, found.is_known, kept)
    return PartialResults(np.where(found.is_known, found.points, NOT_EVALUATED), found.is_known)


def _codes_found(
    failure: PluginFailure, plugin: FilterPlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows
) -> PartialResults | None:
    cause = failure.__cause__
    if isinstance(cause, PartialAnswerError):
        return PartialResults(cause.answers, cause.is_known)
    if cause is None or isinstance(cause, NotCalledError) or not _is_ordinary(cause):
        return None
    return _Search(partial(_codes_of, plugin, state, pod, nodes), rows).run()


def _found_among_all(
    plugin: FilterPlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows
) -> PartialResults | None:
    """What a filter says of these rows when it is asked about all nodes; `None` if it answers for no node.

    Whose fault it is must not depend on which nodes earlier filters have left: a class's columns ask about all of them.
    """
    every = nodes.rows()
    if len(every) == len(rows) or isinstance(nodes, TrialTable):
        return None  # it has been asked about all of them; a dry run of a preemption is about its own rows alone
    try:
        found = PartialResults(_codes_of(plugin, state, pod, nodes, every), np.ones(len(every), dtype=np.bool_))
    except PluginFailure as failure:
        partly = _codes_found(failure, plugin, state, pod, nodes, every)
        if partly is None or not partly.is_known.any():
            return None
        found = partly
    places = np.searchsorted(every, rows)
    if places.max(initial=0) >= len(every) or not np.array_equal(every.take(places), rows):
        return None  # a trial's rows, which are not those of its table
    return PartialResults(found.points.take(places), found.is_known.take(places))


def _codes_of(plugin: FilterPlugin, state: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
    codes = FILTER.call(plugin.name, plugin.filter, state, pod, nodes, rows)
    return np.zeros(len(rows), dtype=np.int64) if codes is None else codes


def _is_ordinary(failure: BaseException) -> bool:
    """Whether only `Exception`s were raised."""
    cause: BaseException | None = failure
    while isinstance(cause, Exception):
        cause = cause.__cause__
    return cause is None


def within_bounds(found: PartialResults) -> PartialResults:
    """Without the rows whose points are no final points."""
    points, is_known = found
    return PartialResults(points, is_known & (points >= MIN_NODE_SCORE) & (points <= MAX_NODE_SCORE))


def report(
    failure: PluginFailure,
    listener: PluginListener,
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
    is_known: NDArray[np.bool_],
    kept: int = 0,
) -> MissingPoints:
    """Report a failure once for all rows that are left out, and return what the record of the cycle says of it.

    `kept`: how many other nodes there are, which the plugin was not asked about since its answers for them are known.
    """
    places = np.flatnonzero(~is_known)
    names = tuple(nodes.name_of(row) for row in rows.take(places[:MAX_NAMED]).tolist())
    cause = failure.__cause__
    text = with_place(text_of(failure if cause is None else cause), failure if cause is None else cause)
    left_out = MissingPoints(failure.plugin, failure.point, len(places), len(rows) + kept, names, text)
    if cause is None or left_out.nodes in {0, left_out.total}:
        failure.report(listener, pod)
    else:
        answered_for_some = PartialAnswerError(
            f"{text}; left out: {left_out.subject}", np.zeros(0, dtype=np.int64), is_known, has_kept=kept > 0
        )
        answered_for_some.__cause__ = cause
        listener.failed(failure.plugin, failure.point, pod, answered_for_some)
    return left_out


def _nothing(rows: Rows) -> PartialResults:
    return PartialResults(np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.bool_))


class _Search:
    """Asks a columnar plugin again, for the rows about which it answers."""

    def __init__(self, call: Callable[[Rows], NDArray[np.int64]], rows: Rows) -> None:
        """`call`: the plugin's answers for some rows. Raises `PluginFailure`."""
        self._call = call
        self._rows = rows
        self._calls = 0
        self._ends = perf_counter() + MAX_SECONDS

    def run(self) -> PartialResults:
        number, found = len(self._rows), _nothing(self._rows)
        if number < 2 or not any(self._is_in_time() and self._answers(np.array([place])) for place in probes(number)):
            return found
        # Invariant: the parts have failed as a whole, what is in `good` has not, and the rest was not asked about.
        good: list[NDArray[np.intp]] = []
        parts = [np.arange(number)]
        while parts and self._calls < MAX_CALLS and self._is_in_time():
            part = parts.pop()
            for half in (part[: len(part) // 2], part[len(part) // 2 :]):
                if self._answers(half):
                    good.append(half)
                elif len(half) > 1:
                    parts.append(half)
        if not good:
            return found
        places = np.sort(np.concatenate(good))
        answers = self._ask(places)
        if answers is not None:
            found.points[places] = answers
            found.is_known[places] = True
        return found

    def _is_in_time(self) -> bool:
        return perf_counter() < self._ends

    def _answers(self, places: NDArray[np.intp]) -> bool:
        return self._ask(places) is not None

    def _ask(self, places: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """The answers for these places among the rows; `None` where the plugin fails."""
        self._calls += 1
        try:
            return self._call(self._rows.take(places))
        except PluginFailure:
            return None
