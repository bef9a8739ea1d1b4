"""Taints of devices: which of them keep a device from being allocated."""

from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.api.devices import Device, DeviceTaint, DeviceToleration
from kscheduler.devices.wanted import AllocatorFeatures

_KEEPS_OUT: Final = frozenset({"NoSchedule", "NoExecute"})


def is_tainted(device: Device, features: AllocatorFeatures) -> bool:
    """Whether the device is kept from requests without tolerations."""
    return features.device_taints and any(taint.effect in _KEEPS_OUT for taint in device.taints)


def untolerated(tolerations: Sequence[DeviceToleration], taints: Sequence[DeviceTaint]) -> Iterator[DeviceTaint]:
    """The taints of a device that keep it from being allocated to a request with these tolerations."""
    for taint in taints:
        if taint.effect not in _KEEPS_OUT:
            continue
        if not any(
            each.effect in ("", taint.effect)
            and each.key in ("", taint.key)
            and (each.operator == "Exists" or (each.operator in ("", "Equal") and each.value == taint.value))
            for each in tolerations
        ):
            yield taint
