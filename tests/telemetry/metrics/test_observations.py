"""What the scheduler counts: plain numbers that mean what Prometheus' histograms and counters mean."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.framework.cluster.preemption import PreemptingGroup
from kscheduler.scheduling.attempt_events import (
    GroupAttempted,
    GroupCycleTimed,
    GroupPreemptionSearched,
    PlacementsTried,
)
from kscheduler.scheduling.observations import SETTLED_EVERY, AttemptResult, Observations
from kscheduler.telemetry.series import BatchedHistogram, Histogram, exponential_bounds
from tests.told import CONFLICT, pod_bound, preemption_begun

_BOUNDS = exponential_bounds(0.001, 2, 15)


@given(st.lists(st.one_of(st.floats(0, 100), st.sampled_from(_BOUNDS)), max_size=50))
def test_a_bucket_counts_the_values_up_to_and_including_its_bound(values: list[float]) -> None:
    histogram = Histogram(_BOUNDS)
    for value in values:
        histogram.observe(value)
    naive = [sum(value <= bound for value in values) for bound in _BOUNDS]
    assert list(accumulate(histogram.counts)) == [*naive, len(values)]
    assert histogram.count == len(values)
    assert histogram.total == pytest.approx(sum(values))


def test_bounds_are_multiplied_step_by_step_so_that_they_are_the_floats_of_gos_client() -> None:
    bounds = exponential_bounds(0.00001, 1.5, 20)
    assert bounds[:4] == (1e-05, 1.5000000000000002e-05, 2.2500000000000005e-05, 3.375000000000001e-05)
    assert len(bounds) == 20


@pytest.mark.parametrize(
    ("attempts", "label"),
    [
        pytest.param(1, "1", id="first"),
        pytest.param(14, "14", id="last-with-its-own"),
        pytest.param(15, "15+", id="first-of-the-rest"),
        pytest.param(400, "15+", id="many"),
    ],
)
def test_the_sli_reports_attempts_up_to_fourteen_apart(attempts: int, label: str) -> None:
    observations = Observations()
    observations.bound(pod_bound(attempts))
    assert list(observations.sli_seconds) == [(label,)]


def test_a_stepped_clock_does_not_make_the_sli_negative() -> None:
    observations = Observations()
    observations.bound(pod_bound(sli_seconds=-3600.0))
    assert observations.sli_seconds[("1",)].total == 0.0


@pytest.mark.parametrize(("version", "counted"), [("1.36", [2]), ("1.37", [2, 3])])
def test_victims_that_are_terminating_already_are_counted_from_1_37_on(version: str, counted: list[int]) -> None:
    observations = Observations()
    observations.follow(BEHAVIOURS[version])
    observations.preemption_begun(preemption_begun(2, to_go=1))
    observations.preemption_begun(preemption_begun(3, to_go=0))
    assert (observations.victims.count, observations.victims.total) == (len(counted), sum(counted))


def test_an_attempt_counts_and_is_timed_under_the_same_labels() -> None:
    observations = Observations()
    observations.attempt(AttemptResult.UNSCHEDULABLE, "batch", 0.002)
    observations.attempt(AttemptResult.UNSCHEDULABLE, "batch", 0.004)
    assert observations.schedule_attempts == {("unschedulable", "batch"): 2}
    assert observations.attempt_seconds["unschedulable", "batch"].total == pytest.approx(0.006)


def test_a_reset_zeroes_everything_and_bound_children_go_on_counting() -> None:
    observations = Observations()
    bound = observations.extension_points["Filter", "Success", "default-scheduler"]
    bound.observe(0.001)
    observations.attempt(AttemptResult.ERROR, "default-scheduler", 1.0)
    observations.bind_in_doubt(CONFLICT)
    observations.reset()
    assert bound.count == 0
    assert observations.schedule_attempts == {}
    assert observations.bind_conflicts == {(): 0}
    bound.observe(0.001)
    assert observations.extension_points["Filter", "Success", "default-scheduler"].count == 1


def tell_of_groups(observations: Observations, kind: str) -> None:
    observations.group_attempt(GroupAttempted("default/g", kind, "scheduled", "default", 0.1, "", 2, 2, 1))
    observations.group_algorithm(GroupCycleTimed("default", kind, 0.1))
    observations.placements(PlacementsTried("default", kind, 2, [(True, 0.1)]))
    observations.group_preemption_searched(GroupPreemptionSearched("default", kind, "Success", "Success", 0.1))


def test_metrics_of_groups_tell_their_kind_where_the_followed_version_does() -> None:
    observations = Observations()
    of_groups = (
        observations.group_attempts,
        observations.group_attempt_seconds,
        observations.group_algorithm_seconds,
        observations.generated_placements,
        observations.placement_evaluations,
        observations.placement_seconds,
        observations.workload_preemption_attempts,
    )
    seen: dict[str, list[bool]] = {}
    for version in ("1.37", "1.38", "1.37"):
        observations.follow(BEHAVIOURS[version], follows_groups=True)
        tell_of_groups(observations, "compositepodgroup")
        for metric in of_groups:
            assert all(len(values) == len(metric.series.labels) for values in metric), metric.series
        seen[version] = ["compositepodgroup" in values for metric in of_groups for values in metric]
    assert seen == {"1.37": [False] * len(of_groups), "1.38": [True] * len(of_groups)}
    assert [*observations.evaluation_seconds] == [("podgroup", "Success"), ("compositepodgroup", "Success")]


def test_disruptions_by_a_group_are_counted_by_what_goes() -> None:
    preempting = PreemptingGroup("g", GroupKey("scheduling.k8s.io", "default", "g"), (), ())
    of_pod = preemption_begun(1, to_go=1)
    of_group = structs.replace(
        of_pod,
        preemption=replace(of_pod.preemption, group=preempting, disrupted={"pod": 3, "podgroup": 1}),
    )
    observations = Observations()
    observations.follow(BEHAVIOURS["1.38"], follows_groups=True)
    observations.preemption_begun(of_pod)
    assert not observations.workload_disruptions
    assert not observations.workload_victims
    observations.preemption_begun(of_group)
    counted = {labels: child.total for labels, child in observations.workload_disruptions.items()}
    assert counted == {("podgroup", "pod"): 3, ("podgroup", "podgroup"): 1}
    assert [*observations.workload_victims] == [("podgroup",)]


def test_readings_of_attempts_that_fail_do_not_pile_up_until_somebody_reads_the_series() -> None:
    observations = Observations()
    seconds = observations.algorithm_seconds
    for _ in range(3 * SETTLED_EVERY):
        seconds.observe(0.1)
        observations.attempt(AttemptResult.UNSCHEDULABLE, "default", 0.1)
    assert isinstance(seconds, BatchedHistogram)
    assert len(seconds._pending) <= SETTLED_EVERY
    assert seconds.count == 3 * SETTLED_EVERY
