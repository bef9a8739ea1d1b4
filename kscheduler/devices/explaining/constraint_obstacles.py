"""Constraints of a claim that too few devices can meet together."""

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.api.devices import DeviceConstraint
from kscheduler.devices.features import AllocatorFeatures
from kscheduler.devices.limits.constraints import Values, values_of
from kscheduler.devices.pools import PoolDevice
from kscheduler.devices.wanted import Wanted


@dataclass(frozen=True, slots=True)
class ConstraintObstacle:
    """A constraint that cannot be met with the devices that are free for the requests."""

    attribute: str
    is_distinct: bool
    """Whether the devices must differ in the attribute; else they must have it in common."""
    needed: int
    """Devices."""
    best: int
    """How many of them the constraint lets have together."""
    value: str = ""
    """What these have in common."""


def constraint_obstacle(
    spec: DeviceConstraint, requests: Sequence[tuple[Wanted, int, Sequence[PoolDevice]]], features: AllocatorFeatures
) -> ConstraintObstacle | None:
    """Why the constraint cannot be met; `None` if it does not stand in the way by itself.

    `requests`: each with the number of devices that it needs, and those that are free for it.
    """
    named = set(spec.requests)
    of_it = [each for each in requests if not named or {each[0].base, each[0].full_name} & named]
    if not of_it:
        return None
    needed = sum(count for _, count, _ in of_it)
    attribute = spec.match_attribute or spec.distinct_attribute or ""
    found = [
        (count, [values_of(each.device, each.id.driver, attribute, features) for each in free])
        for _, count, free in of_it
    ]
    every = {value for _, listed in found for values in listed for value in values or ()}
    # Without lists one device may have a value of an unknown type, with which no other goes.
    has_odd = not features.list_attributes and any(values == frozenset() for _, listed in found for values in listed)
    if spec.match_attribute is None:
        best = min(len(every) + has_odd, needed)
        at_once = needed if features.compares_all_distinct else _compared_at_once([count for count, _ in found])
        obstacle = ConstraintObstacle(attribute, is_distinct=True, needed=needed, best=best)
        return obstacle if best < at_once else None
    if has_odd and needed == 1:
        return None
    counts = {value: sum(min(count, _having(value, listed)) for count, listed in found) for value in every}
    if not counts:
        return ConstraintObstacle(attribute, is_distinct=False, needed=needed, best=0)
    value = min(counts, key=lambda each: (-counts[each], str(each)))
    if counts[value] >= needed:
        return None
    return ConstraintObstacle(attribute, is_distinct=False, needed=needed, best=counts[value], value=str(value[1]))


def _compared_at_once(counts: Sequence[int]) -> int:
    """Values that must differ where only the last one of each request is compared, as in 1.36."""
    return max(len(counts), 2 if max(counts) > 1 else 1)


def _having(value: object, listed: Sequence[Values | None]) -> int:
    return sum(values is not None and value in values for values in listed)
