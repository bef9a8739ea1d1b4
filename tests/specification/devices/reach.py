"""Which devices a node reaches: pools, their generations, whether they are whole and sound. The specification."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class NameSearchResult:
    """A device in its slice."""

    device: Json
    slice: Json

    @property
    def id(self) -> tuple[str, str, str]:
        return (*pool_of(self.slice), self.device["name"])


@dataclass(frozen=True)
class Reached:
    """A pool as a node sees it."""

    name: tuple[str, str]
    state: str
    """`""`, `being updated` or `invalid`."""
    here: tuple[NameSearchResult, ...] = ()
    elsewhere: tuple[NameSearchResult, ...] = ()
    counters: tuple[tuple[str, Json], ...] = ()

    @property
    def is_last(self) -> bool:
        return any(found.device.get("bindingConditions") for found in self.here)


def pool_of(piece: Json) -> tuple[str, str]:
    return piece["spec"]["driver"], piece["spec"]["pool"]["name"]


def chooses(choice: Json, node: Json) -> bool:
    """Whether a slice or device is for the node, by its `nodeName`, `allNodes` or `nodeSelector`."""
    if choice.get("nodeName"):
        return bool(choice["nodeName"] == node["metadata"]["name"])
    if choice.get("allNodes"):
        return True
    terms = (choice.get("nodeSelector") or {}).get("nodeSelectorTerms", ())
    return any(matches(term, node) for term in terms)


def matches(term: Json, node: Json) -> bool:
    requirements = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not requirements and not fields:
        return False
    labels = node["metadata"].get("labels", {})
    return all(holds(each, labels) for each in requirements) and all(
        holds(each, {"metadata.name": node["metadata"]["name"]}) for each in fields
    )


def holds(requirement: Json, labels: dict[str, str]) -> bool:
    value = labels.get(requirement["key"])
    kind = requirement["operator"]
    if kind == "In":
        return value in requirement["values"]
    if kind == "NotIn":
        return value not in requirement["values"]
    return (value is not None) == {"Exists": True, "DoesNotExist": False}[kind]


def is_for(piece: Json, node: Json, version: str, gates: frozenset[str]) -> bool:
    spec = piece["spec"]
    partitions = "DRAPartitionableDevices" in gates
    if not partitions and (spec.get("perDeviceNodeSelection") is not None or spec.get("sharedCounters")):
        return False
    if is_hidden(piece, version, gates):
        return False
    if spec.get("sharedCounters") and version == "1.36":
        return True
    if spec.get("nodeName") or spec.get("allNodes") or spec.get("nodeSelector") is not None:
        return chooses(spec, node)
    return bool(spec.get("perDeviceNodeSelection")) and any(chooses(each, node) for each in spec["devices"])


def is_hidden(piece: Json, version: str, gates: frozenset[str]) -> bool:
    """Whether nobody sees the slice, because its devices have groups that are not understood."""
    if version == "1.36" or "DRADeviceCompatibilityGroups" in gates:
        return False
    devices = piece["spec"].get("devices", ())
    return any(used.get("compatibilityGroups") for each in devices for used in each.get("consumesCounters", ()))


def pools(slices: list[Json], node: Json, version: str, gates: frozenset[str]) -> list[Reached]:
    """In the order in which they are searched."""
    mine = [piece for piece in slices if is_for(piece, node, version, gates)]
    names = sorted({pool_of(piece) for piece in mine})
    reached = [pool(name, mine, slices, version, gates) for name in names]
    known = [each for each in reached if each is not None]
    return [each for each in known if not each.is_last] + [each for each in known if each.is_last]


def pool(
    name: tuple[str, str], mine: list[Json], slices: list[Json], version: str, gates: frozenset[str]
) -> Reached | None:
    own = [piece for piece in mine if pool_of(piece) == name]
    newest = max(piece["spec"]["pool"]["generation"] for piece in own)
    own = [piece for piece in own if piece["spec"]["pool"]["generation"] == newest]
    # The first one that is listed says how many there are; those of nodes' own slices are listed first.
    count = min(own, key=lambda piece: (is_listed_late(piece, version), slices.index(piece)))["spec"]["pool"]
    others: list[Json] = []
    if len(own) != count["resourceSliceCount"]:
        everywhere = [piece for piece in slices if pool_of(piece) == name]
        if any(piece["spec"]["pool"]["generation"] > newest for piece in everywhere):
            return None
        same = [piece for piece in everywhere if piece["spec"]["pool"]["generation"] == newest]
        same = [piece for piece in same if not is_hidden(piece, version, gates)]
        if len(same) != count["resourceSliceCount"]:
            return Reached(name, "being updated")
        others = [piece for piece in same if piece not in own]
    return checked(name, sorted(own, key=lambda piece: piece["metadata"]["name"]), others, gates)


def is_listed_late(piece: Json, version: str) -> bool:
    return not piece["spec"].get("nodeName") or (version == "1.36" and bool(piece["spec"].get("sharedCounters")))


def checked(name: tuple[str, str], own: list[Json], others: list[Json], gates: frozenset[str]) -> Reached:
    partitions = "DRAPartitionableDevices" in gates
    counting = [piece for piece in own + others if partitions and piece["spec"].get("sharedCounters")]
    here = tuple(
        NameSearchResult(each, piece) for piece in own if piece not in counting for each in piece["spec"]["devices"]
    )
    away = tuple(
        NameSearchResult(each, piece)
        for piece in others
        if piece not in counting
        for each in piece["spec"].get("devices", ())
    )
    if any(count > 1 for count in Counter(found.id for found in here).values()):
        return Reached(name, "invalid")
    if not partitions:
        return Reached(name, "", here, away)
    sets = [each for piece in counting for each in piece["spec"]["sharedCounters"]]
    if any(count > 1 for count in Counter(each["name"] for each in sets).values()):
        return Reached(name, "invalid")
    counters = {each["name"]: each["counters"] for each in sets}
    for found in here + away:
        for used in found.device.get("consumesCounters", ()):
            if used["counterSet"] not in counters or set(used["counters"]) - set(counters[used["counterSet"]]):
                return Reached(name, "invalid")
    return Reached(name, "", here, away, tuple(counters.items()))
