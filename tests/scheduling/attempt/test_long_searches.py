"""A pod whose cycle has left a search is decided about in the background, and holds up nobody."""

import time
from typing import Any

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.plugin import PASS_ALL, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import StatusError
from kscheduler.scheduling.attempt import long_searches
from tests.builders import make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.attempt.test_waiting import open_binder
from tests.scheduling.attempt.test_workers import working
from tests.scheduling.eviction.stage import turns
from tests.scheduling.plugins_for_tests import cluster, profile


class Searches(Plugin):
    """A filter that must search for pods with claims, in so many slices."""

    name = "Searches"

    def __init__(self, slices: int) -> None:
        self.left = slices
        self.filtered: list[str] = []
        self.failure: Exception | None = None

    def run(self, seconds: float) -> bool:
        assert seconds == long_searches.SLICE_SECONDS
        if self.failure is not None:
            raise self.failure
        self.left -= 1
        return self.left <= 0

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        search_budget = cycle.find(SearchTimeBudget)
        self.filtered.append(pod.name)
        if pod.pod.spec.resource_claims and search_budget is not None and self.left > 0:
            search_budget.rest = self
            raise StatusError("not yet")
        return PASS_ALL


def with_claim(name: str, **fields: Any) -> Pod:
    return make_pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}], **fields)


async def test_others_are_bound_while_it_is_searched_for() -> None:
    searches, binder = Searches(20), open_binder()
    harness = SchedulerHarness(profile(searches, binder), cluster("node"), workers=1)
    harness.add(with_claim("long"), make_pod("next"))
    async with working(harness):
        await turns()
    assert binder.bound == ["next", "long"]
    assert harness.reported.reports == []
    assert searches.filtered == ["long", "next", "long"], "one cycle that leaves it, and one that decides"


async def test_those_behind_it_find_what_it_has_found_and_keep_their_order() -> None:
    searches, binder = Searches(20), open_binder()
    harness = SchedulerHarness(profile(searches, binder), cluster("node"))
    names = [f"p{number}" for number in range(6)]
    harness.add(*map(with_claim, names))
    async with working(harness):
        await turns(100)
    assert binder.bound == names
    assert searches.left == 0, "it was searched once"


async def test_where_findings_do_not_last_the_last_cycle_has_the_time_to_search_for_all() -> None:
    class Forgetful(Searches):
        def run(self, seconds: float) -> bool:
            self.left = len(self.filtered) < long_searches.MAX_CYCLES
            return True

    searches, binder = Forgetful(1), open_binder()
    harness = SchedulerHarness(profile(searches, binder), cluster("node"))
    harness.add(with_claim("p"))
    async with working(harness):
        await turns()
    assert binder.bound == ["p"]
    assert len(searches.filtered) == 1 + long_searches.MAX_CYCLES


async def test_where_the_last_cycle_takes_too_long_the_pod_alone_fails() -> None:
    class Endless(Searches):
        def run(self, seconds: float) -> bool:
            return True

        def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
            if pod.pod.spec.resource_claims:
                assert cycle.find(SearchTimeBudget) is not None, "it would hold the loop for as long as it takes"
            return super().filter(cycle, pod, nodes, rows)

    searches, binder = Endless(1), open_binder()
    harness = SchedulerHarness(profile(searches, binder), cluster("node"))
    harness.add(with_claim("endless"), make_pod("other"))
    async with working(harness):
        await turns()
    assert binder.bound == ["other"]
    assert harness.reported.reports[0][1].message == long_searches.SEARCHED_TOO_LONG
    assert len(searches.filtered) == 2 + long_searches.MAX_CYCLES


async def test_a_pod_that_goes_meanwhile_is_let_go() -> None:
    searches, binder = Searches(100), open_binder()
    harness = SchedulerHarness(profile(searches, binder), cluster("node"))
    harness.add(with_claim("gone"))
    async with working(harness):
        left = searches.left
        assert 0 < left < 100
        harness.stores[PODS].remove("default/gone")
        await turns(120)
    assert (binder.bound, searches.filtered) == ([], ["gone"])
    assert searches.left == left, "nobody searches for it any more: its attempt would hold what it asks for until then"
    assert not harness.queue.is_in_flight("uid-of-gone")


@pytest.mark.parametrize("failure", [RuntimeError("broken"), KeyError("broken")])
async def test_a_search_that_fails_fails_its_own_attempt_only(failure: Exception) -> None:
    searches, binder = Searches(20), open_binder()
    searches.failure = failure
    harness = SchedulerHarness(profile(searches, binder), cluster("node"))
    harness.add(with_claim("p"), make_pod("other"))
    async with working(harness):
        await turns()
    assert binder.bound == ["other"]
    assert "broken" in harness.reported.reports[0][1].message


def test_in_virtual_time_no_search_is_long() -> None:
    """Else the order in which a simulation decides would hang on the machine."""
    clock = VirtualClock()
    search_budget = SearchTimeBudget(0.001, clock.monotonic)
    assert not search_budget.is_over
    time.sleep(0.002)
    assert not search_budget.is_over
