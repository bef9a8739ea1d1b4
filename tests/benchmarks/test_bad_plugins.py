"""The comparison of bad plugins: one noisy round, a burst, or a machine that grows slower, changes no verdict."""

import numpy as np

from benchmarks.bad_plugins import STRETCHES, ColumnFilters, Rounds, compared, line_of


def waited(milliseconds: float) -> ColumnFilters:
    return ColumnFilters([milliseconds] * 100, [milliseconds] * 100)


def story(before: float, after: float) -> dict[str, ColumnFilters]:
    """A story whose p99 are these."""
    return dict(zip(STRETCHES, (waited(before), waited(1.0), waited(after)), strict=True))


def test_one_noisy_round_of_seven_does_not_count() -> None:
    rounds = Rounds([story(2.0, 2.1)] * 6 + [story(2.0, 40.0)])
    np.testing.assert_allclose(rounds.change(range(7)), 1.05)


def test_a_burst_spoils_the_blocks_that_it_meets_and_no_others() -> None:
    calm = [1.0] * 98 + [2.0] * 2
    stretch = ColumnFilters([], [*calm * 3, *[50.0] * 100, *calm * 3])
    np.testing.assert_allclose(sorted(stretch.blocks()), [*[2.0] * 6, 50.0])
    np.testing.assert_allclose(ColumnFilters([], [3.0] * 7).blocks(), [3.0])


def test_the_interval_is_narrow_where_rounds_agree_and_wide_where_they_do_not() -> None:
    agree = Rounds([story(2.0, 2.2)] * 5)
    differ = Rounds([story(2.0, 2.0 * factor) for factor in (0.5, 0.8, 1.0, 1.5, 3.0)])
    assert compared(agree.change, 5).split() == ["+10.0", "%", "[", "+10.0,", "+10.0]"]
    low, high = compared(differ.change, 5).split("[")[1].rstrip("]").split(",")
    assert float(low) < -10 < 10 < float(high)


def test_what_the_machine_does_to_all_is_taken_out_of_the_line() -> None:
    slower = [1.0, 2.0, 3.0]
    sound = Rounds([story(2.0, 2.0 * factor) for factor in slower])
    bad = Rounds([story(2.0, 2.2 * factor) for factor in slower], "3 strikes")
    gone = Rounds([story(2.0, 2.75 * factor) for factor in slower])
    line = line_of("raises", bad, [sound, gone])
    assert line.startswith("raises")
    assert line.endswith("3 strikes")
    figures = [float(part.split()[-1]) for part in line.split(" % ")[:3]]
    assert figures == [120.0, 10.0, -20.0]
