"""Namespaces reach the counters: a namespace selector sees their labels as they are."""

from kscheduler.api.codec import convert
from kscheduler.api.core import LabelSelector, Namespace
from kscheduler.api.kinds import NAMESPACES
from kscheduler.api.selectors import Selector, parse_label_selector
from kscheduler.framework.pods.affinity_terms import PodMatch
from tests.builders import make_node, make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import TurnsDown, cluster, profile


def shop(team: str) -> Namespace:
    return convert({"metadata": {"name": "shop", "labels": {"team": team}}}, Namespace)


def test_a_namespace_comes_changes_and_goes() -> None:
    harness = SchedulerHarness(profile(TurnsDown("F")), cluster())
    cache = harness.cache
    cache.add_node(make_node("node-0"))
    cache.add_pod(make_pod("one", namespace="shop", node="node-0"))
    handler = harness.handlers[NAMESPACES]
    selector = parse_label_selector(LabelSelector(match_labels={"team": "x"}))
    of_team_x = PodMatch(frozenset(), selector, (Selector(),))

    def counted() -> int:
        return int(cache.counters.matching(of_team_x).sum())

    assert counted() == 0
    handler.on_add(shop("x"), initial=True)
    assert counted() == 1
    handler.on_update(shop("x"), shop("y"))
    assert counted() == 0
    handler.on_update(shop("y"), shop("x"))
    handler.on_delete(shop("x"))
    assert counted() == 0
