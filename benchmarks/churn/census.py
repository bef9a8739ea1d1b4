"""How many entries each table of a running scheduler has, found by walking over its objects.

The problem: a table that is never emptied is found only by whoever thinks of it. The idea: nobody lists tables. A walk
starts at the service, follows every attribute and container, and counts the entries of each dict, list, set and deque
under the class and attribute that hold it; so a table that is added next year is counted, too. Modules are searched for
tables of their own and for remembered calls (`lru_cache`).

    "NodeTable._row_of": 200           entries, summed over all objects of the class
    "NodeTable.taint_set (bytes)"      an array
    "quantity.nano_value()"            remembered calls

Limits: objects of the API are data and not walked into; what is reached on two ways counts where it is found first.
A walk over a small cluster takes a second, and is no part of what is measured.
"""

import json
import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast
from weakref import WeakSet, WeakValueDictionary

import msgspec
import numpy as np

_PACKAGE: Final = "kscheduler."
_PLAIN: Final = (str, bytes, int, float, bool, type(None), type, ModuleType, msgspec.Struct)
_SEQUENCES: Final = (list, deque, tuple, AbstractSet, WeakSet)


@dataclass(slots=True)
class Census:
    """What was counted."""

    tables: dict[str, int] = field(default_factory=dict)
    """Entries (bytes of arrays) by class and attribute."""
    objects: dict[str, int] = field(default_factory=dict)
    """Objects by class."""
    limits: dict[str, int] = field(default_factory=dict)
    """How many calls may be remembered, by table."""

    @property
    def array_bytes(self) -> int:
        """Of all arrays."""
        return sum(count for name, count in self.tables.items() if name.endswith("(bytes)"))


def take(*roots: object, package: str = _PACKAGE) -> Census:
    """Count everything that can be reached from the roots, and the tables of all modules of the package."""
    census, seen = Census(), set[int]()
    work: deque[tuple[str, object]] = deque(("", root) for root in roots)
    work.extend(_of_modules(census, package))
    while work:
        where, one = work.popleft()
        if isinstance(one, _PLAIN) or id(one) in seen:
            continue
        seen.add(id(one))
        work.extend(_parts(census, where, one, package))
    return census


def take_apart(*roots: object) -> Census:
    """The same, taken by a copy of this process, so that what the walk itself needs is not found in this one's memory.

    Call it from another thread than the event loop's, which then goes on meanwhile.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.nice(19)
            os.close(reader)
            found = take(*roots)
            with os.fdopen(writer, "w") as pipe:
                json.dump([found.tables, found.objects, found.limits], pipe)
        except BaseException:  # noqa: BLE001  nothing may come out of a copy of the whole program
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    if not told:
        raise RuntimeError("the census has failed; the copy of this process has told why")
    return Census(*json.loads(told))


def _of_modules(census: Census, package: str) -> Iterator[tuple[str, object]]:
    for name, module in list(sys.modules.items()):
        if not name.startswith(package):
            continue
        short = name.rpartition(".")[2]
        for attribute, value in list(vars(module).items()):
            if getattr(value, "__module__", name) != name:
                continue  # imported from elsewhere
            if (remembered := _remembered(value)) is not None:
                census.tables[f"{short}.{attribute}()"], census.limits[f"{short}.{attribute}()"] = remembered
            elif isinstance(value, dict | list | set | deque) and not attribute.startswith("__"):
                yield f"{short}.{attribute}", value


def _remembered(value: object) -> tuple[int, int] | None:
    """How many calls an `lru_cache` remembers, and at most (-1: no limit); `None` for anything else."""
    told = getattr(value, "cache_info", None)
    if told is None:
        return None
    info: Any = cast("Callable[[], Any]", told)()
    return info.currsize, -1 if info.maxsize is None else info.maxsize


def _parts(census: Census, where: str, one: object, package: str) -> Iterable[tuple[str, object]]:
    if isinstance(one, np.ndarray):
        _add(census.tables, f"{where} (bytes)", one.nbytes)
        return ()
    if isinstance(one, Mapping | WeakValueDictionary):
        _add(census.tables, where, len(one))
        parts: Iterable[object] = chain(list(one.keys()), list(one.values()))
        return _inside(census, where, one, parts, package)
    if isinstance(one, _SEQUENCES):
        if not isinstance(one, tuple | frozenset):
            _add(census.tables, where, len(one))
        return _inside(census, where, one, list(one), package)
    if isinstance(one, FunctionType):
        return ((where, cell) for cell in one.__closure__ or ())
    if isinstance(one, CellType):
        return ((where, one.cell_contents),)
    if isinstance(one, MethodType):
        return ((where, one.__self__),)
    if type(one).__module__.startswith(package):
        _add(census.objects, type(one).__name__, 1)
        return _attributes(one)
    return ()


def _inside(
    census: Census, where: str, container: object, parts: Iterable[object], package: str
) -> Iterator[tuple[str, object]]:
    """What a container holds, and what it has besides if its class is one of ours."""
    yield from ((f"{where}[]" if not where.endswith("[]") else where, part) for part in parts)
    if type(container).__module__.startswith(package):
        _add(census.objects, type(container).__name__, 1)
        yield from _attributes(container)


def _attributes(one: object) -> Iterator[tuple[str, object]]:
    kind = type(one)
    slots = (name for base in kind.__mro__ for name in _listed(vars(base).get("__slots__", ())))
    for name in dict.fromkeys((*slots, *getattr(one, "__dict__", ()))):
        value = getattr(one, name, None)
        if name not in ("__dict__", "__weakref__"):
            yield f"{kind.__name__}.{name}", value


def _listed(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count
