"""A dict of at most so many entries, against a list that is kept in order the slow way."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.bounded import RecentlyUsed

KEYS = st.integers(0, 6)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "set", "use", "get", "pop"]), KEYS), max_size=80)


def test_a_new_entry_pushes_out_the_one_put_longest_ago() -> None:
    table = RecentlyUsed[str, int](2)
    assert [table.put("a", 1), table.put("b", 2), table.put("c", 3)] == [None, None, 1]
    assert dict(table) == {"b": 2, "c": 3}


def test_reading_is_no_use_and_using_is() -> None:
    table = RecentlyUsed[str, int](2)
    table["a"], table["b"] = 1, 2
    assert (table.get("a"), table["a"]) == (1, 1)
    table["c"] = 3
    assert list(table) == ["b", "c"]
    assert (table.use("b"), table.use("a")) == (2, None)
    table["d"] = 4
    assert list(table) == ["b", "d"]


def test_every_way_to_fill_it_is_bounded() -> None:
    table = RecentlyUsed[int, int](3)
    table.update(dict.fromkeys(range(100), 0))
    assert list(table) == [97, 98, 99]
    for key in range(100):
        table.setdefault(key, 0)
    assert len(table) == 3


@given(st.integers(1, 4), STEPS)
def test_it_is_a_list_of_pairs_in_the_order_of_their_use(most: int, steps: list[tuple[str, int]]) -> None:
    table, naive = RecentlyUsed[int, int](most), list[tuple[int, int]]()
    for number, (step, key) in enumerate(steps):
        known = next((value for one, value in naive if one == key), None)
        match step:
            case "put" | "set":
                naive = [*((one, value) for one, value in naive if one != key), (key, number)]
                expected = naive.pop(0)[1] if len(naive) > most else None
                if step == "put":
                    assert table.put(key, number) == expected
                else:
                    table[key] = number
            case "use":
                assert table.use(key) == known
                if known is not None:
                    naive = [*((one, value) for one, value in naive if one != key), (key, known)]
            case "get":
                assert table.get(key) == known
            case "pop":
                assert table.pop(key, None) == known
                naive = [(one, value) for one, value in naive if one != key]
        assert list(table.items()) == naive
