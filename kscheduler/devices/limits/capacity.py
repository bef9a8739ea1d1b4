"""How much of a device's capacity a request takes (gate DRAConsumableCapacity). Amounts are exact, in billionths.

What a request takes of each capacity: what it asks for, rounded up by the device's policy; where it asks for nothing,
the policy's default, or all. A device does for a request if that keeps to the policy and what is left is enough.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from kscheduler.api.devices import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity
from kscheduler.api.quantity import MAX_INT64, Quantity, nano_value
from kscheduler.cel.kubernetes import wide_quantities
from kscheduler.devices.ids import Consumed, joined_names
from kscheduler.devices.wanted import AllocatorFeatures

T = TypeVar("T")

NANO: Final = 10**9
# A thousandth, in billionths.
MILLI: Final = 10**6
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


class CapacityError(ValueError):
    """A request that cannot be computed with; the text is kube-scheduler's."""


class Amount(msgspec.Struct, frozen=True):
    """An amount as it is written, and in billionths."""

    text: str
    nano: int


@lru_cache(maxsize=4096)
def amount_of(quantity: Quantity) -> Amount:
    """The amount that a quantity stands for."""
    return Amount(str(quantity), nano_value(quantity))


def consumption(
    requests: Mapping[str, Quantity] | None,
    capacities: Mapping[str, DeviceCapacity],
    features: AllocatorFeatures,
    driver: str,
) -> dict[str, Amount] | None:
    """What a request takes of each capacity; `None` if it names one that the device does not have.

    `capacities`: as `capacities_of` gives them. Raises `CapacityError`.
    """
    asked = {} if requests is None else _own_names(requests, driver, features)
    if not asked.keys() <= capacities.keys():
        return None
    if requests is not None and len(asked) < len(requests):
        raise CapacityError(_named_twice(requests, driver))
    taken = {}
    for name, capacity in capacities.items():
        try:
            taken[name] = _taken(asked.get(name), capacity, features)
        except CapacityError as problem:
            shown = f"{driver}/{name}" if features.joins_names_of_devices and "/" not in name else name
            message = f'capacity "{shown}": {problem}'
            raise CapacityError(message) from None
    return taken


def capacities_of(device: Device, driver: str, features: AllocatorFeatures) -> Mapping[str, DeviceCapacity]:
    """A device's capacities; where names are joined, those of its driver without the driver's domain."""
    return _own_names(device.capacity, driver, features)


def _own_names(named: Mapping[str, T], driver: str, features: AllocatorFeatures) -> Mapping[str, T]:
    prefix = f"{driver}/"
    if not features.joins_names_of_devices or not any(name.startswith(prefix) for name in named):
        return named
    return joined_names(named, driver)


def published_name(name: str, device: Device, driver: str, features: AllocatorFeatures) -> str:
    """The capacity as its driver spells it."""
    full = f"{driver}/{name}"
    return full if features.joins_names_of_devices and full in device.capacity else name


def _named_twice(requests: Mapping[str, Quantity], driver: str) -> str:
    name = next(name for name in requests if f"{driver}/{name}" in requests)
    return f'capacity "{name}" requested both as "{driver}/{name}" and as "{name}"'


def is_allowed(
    taken: Mapping[str, Amount], capacities: Mapping[str, DeviceCapacity], features: AllocatorFeatures
) -> bool:
    """Whether the amounts keep to the policies of the device."""
    for name, amount in taken.items():  # no generators here: this is asked about each device that a search looks at
        policy = capacities[name].request_policy
        if policy is not None and _violates(amount, policy, features):
            return False
    return True


def has_room(
    taken: Mapping[str, Amount], capacities: Mapping[str, DeviceCapacity], used: Consumed, planned: Consumed
) -> bool:
    """Whether what is left of each capacity is enough."""
    for name, amount in taken.items():
        if amount.nano + used.get(name, 0) + planned.get(name, 0) > nano_value(capacities[name].value):
            return False
    return True


def _taken(requested: Quantity | None, capacity: DeviceCapacity, features: AllocatorFeatures) -> Amount:
    amount = _rounded(requested, capacity, features)
    if amount.nano < 0 and features.refuses_odd_capacities:
        raise CapacityError("capacity value is negative")
    return amount


# --- rounding ---------------------------------------------------------------------------------------------------------


def _rounded(requested: Quantity | None, capacity: DeviceCapacity, features: AllocatorFeatures) -> Amount:
    policy = capacity.request_policy
    if requested is None:
        has_default = policy is not None and policy.default is not None
        return amount_of(policy.default if has_default else capacity.value)  # type: ignore[union-attr]
    amount = amount_of(requested)
    if amount.nano < 0 and features.refuses_negative_amounts:
        message = f"capacity value is negative: request {wide_quantities.read(requested).text()}"
        raise CapacityError(message)
    if policy is None:
        return amount
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _up_in_range(amount, policy.valid_range, features)
    for valid in policy.valid_values:
        if amount.nano <= nano_value(valid):
            return amount_of(valid)
    return amount


def _up_in_range(amount: Amount, valid: CapacityRequestPolicyRange, features: AllocatorFeatures) -> Amount:
    least = amount_of(valid.min or "0")
    if amount.nano < least.nano:
        return least
    if valid.step is None:
        return amount
    unit = MILLI if _is_fractional(valid, features) else NANO
    if features.refuses_odd_capacities:
        _check_representable(amount, unit)
    step, start = _units(valid.step, unit), _units(valid.min or "0", unit)
    if step <= 0:
        return amount
    steps = -(-(_up(amount.nano, unit) - start) // step)
    if features.refuses_odd_capacities and steps > (MAX_INT64 - start) // step:
        passed = "the milli-value range" if unit == MILLI else "MaxInt64"
        raise _unrepresentable(f"rounding request {amount.text} up to the next step passes {passed}")
    nano = (start + step * steps) * unit
    is_binary = not features.refuses_odd_capacities or _is_binary(str(valid.step))
    return Amount(_text(nano, is_binary=is_binary), nano)


def _check_representable(amount: Amount, unit: int) -> None:
    """Raises `CapacityError` for amounts that upstream's integers cannot hold."""
    if unit == MILLI and (amount.nano % MILLI or abs(amount.nano) > MAX_INT64 * MILLI):
        raise _unrepresentable(f"request {amount.text} is not a representable milli value")
    if unit == NANO and amount.nano >= MAX_INT64 * NANO and amount.text != str(MAX_INT64):
        raise _unrepresentable(f"request {amount.text} exceeds MaxInt64")


def _unrepresentable(why: str) -> CapacityError:
    return CapacityError(f"capacity request cannot be represented in the device's range arithmetic: {why}")


def _is_fractional(valid: CapacityRequestPolicyRange, features: AllocatorFeatures) -> bool:
    """Whether a range is computed in thousandths: all its ends are whole numbers of them."""
    if not features.fractional_capacity_range:
        return False
    ends = [nano_value(end) for end in (valid.min, valid.max, valid.step) if end is not None]
    exact = all(end % MILLI == 0 and abs(end) <= MAX_INT64 * MILLI for end in ends)
    return exact and (valid.step is None or nano_value(valid.step) >= MILLI)


def _violates(amount: Amount, policy: CapacityRequestPolicy | None, features: AllocatorFeatures) -> bool:
    if policy is None or (policy.default is not None and amount.nano == nano_value(policy.default)):
        return False
    if policy.valid_range is not None:
        return _violates_range(amount, policy.valid_range, features)
    return bool(policy.valid_values) and amount.nano not in map(nano_value, policy.valid_values)


def _violates_range(amount: Amount, valid: CapacityRequestPolicyRange, features: AllocatorFeatures) -> bool:
    if valid.max is not None and amount.nano > nano_value(valid.max):
        return True
    if valid.step is None:
        return False
    unit = MILLI if _is_fractional(valid, features) else NANO
    if unit == MILLI and (amount.nano % MILLI or abs(amount.nano) > MAX_INT64 * MILLI):
        return True
    step = _units(valid.step, unit)
    return step > 0 and (_up(amount.nano, unit) - _units(valid.min or "0", unit)) % step != 0


def _units(quantity: Quantity, unit: int) -> int:
    return _up(nano_value(quantity), unit)


def _up(nano: int, unit: int) -> int:
    return -(-nano // unit)


# --- text -------------------------------------------------------------------------------------------------------------


def _is_binary(text: str) -> bool:
    return text.endswith("i")


def _text(nano: int, *, is_binary: bool) -> str:
    """The canonical form: the largest suffix without a fraction."""
    if is_binary and abs(nano) >= 1024 * NANO:
        units, power = _up(nano, NANO), 0
        while units % 1024 == 0 and power < len(_BINARY) - 1:
            units, power = units // 1024, power + 1
        return f"{units}{_BINARY[power]}"
    exponent = -9
    while nano and nano % 1000 == 0 and exponent < max(_DECIMAL):
        nano, exponent = nano // 1000, exponent + 3
    return f"{nano}{_DECIMAL[exponent]}" if nano else "0"
