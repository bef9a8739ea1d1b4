"""Among equal nodes the highest mix wins: found without the last step of the mix, but where that step decides."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kscheduler.framework.rules.scoring import folded, highest_mix, mix

NUMBERS = st.integers(0, 2**64 - 1)


@given(st.lists(NUMBERS, min_size=1, max_size=40), NUMBERS)
@example([5, 5], 7)
def test_the_index_is_that_of_the_highest_mix_or_none_where_two_have_it(hashes: list[int], seed: int) -> None:
    column = np.array(hashes, dtype=np.uint64)
    mixed = mix(column, seed).tolist()
    highest = max(mixed)
    assert highest_mix(folded(column), seed) == (mixed.index(highest) if mixed.count(highest) == 1 else -1)


def _unshifted(mixed: int, bits: int) -> int:
    """From `x ^ (x >> bits)` to x, of 64 bits."""
    found = mixed
    for _ in range(64 // bits + 1):
        found = mixed ^ (found >> bits)
    return found


@given(st.integers(0, 2**31 - 1), st.lists(st.integers(0, 2**33 - 1), min_size=2, max_size=6, unique=True), NUMBERS)
def test_where_the_upper_bits_are_equal_the_lower_ones_decide(upper: int, lower: list[int], seed: int) -> None:
    """The hashes are worked out backwards from their mixes."""
    first, second = (pow(number, -1, 2**64) for number in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
    mixes = [upper << 33 | number for number in lower]
    hashes = []
    for number in mixes:
        before = _unshifted(number, 31) * second % 2**64
        before = _unshifted(before, 27) * first % 2**64
        hashes.append(_unshifted(before, 30) ^ seed)
    column = np.array(hashes, dtype=np.uint64)
    assert mix(column, seed).tolist() == mixes
    assert highest_mix(folded(column), seed) == mixes.index(max(mixes))
