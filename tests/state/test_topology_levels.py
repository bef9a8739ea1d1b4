"""What is kept of the levels of all nodes."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Node
from kscheduler.api.topologies import HyperNode
from kscheduler.api.well_known import ZONE
from kscheduler.framework.cluster.topology_request import TopologyRequest
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.state import hyper_nodes, topology_levels
from kscheduler.state.topology_levels import LevelList, TopologyLevels
from tests.builders import make_node
from tests.scheduling.groups.world import World


def test_what_is_known_of_all_nodes_is_found_once_until_a_node_changes() -> None:
    world, found = World(), list[int]()
    world.add(make_node("n"), initial=True)
    nodes, levels = world.cache.nodes, TopologyLevels()

    def ask(key: int) -> None:
        levels.of_all_nodes(nodes, key, lambda: found.append(key))

    for key in (*range(8), *range(8)):
        ask(key)
    assert found == list(range(8))
    world.add(make_node("m"))
    ask(0)
    assert found == [*range(8), 0]
    for key in range(100):
        ask(key)
    ask(0)
    assert found.count(0) == 3, "few are kept"


def test_hyper_nodes_are_looked_through_again_when_a_name_or_a_label_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, levels, calls = World(), TopologyLevels(), list[int]()
    tiers_of = hyper_nodes.tiers_of

    def counted(known: Mapping[str, HyperNode], nodes: Iterable[Node]) -> hyper_nodes.Tiers:
        calls.append(1)
        return tiers_of(known, nodes)

    monkeypatch.setattr(hyper_nodes, "tiers_of", counted)
    member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}}
    levels.put(convert({"metadata": {"name": "s"}, "spec": {"tier": 1, "members": [member]}}, HyperNode))
    world.add(make_node("n", labels={"rack": "a"}), initial=True)
    before = levels.lists(world.cache.nodes)
    world.add(make_node("n", labels={"rack": "a"}, cpu="7"))
    assert levels.lists(world.cache.nodes) == before
    assert len(calls) == 1
    world.add(make_node("n", labels={"rack": "b"}))
    assert levels.lists(world.cache.nodes) != before
    assert len(calls) == 2


def test_levels_of_the_nodes_labels_are_found_once_until_a_node_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, levels, request = World(), TopologyLevels(), TopologyRequest(required="rack")
    world.add(make_node("n", labels={"rack": "r", ZONE: "z"}), initial=True)
    nodes, derived, calls = world.cache.nodes, topology_levels._derived, list[int]()

    def counted(named: Sequence[str], nodes: NodeTable, rows: Rows) -> LevelList | None:
        calls.append(len(rows))
        return derived(named, nodes, rows)

    monkeypatch.setattr(topology_levels, "_derived", counted)
    first = levels.find(request, nodes, nodes.rows())
    assert isinstance(first, LevelList)
    assert levels.find(request, nodes, nodes.rows()) is first
    assert [level.key for level in first.levels] == ["rack", ZONE]
    assert calls == [1]
    world.add(make_node("m", labels={"rack": "r", ZONE: "y"}))
    levels.find(request, nodes, nodes.rows())
    levels.find(request, nodes, nodes.rows()[:1])
    assert calls == [1, 2, 1]
