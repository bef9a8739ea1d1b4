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

from kscheduler.api.quantity import QuantityError, nano_value

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


class GangFileError(ValueError):
    """A file that cannot be played. The text names the file, and the field where there is one."""


def traces_in(tree: Any) -> Iterator[GangTrace]:
    """The trace, or one for each of its variants. Raises `msgspec.ValidationError`, whose text ends in the field."""
    whole = msgspec.convert(tree, dict[str, Any])
    variants = msgspec.convert(whole, _Variants).variants or {"": {}}
    for name, changes in variants.items():
        own = {**whole, **changes}
        found = msgspec.convert(own, GangTrace)
        for index, machines in enumerate(found.nodes):
            _check_quantities(machines.allocatable, f"nodes[{index}].allocatable")
        _check_quantities(found.pod, "pod")
        yield msgspec.structs.replace(found, name=f"{found.name} {name}".strip())


class _Variants(msgspec.Struct, frozen=True):
    variants: dict[str, dict[str, Any]] = {}


def _check_quantities(amounts: Mapping[str, str], path: str) -> None:
    for resource, amount in amounts.items():
        try:
            nano_value(amount)
        except QuantityError as problem:
            raise msgspec.ValidationError(f"{problem} - at `$.{path}.{resource}`") from None


def read_traces(path: Path) -> list[GangTrace]:
    """What a file has. Raises `GangFileError`."""
    try:
        return list(traces_in(json.loads(path.read_bytes())))
    except OSError as problem:
        raise GangFileError(f"{path}: {problem.strerror}") from None
    except msgspec.ValidationError as problem:
        message, _, field = str(problem).partition(" - at ")
        where = field.strip("`").removeprefix("$").removeprefix(".")
        raise GangFileError(f"{path}: {where}: {message}" if where else f"{path}: {message}") from None
    except ValueError as problem:
        raise GangFileError(f"{path}: it is no JSON: {problem}") from None
