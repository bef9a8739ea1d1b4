"""What is wrong with HyperNodes and Topologies: it is reported once for each object, and the others are domains."""

from itertools import count
from typing import Any

import pytest

from kscheduler.aio.tasks import finished
from kscheduler.api.codec import convert
from kscheduler.api.topologies import HyperNode, KueueTopology
from kscheduler.scheduling import topology_reports
from kscheduler.scheduling.topology_reports import MAX_LOGGED, TopologyReports
from kscheduler.state.hyper_nodes import CHECK_SECONDS, MAX_SECONDS, problems_of, tiers_of
from kscheduler.state.topology_levels import TopologyLevels, level_list
from tests.builders import make_node
from tests.scheduling.groups.test_topology_objects import by_name, exact, hyper_node, regex
from tests.scheduling.groups.world import World
from tests.service.log.reading import log_at

SOUND = hyper_node("sound", 1, exact("Node", "n0"), regex("Node", "^n1$"))


async def checked() -> bool:
    return True


def selecting(selector: dict[str, Any], kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": selector}


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param(
            [hyper_node("w", 1, regex("Node", "n("))],
            'spec.members[0].selector.regexMatch.pattern "n(" is no regular expression of RE2: missing ): n(',
            id="no expression",
        ),
        pytest.param(
            [hyper_node("w", 1, exact("Node", "n0"), regex("Node", "a" * 2_000))],
            f'spec.members[1].selector.regexMatch.pattern "{"a" * 64}..." is longer than 1024 characters',
            id="long",
        ),
        pytest.param(
            [hyper_node("w", 1, exact("Node", "gone"))], 'spec.members[0]: there is no Node "gone"', id="no node"
        ),
        pytest.param(
            [hyper_node("w", 2, exact("HyperNode", "gone"))], 'spec.members[0]: there is no HyperNode "gone"', id="none"
        ),
        pytest.param(
            [hyper_node("v", 2, exact("HyperNode", "w")), hyper_node("w", 3, exact("HyperNode", "v"))],
            "spec.members name each other in a circle: v -> w -> v",
            id="circle",
        ),
        pytest.param(
            [hyper_node("w", 2, exact("HyperNode", "w"))],
            "spec.members name each other in a circle: w -> w",
            id="itself",
        ),
        pytest.param([hyper_node("w", 0, exact("Node", "n0"))], "spec.tier 0 is below 1", id="tier"),
        pytest.param(
            [hyper_node("w", 1, selecting({}, "Pod\x1b"))],
            'spec.members[0].type "Pod?" is neither Node nor HyperNode',
            id="type",
        ),
        pytest.param([hyper_node("w", 1, selecting({}))], "spec.members[0].selector selects nothing", id="selector"),
        pytest.param(
            [hyper_node(f"a{n:02}", n + 2, exact("HyperNode", f"a{n + 1:02}" if n < 15 else "w")) for n in range(16)]
            + [hyper_node("w", 18, exact("Node", "n0"))],
            "it is nested deeper than 16 levels",
            id="deep",
        ),
    ],
)
def test_the_object_is_named_and_the_others_are_domains(wrong: list[HyperNode], problem: str) -> None:
    found = tiers_of(by_name([SOUND, *wrong]), [make_node("n0"), make_node("n1")])
    assert found.problems == {"w": problem}
    assert finished(problems_of(by_name([SOUND, *wrong]), ["n0", "n1"])) == {"w": problem}, "before a group asks, too"
    narrowest = found.tiers[-1].domains
    assert narrowest == {"n0": "sound", "n1": "sound"}


def test_sound_objects_have_no_problem() -> None:
    assert not tiers_of(by_name([SOUND]), [make_node("n0"), make_node("n1")]).problems


def test_the_search_for_members_has_an_end_in_time() -> None:
    """Each look at the clock is half a second after the last one: five are within the time."""
    ticks = count()
    hyper_nodes = by_name(hyper_node(f"h{number}", 1, regex("Node", f"^n{number}$")) for number in range(4))
    nodes = [make_node(f"n{number}") for number in range(4)]
    found = tiers_of(hyper_nodes, nodes, lambda: next(ticks) * MAX_SECONDS / 4)
    assert found.tiers[0].domains == {"n0": "h0", "n1": "h1"}
    assert set(found.problems) == {"h2", "h3"}
    assert found.problems["h2"] == "it has no nodes: after 2 s all members were not looked through"


def test_before_a_group_asks_no_nodes_are_selected_and_the_time_is_short() -> None:
    """What is not found in time is not said: a group will look for longer."""
    ticks = count()
    hyper_nodes = by_name(hyper_node(f"h{number}", 1, regex("Node", "n(")) for number in range(4))
    assert not finished(problems_of(hyper_nodes, [], lambda: next(ticks) * CHECK_SECONDS * 2))
    ticks = count()
    selecting_all = by_name([hyper_node("h", 1, *[regex("Node", "n")] * 9, exact("Node", "gone"))])
    names = [f"n{number}" for number in range(10_000)]
    found = finished(problems_of(selecting_all, names, lambda: next(ticks) * CHECK_SECONDS / 20))
    assert found == {"h": 'spec.members[9]: there is no Node "gone"'}, "looks at the clock by member, none by node"


def test_the_time_of_pauses_does_not_count() -> None:
    """Others' work may take any time there."""
    seconds = [0.0]
    hyper_nodes = by_name(hyper_node(f"h{number}", 1, regex("Node", "n(")) for number in range(4))
    steps = problems_of(hyper_nodes, [], lambda: seconds[0])
    for _ in range(4):
        next(steps)
        seconds[0] += CHECK_SECONDS * 2
    assert list(finished(steps)) == ["h0", "h1", "h2", "h3"]


def test_the_nodes_of_all_together_are_bounded() -> None:
    hyper_nodes = by_name(hyper_node(f"h{number}", number + 1, regex("Node", "n")) for number in range(4))
    found = tiers_of(hyper_nodes, [make_node(f"n{number}") for number in range(10)], max_nodes=25)
    assert [tier.number for tier in found.tiers] == [2, 1]
    assert set(found.problems) == {"h2", "h3"}


def test_of_two_opposite_orders_the_first_wins_and_the_other_is_reported() -> None:
    world, levels = World(), TopologyLevels()
    world.nodes(1)
    for name, keys in (("b", ("x", "y")), ("a", ("y", "x")), ("c", ("x", "z"))):
        spec = {"levels": [{"nodeLabel": key} for key in keys]}
        levels.put(convert({"metadata": {"name": name}, "spec": spec}, KueueTopology))
    assert levels.lists(world.cache.nodes)[0] == level_list("Topology a", ("y", "x"))
    problem = "spec.levels has x before y, and Topology a, which wins, the other way round"
    assert levels.problems() == {("topologies.kueue.x-k8s.io", "b"): problem}
    levels.configure([("x", "y")])
    found = levels.problems()
    assert list(found) == [("topologies.kueue.x-k8s.io", "a")]
    assert "topologyLevels[0], which wins" in next(iter(found.values()))


async def test_each_object_is_logged_once_and_few_at_a_time() -> None:
    problems = {("r", f"o{number:03}"): "wrong" for number in range(MAX_LOGGED + 5)}
    version = 1
    reports = TopologyReports(lambda: problems, lambda: version, checked)
    with log_at(0) as log:
        for _ in range(4):
            await reports.look()
        lines = log.named("topology_object_wrong")
        assert [line["object"] for line in lines] == [name for _, name in problems]
        problems["r", "o003"] = "otherwise"
        version += 1
        await reports.look()
        await reports.look()
        assert [line["reason"] for line in log.named("topology_object_wrong")[len(lines) :]] == ["otherwise"]
    assert list(reports.notes()) == [f"r o000: wrong, and {len(problems) - 1} more objects"]


async def test_of_very_many_objects_none_is_logged_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_reports, "MAX_KNOWN", 50)
    problems = {("r", f"o{number:04}"): "wrong" for number in range(70)}
    version = 1
    reports = TopologyReports(lambda: problems, lambda: version, checked)
    with log_at(0) as log:
        for _ in range(10):
            await reports.look()
            version += 1
        first = [line["object"] for line in log.named("topology_object_wrong")]
        assert first == [name for _, name in problems][:50]
        del problems["r", "o0001"]
        await reports.look()
        assert [line["object"] for line in log.named("topology_object_wrong")[len(first) :]] == ["o0050"]


def test_a_changed_hyper_node_is_looked_at_again() -> None:
    world, levels = World(), TopologyLevels()
    world.nodes(1)
    levels.put(hyper_node("w", 1, regex("Node", "n(")))
    levels.lists(world.cache.nodes)
    assert list(levels.problems()) == [("hypernodes.topology.volcano.sh", "w")]
    before = levels.version
    levels.put(hyper_node("w", 1, regex("Node", "n")))
    assert levels.problems() == {}
    assert levels.version > before


async def test_what_has_changed_is_checked_once_it_rests_and_as_soon_as_it_can_be() -> None:
    versions, checks, can = [1, 2, 3, 3, 3, 3], list[int](), [True]

    async def check() -> bool:
        checks.append(versions[0])
        return can[0]

    reports = TopologyReports(dict, lambda: versions[0], check)

    async def look(count: int) -> None:
        for _ in range(count):
            await reports.look()
            if versions[1:]:
                versions.pop(0)

    await look(6)
    assert checks == [3], "several often come together"
    can[0], versions[:] = False, [4]
    await look(3)
    can[0] = True
    await look(2)
    assert checks == [3, 4, 4, 4]


def test_what_is_wrong_with_hyper_nodes_is_known_without_a_group() -> None:
    world = World()
    world.nodes(1)
    awaited = "they are not listed yet"
    levels = TopologyLevels(lambda _: awaited)
    assert finished(levels.check(world.cache.nodes)), "there is nothing to check"
    levels.put(hyper_node("w", 1, regex("Node", "n(")))
    assert not finished(levels.check(world.cache.nodes))
    assert levels.problems() == {}
    awaited = ""
    assert finished(levels.check(world.cache.nodes))
    assert list(levels.problems()) == [("hypernodes.topology.volcano.sh", "w")]


@pytest.mark.parametrize("has_asked", [False, True], ids=["nobody", "a group"])
def test_a_node_that_joins_is_missing_no_longer(has_asked: bool) -> None:
    """Whether a group has asked for a topology before, or nobody; also if another node leaves at the same time."""
    world, levels = World(), TopologyLevels()
    world.nodes(2)
    levels.put(hyper_node("w", 1, exact("Node", "late")))
    nodes = world.cache.nodes
    if has_asked:
        levels.lists(nodes)
    assert finished(levels.check(nodes))
    assert len(levels.problems()) == 1
    world.cache.remove_node("n1")
    world.cache.add_node(make_node("late"))
    assert finished(levels.check(nodes))
    assert levels.problems() == {}
    world.cache.remove_node("late")
    world.cache.add_node(make_node("n1"))
    if has_asked:
        levels.lists(nodes)
    assert finished(levels.check(nodes))
    assert len(levels.problems()) == 1, "it has left again"


def test_what_changes_in_a_pause_is_checked_again() -> None:
    world, levels = World(), TopologyLevels()
    world.nodes(1)
    levels.put(hyper_node("w", 1, exact("Node", "late")))
    steps = levels.check(world.cache.nodes)
    next(steps)
    world.cache.add_node(make_node("late"))
    assert not finished(steps)
    assert levels.problems() == {}


async def test_while_many_wait_for_the_log_nothing_is_looked_for_again() -> None:
    problems = {("r", f"o{number:03}"): "wrong" for number in range(MAX_LOGGED * 5)}
    calls = list[str]()

    async def check() -> bool:
        calls.append("check")
        return True

    def found() -> dict[tuple[str, str], str]:
        calls.append("problems")
        return problems

    reports = TopologyReports(found, lambda: 1, check)
    with log_at(0) as log:
        for _ in range(8):
            await reports.look()
        assert len(log.named("topology_object_wrong")) == len(problems)
    assert calls == ["problems", "check", "problems"]
