"""RandomScore: looks like chance, and is the same each time."""

from collections import Counter

import pytest

from kscheduler.testing import make_node, make_pod
from tests.plugins.policies.worlds import PolicyWorld

NODES = [make_node(f"n{number}") for number in range(10)]


def test_the_same_pod_gets_the_same_points_from_another_process_with_the_same_seed() -> None:
    one, two = (PolicyWorld("RandomScore", *NODES, args={"seed": 7}) for _ in range(2))
    assert one.points(make_pod("web")) == two.points(make_pod("web"))


def test_points_are_what_they_were_when_this_test_was_written() -> None:
    """A change would make each recorded decision of the past another one."""
    points = PolicyWorld("RandomScore", *NODES).points(make_pod("web"))
    assert list(points.values()) == [20, 96, 99, 17, 94, 37, 53, 30, 8, 28]


def test_another_seed_or_pod_gives_other_points() -> None:
    points = PolicyWorld("RandomScore", *NODES).points(make_pod("web"))
    assert points != PolicyWorld("RandomScore", *NODES, args={"seed": 1}).points(make_pod("web"))
    assert points != PolicyWorld("RandomScore", *NODES).points(make_pod("other"))


def test_a_node_that_comes_or_goes_changes_no_other_nodes_points() -> None:
    points = PolicyWorld("RandomScore", *NODES).points(make_pod("web"))
    fewer = PolicyWorld("RandomScore", *NODES[3:]).points(make_pod("web"))
    assert fewer == {name: points[name] for name in fewer}


def test_pods_spread_evenly_over_nodes_and_points() -> None:
    world = PolicyWorld("RandomScore", *NODES)
    decided = [world.decide(make_pod(f"p{number}")) for number in range(2_000)]
    chosen = Counter(record.node_name for record in decided)
    assert set(chosen) == {node.metadata.name for node in NODES}
    assert max(chosen.values()) < 260, "200 each, and five standard deviations of 13"
    points = Counter(each for record in decided for each in record.totals.tolist())
    assert set(points) == set(range(101))


def test_a_pod_without_a_uid_is_reported_apart_by_its_name() -> None:
    """`explain -f pod.yaml`, before the pod exists."""
    pods = [make_pod("one"), make_pod("two")]
    for pod in pods:
        pod.metadata.uid = ""
    world = PolicyWorld("RandomScore", *NODES)
    assert world.points(pods[0]) != world.points(pods[1])
    assert world.points(pods[0]) == world.points(pods[0])


@pytest.mark.parametrize("full", ["n0", "n5"])
def test_only_nodes_that_fit_are_chosen_from(full: str) -> None:
    nodes = [make_node(node.metadata.name, cpu="0" if node.metadata.name == full else "4") for node in NODES]
    world = PolicyWorld("RandomScore", *nodes)
    chosen = {world.decide(make_pod(f"p{number}", requests={"cpu": "1"})).node_name for number in range(200)}
    assert chosen == {node.metadata.name for node in nodes} - {full}
