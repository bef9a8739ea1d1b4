"""The cycle: who is charged with a rejection, who wins, and what a faulty plugin does to the rest."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.types import FIRST_IN_ORDER
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.record import SchedulingRecord
from tests.builders import make_node, pod_info
from tests.scheduling.plugins_for_tests import Explanation, Likes, Looks, Normalizes, TurnsDown, cluster, profile

ABC = ("a", "b", "c")


def decide(*plugins: Plugin, nodes: tuple[str, ...] = ABC, **weights: int) -> SchedulingRecord:
    """A decision about a pod that asks for nothing."""
    return schedule(profile(*plugins, weights=weights), pod_info(), cluster(*nodes))


def test_a_node_is_charged_to_the_first_filter_that_turns_it_down() -> None:
    first, second = TurnsDown("First", "a", "b"), TurnsDown("Second", "b", "c")
    record = decide(first, second)
    assert {name: status.plugin for name, status in record.diagnosis.by_node()} == {
        "a": "First",
        "b": "First",
        "c": "Second",
    }
    assert second.queried == ["c"], "nobody is asked about a node that is out already"
    assert record.message == "0/3 nodes are available: 1 not for Second, 2 not for First."
    assert record.diagnosis.plugins == {"First", "Second"}


def test_filters_after_the_last_node_are_not_queried() -> None:
    last = TurnsDown("Last")
    decide(TurnsDown("All", *ABC), last)
    assert last.queried == []


def test_the_sign_of_a_code_reports_whether_preemption_could_help() -> None:
    record = decide(TurnsDown("Soft", "a"), TurnsDown("Hard", "b", "c", code=-1))
    codes = {name: status.code for name, status in record.diagnosis.by_node()}
    hard = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert codes == {"a": Code.UNSCHEDULABLE, "b": hard, "c": hard}


# --- PreFilter


def test_pre_filter_skip_leaves_the_coupled_filter_out() -> None:
    class Both(Looks, TurnsDown):
        def __init__(self) -> None:
            TurnsDown.__init__(self, "Both", *ABC)
            Looks.__init__(self, "Both", SKIP)

    assert decide(Both()).node_name in ABC


def test_an_unresolvable_pre_filter_ends_at_once() -> None:
    later = Looks("Later")
    record = decide(Looks("First", unresolvable("never")), later)
    assert later.looked == 0
    assert record.message == "0/3 nodes are available: never."
    assert record.diagnosis.plugins == {"First"}


def test_a_resolvable_pre_filter_lets_the_others_run_and_then_rejects() -> None:
    """Preemption needs the state that the others prepare (Q18)."""
    later = Looks("Later")
    judge = TurnsDown("Judge")
    record = decide(Looks("First", unschedulable("not now")), later, judge)
    assert later.looked == 1
    assert judge.queried == []
    assert record.status == unschedulable("not now", plugin="First")
    assert record.message == "0/3 nodes are available: not now."


def test_an_unresolvable_pre_filter_after_a_resolvable_one_wins() -> None:
    record = decide(Looks("First", unschedulable("not now")), Looks("Second", unresolvable("never")))
    assert record.status == unresolvable("never", plugin="Second")


def test_narrowing_judges_only_the_named_nodes() -> None:
    judge = TurnsDown("Judge", "a")
    record = decide(Looks("Names", names=frozenset({"a", "ghost"})), judge)
    assert judge.queried == ["a"]
    assert record.message == ("0/3 nodes are available: 1 not for Judge, 2 node(s) didn't satisfy plugin(s) [Names].")
    assert record.diagnosis.plugins == {"Judge", "Names"}


def test_names_that_no_node_has_are_charged_to_who_gave_them() -> None:
    """Else nobody would be to blame, and the pod would be retried as after an error, forever."""
    record = decide(Looks("Names", names=frozenset({"ghost"})))
    assert record.message == "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [Names]."
    assert record.diagnosis.plugins == {"Names"}


def test_one_plugin_that_names_no_node_rejects() -> None:
    record = decide(Looks("Names", names=frozenset()))
    assert record.message == "0/3 nodes are available: node(s) didn't satisfy plugin Names."


def test_plugins_that_contradict_each_other_are_both_to_blame() -> None:
    """Named in alphabetical order, and an event of either may help."""
    left, right = Looks("Zoo", names=frozenset({"a"})), Looks("Ant", names=frozenset({"b"}))
    record = decide(left, right)
    assert record.message == "0/3 nodes are available: node(s) didn't satisfy plugin(s) [Ant Zoo] simultaneously."
    assert record.diagnosis.plugins == {"Ant", "Zoo"}


def test_of_several_plugins_that_contradict_each_other_the_last_by_name_stands_for_all() -> None:
    """What `explain` shows as the rejecting plugin must not depend on the order of a set."""
    names = {"Zoo": {"a", "b"}, "Ant": {"a", "c"}, "Bee": {"b", "c"}}
    record = decide(*(Looks(plugin, names=frozenset(nodes)) for plugin, nodes in names.items()))
    status = record.diagnosis.pre_filter
    assert status.message == "node(s) didn't satisfy plugin(s) [Ant Bee Zoo] simultaneously"
    assert status.plugin == "Zoo"
    assert record.diagnosis.plugins == set(names)


def test_no_nodes_is_nobody_s_fault() -> None:
    record = decide(Looks("Never asked"), nodes=())
    assert record.message == "no nodes available to schedule pods"
    assert record.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert record.diagnosis.plugins == frozenset()


# --- faults


BUG = RuntimeError("it broke")


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        ([Looks("X", BUG)], 'running PreFilter plugin "X": it broke'),
        ([Looks("X", error("no list"))], 'running PreFilter plugin "X": no list'),
        ([TurnsDown("X", failure=BUG)], 'running "X" filter plugin: it broke'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_faulty_plugin_is_an_error_in_kube_scheduler_s_words(plugins: list[Plugin], text: str) -> None:
    record = decide(*plugins)
    assert record.status.code is Code.ERROR
    assert record.message == text
    assert record.node_name == ""


@pytest.mark.parametrize(
    ("plugins", "text"),
    [
        ([Likes("X", {}, pre=BUG)], 'running PreScore plugin "X": it broke'),
        ([Likes("X", {}, pre=error("no state"))], 'running PreScore plugin "X": no state'),
        ([Likes("X", BUG)], 'running Score plugins: plugin "X" failed with: it broke'),
        ([Normalizes("X", {}, BUG)], 'running Normalize on Score plugins: plugin "X" failed with: it broke'),
        (
            [Likes("X", {"b": 101})],
            (
                'applying score defaultWeights on Score plugins: plugin "X" returns an invalid score 101, '
                "it should in the range of [0, 100] after normalizing"
            ),
        ),
        (
            [Likes("X", {"b": -1, "a": 100})],
            (
                'applying score defaultWeights on Score plugins: plugin "X" returns an invalid score -1, '
                "it should in the range of [0, 100] after normalizing"
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_faulty_score_is_an_error_in_kube_scheduler_s_words_if_it_is_in_tree(
    plugins: list[Plugin], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a user's gives no points, and the pod is placed by the others."""
    (plugin,) = plugins
    record = decide(*plugins)
    assert record.status.is_success
    assert [left_out.plugin for left_out in record.left_out] == ["X"]
    monkeypatch.setattr(type(plugin), "__module__", "kscheduler.plugins.x")
    record = decide(*plugins)
    assert record.status.code is Code.ERROR
    assert record.message == text
    assert record.node_name == ""


def test_a_filter_that_answers_with_another_shape_is_named() -> None:
    class Short(Plugin):
        name = "Short"

        def filter(self, *_: Any) -> Any:
            return np.zeros(1, dtype=np.int64)

    assert 'running "Short" filter plugin' in decide(Short()).message


# --- scores


def test_points_are_normalised_then_weighed_then_summed() -> None:
    record = decide(Normalizes("Tenth", {"a": 1000, "b": 500}), Likes("Plain", {"b": 30}), Tenth=2)
    by_plugin = {one.plugin: one.points.tolist() for one in record.scores}
    assert by_plugin == {"Tenth": [200, 100, 0], "Plain": [0, 30, 0]}
    assert record.totals.tolist() == [200, 130, 0]
    assert record.node_name == "a"
    assert record.best_names() == ["a"]


def test_pre_score_skip_leaves_the_score_out() -> None:
    record = decide(Likes("Skipped", {"a": 100}, pre=SKIP), Likes("Other", {"b": 1}))
    assert [one.plugin for one in record.scores] == ["Other"]
    assert record.node_name == "b"


def test_a_single_feasible_node_is_taken_without_scoring() -> None:
    record = decide(TurnsDown("Judge", "a", "c"), Likes("Faulty", BUG))
    assert record.node_name == "b"
    assert record.scores == ()


def test_without_score_plugins_every_node_counts_one() -> None:
    assert decide().totals.tolist() == [1, 1, 1]


# --- the winner among equals


@given(st.permutations(ABC), st.text(min_size=1, max_size=8), st.lists(st.sampled_from("xyz"), max_size=3))
def test_the_winner_among_equals_does_not_depend_on_the_order_of_rows(
    order: list[str], uid: str, passed: list[str]
) -> None:
    """Nor on nodes that came and went before, and left their rows to others."""
    cache = cluster(*dict.fromkeys(passed))
    for name in order:
        cache.add_node(make_node(name))
    for name in dict.fromkeys(passed):
        cache.remove_node(name)
    pod = pod_info(uid=uid)
    assert schedule(profile(), pod, cache).node_name == schedule(profile(), pod, cluster(*ABC)).node_name


def test_the_winner_among_equals_is_the_same_in_every_process_and_version() -> None:
    """Recorded once; a change here changes what a replay decides."""
    nodes = cluster(*(f"node-{number}" for number in range(100)))
    winners = [schedule(profile(), pod_info(uid=f"uid-{number}"), nodes).node_name for number in range(5)]
    assert winners == ["node-41", "node-2", "node-38", "node-48", "node-39"]


@given(st.permutations(ABC), st.text(min_size=1, max_size=8), st.booleans())
def test_by_the_rule_first_in_order_the_first_name_wins_whatever_the_row_and_the_pod(
    order: list[str], uid: str, is_kept: bool
) -> None:
    """With a class engine and without, and after a node that was first is gone and has come back."""
    by_name = replace(profile(), tie_rule=FIRST_IN_ORDER)
    nodes = cluster(*order)
    engine = ClassEngine(by_name, nodes) if is_kept else None
    assert schedule(by_name, pod_info(uid=uid), nodes, engine=engine).node_name == "a"
    nodes.remove_node("a")
    assert schedule(by_name, pod_info(uid=uid), nodes, engine=engine).node_name == "b"
    nodes.add_node(make_node("a"))
    assert schedule(by_name, pod_info(uid=uid), nodes, engine=engine).node_name == "a"


def test_equals_share_the_pods() -> None:
    """The mix must not prefer a node: 1,000 pods on 10 nodes leave none with under half or over twice its share."""
    nodes = cluster(*(f"node-{number}" for number in range(10)))
    winners = [schedule(profile(), pod_info(uid=f"{number}"), nodes).node_name for number in range(1000)]
    shares = sorted(len(list(group)) for _, group in itertools.groupby(sorted(winners)))
    assert len(shares) == 10
    assert shares[0] > 50
    assert shares[-1] < 200


@given(
    st.lists(
        st.tuples(st.sampled_from(["ok", "skip", "soft", "hard", "bug"]), st.sampled_from([None, "a", "ab", "z"])),
        max_size=4,
    ),
    st.lists(st.tuples(st.sets(st.sampled_from(ABC)), st.booleans()), max_size=3),
    st.lists(st.dictionaries(st.sampled_from(ABC), st.integers(-2, 103)), max_size=2),
)
def test_whatever_plugins_do_the_cycle_ends_with_a_node_or_a_reason(
    looks: list[tuple[str, str | None]], filters: list[tuple[set[str], bool]], scores: list[dict[str, int]]
) -> None:
    answers: dict[str, Explanation] = {
        "ok": SUCCESS,
        "skip": SKIP,
        "soft": unschedulable("s"),
        "hard": unresolvable("h"),
        "bug": BUG,
    }
    plugins: list[Plugin] = [
        Looks(f"L{number}", answers[kind], None if names is None else frozenset(names))
        for number, (kind, names) in enumerate(looks)
    ]
    plugins += [
        TurnsDown(f"F{number}", *nodes, failure=BUG if fails else None) for number, (nodes, fails) in enumerate(filters)
    ]
    plugins += [Likes(f"S{number}", points) for number, points in enumerate(scores)]
    record = decide(*plugins)
    if record.status.is_success:
        out = set().union(*(nodes for nodes, _ in filters)) if filters else set()
        assert record.node_name in set(ABC) - out
        assert record.message == ""
    else:
        assert record.node_name == ""
        assert record.message
        assert record.status.code is Code.ERROR or record.diagnosis.plugins, "somebody rejected it"


def test_a_status_knows_who_gave_it() -> None:
    assert Status(Code.ERROR, ("x",)).by("P").plugin == "P"
