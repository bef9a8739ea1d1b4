"""Entries within a budget, against a list that is kept in order the slow way."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.bounded import WithinBudget

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "take", "get", "clear"]), st.integers(0, 6), st.integers(0, 12)),
    max_size=80,
)


def test_those_used_longest_ago_make_room_until_all_fit() -> None:
    table = WithinBudget[str, str](10, most=5)
    assert [table.put(name, name.upper(), weight) for name, weight in (("a", 4), ("b", 4), ("c", 2))] == [[], [], []]
    assert (table.put("d", "D", 7), table.weight, list(table)) == (["A", "B"], 9, ["c", "d"])


def test_the_newest_stays_whatever_it_weighs() -> None:
    table = WithinBudget[str, int](10, most=5)
    table.put("a", 1, 3)
    assert (table.put("b", 2, 100), table.get("b"), table.weight) == ([1], 2, 100)


def test_there_are_never_more_than_the_most_however_light() -> None:
    table = WithinBudget[int, int](10, most=3)
    for number in range(50):
        table.put(number, number, 0)
    assert list(table) == [47, 48, 49]


def test_what_is_put_again_counts_with_its_new_weight() -> None:
    table = WithinBudget[str, int](10, most=5)
    table.put("a", 1, 3)
    table.put("b", 2, 3)
    assert (table.take("a"), table.weight) == (1, 3)
    assert (table.put("b", 3, 9), table.weight, table.get("b"), table.get("a")) == ([], 9, 3, None)


@given(st.integers(0, 20), st.integers(1, 4), STEPS)
def test_it_is_a_list_in_the_order_of_putting(budget: int, most: int, steps: list[tuple[str, int, int]]) -> None:
    table, naive = WithinBudget[int, int](budget, most), list[tuple[int, int, int]]()
    for number, (step, key, weight) in enumerate(steps):
        known = next((value for one, value, _ in naive if one == key), None)
        others = [one for one in naive if one[0] != key]
        match step:
            case "put":
                naive, gone = [*others, (key, number, weight)], []
                while len(naive) > 1 and (sum(one[2] for one in naive) > budget or len(naive) > most):
                    gone.append(naive.pop(0)[1])
                assert table.put(key, number, weight) == gone
            case "take":
                assert table.take(key) == known
                naive = others
            case "get":
                assert table.get(key) == known
            case "clear":
                table.clear()
                naive = []
        assert [(one, table.get(one)) for one in table] == [one[:2] for one in naive]
        assert (len(table), table.weight) == (len(naive), sum(one[2] for one in naive))
