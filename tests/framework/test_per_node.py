"""`@plugin`: a policy in a few lines, which cannot break a cycle."""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.per_node import PerNodeFilter, PerNodeScore, PluginDeclarationError, plugin
from kscheduler.framework.per_node_declaration import EXAMPLE
from kscheduler.framework.plugin_results import WrongAnswerError, place_in_file, shown
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import DuplicatePluginError, Registry
from kscheduler.framework.status import Code
from tests.builders import make_node, pod_info

# Plain functions get none.
ANY_HANDLE: Any = None


def table(*names: str) -> NodeTable:
    """Nodes without anything on them."""
    nodes = NodeTable()
    for name in names:
        nodes.add(NodeInfo(make_node(name)))
    return nodes


def test_a_filter_gives_its_reason_as_the_status() -> None:
    def judge(pod: PodInfo, node: NodeInfo) -> str | None:
        return None if node.name == "a" else f"{node.name} is not for {pod.name}"

    nodes, cycle = table("a", "b", "c"), CycleState()
    per_node = PerNodeFilter("Mine", judge)
    codes = per_node.filter(cycle, pod_info("p"), nodes, nodes.rows())
    assert (codes != 0).tolist() == [False, True, True]
    assert [per_node.status(cycle, int(code)).message for code in codes[1:]] == ["b is not for p", "c is not for p"]
    assert per_node.status(cycle, int(codes[1])).code is Code.UNSCHEDULABLE
    assert per_node.status(cycle, int(codes[1])).plugin == "Mine"


def test_two_filters_of_one_profile_keep_their_reasons_apart() -> None:
    nodes, cycle, rows = table("a"), CycleState(), np.array([0], dtype=np.intp)
    first, second = PerNodeFilter("First", lambda *_: "one"), PerNodeFilter("Second", lambda *_: "two")
    code_one = int(first.filter(cycle, pod_info(), nodes, rows)[0])
    code_two = int(second.filter(cycle, pod_info(), nodes, rows)[0])
    assert (first.status(cycle, code_one).message, second.status(cycle, code_two).message) == ("one", "two")


class PluginResults:
    """Falsy and not None: neither a reason nor points."""

    def __repr__(self) -> str:  # ids of tests are alike in each process of a run
        return "Answers()"


FILTER_ANSWERS = [True, False, 0, "", PluginResults(), ["no"], b"no"]
SCORE_ANSWERS = [None, True, 1.0, math.nan, math.inf, "50", PluginResults(), np.float64(1), [1]]
OUT_OF_RANGE = [-1, 101, 2**63, -(2**63) - 1, 10**40]


@pytest.mark.parametrize("answer", FILTER_ANSWERS, ids=repr)
def test_what_is_no_reason_fails_the_pod_in_words(answer: Any) -> None:
    nodes = table("a")
    with pytest.raises(
        WrongAnswerError, match=r"it returned .*, while looking at node a: return the reason .* or None"
    ) as failure:
        PerNodeFilter("Mine", lambda *_: answer).filter(CycleState(), pod_info(), nodes, nodes.rows())
    assert shown(answer) in str(failure.value)


@pytest.mark.parametrize("answer", SCORE_ANSWERS, ids=repr)
def test_what_is_no_points_fails_the_pod_in_words(answer: Any) -> None:
    nodes = table("a")
    with pytest.raises(
        WrongAnswerError, match=r"it returned .*, while looking at node a: return points, an int from 0 to 100"
    ):
        PerNodeScore("Mine", lambda *_: answer).score(CycleState(), pod_info(), nodes, nodes.rows())


@pytest.mark.parametrize("points", OUT_OF_RANGE)
def test_points_out_of_range_are_never_clamped(points: int) -> None:
    nodes = table("a")
    wanted = rf"invalid score {points}, while looking at node a, it should be in the range of \[0, 100\]"
    with pytest.raises(WrongAnswerError, match=wanted):
        PerNodeScore("Mine", lambda *_: points).score(CycleState(), pod_info(), nodes, nodes.rows())


@given(st.integers(0, 100))
def test_points_in_range_are_taken_as_they_are(points: int) -> None:
    nodes = table("a", "b")
    scores = PerNodeScore("Mine", lambda *_: points).score(CycleState(), pod_info(), nodes, nodes.rows())
    assert scores.tolist() == [points, points]
    assert scores.dtype == np.int64


def test_an_exception_names_the_node_and_keeps_its_traceback() -> None:
    nodes = table("a")
    with pytest.raises(
        WrongAnswerError, match=r"it raised ValueError: could not convert .* while looking at node a"
    ) as failure:
        PerNodeScore("Mine", lambda *_: int(float("dear"))).score(CycleState(), pod_info(), nodes, nodes.rows())
    assert isinstance(failure.value.__cause__, ValueError)


def test_a_node_cannot_be_written_to() -> None:
    def judge(pod: PodInfo, node: NodeInfo) -> None:
        node.labels["seen"] = "yes"  # type: ignore[index]  # that is the mistake

    nodes = table("a")
    with pytest.raises(WrongAnswerError, match="does not support item assignment"):
        PerNodeFilter("Mine", judge).filter(CycleState(), pod_info(), nodes, nodes.rows())
    assert "seen" not in make_node("a").metadata.labels


def test_the_function_decides_what_the_plugin_is() -> None:
    @plugin("PreferFirst")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 100 if node.name == "a" else 0

    @plugin("OnlyFirst")
    def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001  # the name is the contract
        return None

    assert (score.name, filter.name) == ("PreferFirst", "OnlyFirst")


# --- declaring


async def _async_filter(pod: PodInfo, node: NodeInfo) -> None: ...


def _generator(pod: PodInfo, node: NodeInfo) -> Any:
    yield 1


class _Class:
    """No function."""


def _with_default(pod: PodInfo, node: NodeInfo, weight: int = 3) -> int:
    return weight


def called(name: str, function: Any) -> Any:
    """The function under another name, as if it had been declared so."""
    function.__name__ = name
    return function


MISTAKES = {
    "another name": (called("judge", lambda _pod, _node: 1), "name the function `filter` or `score`, not `judge`"),
    "a coroutine": (called("filter", _async_filter), "must not be `async`"),
    "a generator": (called("score", _generator), "must return an answer, not yield"),
    "a class": (_Class, "it is for functions"),
    "no function": (7, "it is for functions"),
    "too few parameters": (called("score", lambda _pod: 1), r"is called with \(pod, node\)"),
    "too many parameters": (called("score", lambda _pod, _node, _more: 1), r"is called with \(pod, node\).*'_more'"),
    "no parameters": (called("filter", lambda: None), "is called with"),
}


@pytest.mark.parametrize(("function", "problem"), MISTAKES.values(), ids=MISTAKES)
def test_a_declaration_that_cannot_work_is_refused_with_its_line_and_an_example(function: Any, problem: str) -> None:
    with pytest.raises(PluginDeclarationError, match=problem) as failure:
        plugin("Mine")(function)
    text = str(failure.value)
    assert '@plugin("PreferCheap")' in text
    assert text.startswith("@plugin('Mine'), ")
    if hasattr(function, "__code__"):
        assert f":{function.__code__.co_firstlineno}: " in text


@pytest.mark.parametrize(
    ("kind", "annotation"), [("filter", bool), ("filter", "bool"), ("score", float), ("score", None)]
)
def test_an_annotation_that_promises_no_answer_is_refused(kind: str, annotation: Any) -> None:
    function = called(kind, lambda _pod, _node: None)
    function.__annotations__ = {"return": annotation}
    with pytest.raises(PluginDeclarationError, match="is declared to return"):
        plugin("Mine")(function)


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_plugin_needs_a_name(name: Any) -> None:
    with pytest.raises(PluginDeclarationError, match="a plugin needs a name"):
        plugin(name)(called("score", lambda _pod, _node: 1))


def test_a_decorator_without_a_name_is_reported_so_at_once() -> None:
    """And not by what is done with the result, lines later."""

    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 1

    with pytest.raises(PluginDeclarationError, match="a plugin needs a name"):
        plugin(score)  # type: ignore[arg-type]


def test_parameters_with_defaults_are_the_function_s_own_affair() -> None:
    assert plugin("Mine")(called("score", _with_default)).name == "Mine"


def test_the_example_works() -> None:
    """It is what a refusal shows."""
    scope: dict[str, Any] = {"plugin": plugin, "PodInfo": PodInfo, "NodeInfo": NodeInfo}
    exec(textwrap.dedent(EXAMPLE), scope)
    nodes = table("a")
    assert scope["score"](None, ANY_HANDLE).score(CycleState(), pod_info(), nodes, nodes.rows()).tolist() == [0]
    assert scope["filter"](None, ANY_HANDLE).filter(CycleState(), pod_info(), nodes, nodes.rows()).tolist() == [1]


# --- arguments


def test_arguments_are_handed_to_a_function_that_asks_for_them() -> None:
    @plugin("Mine")
    def score(pod: PodInfo, node: NodeInfo, args: Mapping[str, Any]) -> int:
        points: int = args.get("points", 1)
        return points

    nodes = table("a")
    for args, points in (({"points": 42}, 42), ({}, 1), (None, 1)):
        built: Any = score(args, ANY_HANDLE)
        assert built.score(CycleState(), pod_info(), nodes, nodes.rows()).tolist() == [points]


def test_arguments_that_nobody_asks_for_are_refused() -> None:
    @plugin("Mine")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 1

    assert score({}, ANY_HANDLE).name == "Mine"
    with pytest.raises(ValueError, match=r"it takes no arguments: give `score` .* a third parameter `args`.*points"):
        score({"points": 42}, ANY_HANDLE)


@pytest.mark.parametrize(("called_with", "other"), [(pod_info().pod, make_node("a")), (pod_info(), table("a").info(0))])
def test_a_plugin_that_is_called_as_the_function_that_it_was_says_how_to_try_it(called_with: Any, other: Any) -> None:
    @plugin("Mine")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        """Prices."""
        return 1

    with pytest.raises(TypeError, match=r"is the plugin Mine now.*enable\(score\)\.points\(pod, 'Mine'\)"):
        score(called_with, other)
    assert (score.__name__, score.__doc__) == ("score", "Prices.")


@pytest.mark.parametrize("kind", ["filter", "score"])
def test_swapped_parameters_are_refused(kind: str) -> None:
    def swapped(node: NodeInfo, pod: PodInfo) -> None: ...

    with pytest.raises(PluginDeclarationError, match=r"is called with \(pod, node\), in this order"):
        plugin("Mine")(called(kind, swapped))


# --- registering


def test_two_plugins_of_one_name_are_reported_who_was_first() -> None:
    registry = Registry()
    registry.register("Mine", plugin("Mine")(called("score", _with_default)))
    with pytest.raises(
        DuplicatePluginError, match=r"already exists \(@plugin\('Mine'\) score \(.*test_per_node.py:\d+"
    ):
        registry.register("Mine", plugin("Mine")(called("score", _with_default)))


def test_what_builds_nothing_is_not_registered() -> None:
    with pytest.raises(TypeError, match="is no factory"):
        Registry().register("Mine", None)  # type: ignore[arg-type]


def test_the_place_of_a_function_is_that_of_the_text_which_was_loaded(tmp_path: Path) -> None:
    """Its file may be changed before a profile is built with it."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from kscheduler.framework.per_node import plugin\n\n"
        "@plugin(\n    'Mine',\n)\ndef score(pod, node):\n    return 1\n"
    )
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("# nothing\n" * 20)
    mine = names["score"]
    assert mine(None, ANY_HANDLE).written_at == f"{path}:6"
    assert f"{path}:6" in repr(mine)


@pytest.mark.parametrize("returned", [None, math.nan])
def test_a_wrong_result_is_located_at_the_function_and_not_at_its_decorator(returned: Any) -> None:
    @plugin(
        "Mine",
    )
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return returned  # type: ignore[no-any-return]

    nodes = table("a")
    mine: Any = score(None, ANY_HANDLE)
    with pytest.raises(WrongAnswerError) as wrong:
        mine.score(CycleState(), pod_info("p"), nodes, nodes.rows())
    file, _, line = wrong.value.written_at.rpartition(":")
    assert Path(file).read_text().splitlines()[int(line) - 1].strip().startswith("def score(")
    assert place_in_file(wrong.value) == f"test_per_node.py:{line}"
