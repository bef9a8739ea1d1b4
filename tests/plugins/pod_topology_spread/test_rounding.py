"""Spread scores are rounded as Go rounds: halves away from zero."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.plugins.pod_topology_spread.scoring import rounded

_NEAR_HALVES = st.builds(lambda whole, beside: whole + beside, st.integers(-1000, 1000), st.sampled_from([-0.5, 0.5]))
_ALL = st.floats(min_value=-(2.0**53), max_value=2.0**53)


def by_the_rule(value: float) -> int:
    size = math.floor(abs(value))
    return int(math.copysign(size + (abs(value) - size >= 0.5), value))


@given(st.lists(_NEAR_HALVES | _ALL | st.just(math.nextafter(0.5, 0.0)), min_size=1))
def test_halves_go_away_from_zero_and_all_else_to_the_nearest(values: list[float]) -> None:
    assert rounded(np.array(values)).tolist() == [by_the_rule(value) for value in values]
