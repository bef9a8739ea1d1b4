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
    if spec.match_attribute is None:
        best = min(len(every), needed)
        return ConstraintObstacle(attribute, True, needed, best) if best < needed else None  # noqa: FBT003
    counts = {value: sum(min(count, _having(value, listed)) for count, listed in found) for value in every}
    if not counts:
        return ConstraintObstacle(attribute, False, needed, 0)  # noqa: FBT003
    value = min(counts, key=lambda each: (-counts[each], str(each)))
    if counts[value] >= needed:
        return None
    return ConstraintObstacle(attribute, False, needed, counts[value], str(value[1]))  # noqa: FBT003


def _having(value: object, listed: Sequence[Values | None]) -> int:
    return sum(values is not None and value in values for values in listed)
