"""What the nodes offer of devices and extended resources, counted for metrics and the status page."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kscheduler.answers.scarce_resources import ScarceResource
from kscheduler.scheduling.profile import Profile, device_counter
from kscheduler.server.status_page.facts.devices import DeviceTotals
from kscheduler.server.status_page.facts.heat import HeatMap
from kscheduler.state.cache import Cache

# Drivers with series of their own; they choose their names freely.
MAX_DRIVERS: Final = 32
OTHERS: Final = "other"
# Resources, and drivers, with series of their own: the first that were seen; further ones are `other`.
MAX_NAMES: Final = MAX_DRIVERS


class DevicePools:
    """Counts pools by driver and state at each scrape.

    Drivers whose pools are gone stay at zero, so that lines in graphs fall.
    """

    def __init__(self, profiles: Callable[[], Mapping[str, Profile]]) -> None:
        self._profiles = profiles
        self._drivers: dict[str, None] = {}

    def counts(self) -> dict[tuple[str, str], float]:
        """By (driver, state); for each driver all states."""
        counter = device_counter(self._profiles().values())
        found = {} if counter is None else counter.pool_states()
        for driver, _ in found:
            if driver not in self._drivers:
                self._drivers[driver if len(self._drivers) < MAX_DRIVERS else OTHERS] = None
        counts = {(driver, state): 0.0 for driver in self._drivers for state in ("complete", "incomplete")}
        for (driver, state), pools in found.items():
            counts[driver if driver in self._drivers else OTHERS, state] += pools
        return counts


class OfferedDevices:
    """How many devices there are and how much of extended resources, and what is taken of them: for dashboards.

    Counted at each scrape by what the status page counts with: sums of two columns for a resource, and devices by
    driver only where anything has changed. Names come from nodes and drivers, so there is a bound for both. Names that
    are gone stay at zero, so that lines in graphs fall instead of ending.
    """

    def __init__(self, cache: Cache) -> None:
        self._totals, self._heat = DeviceTotals(cache.devices), HeatMap(cache.nodes)
        self._drivers: dict[str, None] = {}
        self._resources: dict[str, None] = {}

    def devices(self) -> dict[tuple[str, str], float]:
        """By (driver, state)."""
        sums = _by_name(self._totals.by_driver(), self._drivers)
        return {
            (name, state): count
            for name, (taken, there) in sums.items()
            for state, count in (("taken", taken), ("free", there - taken))
        }

    def extended_resources(self) -> dict[tuple[str, str], float]:
        """By (resource, state)."""
        sums = _by_name(self._heat.extended(), self._resources)
        return {
            (name, state): amount
            for name, (requested, there) in sums.items()
            for state, amount in (("requested", requested), ("allocatable", there))
        }


def _by_name(found: Iterable[ScarceResource], known: dict[str, None]) -> dict[str, tuple[float, float]]:
    """What is requested and what there is, by name. `known`: gets the names, a bounded number."""
    listed = list(found)
    for each in listed:
        if each.name not in known:
            known[each.name if len(known) < MAX_NAMES else OTHERS] = None
    sums = dict.fromkeys(known, (0.0, 0.0))
    for each in listed:
        name = each.name if each.name in known else OTHERS
        requested, there = sums[name]
        sums[name] = requested + each.requested, there + each.there
    return sums
