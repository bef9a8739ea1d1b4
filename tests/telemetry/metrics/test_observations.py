"""What the scheduler counts: plain numbers that mean what Prometheus' histograms and counters mean."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.scheduling.observations import AttemptResult, Observations
from kscheduler.telemetry.series import Histogram, exponential_bounds
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
