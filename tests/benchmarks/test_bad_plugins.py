"""The comparison of bad plugins: one noisy round, or a machine that grows slower, changes no verdict."""

import numpy as np

from benchmarks.bad_plugins import STRETCHES, Rounds, Stretch, beside, line_of, percent


def waited(milliseconds: float) -> Stretch:
    return Stretch([milliseconds] * 100, [milliseconds] * 100)


def story(before: float, after: float) -> dict[str, Stretch]:
    """A story whose p99 are these."""
    return dict(zip(STRETCHES, (waited(before), waited(1.0), waited(after)), strict=True))


def test_one_noisy_round_of_seven_does_not_count() -> None:
    rounds = Rounds([story(2.0, 2.1)] * 6 + [story(2.0, 40.0)])
    np.testing.assert_allclose(percent(rounds.ratios()), 5.0)


def test_what_the_machine_does_to_all_is_taken_out() -> None:
    slower = [1.0, 2.0, 3.0]
    sound = Rounds([story(2.0, 2.0 * factor) for factor in slower])
    bad = Rounds([story(2.0, 2.2 * factor) for factor in slower])
    assert percent(bad.ratios()) > 100
    np.testing.assert_allclose(percent(beside(bad, sound)), 10.0)


def test_a_line_has_all_stretches_and_both_comparisons() -> None:
    sound, bad = Rounds([story(2.0, 2.0)]), Rounds([story(2.0, 2.1)], "3 strikes")
    assert line_of("raises", bad, sound).split() == (
        ["raises", "2.00", "2.00", "1.00", "1.00", "2.10", "2.10", "+5.0", "%", "+5.0", "%", "3", "strikes"]
    )


def test_a_burst_spoils_the_blocks_that_it_meets_and_no_others() -> None:
    calm = [1.0] * 98 + [2.0] * 2
    burst = [50.0] * 100
    stretch = Stretch([*calm * 3, *burst, *calm * 3], [*calm * 3, *burst, *calm * 3])
    np.testing.assert_allclose(stretch.usual_p99(), 2.0)
    np.testing.assert_allclose(stretch.quantile(99), 50.0)
    np.testing.assert_allclose(Stretch([], [3.0] * 7).usual_p99(), 3.0)
