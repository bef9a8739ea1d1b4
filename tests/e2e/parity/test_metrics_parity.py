"""One workload through kube-scheduler and through kscheduler, one after the other: their /metrics tell the same.

Names, types, label names and bucket bounds of every `scheduler_*`, `rest_client_*`, `workqueue_*`, `kubernetes_*` and
`process_*` series are equal, and every other series is served or told in docs/operations.md as one that is not. Equal
are, after each step, the counts of attempts by result, of arrivals by queue and event, and of pods by queue and by
plugin, and at the end whatever else counts happenings. Every difference stands in `DIFFERENCES` with its reason. A
difference that is not there fails, and so does one that is there and is none any more.

Classes of pods are off for kscheduler: with them, pods that are alike are judged once and counted once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import pytest

from kscheduler.config.in_tree_plugins import IN_TREE_POINTS
from tests.controlplane.process import wait_until
from tests.controlplane.releases import pinned
from tests.e2e.conftest import clean, create_namespace
from tests.e2e.parity import metered
from tests.e2e.parity.metered_workload import NODES, STEPS, Step, build_cluster
from tests.e2e.parity.metrics_page import Labels, Page, number_differences, shape_differences
from tests.e2e.recorder import Recorder
from tests.e2e.scenario import Scenario
from tests.e2e.servers import RealServer, Server
from tests.telemetry.metrics.test_upstream_series import OURS, is_listed

AFTER_EACH_STEP = (
    "scheduler_schedule_attempts_total",
    "scheduler_queue_incoming_pods_total",
    "scheduler_queue_incoming_entities_total",
    "scheduler_pending_pods",
    "scheduler_queued_entities",
    "scheduler_unschedulable_pods",
)
AT_THE_END = (
    "scheduler_cache_size",
    "scheduler_event_handling_duration_seconds",
    "scheduler_framework_extension_point_duration_seconds",
    "scheduler_plugin_evaluation_total",
    "scheduler_pod_scheduled_after_flush_total",
    "scheduler_pod_scheduling_attempts",
    "scheduler_pod_scheduling_sli_duration_seconds",
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_scheduling_attempt_duration_seconds",
)
HINTS = "scheduler_queueing_hint_execution_duration_seconds"
BATCHING = "kube-scheduler's way to reuse results for pods that are alike; kscheduler does it by class, and counts none"

# Series that are compared by shape. The others are of the login and of libraries: each is served, or told.
PREFIXES = ("scheduler_", "rest_client_", "workqueue_", "kubernetes_", "process_", "go_goroutines")


class Kind(Enum):
    """In what way a number differs."""

    ONLY_THEIRS = "only theirs"
    ONLY_OURS = "only ours"
    NEAR = "near"
    """By a hundredth at most; it may also be equal."""


@dataclass(frozen=True)
class Difference:
    """A series, or some children of it, that differ, and why that is right."""

    series: str
    kind: Kind
    why: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Which children; `*` stands for anything."""

    def covers(self, series: str, labels: Labels) -> bool:
        found = dict(labels)
        return series == self.series and all(fnmatchcase(found[key], value) for key, value in self.labels.items())

    def explains(self, theirs: float, ours: float) -> bool:
        if self.kind is Kind.NEAR:
            return abs(theirs - ours) <= theirs / 100
        absent, present = (ours, theirs) if self.kind is Kind.ONLY_THEIRS else (theirs, ours)
        return absent == 0 < present


COLUMNS = "a plugin that works in columns has nothing to prepare here"
CHANCE = "among equal nodes kube-scheduler draws lots, so that later pods may find a node more or less to score"
DIFFERENCES = (
    Difference(
        "scheduler_framework_extension_point_duration_seconds", Kind.ONLY_THEIRS, BATCHING, {"extension_point": "Sign"}
    ),
    Difference(
        "scheduler_event_handling_duration_seconds",
        Kind.ONLY_OURS,
        "a namespace that comes or changes may be the one that a pod's namespaceSelector waits for",
        {"event": "Namespace*"},
    ),
    *(
        Difference(
            "scheduler_plugin_evaluation_total",
            Kind.ONLY_THEIRS,
            COLUMNS,
            {"extension_point": "PreScore", "plugin": plugin},
        )
        for plugin in ("NodeResourcesFit", "TaintToleration")
    ),
    *(
        Difference(
            "scheduler_plugin_evaluation_total",
            Kind.ONLY_THEIRS,
            "from 1.37 on it skips pods whose resize is deferred there, and has nothing to do for others",
            {"extension_point": "PreFilter", "plugin": plugin},
        )
        for plugin in ("NodeUnschedulable", "TaintToleration")
        if "preFilter" in IN_TREE_POINTS[pinned.followed_version(pinned.chosen())][plugin]
    ),
    Difference("scheduler_plugin_evaluation_total", Kind.NEAR, CHANCE, {"extension_point": "Score"}),
)
# Where plugins are timed one by one, once for all nodes together; kube-scheduler does it node by node, and elsewhere
# too, each in a random tenth of the cycles.
PLUGIN_POINTS = frozenset({"PreFilter", "Filter", "PreScore", "Score"})
# What runs concurrently here; kube-scheduler also judges nodes in goroutines.
OPERATIONS = frozenset({"binding"})


def run(program: str, server: RealServer, folder: Path) -> list[Page]:
    """The page after each step."""
    namespace = f"metrics-{program}"
    create_namespace(server, namespace)
    running = metered.start(program, server, folder)
    try:
        with Recorder(server.api) as recorder:
            scenario = Scenario(server, recorder, namespace, program, folder)
            scenario.processes.append(running.process)
            build_cluster(scenario)
            running.wait_started(NODES)
            pages = [perform(step, scenario, running) for step in STEPS]
            scenario.audit()
            scenario.stop_schedulers()
            return pages
    finally:
        running.process.kill()
        server.api.delete(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data", missing_ok=True)
        clean(server, namespace)


def perform(step: Step, scenario: Scenario, running: metered.Metered) -> Page:
    running.outlast_backoff()
    step.act(scenario)
    return running.settle(lambda: step.is_done(scenario))


@pytest.fixture(scope="module")
def pages(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Page], list[Page]]:
    """Kube-scheduler's and ours, after each step."""
    if not isinstance(server, RealServer):
        pytest.skip("side by side on the real API server")
    folder = tmp_path_factory.mktemp("metrics")
    forget_volumes(server)
    theirs = run("kube-scheduler", server, folder / "theirs")
    return theirs, run("kscheduler", server, folder / "ours")


def forget_volumes(server: RealServer) -> None:
    """What earlier tests have left would be deleted while the first of the two schedulers counts its events."""
    for volume in server.api.items("/api/v1/persistentvolumes"):
        server.api.delete(f"/api/v1/persistentvolumes/{volume['metadata']['name']}", missing_ok=True)
    for kind in ("persistentvolumeclaims", "persistentvolumes"):
        wait_until(f"no {kind} of earlier tests", partial(is_empty, server, kind), 120)


def is_empty(server: RealServer, kind: str) -> bool:
    return not server.api.items(f"/api/v1/{kind}")


Pages = tuple[Sequence[Page], Sequence[Page]]


def test_every_series_of_kube_scheduler_has_its_shape_here(pages: Pages) -> None:
    theirs, ours = (each[-1].only(PREFIXES) for each in pages)
    assert not shape_differences(theirs, ours, set(filter(is_listed, theirs.shapes)))


def test_every_series_of_its_page_is_served_or_reported_as_one_that_is_not(pages: Pages) -> None:
    theirs, ours = pages[0][-1], pages[1][-1]
    served = ours.shapes.keys() | OURS
    # Of Go's counters whose names do not end so the parser makes names that do.
    missing = {name for name in theirs.shapes if not {name, name.removesuffix("_total")} & served}
    assert sorted(name for name in missing if not is_listed(name)) == []


def test_the_queues_have_the_same_names(pages: Pages) -> None:
    theirs, ours = pages[0][-1], pages[1][-1]
    for series in ("scheduler_pending_pods", "scheduler_queue_incoming_pods_total"):
        assert theirs.values_of(series, "queue") == ours.values_of(series, "queue")


def test_attempts_arrivals_and_queues_are_equal_after_each_step(pages: Pages) -> None:
    found = {
        (step.name, series): differing
        for step, theirs, ours in zip(STEPS, *pages, strict=True)
        for series in AFTER_EACH_STEP
        if (differing := number_differences(theirs, ours, series))
    }
    assert not found


def test_all_else_that_counts_is_equal_or_explained(pages: Pages) -> None:
    theirs, ours = pages[0][-1], pages[1][-1]
    unexplained, unused = [], {one for one in DIFFERENCES if one.kind is not Kind.NEAR}
    for series in AT_THE_END:
        for labels, pair in number_differences(theirs, ours, series).items():
            reasons = [one for one in DIFFERENCES if one.covers(series, labels) and one.explains(*pair)]
            unused.difference_update(reasons)
            if not reasons:
                unexplained.append((series, dict(labels), pair))
    assert not unexplained
    assert not unused, "listed, but there is no such difference any more"


def test_the_same_events_are_queried_about_and_the_same_answers_given(pages: Pages) -> None:
    """How often each plugin is asked differs from run to run: upstream asks those that rejected a pod in no order,
    and stops at the first Queue. Of namespaces it never asks; they are other tests' namespaces that come and go.
    """
    theirs, ours = pages[0][-1], pages[1][-1]
    assert theirs.values_of(HINTS, "hint") == ours.values_of(HINTS, "hint")
    queried = {event for event in ours.values_of(HINTS, "event") if not event.startswith("Namespace")}
    assert theirs.values_of(HINTS, "event") == queried


def test_what_is_timed_in_another_way_uses_kube_schedulers_words(pages: Pages) -> None:
    theirs, ours = pages[0][-1], pages[1][-1]
    series = "scheduler_plugin_execution_duration_seconds"
    assert ours.values_of(series, "extension_point") == PLUGIN_POINTS < theirs.values_of(series, "extension_point")
    assert ours.values_of(series, "status") == {"Success", "Skip"} < theirs.values_of(series, "status")
    assert ours.values_of("scheduler_goroutines", "operation") == OPERATIONS
    assert theirs.values_of("scheduler_goroutines", "operation") > OPERATIONS
    assert "PodPopped" in ours.values_of("scheduler_inflight_events", "event")
