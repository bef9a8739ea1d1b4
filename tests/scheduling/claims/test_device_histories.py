"""Random histories, and that their judge would object."""

from unittest.mock import patch

import pytest

from kscheduler.state.devices.claims import ClaimTracker
from tests.effort import example_count
from tests.scheduling.claims.device_histories import History

# A scheduler is killed between any two steps: also where a task has not begun, and its coroutine is left behind.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine '.*' was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("seed", range(example_count(60)))
async def test_no_device_is_held_by_two_claims_whatever_happens(seed: int) -> None:
    await History(seed).play()


async def test_the_judge_objects_where_devices_that_are_being_written_count_as_free() -> None:
    objections = 0
    with patch.object(ClaimTracker, "signal_pending", lambda *_: None):
        for seed in range(20):
            try:
                await History(seed).play()
            except AssertionError:
                objections += 1
    assert objections


async def test_much_happens_in_them() -> None:
    """A claim is freed in one of seventy; in 64 and 65 it is."""
    counts = sum([await History(seed).play() for seed in (*range(20), 64, 65)], start=History(0).counts)
    assert all(
        counts[what] for what in ("kills", "driver restarts", "attempts", "bound", "deleted", "freed", "long searches")
    )
