"""Plain and by class give the same answers, and where judging by class does not do, judging plainly takes over."""

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.plugin import Plugin, PreFilterResult, Signature, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import SUCCESS, Code, unresolvable, unschedulable
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle import choosing_evaluator
from kscheduler.scheduling.cycle.by_class import ClassEvaluator, PlainEvaluator
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator, Filtered
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.timing import UNTIMED
from kscheduler.state.cache import Cache
from tests.builders import pod_info
from tests.scheduling.plugins_for_tests import Likes, Looks, Normalizes, TurnsDown, cluster, profile


class Signs(Plugin):
    """Makes a plugin's answers a matter of the row: they are kept."""

    depends_on = (Source.ROW,)

    def sign(self, pod: PodInfo) -> Signature:
        del pod
        return ()


class KeptTurnsDown(Signs, TurnsDown):
    """A filter with a column."""

    sign = Signs.sign


class KeptLikes(Signs, Likes):
    """A score with a column."""

    sign = Signs.sign


class KeptNormalizes(Signs, Normalizes):
    """The same, with points to be normalised."""

    sign = Signs.sign


class Prepared:
    """What a plugin has left in the state."""


class KeptPrepares(Signs):
    """A PreFilter that leaves something behind, and lets everybody through."""

    name = "Prepares"
    sign = Signs.sign

    def __init__(self) -> None:
        self.looked = 0

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        self.looked += 1
        cycle.write(Prepared())
        return PreFilterResult(SUCCESS)


def inputs(evaluators: Profile, view: Cache) -> CycleInputs:
    return CycleInputs(evaluators, pod_info(), view.nodes, None, UNTIMED)


def by_class(evaluators: Profile, view: Cache, *, reports_all: bool = True) -> ClassEvaluator:
    queried = inputs(evaluators, view)
    known = ClassEngine(evaluators, view, reports_all=reports_all).known(queried.pod, UNTIMED)
    assert known is not None
    return ClassEvaluator(queried, known)


def plain(evaluators: Profile, view: Cache) -> PlainEvaluator:
    return PlainEvaluator(inputs(evaluators, view))


def filtered(evaluator: Evaluator, view: Cache) -> tuple[Filtered, CycleState]:
    state = CycleState()
    found = evaluator.pre_filtered(state)
    assert (found.status, found.node_names) == (SUCCESS, None)
    return evaluator.filtered(state, view.nodes.rows()), state


def words(rejections: list[Rejection]) -> list[tuple[str, list[int], list[int]]]:
    return [(one.plugin, one.rows.tolist(), one.codes.tolist()) for one in rejections]


@pytest.mark.parametrize("make", [plain, by_class])
def test_both_say_who_passes_who_turned_the_others_down_and_what_rows_earn(
    make: Callable[[Profile, Cache], Evaluator],
) -> None:
    view = cluster("a", "b", "c", "d")
    evaluators = profile(
        *(KeptPrepares(), Looks("Live"), KeptTurnsDown("KeptNo", "a"), TurnsDown("LiveNo", "a", "b")),
        *(KeptLikes("KeptPoints", {"c": 3}), Likes("LivePoints", {"c": 1, "d": 4})),
        weights={"KeptPoints": 2},
    )
    evaluator = make(evaluators, view)
    found, state = filtered(evaluator, view)
    assert state.find(Prepared) is not None
    assert (found.rows.tolist(), found.failure) == ([2, 3], None)
    assert words(found.rejections) == [("KeptNo", [0], [1]), ("LiveNo", [1], [1])]
    priorities = evaluator.prioritize(state, found.rows)
    assert priorities.totals.tolist() == [7, 4]
    points = [(one.plugin, one.weight, one.points.tolist()) for one in priorities.by_plugin]
    assert points == [("KeptPoints", 2, [6, 0]), ("LivePoints", 1, [1, 4])]


@pytest.mark.parametrize("make", [plain, by_class])
def test_both_report_what_went_before_a_filters_failure(make: Callable[[Profile, Cache], Evaluator]) -> None:
    view = cluster("a", "b")
    evaluators = profile(KeptTurnsDown("KeptNo", "a"), TurnsDown("Bug", failure=ValueError("oh")))
    found, _ = filtered(make(evaluators, view), view)
    assert found.failure is not None
    assert (found.failure.plugin, len(found.rows)) == ("Bug", 0)
    assert words(found.rejections) == [("KeptNo", [0], [1])]


class _OopsError(Exception):
    """What a plugin raises."""


class _Breaks(TurnsDown):
    """Raises something new each time."""

    def __init__(self) -> None:
        super().__init__("Bug")
        self.raised: list[weakref.ref[_OopsError]] = []

    def filter(self, *_: Any) -> Any:
        raise self._failure()

    def _failure(self) -> Exception:
        failure = _OopsError()
        self.raised.append(weakref.ref(failure))
        return failure


@pytest.mark.parametrize("has_engine", [False, True], ids=["plain", "by class"])
def test_a_failure_leaves_nothing_for_the_garbage_collector(has_engine: bool) -> None:
    """A plugin may fail for each of a hundred thousand pods: what is left of a cycle goes at once, frames and all."""
    view, breaks = cluster("a", "b"), _Breaks()
    evaluators = profile(KeptTurnsDown("KeptNo", "a"), breaks)
    engine = ClassEngine(evaluators, view) if has_engine else None
    gc.disable()
    try:
        record = schedule(evaluators, pod_info(), view, engine=engine)
        assert record.status.code is Code.ERROR
        assert breaks.raised
        assert all(one() is None for one in breaks.raised)
    finally:
        gc.enable()


def test_a_class_that_need_not_report_all_tells_why_a_pod_fits_nowhere_and_nothing_else() -> None:
    view = cluster("a", "b")
    turns_down = KeptTurnsDown("KeptNo", "a")
    evaluator = by_class(profile(turns_down, KeptLikes("Points", {"b": 5})), view, reports_all=False)
    found, state = filtered(evaluator, view)
    assert (found.rows.tolist(), found.rejections) == ([1], [])
    priorities = evaluator.prioritize(state, found.rows)
    assert priorities.leaders is not None
    assert (priorities.leaders.rows.tolist(), priorities.leaders.points) == ([1], 5)
    assert (len(priorities.totals), priorities.by_plugin) == (0, ())
    nowhere, _ = filtered(by_class(profile(KeptTurnsDown("KeptNo", "a", "b")), view, reports_all=False), view)
    assert words(nowhere.rejections) == [("KeptNo", [0, 1], [1, 1])]


# --- falling back -----------------------------------------------------------------------------------------------------


class Unsigned(TurnsDown):
    """A plugin that cannot say what it reads of a pod."""

    depends_on = (Source.ROW,)

    def sign(self, pod: PodInfo) -> Signature:
        raise ValueError(pod.key)


def test_who_gets_which_evaluator() -> None:
    view = cluster("a")
    kept, unsigned = profile(KeptTurnsDown("KeptNo")), profile(Unsigned("Unsigned"))

    def given_to(evaluators: Profile, engine: ClassEngine | None) -> type[Evaluator]:
        evaluator, found = choosing_evaluator.pre_filtered(inputs(evaluators, view), CycleState(), engine)
        assert found.status.is_success
        return type(evaluator)

    assert given_to(kept, ClassEngine(kept, view)) is ClassEvaluator
    assert given_to(kept, None) is PlainEvaluator
    assert given_to(unsigned, ClassEngine(unsigned, view)) is PlainEvaluator


@pytest.mark.parametrize(
    "live",
    [
        Looks("Live", unschedulable("no")),
        Looks("Live", unresolvable("never")),
        Looks("Live", names=frozenset({"b"})),
        Looks("Live", names=frozenset()),
    ],
    ids=["rejects", "rejects for good", "narrows", "narrows to nothing"],
)
def test_a_pre_filter_that_does_not_let_all_through_is_queried_again_with_all_others(live: Looks) -> None:
    """Columns are about all nodes; and a plugin that comes first may have more to say."""
    view = cluster("a", "b")
    prepares, turns_down = KeptPrepares(), KeptTurnsDown("KeptNo", "a")
    evaluators = profile(prepares, live, turns_down)
    state, alone = CycleState(), CycleState()
    evaluator, found = choosing_evaluator.pre_filtered(inputs(evaluators, view), state, ClassEngine(evaluators, view))
    assert (live.looked, prepares.looked) == (2, 2)
    assert type(evaluator) is PlainEvaluator
    assert found == plain(evaluators, view).pre_filtered(alone)
    assert not state.holds_the_same(alone)
    assert state.find(Prepared) is not None
    turns_down.queried.clear()
    evaluator.filtered(state, view.nodes.rows())
    assert turns_down.queried == ["a", "b"], "it is not looked up in its column"


def test_of_plugins_that_fail_to_score_the_profiles_order_reports_which_is_named() -> None:
    """By class the live one is asked first, though it comes behind the one with a column."""
    view, recorded = cluster("a", "b"), _Heard()
    kept = KeptNormalizes("Kept", {"a": 10}, failure=ValueError("kept"))
    live = Likes("Live", ValueError("live"))
    evaluators = profile(kept, live)
    evaluators = _heard_by(evaluators, recorded)
    engine = ClassEngine(evaluators, view)
    record = schedule(evaluators, pod_info(), view, engine=engine)
    assert record.status.is_success
    assert record.left_out == schedule(evaluators, pod_info(), view).left_out
    assert [(left_out.plugin, left_out.nodes) for left_out in record.left_out] == [("Kept", 2), ("Live", 2)]


def test_a_failure_that_does_not_come_again_costs_nothing_and_is_reported() -> None:
    view, recorded = cluster("a", "b"), _Heard()
    live = _OnceBroken()
    evaluators = _heard_by(profile(KeptLikes("Kept", {"a": 1}), live), recorded)
    record = schedule(evaluators, pod_info(), view, engine=ClassEngine(evaluators, view))
    assert (record.node_name, record.totals.tolist()) == ("a", [1, 0])
    assert recorded.failures == ["Live Score: the first time"]


class _OnceBroken(Likes):
    """Fails once."""

    def __init__(self) -> None:
        super().__init__("Live", ValueError("the first time"))

    def score(self, *arguments: Any) -> Any:
        try:
            return super().score(*arguments)
        finally:
            self.points = {}


class _Heard:
    """What is told of plugins. Implements `PluginListener`."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        del pod, then
        self.failures.append(f"{plugin} {point}: {failure}")

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """Pass."""


def _heard_by(evaluators: Profile, recorded: _Heard) -> Profile:
    return replace(evaluators, listener=recorded)
