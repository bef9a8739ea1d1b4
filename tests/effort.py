"""How hard the property tests try: few examples in a contributor's run, more in CI, many with `make fuzz`.

    make test                        20 examples of up to 20 steps, the same in each run
    KSCHEDULER_CI=1 (make test-all)  60 of up to 30, other ones in each run
    KSCHEDULER_FUZZ=1 (make fuzz)    20,000, or as many as KSCHEDULER_EXAMPLES says

A test that needs another number asks for `example_count(150)`: so many in CI, and in proportion elsewhere.
"""

import os
from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

IS_LONG: Final = os.environ.get("KSCHEDULER_FUZZ") == "1"
IS_CI: Final = bool(os.environ.get("KSCHEDULER_CI"))
IN_CI: Final = 60
_HERE: Final = 20
_LONG: Final = int(os.environ.get("KSCHEDULER_EXAMPLES", "20000"))


def load_profile() -> None:
    """Register the profiles and load the one of this run, before tests are imported: their settings derive from it."""
    settings.register_profile(
        "ci",
        max_examples=IN_CI,
        stateful_step_count=30,
        # A loaded machine is slow, and slowness is no fault of a rule: there is neither a deadline nor a check for it.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
    ci = settings.get_profile("ci")
    settings.register_profile("here", ci, max_examples=_HERE, stateful_step_count=20, derandomize=True)
    # Hypothesis keeps what every example of a run has drawn, 0.1 MB each for a long history: `make fuzz` runs the state
    # machines in rounds of 2,000, each a process of its own.
    settings.register_profile("fuzz", ci, max_examples=_LONG)
    settings.load_profile("fuzz" if IS_LONG else "ci" if IS_CI else "here")


def example_count(in_ci: int) -> int:
    """As many examples as the run asks for of a test that draws `in_ci` in CI."""
    count = max(1, in_ci * settings().max_examples // IN_CI)
    return min(count, settings().max_examples) if IS_LONG else count


def sampled(values: Iterable[Any], count: int, reason: str) -> list[Any]:
    """Parameters of a test, of which all but `count`, evenly spread, are slow."""
    all_values = list(values)
    kept = {index * len(all_values) // count for index in range(count)}
    slow = pytest.mark.slow(reason)
    return [value if at in kept else pytest.param(value, marks=slow) for at, value in enumerate(all_values)]
