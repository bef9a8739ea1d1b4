"""A change that is taken back for a trial, and put back after it."""

from kscheduler.api.kinds import PODS
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.shadow.change_buffer import BufferedChange
from kscheduler.shadow.moves import BoundPod, NodeMove, PodUpdate, Removal
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod
from tests.shadow.other import being_deleted, on_node

CHANGE = BufferedChange(1, 1, PODS, None, None, 0.0)


def cache_with_nodes() -> Cache:
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name))
    return cache


def test_a_pod_whose_end_is_unseen_is_not_being_deleted_either() -> None:
    """Deletion takes two writes, of which the first changes what spreading counts."""
    cache, pod = cache_with_nodes(), on_node(make_pod("web"), "a")
    ending = being_deleted(pod)
    moves = [Removal(CHANGE, PodInfo(ending), "a"), PodUpdate(CHANGE, pod, ending)]
    undos = [move.take_back(cache, set()) for move in moves]
    counted = cache.pod_of("uid-of-web")
    assert counted is not None
    assert not counted.is_terminating
    for undo in reversed(undos):
        assert undo is not None
        undo()
    assert cache.node_of("uid-of-web") == ""
    assert cache.statistics().assumed_pods == 0


def test_pods_of_a_node_are_in_their_order_again() -> None:
    """It decides between victims that are equal."""
    cache = cache_with_nodes()
    pods = [make_pod(f"p{number}") for number in range(3)]
    for pod in pods:
        cache.add_pod(on_node(pod, "a"))
    undo = BoundPod(CHANGE, pods[0], "a", None).take_back(cache, set())
    assert undo is not None
    undo()
    info = cache.node_info("a")
    assert info is not None
    assert [*info.pods] == ["uid-of-p0", "uid-of-p1", "uid-of-p2"]


def test_a_binding_in_flight_counts_and_is_forgotten() -> None:
    cache = cache_with_nodes()
    undo = BoundPod(CHANGE, make_pod("web"), "b", None).bring_forward(cache)
    assert undo is not None
    assert cache.node_of("uid-of-web") == "b"
    undo()
    assert cache.node_of("uid-of-web") == ""


def test_a_node_that_has_come_is_away_for_the_trial() -> None:
    cache = cache_with_nodes()
    undo = NodeMove(CHANGE, None, make_node("b")).take_back(cache, set())
    assert undo is not None
    assert not cache.has_node("b")
    undo()
    assert cache.has_node("b")


def test_a_pod_that_the_trial_keeps_away_does_not_come_back_with_its_end() -> None:
    cache, absent = cache_with_nodes(), set[str]()
    pod = make_pod("web")
    assert BoundPod(CHANGE, pod, "a", None).take_back(cache, absent) is None, "it is gone already"
    assert Removal(CHANGE, PodInfo(on_node(pod, "a")), "a").take_back(cache, absent) is None
    assert cache.node_of("uid-of-web") == ""
