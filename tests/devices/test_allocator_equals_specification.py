"""On random problems the allocator answers what the naive specification answers, on each node."""

from collections import Counter

import pytest

from tests.devices.problems import compared, show
from tests.effort import example_count


@pytest.mark.parametrize("seed", range(example_count(12)))
def test_allocations_and_errors_are_those_of_the_specification(seed: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(100):
        if not compared((f"test {seed}", number), counts):
            show((f"test {seed}", number))
            pytest.fail(f"problem {number} of seed {seed} is answered differently")
    # The problems are worth the while: all kinds of answers occur, and few are too long for the specification.
    assert counts["allocations"] > 20
    assert counts["errors"] > 5
    assert counts["nothing found"] > 20
    assert counts["too long"] < 20
