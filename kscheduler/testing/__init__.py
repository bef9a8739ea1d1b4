"""For the tests of a plugin: clusters in a line each, the scheduler's own cycle, and failures that explain themselves.

    from kscheduler.testing import Cluster, assert_goes_to, make_node, make_pod
    from cheap import score

    def test_a_cheap_node_wins():
        cluster = Cluster(make_node("dear"), make_node("cheap", annotations={"cost": "0.1"})).enable(score, weight=5)
        assert_goes_to(cluster, make_pod("web"), "cheap")

A failed assertion shows what `kscheduler explain` would say: who rejected which node, and every plugin's points.

That plays PreEnqueue to PostFilter, where a pod's node is decided. `async with cluster.running() as running:` has a
scheduler at work besides: the queue and its hints, Reserve, Permit, PreBind, Bind and PostBind, in virtual time.
"""

from kscheduler.testing.answers import APIServerAnswers
from kscheduler.testing.cluster import Cluster
from kscheduler.testing.objects import (
    assert_goes_to,
    assert_prefers,
    assert_rejected,
    assert_turned_down,
    make_node,
    make_pod,
)
from kscheduler.testing.running_cluster import RunningCluster

__all__ = [
    "APIServerAnswers",
    "Cluster",
    "RunningCluster",
    "assert_goes_to",
    "assert_prefers",
    "assert_rejected",
    "assert_turned_down",
    "make_node",
    "make_pod",
]
