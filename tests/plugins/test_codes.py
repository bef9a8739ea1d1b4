"""Codes: what a number means, for pods with many resources and for tables that change."""

import numpy as np
import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.taint_toleration import TaintToleration
from tests.plugins.made import HANDLE, info, node, pod, requesting, table

GPU_TAINT = {"key": "gpu", "value": "", "effect": "NoSchedule"}


def test_bits_stand_for_pods_then_native_resources_then_the_others_by_name() -> None:
    full = node("full", allocatable={"cpu": "1", "memory": "1Gi", "pods": "1"})
    wanted = {"cpu": "2", "memory": "512Mi", "example.com/b": "1", "example.com/a": "1"}
    nodes = table(full, pods=(requesting("there", requests={"memory": "768Mi"}, nodeName="full"),))
    state, fit = CycleState(), NodeResourcesFit(None, HANDLE)
    codes = fit.filter(state, PodInfo(requesting(requests=wanted)), nodes, nodes.rows())
    assert codes is not None
    assert codes.tolist() == [-0b110111]
    assert fit.status(state, -0b110111).reasons == (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient example.com/a",
        "Insufficient example.com/b",
    )


@pytest.mark.parametrize("count", [1, 57, 58, 59, 60, 200])
def test_a_pod_may_request_any_number_of_resources(count: int) -> None:
    names = [f"example.com/r{number:03}" for number in range(count)]
    half = dict.fromkeys(names[::2], "1")
    nodes = table(
        node("none"),
        node("half", allocatable={**half, "pods": "9"}),
        node("taken", allocatable={**dict.fromkeys(names, "1"), "pods": "9"}),
        node("all", allocatable={**dict.fromkeys(names, "2"), "pods": "9"}),
        pods=(requesting("there", requests={names[-1]: "1"}, nodeName="taken"),),
    )
    wanted = PodInfo(requesting(requests=dict.fromkeys(names, "1")))
    state, fit = CycleState(), NodeResourcesFit(None, HANDLE)
    fit.pre_filter(state, wanted, nodes)
    codes = fit.filter(state, wanted, nodes, nodes.rows())
    assert codes is not None
    said = {
        nodes.name_of(row): fit.status(state, code)
        for row, code in zip(nodes.rows().tolist(), codes.tolist(), strict=True)
        if code
    }
    assert set(said) == {"none", "taken"} | ({"half"} if count > 1 else set())
    assert said["none"].reasons == tuple(f"Insufficient {name}" for name in names)
    assert said["none"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert said["taken"].reasons == (f"Insufficient {names[-1]}",)
    assert said["taken"].code is Code.UNSCHEDULABLE
    if count > 1:
        assert said["half"].reasons == tuple(f"Insufficient {name}" for name in names[1::2])


def test_numbered_codes_keep_their_meaning_over_several_calls_in_a_cycle() -> None:
    names = [f"example.com/r{number}" for number in range(70)]
    wanted = PodInfo(requesting(requests=dict.fromkeys(names, "1")))
    nodes = table(node("none"), node("one", allocatable={names[0]: "1", "pods": "9"}))
    state, fit = CycleState(), NodeResourcesFit(None, HANDLE)
    by_one = [fit.filter(state, wanted, nodes, nodes.rows()[at : at + 1]) for at in (1, 0)]
    together = fit.filter(state, wanted, nodes, nodes.rows())
    assert together is not None
    apart = np.concatenate([codes for codes in by_one[::-1] if codes is not None])
    assert together.tolist() == apart.tolist()


def test_a_pod_that_requests_nothing_still_counts_as_a_pod() -> None:
    nodes = table(node(allocatable={"pods": "1"}), pods=(pod("there", nodeName="node-1"),))
    state, fit = CycleState(), NodeResourcesFit(None, HANDLE)
    codes = fit.filter(state, info(), nodes, nodes.rows())
    assert codes is not None
    assert fit.status(state, int(codes[0])).reasons == ("Too many pods",)


def test_taints_that_turn_up_later_are_judged_too() -> None:
    plugin = TaintToleration(None, HANDLE)
    nodes = table(node("open"))
    assert plugin.filter(CycleState(), info(), nodes, nodes.rows()) is None
    tainted = table(node("open"), node("tainted", taints=[GPU_TAINT]))
    codes = plugin.filter(CycleState(), info(), tainted, tainted.rows())
    assert codes is not None
    assert codes.tolist() == [0, plugin.UNTOLERATED]
    assert plugin.filter(CycleState(), info(), nodes, nodes.rows()) is None


def test_a_table_that_gets_a_new_set_of_taints_extends_the_verdicts() -> None:
    plugin = TaintToleration(None, HANDLE)
    nodes = table(node("soft", taints=[{**GPU_TAINT, "effect": "PreferNoSchedule"}]))
    assert plugin.filter(CycleState(), info(), nodes, nodes.rows()) is None
    assert plugin.score(CycleState(), info(), nodes, nodes.rows()).tolist() == [1]
    previous = nodes.info(0).node
    assert previous is not None
    nodes.info(0).set_node(node("soft", taints=[GPU_TAINT]))
    nodes.update(0, previous)
    codes = plugin.filter(CycleState(), info(), nodes, nodes.rows())
    assert codes is not None
    assert codes.tolist() == [plugin.UNTOLERATED]
    assert plugin.score(CycleState(), info(), nodes, nodes.rows()).tolist() == [0]


def named(*lists: list[str]) -> list[dict[str, object]]:
    return [{"key": "metadata.name", "operator": "In", "values": names} for names in lists]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([{"matchFields": named(["a"])}], {"a"}),
        ([{"matchFields": named(["a"])}, {"matchFields": named(["b"])}], {"a", "b"}),
        ([{"matchFields": named(["a", "b"], ["b", "c"])}], {"b"}),
        ([{"matchFields": named(["a"], ["b"])}, {"matchFields": named(["c"])}], {"c"}),
        ([{"matchFields": named(["a"], ["b"])}], "conflict"),
        ([{"matchFields": named(["a"])}, {"matchExpressions": [{"key": "x", "operator": "Exists"}]}], None),
        ([], None),
    ],
    ids=["one", "either", "both lists", "one term is void", "all terms are void", "a term without names", "no term"],
)
def test_terms_that_name_nodes_narrow_the_search(terms: list[object], expected: object) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = info(affinity={"nodeAffinity": required})
    result = NodeAffinity(None, HANDLE).pre_filter(CycleState(), pod, table())
    assert pod.names_nodes is (expected is not None)
    if expected == "conflict":
        assert result.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert result.status.reasons == ("pod affinity terms conflict",)
    else:
        assert result.status.is_success
        assert result.node_names == expected
