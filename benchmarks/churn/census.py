"""How many entries each table of a running scheduler has, found by walking through its objects.

The problem: a hand-written list of tables misses the table that its author forgot. The idea: no list. A walk starts at
the service, follows every attribute and container, and counts the entries of each dict, list, set and deque under the
class and attribute that hold it, so that a table added next year is counted, too. Modules are searched for their own
tables and for cached calls (`lru_cache`).

    "NodeTable._row_of": 200           entries, summed over all objects of the class
    "NodeTable.taint_set (bytes)"      an array
    "quantity.nano_value()"            cached calls

Limits: the walk does not enter API objects, which are data; an object reachable in two ways counts where it is found
first. A walk over a small cluster takes a second, and is not part of the measurement.
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
    """The counts of a walk."""

    tables: dict[str, int] = field(default_factory=dict)
    """Entries (bytes of arrays) by class and attribute."""
    objects: dict[str, int] = field(default_factory=dict)
    """Objects by class."""
    limits: dict[str, int] = field(default_factory=dict)
    """How many calls may be cached, by table; -1 is no limit."""

    @property
    def array_bytes(self) -> int:
        """The bytes of all arrays."""
        return sum(count for name, count in self.tables.items() if name.endswith("(bytes)"))


def take(*roots: object, package: str = _PACKAGE) -> Census:
    """Count everything that can be reached from the roots, and the tables of all modules of the package."""
    census, seen = Census(), set[int]()
    work: deque[tuple[str, object]] = deque(("", root) for root in roots)
    work.extend(_of_modules(census, package))
    while work:
        where, thing = work.popleft()
        if isinstance(thing, _PLAIN) or id(thing) in seen:
            continue
        seen.add(id(thing))
        work.extend(_parts(census, where, thing, package))
    return census


def take_apart(*roots: object) -> Census:
    """As `take`, but in a forked copy of this process, so that the walk's own memory does not show in this process.

    Call it from a thread other than the event loop's, which then keeps running.
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
        except BaseException:  # noqa: BLE001  no exception may leave the forked copy of the program
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        raise RuntimeError("the census has failed; the forked process has printed the reason")
    return Census(*json.loads(answer))


def _of_modules(census: Census, package: str) -> Iterator[tuple[str, object]]:
    for name, module in list(sys.modules.items()):
        if not name.startswith(package):
            continue
        short = name.rpartition(".")[2]
        for attribute, value in list(vars(module).items()):
            if getattr(value, "__module__", name) != name:
                continue  # imported from elsewhere
            if (cached_calls := _cached_calls(value)) is not None:
                census.tables[f"{short}.{attribute}()"], census.limits[f"{short}.{attribute}()"] = cached_calls
            elif isinstance(value, dict | list | set | deque) and not attribute.startswith("__"):
                yield f"{short}.{attribute}", value


def _cached_calls(value: object) -> tuple[int, int] | None:
    """How many calls an `lru_cache` holds and may hold (-1: no limit); `None` for any other object."""
    cache_info = getattr(value, "cache_info", None)
    if cache_info is None:
        return None
    info: Any = cast("Callable[[], Any]", cache_info)()
    return info.currsize, -1 if info.maxsize is None else info.maxsize


def _parts(census: Census, where: str, thing: object, package: str) -> Iterable[tuple[str, object]]:
    # Count the object, and return what it refers to. Plain values have been left out by the caller.
    if isinstance(thing, np.ndarray):
        _add(census.tables, f"{where} (bytes)", thing.nbytes)
        return ()
    if isinstance(thing, Mapping | WeakValueDictionary):
        _add(census.tables, where, len(thing))
        parts: Iterable[object] = chain(list(thing.keys()), list(thing.values()))
        return _inside(census, where, thing, parts, package)
    if isinstance(thing, _SEQUENCES):
        if not isinstance(thing, tuple | frozenset):
            _add(census.tables, where, len(thing))
        return _inside(census, where, thing, list(thing), package)
    if isinstance(thing, FunctionType):
        return ((where, cell) for cell in thing.__closure__ or ())
    if isinstance(thing, CellType):
        return ((where, thing.cell_contents),)
    if isinstance(thing, MethodType):
        return ((where, thing.__self__),)
    if type(thing).__module__.startswith(package):
        _add(census.objects, type(thing).__name__, 1)
        return _attributes(thing)
    return ()


def _inside(
    census: Census, where: str, container: object, parts: Iterable[object], package: str
) -> Iterator[tuple[str, object]]:
    """The items of a container and, if its class belongs to the package, its attributes."""
    yield from ((f"{where}[]" if not where.endswith("[]") else where, part) for part in parts)
    if type(container).__module__.startswith(package):
        _add(census.objects, type(container).__name__, 1)
        yield from _attributes(container)


def _attributes(thing: object) -> Iterator[tuple[str, object]]:
    kind = type(thing)
    slots = (name for base in kind.__mro__ for name in _listed(vars(base).get("__slots__", ())))
    for name in dict.fromkeys((*slots, *getattr(thing, "__dict__", ()))):
        value = getattr(thing, name, None)
        if name not in ("__dict__", "__weakref__"):
            yield f"{kind.__name__}.{name}", value


def _listed(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _add(counts: dict[str, int], name: str, count: int) -> None:
    counts[name] = counts.get(name, 0) + count
