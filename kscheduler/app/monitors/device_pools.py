"""Pools of devices by driver and state, for metrics."""

from collections.abc import Callable, Mapping
from typing import Final

from kscheduler.scheduling.profile import Profile, device_counter

MOST_DRIVERS: Final = 32
"""Told apart; whoever publishes devices names them."""
OTHERS: Final = "other"


class DevicePools:
    """Counts pools at each scrape; drivers whose pools are gone stay at zero, so that lines in graphs fall."""

    def __init__(self, profiles: Callable[[], Mapping[str, Profile]]) -> None:
        self._profiles = profiles
        self._drivers: dict[str, None] = {}

    def counts(self) -> dict[tuple[str, str], float]:
        """By (driver, state); for each driver all states."""
        counter = device_counter(self._profiles().values())
        found = {} if counter is None else counter.pool_states()
        for driver, _ in found:
            if driver not in self._drivers:
                self._drivers[driver if len(self._drivers) < MOST_DRIVERS else OTHERS] = None
        counts = {(driver, state): 0.0 for driver in self._drivers for state in ("complete", "incomplete")}
        for (driver, state), pools in found.items():
            counts[driver if driver in self._drivers else OTHERS, state] += pools
        return counts
