"""Pools of devices by driver: who is gone stays at zero, and drivers that nobody expected are told together."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from kscheduler.service.monitors import devices
from kscheduler.service.monitors.devices import MAX_DRIVERS, OTHERS, DevicePools


@dataclass
class Counted:
    states: dict[tuple[str, str], int] = field(default_factory=dict)

    def pool_states(self) -> dict[tuple[str, str], int]:
        return self.states


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    made = Counted()
    monkeypatch.setattr(devices, "device_counter", lambda _profiles: made)
    return made


def no_profiles() -> dict[str, Any]:
    return {}


def test_without_the_plugin_and_without_devices_there_is_nothing() -> None:
    assert DevicePools(no_profiles).counts() == {}


def test_a_driver_that_is_gone_stays_at_zero(counted: Counted) -> None:
    pools = DevicePools(no_profiles)
    counted.states = {("gpu", "incomplete"): 2}
    assert pools.counts() == {("gpu", "complete"): 0, ("gpu", "incomplete"): 2}
    counted.states = {}
    assert pools.counts() == {("gpu", "complete"): 0, ("gpu", "incomplete"): 0}


def test_drivers_beyond_the_bound_are_counted_together(counted: Counted) -> None:
    pools = DevicePools(no_profiles)
    counted.states = {(f"driver-{number}", "incomplete"): 1 for number in range(MAX_DRIVERS + 5)}
    counts = pools.counts()
    assert len({driver for driver, _ in counts}) == MAX_DRIVERS + 1
    assert counts[OTHERS, "incomplete"] == 5
    assert pools.counts() == counts
