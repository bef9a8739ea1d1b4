"""What is kept of the levels of all nodes."""

from collections.abc import Iterable, Mapping

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Node
from kscheduler.api.topologies import HyperNode
from kscheduler.state import hyper_nodes
from kscheduler.state.topology_levels import TopologyLevels
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
