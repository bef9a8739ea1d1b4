"""What is kept of the levels of all nodes."""

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
