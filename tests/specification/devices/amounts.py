"""Quantities and what a request takes of a device's capacities: the executable specification, in fractions."""

import re
from fractions import Fraction
from typing import Any

Json = dict[str, Any]

SUFFIXES = {
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Fraction(1, 1000) ** power for power, suffix in enumerate(("m", "u", "n"), start=1)},
    "": Fraction(1),
}


class BadAmountError(Exception):
    """An amount that 1.37 or 1.38 refuses to compute with."""


def number(quantity: str) -> Fraction:
    match = re.fullmatch(r"([+-]?[0-9.]+)(\D*)", quantity)
    assert match is not None
    return Fraction(match[1]) * SUFFIXES[match[2]]


def in_milli(quantity: str) -> bool:
    return (number(quantity) * 1000).denominator == 1


def full(named: Json, driver: str) -> Json:
    """By full name; a name with the driver's domain hides the same one without."""
    plain = {f"{driver}/{name}": value for name, value in named.items() if "/" not in name}
    return plain | {name: value for name, value in named.items() if "/" in name}


def asked(queried: Json | None, driver: str) -> Json:
    """A request of 1.38 by full names."""
    wanted = (queried or {}).get("requests") or {}
    for name in wanted:
        if f"{driver}/{name}" in wanted:
            raise BadAmountError(f'capacity "{name}" requested both as "{driver}/{name}" and as "{name}"')
    return {"requests": full(wanted, driver)}


def takes(queried: Json | None, capacities: Json, version: str, *, fractions: bool) -> dict[str, str] | None:
    """What the request takes of each capacity, as text; `None`: it asks for a capacity that is not there."""
    wanted = (queried or {}).get("requests") or {}
    if set(wanted) - set(capacities):
        return None
    taken = {}
    for name, capacity in capacities.items():
        try:
            taken[name] = taken_of(wanted.get(name), capacity, version, fractions=fractions)
        except BadAmountError as problem:
            raise BadAmountError(f'capacity "{name}": {problem}') from None
        if number(taken[name]) < 0 and version != "1.36":
            raise BadAmountError(f'capacity "{name}": capacity value is negative')
    return taken


def taken_of(queried: str | None, capacity: Json, version: str, *, fractions: bool) -> str:
    policy = capacity.get("requestPolicy") or {}
    if queried is None:
        return str(policy.get("default") or capacity["value"])
    if number(queried) < 0 and version == "1.38":
        raise BadAmountError(f"capacity value is negative: request {queried}")
    between = policy.get("validRange")
    if between is not None and between.get("min") is not None:
        return up_in_range(queried, between, version, fractions=fractions)
    for valid in policy.get("validValues") or ():
        if number(queried) <= number(valid):
            return str(valid)
    return queried


def unit_of(between: Json, *, fractions: bool) -> Fraction:
    """In what a range is counted: thousandths where all of its ends are whole numbers of them, else ones."""
    ends = [between[end] for end in ("min", "max", "step") if between.get(end) is not None]
    return Fraction(1, 1000) if fractions and all(map(in_milli, ends)) else Fraction(1)


def whole(amount: Fraction, unit: Fraction) -> int:
    """The number of units, rounded up."""
    return -((-amount) // unit)


def up_in_range(queried: str, between: Json, version: str, *, fractions: bool) -> str:
    if number(queried) < number(between["min"]):
        return str(between["min"])
    if between.get("step") is None:
        return queried
    unit = unit_of(between, fractions=fractions)
    if unit < 1 and not in_milli(queried):
        raise BadAmountError(
            "capacity request cannot be represented in the device's range arithmetic: "
            f"request {queried} is not a representable milli value"
        )
    least, step = whole(number(between["min"]), unit), whole(number(between["step"]), unit)
    count = whole(number(queried), unit)
    value = least + whole(Fraction(max(count - least, 0), step), Fraction(1)) * step
    return written(value * unit, is_binary=version == "1.36" or between["step"].endswith("i"))


def written(amount: Fraction, *, is_binary: bool) -> str:
    """As Kubernetes writes a quantity that was computed."""
    if amount == 0:
        return "0"
    suffixes = list(SUFFIXES)
    if is_binary and abs(amount) >= 1024:
        for suffix in reversed(suffixes[:6]):
            if (amount / SUFFIXES[suffix]).denominator == 1:
                return f"{amount / SUFFIXES[suffix]}{suffix}"
        return str(amount)
    for suffix in ("E", "P", "T", "G", "M", "k", "", "m", "u", "n"):
        if (amount / SUFFIXES[suffix]).denominator == 1:
            return f"{amount / SUFFIXES[suffix]}{suffix}"
    raise AssertionError(amount)


def keeps_policy(taken: str, capacity: Json, *, fractions: bool) -> bool:
    policy = capacity.get("requestPolicy") or {}
    amount = number(taken)
    if policy.get("default") is not None and amount == number(policy["default"]):
        return True
    between = policy.get("validRange")
    if between is None:
        return not policy.get("validValues") or amount in map(number, policy["validValues"])
    if between.get("max") is not None and amount > number(between["max"]):
        return False
    if between.get("step") is None:
        return True
    unit = unit_of(between, fractions=fractions)
    if unit < 1 and not in_milli(taken):
        return False
    least, step = whole(number(between.get("min") or "0"), unit), whole(number(between["step"]), unit)
    return (whole(amount, unit) - least) % step == 0


def fits(taken: dict[str, str], capacities: Json, used: dict[str, Fraction], *, fractions: bool) -> bool:
    return all(
        keeps_policy(amount, capacities[name], fractions=fractions)
        and number(amount) + used.get(name, 0) <= number(capacities[name]["value"])
        for name, amount in taken.items()
    )
