"""A shadow beside a scheduler of the same rules: bindings in flight and late watches explain every difference."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Node
from kscheduler.api.kinds import NODES, PODS
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.shadow.comparison import (
    KSCHEDULER,
    KUBE_SCHEDULER,
    Comparison,
    DifferenceKind,
    FollowedScheduler,
)
from tests.builders import make_node, make_pod
from tests.shadow.other import OtherScheduler, Written, followed_by, kinds, nominated, on_node, rejected

EXPLAINED = {DifferenceKind.SAME, DifferenceKind.ORDER}

STEPS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(["100m", "500m", "900m"])),
    st.tuples(st.just("see"), st.integers(1, 6)),
    st.tuples(st.just("decide"), st.just(0)),
    st.tuples(st.just("write"), st.integers(0, 10)),
    st.tuples(st.just("end"), st.integers(0, 10)),
)
Steps = list[tuple[str, Any]]
# Pods that are being deleted do not count for it.
EVEN: Final = [
    {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a1"}},
    }
]


def four_nodes() -> list[Node]:
    return [make_node(f"n{number}", cpu="3", labels={"zone": f"z{number % 2}"}) for number in range(4)]


def play(other: OtherScheduler, steps: Steps, priority: Callable[[int], int] = lambda _: 0) -> None:
    doing: dict[str, Callable[[Any], None]] = {
        "see": other.see,
        "decide": lambda _: other.decide(),
        "write": other.write,
        "end": other.end,
    }
    for number, (what, value) in enumerate(steps):
        if what == "create":
            spread = {"topologySpreadConstraints": EVEN} if number % 2 else {}
            labels = {"app": f"a{number % 2}"}
            name = f"p{number:03}"
            other.create(make_pod(name, requests={"cpu": value}, labels=labels, priority=priority(number), **spread))
        else:
            doing[what](value)
    other.finish()


async def followed(steps: Steps, priority: Callable[[int], int] = lambda _: 0) -> list[Comparison]:
    follower, comparisons, clock = followed_by()
    other = OtherScheduler(Written(follower), four_nodes())
    play(other, steps, priority)
    await clock.advance(10.0)
    await follower.play_ripe()
    assert not len(follower.change_buffer)
    return comparisons


@settings(deadline=None, max_examples=25)
@given(st.lists(STEPS, max_size=60))
def test_equal_rules_differ_by_order_at_most(steps: Steps) -> None:
    """The other decides in the order of arrival; its bindings are written in any order, its watch is late."""
    comparisons = asyncio.run(followed(steps))
    assert set(kinds(comparisons)) <= EXPLAINED, [v for v in comparisons if v.kind not in EXPLAINED]
    for comparison in comparisons:
        assert (comparison.order is not None) is (comparison.kind is DifferenceKind.ORDER), (
            "an order is shown, or not claimed"
        )


@settings(deadline=None, max_examples=10)
@given(st.lists(STEPS, max_size=50), st.data())
def test_a_search_for_an_order_leaves_the_view_as_it_was(steps: Steps, data: st.DataObject) -> None:
    priority = data.draw(st.sampled_from([lambda _: 0, lambda number: number % 3]))

    async def both() -> None:
        follower, _, clock = followed_by()
        other = OtherScheduler(Written(follower), four_nodes())
        play(other, steps, priority)
        await clock.advance(10.0)
        await follower.play_ripe()
        plain, _, plain_clock = followed_by()
        plain.settings = replace(plain.settings, names=frozenset())  # it follows nobody, and only plays
        again = OtherScheduler(Written(plain), four_nodes())
        play(again, steps, priority)
        await plain_clock.advance(10.0)
        await plain.play_ripe()
        assert summary(follower.assembly.cache.nodes) == summary(plain.assembly.cache.nodes)

    asyncio.run(both())


def summary(nodes: NodeTable) -> list[tuple[str, int, int, list[str]]]:
    """By node: cpu requested, pods, and the pods in the order in which they came."""
    return sorted(
        (
            nodes.name_of(row),
            int(nodes.amounts(nodes.requested, "cpu", nodes.rows())[place]),
            int(nodes.pod_count[row]),
            [*nodes.info(row).pods],
        )
        for place, row in enumerate(nodes.rows().tolist())
    )


async def test_a_real_difference_is_not_called_an_order() -> None:
    """The other binds each pod to the fullest node that fits: no order of bindings makes that ours."""
    follower, comparisons, clock = followed_by()
    written = Written(follower)
    for number in range(4):
        written.put(NODES, make_node(f"n{number}", cpu="8", pods="110"))
    for number in range(20):
        pod = written.put(PODS, make_pod(f"p{number:02}", requests={"cpu": "300m"}))
        written.put(PODS, on_node(pod, "n0"))
    await clock.advance(10.0)
    await follower.play_ripe()
    found = kinds(comparisons)
    assert found.count(DifferenceKind.DIFFERENT_SCORE) >= 15
    reasons = follower.sums.reasons(3)
    assert reasons[0].reason == "NodeResourcesFit gives our node more points"
    compared = next(
        comparison.compared for comparison in comparisons if comparison.kind is DifferenceKind.DIFFERENT_SCORE
    )
    assert compared is not None
    assert {each.plugin for each in compared.points} >= {"NodeResourcesFit", "TaintToleration"}


async def test_a_node_that_we_reject_names_plugin_and_reason() -> None:
    follower, comparisons, clock = followed_by()
    written = Written(follower)
    written.put(NODES, make_node("small", cpu="1"))
    written.put(NODES, make_node("tainted", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}))
    pod = written.put(PODS, make_pod("web", requests={"cpu": "500m"}))
    written.put(PODS, on_node(pod, "tainted"))
    await clock.advance(10.0)
    await follower.play_ripe()
    (comparison,) = comparisons
    assert comparison.kind is DifferenceKind.NOT_FEASIBLE
    assert comparison.reason == "TaintToleration: node(s) had untolerated taint(s)"
    assert (comparison.theirs, comparison.ours) == ("tainted", "small")


async def test_a_pod_for_which_we_have_no_node_says_so() -> None:
    follower, comparisons, clock = followed_by()
    written = Written(follower)
    written.put(NODES, make_node("small", cpu="1"))
    pod = written.put(PODS, make_pod("web", requests={"cpu": "2"}))
    written.put(PODS, on_node(pod, "small"))
    await clock.advance(10.0)
    await follower.play_ripe()
    (comparison,) = comparisons
    assert (comparison.kind, comparison.ours) == (DifferenceKind.NOT_FEASIBLE, "")
    assert "Insufficient cpu" in comparison.message
    assert follower.placements.sums(follower.assembly.cache.nodes).unplaced == 1


async def test_reality_is_applied_and_never_our_own_choice() -> None:
    follower, _, clock = followed_by(followed=KUBE_SCHEDULER)
    written = Written(follower)
    for name in ("a", "b"):
        written.put(NODES, make_node(name))
    pod = written.put(PODS, make_pod("web", requests={"cpu": "1"}))
    written.put(PODS, on_node(pod, "b"))
    await clock.advance(10.0)
    await follower.play_ripe()
    cache = follower.assembly.cache
    assert cache.node_of("uid-of-web") == "b"
    assert cache.statistics().assumed_pods == 0


@pytest.mark.parametrize(
    ("program", "real"), [pytest.param(KUBE_SCHEDULER, 0, id="by-chance"), pytest.param(KSCHEDULER, 1, id="fixed-rule")]
)
async def test_a_tie_is_excused_for_who_takes_any_of_the_best_only(program: FollowedScheduler, real: int) -> None:
    follower, comparisons, clock = followed_by(followed=program)
    written = Written(follower)
    for number in range(8):
        written.put(NODES, make_node(f"n{number}"))
    pod = written.put(PODS, make_pod("web"))
    await clock.advance(10.0)
    await follower.play_ripe()
    decided = follower._evaluator.would_go(pod)
    assert decided is not None
    written.put(PODS, on_node(pod, "n0" if decided.node_name != "n0" else "n1"))
    await clock.advance(10.0)
    await follower.play_ripe()
    (comparison,) = comparisons
    assert comparison.kind is DifferenceKind.TIE
    assert follower.sums.real_differences == real
    assert follower.placements.sums(follower.assembly.cache.nodes).elsewhere == real


async def test_pods_that_the_other_leaves_pending_count_after_the_grace() -> None:
    follower, _, clock = followed_by(grace_seconds=30.0)
    written = Written(follower)
    written.put(NODES, make_node("a"))
    pod = written.put(PODS, make_pod("web", requests={"cpu": "1"}))
    written.put(PODS, rejected(pod))
    await clock.advance(10.0)
    await follower.play_ripe()
    follower.look_at_pending()
    assert follower.pending.statistics() == {"now": 0, "ever": 0}
    await clock.advance(31.0)
    follower.look_at_pending()
    assert [(each.pod, each.node) for each in follower.pending.now()] == [("default/web", "a")]
    written.put(PODS, on_node(pod, "a"))
    await clock.advance(10.0)
    await follower.play_ripe()
    follower.look_at_pending()
    assert follower.pending.statistics() == {"now": 0, "ever": 1}


async def test_a_pod_that_waits_for_good_reason_is_not_left_pending() -> None:
    follower, _, clock = followed_by(grace_seconds=0.0)
    written = Written(follower)
    written.put(NODES, make_node("a"))
    written.put(PODS, rejected(written.put(PODS, make_pod("huge", requests={"cpu": "64"}))))
    written.put(PODS, rejected(written.put(PODS, make_pod("gated", schedulingGates=[{"name": "quota"}]))))
    await clock.advance(20.0)
    await follower.play_ripe()
    follower.look_at_pending()
    assert follower.pending.statistics() == {"now": 0, "ever": 0}


async def test_nominations_are_compared_with_our_preemption() -> None:
    follower, _, clock = followed_by()
    written = Written(follower)
    written.put(NODES, make_node("a", cpu="2"))
    written.put(NODES, make_node("b", cpu="2", spec={"unschedulable": True}))
    victim = written.put(PODS, make_pod("victim", requests={"cpu": "2"}))
    written.put(PODS, on_node(victim, "a"))
    urgent = written.put(PODS, make_pod("urgent", requests={"cpu": "2"}, priority=100))
    written.put(PODS, nominated(rejected(urgent), "a"))
    await clock.advance(10.0)
    await follower.play_ripe()
    assert follower.sums.nominations == {"same node": 1}
    assert follower.sums.our_evictions == 1


async def test_what_a_shadow_does_not_play_is_an_unknown_rule() -> None:
    follower, comparisons, clock = followed_by()
    written = Written(follower)
    written.put(NODES, make_node("a"))
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    pod = written.put(PODS, make_pod("trainer", resourceClaims=claims))
    written.put(PODS, on_node(pod, "a"))
    await clock.advance(10.0)
    await follower.play_ripe()
    (comparison,) = comparisons
    assert comparison.kind is DifferenceKind.UNKNOWN_RULE
    assert "device claims" in comparison.reason


async def test_pods_of_other_names_and_pods_made_with_a_node_are_not_judged() -> None:
    follower, comparisons, clock = followed_by()
    written = Written(follower)
    written.put(NODES, make_node("a"))
    foreign = written.put(PODS, make_pod("foreign", schedulerName="somebody"))
    written.put(PODS, on_node(foreign, "a"))
    written.put(PODS, make_pod("static", node="a"))
    await clock.advance(10.0)
    await follower.play_ripe()
    assert comparisons == []
    assert follower.sums.not_evaluated == 1
    assert follower.assembly.cache.statistics().pods == 2, "they take their room all the same"


async def test_an_unreadable_object_costs_itself_only() -> None:
    follower, comparisons, clock = followed_by()
    written = Written(follower)
    written.put(NODES, make_node("a"))
    broken = written.put(PODS, make_pod("broken", requests={"cpu": "a lot"}))
    written.put(PODS, on_node(broken, "a"))
    pod = written.put(PODS, make_pod("web"))
    written.put(PODS, on_node(pod, "a"))
    await clock.advance(10.0)
    await follower.play_ripe()
    assert [comparison.pod for comparison in comparisons if comparison.kind is DifferenceKind.SAME] == ["default/web"]
