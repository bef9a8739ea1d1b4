"""The choice of domains: what Kueue answers, and never more domains than needed."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.scheduling.domains.domain_choice import (
    DomainChoice,
    DomainsWanted,
    Shortfall,
    choose_domains,
)
from kscheduler.scheduling.domains.domain_tree import DomainTree, Path, domain_tree
from kscheduler.scheduling.domains.fewest_domains import StepsLeft

# By path of the narrowest domain how many members it takes.
Cluster = dict[Path, int]


def tree_of(cluster: Cluster, held: Cluster | None = None) -> tuple[DomainTree, np.ndarray, np.ndarray]:
    """One unit for each path."""
    columns = []
    depth = len(next(iter(cluster)))
    for number in range(depth):
        values: list[str | None] = [None, *sorted({path[number] for path in cluster})]
        columns.append((np.array([values.index(path[number]) for path in cluster], dtype=np.int32), values))
    rooms = np.array(list(cluster.values()), dtype=np.int64)
    taken = np.array([(held or {}).get(path, 0) for path in cluster], dtype=np.int64)
    return domain_tree([f"level-{number}" for number in range(depth)], columns), rooms, taken


def chosen(
    cluster: Cluster, wanted: DomainsWanted, held: Cluster | None = None, steps: StepsLeft | None = None
) -> Cluster | Shortfall:
    tree, rooms, taken = tree_of(cluster, held)
    choice = choose_domains(tree, rooms, wanted, taken, steps)
    if isinstance(choice, Shortfall):
        return choice
    return {tree.levels[-1].paths[share.domain]: share.amount for share in choice.shares}


RACKS: Cluster = {("a",): 10, ("b",): 4, ("c",): 7, ("d",): 4}


def required(count: int, level: int = 0, size: int = 1, slice_level: int | None = None) -> DomainsWanted:
    return DomainsWanted(count, level, level, slice_size=size, slice_level=slice_level)


def preferred(count: int, level: int = 0, size: int = 1, slice_level: int | None = None) -> DomainsWanted:
    return DomainsWanted(count, level, slice_size=size, slice_level=slice_level)


def unconstrained(count: int) -> DomainsWanted:
    return DomainsWanted(count, 0, is_unconstrained=True)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(required(4), {("b",): 4}, id="the tightest, of equal ones the first"),
        pytest.param(preferred(5), {("c",): 5}, id="the largest stays whole"),
        pytest.param(required(11), Shortfall(0, 10), id="no rack holds them all"),
        pytest.param(preferred(13), {("a",): 10, ("b",): 3}, id="the rest goes to the tightest"),
        pytest.param(preferred(26), Shortfall(0, 25), id="the cluster is too small"),
        pytest.param(unconstrained(7), {("c",): 7}, id="unconstrained: the least room that holds all"),
        pytest.param(unconstrained(12), {("b",): 4, ("c",): 4, ("d",): 4}, id="unconstrained: least room first"),
        pytest.param(preferred(9, 0, 3, 0), {("a",): 9}, id="three whole slices"),
        pytest.param(preferred(12, 0, 3, 0), {("a",): 9, ("b",): 3}, id="slices are not split"),
        pytest.param(required(8, 0, 3, 0), {("a",): 8}, id="the last slice may be short"),
        pytest.param(preferred(17, 0, 6, 0), Shortfall(0, 2), id="too few whole slices"),
    ],
)
def test_racks_side_by_side(wanted: DomainsWanted, expected: Cluster | Shortfall) -> None:
    assert chosen(RACKS, wanted) == expected


def test_a_preferred_group_goes_up_level_by_level() -> None:
    cluster: Cluster = {("x", "r0"): 2, ("x", "r1"): 2, ("y", "r0"): 3, ("y", "r1"): 3}
    assert chosen(cluster, preferred(3, 1)) == {("y", "r0"): 3}
    assert chosen(cluster, preferred(4, 1)) == {("x", "r0"): 2, ("x", "r1"): 2}
    assert chosen(cluster, preferred(9, 1)) == {("x", "r0"): 2, ("x", "r1"): 1, ("y", "r0"): 3, ("y", "r1"): 3}


def test_a_preferred_group_does_not_leave_the_required_level() -> None:
    cluster: Cluster = {("x", "r0"): 2, ("x", "r1"): 2, ("y", "r0"): 3, ("y", "r1"): 3}
    both = DomainsWanted(4, 1, 0)
    assert chosen(cluster, both) == {("x", "r0"): 2, ("x", "r1"): 2}
    assert chosen(cluster, DomainsWanted(7, 1, 0)) == Shortfall(0, 6)


def test_racks_of_the_same_name_in_two_blocks_are_two() -> None:
    cluster: Cluster = {("x", "r0"): 2, ("y", "r0"): 2}
    assert chosen(cluster, required(3, 1)) == Shortfall(1, 2)


def test_a_wider_block_is_taken_where_it_needs_fewer_racks_and_without_time_the_tightest() -> None:
    cluster: Cluster = {("y", "r0"): 6, ("y", "r1"): 6, **{("x", f"r{number}"): 2 for number in range(5)}}
    wanted = preferred(10, 1)
    assert chosen(cluster, wanted) == {("y", "r0"): 6, ("y", "r1"): 4}
    assert chosen(cluster, wanted, steps=StepsLeft(0)) == {("x", f"r{number}"): 2 for number in range(5)}
    of_blocks = chosen(cluster, preferred(10))
    assert isinstance(of_blocks, dict)
    assert len(of_blocks) == 5, "one block either way: the larger stays whole"


def test_below_the_slice_level_the_most_room_comes_first() -> None:
    cluster: Cluster = {("x", "n0"): 2, ("x", "n1"): 1, ("x", "n2"): 4}
    assert chosen(cluster, required(6, 0, 3, 0)) == {("x", "n0"): 2, ("x", "n2"): 4}


def test_the_others_join_members_that_have_a_node() -> None:
    cluster: Cluster = {("x", "r0"): 1, ("x", "r1"): 9, ("y", "r0"): 2}
    held: Cluster = {("x", "r0"): 3}
    assert chosen(cluster, required(1, 1), held) == {("x", "r0"): 1}
    assert chosen(cluster, required(2, 1), held) == Shortfall(1, 1)
    assert chosen(cluster, preferred(2, 1), held) == {("x", "r0"): 1, ("x", "r1"): 1}


def _subsets(domains: range) -> chain[tuple[int, ...]]:
    return chain.from_iterable(combinations(domains, count) for count in range(1, len(domains) + 1))


def test_all_choices_of_an_attempt_share_the_steps_of_the_search() -> None:
    cluster: Cluster = {("y", "r0"): 6, ("y", "r1"): 6, **{("x", f"r{number}"): 2 for number in range(5)}}
    steps = StepsLeft()
    found = [chosen(cluster, preferred(10, 1), steps=steps) for _ in range(1_000)]
    used = [len(each) for each in found if isinstance(each, dict)]
    assert used[0] == 2
    assert used[-1] == 5
    assert used == sorted(used), "none is found any more once they are used up"


def _counts(tree: DomainTree, first: int, last: int, domains: set[int]) -> tuple[int, ...]:
    """How many domains are used at each level from `first` to `last`, of which these are."""
    counts = []
    for number in range(last, first - 1, -1):
        counts.append(len(domains))
        if number:
            domains = {int(tree.levels[number].parents[domain]) for domain in domains}
    return tuple(reversed(counts))


rooms_of_racks = st.dictionaries(
    st.tuples(st.sampled_from("xyz"), st.sampled_from("abcd")), st.integers(0, 5), min_size=1, max_size=8
)


@given(rooms_of_racks, st.integers(1, 16), st.integers(1, 3), st.integers(0, 1))
def test_never_more_domains_than_needed(cluster: Cluster, count: int, size: int, level: int) -> None:
    """Brute force over all sets of racks: fewest blocks, then fewest racks where racks are asked for."""
    tree, rooms, _ = tree_of(cluster)
    wanted = preferred(count, level, size, 1)
    choice = choose_domains(tree, rooms, wanted)
    racks = tree.levels[1]
    slices = racks.sums(rooms) // size
    holding = [set(some) for some in _subsets(range(len(racks))) if slices[list(some)].sum() >= wanted.slices]
    if not holding:
        assert choice == Shortfall(0, int(slices.sum()))
        return
    assert isinstance(choice, DomainChoice)
    shares = {share.domain: share.amount for share in choice.shares}
    assert sum(shares.values()) == count
    assert all(amount <= slices[domain] * size for domain, amount in shares.items())
    assert sum(amount % size != 0 for amount in shares.values()) <= 1, "one slice may be short"
    fewest = min(_counts(tree, 0, level, some) for some in _reduced(tree, holding, level))
    assert _counts(tree, 0, level, _reduced(tree, [set(shares)], level)[0]) == fewest


def _reduced(tree: DomainTree, sets: list[set[int]], level: int) -> list[set[int]]:
    """The same sets of racks as domains of the level."""
    return sets if level else [{int(tree.levels[1].parents[domain]) for domain in some} for some in sets]


def test_a_large_cluster_is_left_to_kueues_rule() -> None:
    """Fifty thousand pieces on thousands of racks would take seconds: the answer is right all the same."""
    cluster: Cluster = {(f"b{rack % 50:02}", f"r{rack:04}"): 18 for rack in range(2_000)}
    tree, rooms, _ = tree_of(cluster)
    choice = choose_domains(tree, rooms, preferred(30_000, 1))
    assert isinstance(choice, DomainChoice)
    assert len(choice.shares) == -(-30_000 // 18)
