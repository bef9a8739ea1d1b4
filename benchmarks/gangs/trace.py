"""The files that are played: nodes, gangs in the order of their submission, levels of the topology.

nodes[]     `count` equal nodes: `name` (`{1..32}` counts), `allocatable`, `labels`, perhaps `unschedulable`
pod         what every pod requests
gangs[]     `pods`, `minCount`, `submittedSeconds`, `runSeconds` once the whole gang runs, perhaps `topology`:
            `required` (a label), `preferred` (labels with weights: the one with the highest weight is asked for).
            `count` gangs of a kind: their name counts (`{n}`)
levels      labels from wide to narrow
variants    by name other values of these fields
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

_RANGE: Final = re.compile(r"\{(\d+)\.\.\d+\}")


class Preference(msgspec.Struct, frozen=True):
    """A level that a gang prefers."""

    key: str
    weight: int = 1


class GangTopology(msgspec.Struct, frozen=True):
    """What a gang asks of the topology."""

    required: str = ""
    preferred: tuple[Preference, ...] = ()


class Gang(msgspec.Struct, frozen=True, rename="camel"):
    """Equal gangs."""

    name: str
    pods: int
    min_count: int
    submitted_seconds: float
    run_seconds: float
    topology: GangTopology = GangTopology()
    count: int = 1


class Machines(msgspec.Struct, frozen=True):
    """Equal nodes."""

    count: int
    name: str
    allocatable: dict[str, str]
    labels: dict[str, str] = {}
    unschedulable: bool = False


class GangTrace(msgspec.Struct, frozen=True):
    """A file, or one of its variants."""

    name: str
    nodes: tuple[Machines, ...]
    pod: dict[str, str]
    gangs: tuple[Gang, ...]
    levels: tuple[str, ...] = ()

    def machines(self) -> Iterator[tuple[str, Machines]]:
        """Each node by its name."""
        for same in self.nodes:
            first = _RANGE.search(same.name)
            begin = int(first.group(1)) if first else 0
            yield from (
                (_RANGE.sub(str(begin + number), same.name) if first else same.name, same)
                for number in range(same.count)
            )

    def submitted(self) -> Iterator[Gang]:
        """Each gang by its name, in order."""
        for same in self.gangs:
            for number in range(same.count):
                yield msgspec.structs.replace(same, name=same.name.replace("{n}", str(number + 1)), count=1)


def traces_in(tree: Mapping[str, Any]) -> Iterator[GangTrace]:
    """The trace, or one for each of its variants. Raises `msgspec.ValidationError`."""
    variants = tree.get("variants") or {"": {}}
    for name, changes in variants.items():
        own = {**tree, **changes, "name": " ".join((tree["name"], name)).strip()}
        yield msgspec.convert(own, GangTrace)


def read_traces(path: Path) -> Iterator[GangTrace]:
    """What a file has. Raises `OSError`, `ValueError`."""
    return traces_in(json.loads(path.read_bytes()))
