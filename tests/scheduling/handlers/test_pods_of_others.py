"""Whoever places a pod, and however the watch shows it, it counts on its node when the event has been handled."""

from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import default_configuration
from kscheduler.plugins import in_tree
from kscheduler.scheduling.handlers.event_handlers import PodHandler
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import TurnsDown, cluster, profile

REQUESTS = {"cpu": "3", "memory": "1Gi"}
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "hash", "kubernetes.io/config.source": "file"}}
DAEMON = {
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}]
}
RUNNING = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}

Show = Callable[[PodHandler, dict[str, Any]], None]


def appears_on_its_node(handler: PodHandler, fields: dict[str, Any]) -> None:
    handler.on_add(make_pod("p", node="a", **fields), initial=False)


def is_listed_on_its_node(handler: PodHandler, fields: dict[str, Any]) -> None:
    handler.on_add(make_pod("p", node="a", **fields), initial=True)


def is_bound_later(handler: PodHandler, fields: dict[str, Any]) -> None:
    handler.on_add(make_pod("p", **fields), initial=False)
    handler.on_update(make_pod("p", **fields), make_pod("p", node="a", **fields))


def is_first_seen_bound(handler: PodHandler, fields: dict[str, Any]) -> None:
    """The version in between was missed."""
    handler.on_update(make_pod("p", **fields), make_pod("p", node="a", **fields))


@pytest.mark.parametrize("show", [appears_on_its_node, is_listed_on_its_node, is_bound_later, is_first_seen_bound])
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"schedulerName": "default-scheduler"}, id="of kube-scheduler"),
        pytest.param({"schedulerName": "nobody-knows"}, id="of a scheduler that nobody knows"),
        pytest.param({"schedulerName": ""}, id="without a scheduler"),
        pytest.param({}, id="of ours"),
        pytest.param({"schedulerName": "default-scheduler", "metadata": MIRROR}, id="a static pod"),
        pytest.param({"schedulerName": "default-scheduler", "metadata": DAEMON}, id="of a DaemonSet"),
        pytest.param({"schedulerName": "default-scheduler", "status": RUNNING}, id="running"),
        pytest.param({"schedulerName": "x", "schedulingGates": [{"name": "g"}]}, id="with a gate"),
    ],
)
def test_a_pod_counts_on_its_node_at_once(show: Show, fields: dict[str, Any]) -> None:
    harness = SchedulerHarness(profile(TurnsDown("F")), cluster("a", "b"))
    show(harness.pod_handler, {"requests": REQUESTS, **fields})
    table = harness.cache.nodes
    row = table.row_of("a")
    assert (table.requested[0, row], table.requested[1, row], table.pod_count[row]) == (3000, 2**30, 1)
    assert harness.where("default/p") == "", "nobody decides about it any more"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("name", ["kscheduler", "default-scheduler"])
def test_a_pod_that_has_ended_does_not_count(phase: str, name: str) -> None:
    """Also one that the kubelet has rejected (`Failed`, OutOfcpu): its room is free at that event."""
    harness = SchedulerHarness(profile(TurnsDown("F")), cluster("a"))
    fields: dict[str, Any] = {"requests": REQUESTS, "schedulerName": name}
    bound, ended = make_pod("p", node="a", **fields), make_pod("p", node="a", status={"phase": phase}, **fields)
    harness.pod_handler.on_add(bound, initial=False)
    harness.pod_handler.on_update(bound, ended)
    harness.pod_handler.on_add(make_pod("q", node="a", status={"phase": phase}, **fields), initial=False)
    assert harness.cache.nodes.pod_count[harness.cache.nodes.row_of("a")] == 0
    assert harness.cache.nodes.requested[0, harness.cache.nodes.row_of("a")] == 0


@pytest.mark.parametrize("has_classes", [True, False])
def test_the_decision_after_the_event_goes_round_what_another_scheduler_has_taken(has_classes: bool) -> None:
    """By the class engine, whose columns are kept, as by the plain way."""
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name))
    assembly = Assembly(
        default_configuration(), in_tree.registry(), Ports(), VirtualClock(), cache=cache, has_classes=has_classes
    )

    def decided(name: str) -> str:
        assembly.pod_handler.on_add(make_pod(name, requests=REQUESTS), initial=False)
        queued = assembly.queue.pop_nowait(assembly.clock.time())
        assert queued is not None
        attempt = assembly.scheduler.decide(queued)
        return attempt.node_name if attempt is not None else ""

    first = decided("p0")
    other = "b" if first == "a" else "a"
    theirs = make_pod("q", node=other, requests=REQUESTS, schedulerName="default-scheduler")
    assembly.pod_handler.on_add(theirs, initial=False)
    assert decided("p1") == "", "both nodes are full"
    assembly.pod_handler.on_delete(theirs)
    assert decided("p2") == other
