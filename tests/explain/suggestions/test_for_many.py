"""The change that frees most of the pods of a class, and of a request no more than that takes."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.for_many import CommonChange, common_change
from kscheduler.explain.suggestions.kinds.requests import LowerRequest
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from tests.effort import example_count
from tests.explain.scenarios import Tree, node_tree, pod_tree


def helped(nodes: list[Tree], querying: Tree, count: int) -> CommonChange | None:
    """For so many pods like this one."""
    tree = {"id": "one", "config": None, "objects": {"nodes": nodes, "pods": []}, "pod": querying}
    decision = decide(parse_scenario(json.dumps(tree).encode(), "test:1"))
    assert decision.profile is not None
    assert decision.cache is not None
    pods = [PodInfo(decision.scenario.pod)]
    for number in range(1, count):
        metadata = {**querying["metadata"], "name": f"web-{number}", "uid": f"uid-{number}"}
        pods.append(PodInfo(convert({**querying, "metadata": metadata}, Pod)))
    before = decision.cache.statistics()
    found = common_change(decision.profile, pods, decision.cache, None)
    assert decision.cache.statistics() == before
    return found


def request_of(found: CommonChange) -> int:
    """The amount to which a request is lowered."""
    facts = found.suggestion.steps[0].facts
    assert isinstance(facts, LowerRequest)
    assert isinstance(facts.to, int)
    return facts.to


def test_a_request_is_lowered_until_all_of_the_pods_fit() -> None:
    found = helped([node_tree("a", cpu="4"), node_tree("b", cpu="4")], pod_tree(cpu="6"), 4)
    assert found is not None
    assert (found.frees, found.tried, request_of(found)) == (4, 4, 2_000)


def test_the_smallest_change_is_kept_where_it_frees_all() -> None:
    taint = {"key": "gpu", "value": "", "effect": "NoSchedule"}
    found = helped([node_tree("a", cpu="8", taints=[taint])], pod_tree(cpu="1"), 6)
    assert found is not None
    assert (found.suggestion.steps[0].facts.kind, found.frees) == ("toleration", 6)


def test_of_more_than_one_resource_the_one_is_lowered_that_is_short() -> None:
    pod = pod_tree(cpu="1")
    pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = "9Gi"
    found = helped([node_tree("a", cpu="64")], pod, 16)
    assert found is not None
    assert (found.frees, request_of(found)) == (16, 512 * 2**20)


def test_nothing_is_found_where_nothing_helps_one_pod() -> None:
    assert helped([node_tree("a", cpu="4")], pod_tree(cpu="1", nodeName="", nodeSelector={"a": "b", "c": "d"}), 1)
    assert helped([], pod_tree(), 3) is None


@settings(max_examples=example_count(25), deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(2, 8))
def test_no_larger_request_frees_as_many_pods(sizes: list[int], count: int) -> None:
    nodes = [node_tree(f"n-{number}", cpu=str(size)) for number, size in enumerate(sizes)]
    found = helped(nodes, pod_tree(cpu="7"), count)
    assert found is not None
    amount = request_of(found)
    assert (found.frees, _room(sizes, amount) >= count) == (count, True)
    assert _room(sizes, amount + 1) < count


def _room(sizes: list[int], amount: int) -> int:
    """How many requests of so many thousandths the nodes have room for."""
    return sum(size * 1_000 // amount for size in sizes)
