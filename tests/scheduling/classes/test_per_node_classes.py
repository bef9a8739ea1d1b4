"""Per-node functions that say what they read of a pod: answers are kept, and are those that would be given again."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import (
    ONE_OF_MANY,
    KeptPerNodeFilter,
    KeptPerNodeScore,
    PerNodeFilter,
    PerNodeScore,
    PluginDeclarationError,
    plugin,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.failure import failure_of_record
from tests.builders import make_node, pod_info
from tests.scheduling.classes.test_class_engine import Decider
from tests.scheduling.plugins_for_tests import cluster

NAMES = tuple("abcdef")


def tier(pod: PodInfo) -> str | None:
    return pod.labels.get("tier")


def same_tier(pod: PodInfo, node: NodeInfo) -> str | None:
    wanted = tier(pod)
    return None if wanted in (None, node.labels.get("tier")) else f"node(s) of another tier than {wanted}"


def fewest_pods(pod: PodInfo, node: NodeInfo) -> int:
    return max(0, 100 - 10 * len(node.pods) - (5 if tier(pod) else 0))


def test_a_function_that_signs_is_called_again_for_changed_nodes_only() -> None:
    queried: list[str] = []

    def counted(pod: PodInfo, node: NodeInfo) -> int:
        queried.append(node.name)
        return fewest_pods(pod, node)

    decider = Decider(cluster("a", "b"), KeptPerNodeScore("Mine", counted, tier))
    decider.decide()
    decider.cache.assume_pod(pod_info("one"), "b")
    assert decider.decide().node_name == "a"
    decider.decide(pod_info("other", labels={"tier": "web"}))
    assert queried == ["a", "b", "b", "a", "b"]


@given(
    st.lists(st.tuples(st.sampled_from("lpt"), st.sampled_from(NAMES), st.sampled_from(("", "web", "db"))), max_size=25)
)
def test_kept_answers_are_those_that_would_be_given_anew(steps: list[tuple[str, str, str]]) -> None:
    cache = cluster(*NAMES)
    kept = Decider(cache, KeptPerNodeFilter("F", same_tier, tier), KeptPerNodeScore("S", fewest_pods, tier))
    plain = Decider(cache, PerNodeFilter("F", same_tier), PerNodeScore("S", fewest_pods))
    for number, (what, node, label) in enumerate(steps):
        labels = {"tier": label} if label else {}
        if what == "l":
            cache.add_node(make_node(node, labels=labels))
        elif what == "p":
            cache.assume_pod(pod_info(f"p{number}"), node)
        pod = pod_info(f"q{number}", labels=labels)
        ours, theirs = kept.decide(pod), plain.decide(pod)
        assert ours.node_name == theirs.node_name
        assert ours.feasible_names() == theirs.feasible_names()
        if not ours.node_name:
            assert failure_of_record(ours).message == failure_of_record(theirs).message


def test_a_kept_filter_bounds_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.framework.per_node.MAX_REASONS", 2)
    names = ("a", "b", "c", "d")
    decider = Decider(cluster(*names), KeptPerNodeFilter("F", lambda _, node: f"not {node.name}", tier))
    message = failure_of_record(decider.decide()).message
    assert message.rstrip() == f"0/4 nodes are available: 1 not a, 1 not b, 2 {ONE_OF_MANY}."


def max_of_two(first: PodInfo, second: PodInfo) -> PodInfo:
    return max(first, second, key=lambda pod: pod.name)


@pytest.mark.parametrize(
    ("sign", "words"),
    [
        ("tier", "`sign` is a function from a pod"),
        (lambda: None, "`sign` is called with (pod)"),
        (max_of_two, "`sign` is called with (pod)"),
    ],
)
def test_a_sign_that_cannot_be_one_is_refused_when_declared(sign: Any, words: str) -> None:
    declare: Callable[[Any], Any] = plugin("Mine", sign=sign)

    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 1

    with pytest.raises(PluginDeclarationError) as refused:
        declare(score)
    assert words in str(refused.value)
