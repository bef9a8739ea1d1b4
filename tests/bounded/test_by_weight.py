"""A table with a budget in bytes: heavy entries push out each other, and never a light one."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.bounded import LARGEST_SHARE, LIGHT_BYTES, RecentlyUsedByWeight, weight_of

BUDGET = 10 * LIGHT_BYTES
KEYS, WEIGHTS = st.integers(0, 9), st.sampled_from([1, LIGHT_BYTES, LIGHT_BYTES + 1, 2 * LIGHT_BYTES, BUDGET])
STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "use", "pop", "del", "popitem", "clear"]), KEYS, WEIGHTS), max_size=60
)


def table(most: int = 100) -> RecentlyUsedByWeight[int, int]:
    return RecentlyUsedByWeight(most, BUDGET, lambda _, value: value)


def test_heavy_entries_push_out_the_heavy_one_used_longest_ago_and_no_light_one() -> None:
    kept = table()
    kept[0] = 1
    for key in range(1, 6):
        kept[key] = 2 * LIGHT_BYTES
    kept.use(1)
    kept[6] = 2 * LIGHT_BYTES
    assert list(kept) == [0, 3, 4, 5, 1, 6]
    assert kept.weight == BUDGET


def test_what_takes_more_than_its_share_is_not_kept() -> None:
    kept = table()
    kept[0] = 1
    assert kept.put(1, BUDGET // LARGEST_SHARE + 1) == BUDGET // LARGEST_SHARE + 1
    assert kept.put(0, BUDGET) == BUDGET
    assert list(kept) == []


@given(st.integers(1, 6), STEPS)
def test_the_weight_is_that_of_the_heavy_entries_whatever_is_done(most: int, steps: list[tuple[str, int, int]]) -> None:
    kept = table(most)
    for step, key, weight in steps:
        match step:
            case "put":
                kept[key] = weight
            case "use":
                kept.use(key)
            case "pop":
                kept.pop(key, None)
            case "del" if key in kept:
                del kept[key]
            case "popitem" if kept:
                kept.popitem(last=False)
            case "clear":
                kept.clear()
        heavy = [value for value in kept.values() if value > LIGHT_BYTES]
        assert kept.weight == sum(heavy) <= BUDGET
        assert len(kept) <= most


def test_a_value_weighs_by_its_encoding() -> None:
    assert weight_of(("a" * 1000,)) > 1000
    assert weight_of({"a": frozenset({"b"})}) < 200
