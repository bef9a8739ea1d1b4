"""Never stuck, never in part: gangs that arrive mixed in a cluster that does not hold them all."""

import pytest

from tests.scheduling.groups.many_gangs import play


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_gang_is_placed_in_part_and_none_waits_though_it_would_fit(seed: int) -> None:
    rest = await play(40, 8, 80, seed=seed)
    assert rest.partial == 0
    assert rest.placed == 36
    assert rest.waiting_though_it_would_fit == 0


async def test_one_by_one_there_would_be_parts_of_many() -> None:
    """What the figures are compared with: without groups the room is spread over all of them."""
    rest = await play(40, 8, 80, as_groups=False)
    assert rest.partial > 10
