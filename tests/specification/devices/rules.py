"""Whether one more device goes with those that are chosen already: the executable specification, without any state.

Each rule looks at the whole history of the search, so that nothing has to be undone: `chosen` are the devices that the
search holds, `log` all that constraints were ever told (what 1.36 remembers of that is a quirk).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.specification.devices.amounts import full, number
from tests.specification.devices.reach import NameSearchResult, Reached

Json = dict[str, Any]


@dataclass(frozen=True)
class Wish:
    """A request, or one of its alternatives."""

    name: str
    parent: str
    spec: Json

    @property
    def base(self) -> str:
        return self.parent or self.name

    @property
    def full(self) -> str:
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def is_admin(self) -> bool:
        return bool(self.spec.get("adminAccess"))

    @property
    def is_all(self) -> bool:
        return bool(self.spec["allocationMode"] == "All")


@dataclass(frozen=True)
class Choice:
    """A device that a claim gets."""

    claim: int
    wish: Wish
    found: NameSearchResult
    is_shared: bool
    takes: dict[str, str] = field(default_factory=dict)
    counted: bool = False


@dataclass(frozen=True)
class Taken:
    """What other claims have."""

    devices: frozenset[tuple[str, str, str]]
    shares: frozenset[tuple[str, str, str]]
    """Devices of which somebody has a share."""
    used: dict[tuple[str, str, str], dict[str, Fraction]]

    def has(self, found: NameSearchResult) -> bool:
        return found.id in self.devices | self.shares | self.used.keys()


def taken_by(results: Iterable[Json], version: str) -> Taken:
    devices, shares = set(), set()
    used: dict[tuple[str, str, str], dict[str, Fraction]] = {}
    for each in results:
        name = each["driver"], each["pool"], each["device"]
        if each.get("adminAccess"):
            continue
        if not each.get("shareID"):
            devices.add(name)
            continue
        shares.add(name)
        consumed = each.get("consumedCapacity", {})
        for capacity, amount in (full(consumed, name[0]) if version == "1.38" else consumed).items():
            used.setdefault(name, {}).setdefault(capacity, Fraction(0))
            used[name][capacity] += number(amount)
    return Taken(frozenset(devices), frozenset(shares), used)


def is_free(found: NameSearchResult, claim: int, wish: Wish, chosen: list[Choice], taken: Taken) -> bool:
    """Shares take no device away; an administrator's access only from the same claim's administrators."""
    holders = {each.claim for each in chosen if each.found.id == found.id and not each.is_shared}
    return claim not in holders if wish.is_admin else not holders and found.id not in taken.devices


def has_shares(found: NameSearchResult, chosen: list[Choice], taken: Taken) -> bool:
    """Whether anybody has a share of the device."""
    return found.id in taken.shares | taken.used.keys() or any(
        each.is_shared and each.found.id == found.id for each in chosen
    )


def is_tolerated(found: NameSearchResult, wish: Wish) -> bool:
    for taint in found.device.get("taints", ()):
        if taint["effect"] not in ("NoSchedule", "NoExecute"):
            continue
        if not any(tolerates(each, taint) for each in wish.spec.get("tolerations", ())):
            return False
    return True


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return bool(operator == "Equal" and toleration.get("value", "") == taint.get("value", ""))


# --- counters ---------------------------------------------------------------------------------------------------------


def is_charged(found: NameSearchResult, chosen: list[Choice], taken: Taken, version: str, *, is_shared: bool) -> bool:
    """Whether a device costs counters: a shared one only with its first share."""
    if not is_shared:
        return True
    if found.id in taken.used or any(each.is_shared and each.found.id == found.id for each in chosen):
        return False
    return version == "1.36" or found.id not in taken.shares


def is_same_pool(one: tuple[str, str], other: tuple[str, str], version: str) -> bool:
    return one == other if version != "1.36" else one[1] == other[1]


def has_counters(pool: Reached, found: NameSearchResult, chosen: list[Choice], taken: Taken, version: str) -> bool:
    """Whether the counters of the pool suffice for all devices that are allocated, chosen, and this one."""
    left = {(name, counter): number(each["value"]) for name, set_ in pool.counters for counter, each in set_.items()}
    for each in pool.here + pool.elsewhere:
        if taken.has(each):
            charge(left, each)
    for choice in chosen:
        if choice.counted and is_same_pool(choice.found.id[:2], found.id[:2], version):
            charge(left, choice.found)
    charge(left, found)
    # A counter that was never there is not looked at.
    return all(amount >= 0 for amount in left.values())


def charge(left: dict[tuple[str, str], Fraction], found: NameSearchResult) -> None:
    for used in found.device.get("consumesCounters", ()):
        for counter, amount in used["counters"].items():
            if (used["counterSet"], counter) in left:
                left[used["counterSet"], counter] -= number(amount["value"])


def is_compatible(pool: Reached, found: NameSearchResult, chosen: list[Choice], taken: Taken) -> bool:
    """Whether the device goes with all that take of the same counter sets."""
    for used in found.device.get("consumesCounters", ()):
        here = [each for each in pool.here + pool.elsewhere if taken.has(each)]
        here += [each.found for each in chosen if each.counted and each.found.id[:2] == found.id[:2]]
        company = [groups for each in here for groups in groups_in(each, used["counterSet"])]
        if not company:
            continue
        groups = set(used.get("compatibilityGroups", ()))
        if not company[0] or not groups:
            # What was there first counts: devices that do not go together may be allocated already.
            if company[0] or groups:
                return False
            continue
        for each in company:
            groups &= each or groups
        if not groups:
            return False
    return True


def groups_in(found: NameSearchResult, counter_set: str) -> list[set[str]]:
    uses = found.device.get("consumesCounters", ())
    return [set(used.get("compatibilityGroups", ())) for used in uses if used["counterSet"] == counter_set]


# --- constraints ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reported:
    """What a constraint was told: a device was added or taken back."""

    claim: int
    constraint: int
    wish: Wish
    values: frozenset[tuple[str, Any]]
    is_added: bool


# What is compared of a version is in the group.
VERSION = r"([0-9]+\.[0-9]+\.[0-9]+(?:-[0-9A-Za-z.-]+)?)(?:\+[0-9A-Za-z.-]+)?"


def concerns(constraint: Json, wish: Wish) -> bool:
    names = constraint.get("requests")
    return not names or wish.base in names or wish.full in names


def values_of(found: NameSearchResult, name: str, version: str, *, lists: bool) -> frozenset[tuple[str, Any]] | None:
    """The values of an attribute; `None` without the attribute, none of a type that is not known."""
    values = listed_values(found, name, lists=lists)
    if version != "1.38" or values is None:
        return values
    versions = [re.fullmatch(VERSION, value) if kind == "version" else None for kind, value in values]
    if any(kind == "version" and match is None for (kind, _), match in zip(values, versions, strict=True)):
        return frozenset()
    return frozenset(
        (kind, match[1] if match else value) for (kind, value), match in zip(values, versions, strict=True)
    )


def listed_values(found: NameSearchResult, name: str, *, lists: bool) -> frozenset[tuple[str, Any]] | None:
    attributes = found.device.get("attributes", {})
    attribute = attributes.get(name)
    domain, _, short = name.partition("/")
    if attribute is None and domain == found.id[0]:
        attribute = attributes.get(short)
    if attribute is None:
        return None
    for kind in ("int", "bool", "string", "version"):
        if lists and attribute.get(kind + "s"):
            return frozenset((kind, value) for value in attribute[kind + "s"])
    return frozenset((kind, value) for kind, value in attribute.items() if not kind.endswith("s"))


def may_add(
    constraint: Json, values: frozenset[tuple[str, Any]], reported: list[Reported], version: str, *, lists: bool
) -> bool:
    """`told`: of this constraint, from the beginning of the search."""
    held: list[Reported] = []
    common: frozenset[tuple[str, Any]] = frozenset()
    last: dict[str, frozenset[tuple[str, Any]]] = {}
    for each in reported:
        if each.is_added:
            common = common & each.values if held else each.values
            held.append(each)
            last[each.wish.base] = each.values
        else:
            held.pop()
            last.pop(each.wish.base, None)
    if constraint.get("matchAttribute"):
        if not held:
            return bool(values) or not lists
        if version != "1.36":  # 1.36 goes on with what those had in common that were taken back
            common = frozenset.intersection(*(each.values for each in held))
        return bool(values & common)
    others = [each.values for each in held] if version != "1.36" else list(last.values())
    if not held and version == "1.36":
        return True
    if not values:
        return not lists and not others
    return not any(values & each for each in others)
