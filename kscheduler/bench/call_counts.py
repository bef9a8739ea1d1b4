"""The calls that a profile has seen, by function, without those that only the stand-in makes.

Whose a call is:

    scheduler   every call of a function of kscheduler that is not named below, whoever calls it
    stand-in    `kscheduler.bench` and `kscheduler.in_memory`: never counted
    library     builtin functions, the standard library, other packages, and the parts of kscheduler that the stand-in
                uses as a library (objects of the API, tasks and clocks, stores): counted as far as the scheduler
                calls them

A profile knows each pair of caller and callee, not whole stacks. So a library function that both call, and that calls
further ones, passes on its calls in the ratio in which it was called. What the event loop calls of itself has no caller
that counts; coroutines of the scheduler count, whoever resumes them.

Calls of types (`list()`, a struct's constructor) and operators are no calls for the profiler. Comprehensions, which are
functions up to Python 3.11, are not counted; what they call is.
"""

import re
import sysconfig
from collections import defaultdict
from collections.abc import Mapping
from cProfile import Profile
from enum import Enum
from pathlib import Path
from types import CodeType
from typing import Final

import kscheduler

BUILTIN: Final = "builtin:"

_ROOT: Final = f"{Path(kscheduler.__file__).parent}/"
# What a file's name is told without; site-packages may lie within the standard library's folder.
_ROOTS: Final = (_ROOT, *(f"{sysconfig.get_path(name)}/" for name in ("purelib", "platlib", "stdlib")))
_STAND_IN: Final = ("bench/", "in_memory/")
_AS_LIBRARY: Final = ("api/", "aio/", "informers/store.py")
# Readings of a clock are builtin calls in the service.
_IN_THE_SERVICE: Final = {
    "aio/clock.py:VirtualClock.monotonic": f"{BUILTIN}time.monotonic",
    "aio/clock.py:VirtualClock.time": f"{BUILTIN}time.time",
}
_GENERATED: Final = "<string>"
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})
_METHOD: Final = re.compile(r"<(?:slot wrapper|method) '(.+)' of '(.+)' objects>")
_FUNCTION: Final = re.compile(r"<built-in method (?:builtins\.)?(.+?)(?: of .*)?>")
# Shares have settled when none moves by more.
_SETTLED: Final = 1e-9
_MOST_ROUNDS: Final = 200


class _Side(Enum):
    SCHEDULER = "scheduler"
    STAND_IN = "stand-in"
    LIBRARY = "library"


def counted(profile: Profile) -> dict[str, float]:
    """Calls by function; those of builtin functions begin with `BUILTIN`. Fractions are of shared library functions."""
    # Builtin functions are texts. Code objects of different files may be equal, so they are told apart by their id.
    sides: dict[object, _Side] = {}
    names: dict[object, str] = {}
    calls: dict[object, int] = defaultdict(int)
    callers: dict[object, list[tuple[object, int]]] = defaultdict(list)
    for entry in profile.getstats():
        caller = _key(entry.code)
        names[caller], sides[caller] = _name(entry.code), _side(entry.code)
        calls[caller] += entry.callcount
        for call in entry.calls or ():
            callers[_key(call.code)].append((caller, call.callcount))
    shares = _shares(sides, calls, callers)
    found: dict[str, float] = defaultdict(float)
    for key, share in shares.items():
        if share and names[key]:
            found[names[key]] += calls[key] * share
    return dict(found)


def _shares(
    sides: Mapping[object, _Side],
    calls: Mapping[object, int],
    callers: Mapping[object, list[tuple[object, int]]],
) -> dict[object, float]:
    """Which share of each function's calls counts."""
    shares = {key: float(side is _Side.SCHEDULER) for key, side in sides.items()}
    library = [key for key, side in sides.items() if side is _Side.LIBRARY]
    # Library functions call each other, themselves too: shares grow from 0 until they fit each other.
    for _ in range(_MOST_ROUNDS):
        moved = 0.0
        for key in library:
            share = sum(shares[caller] * number for caller, number in callers[key]) / calls[key]
            moved = max(moved, abs(share - shares[key]))
            shares[key] = share
        if moved < _SETTLED:
            break
    return shares


def _key(code: CodeType | str) -> object:
    return code if isinstance(code, str) else id(code)


def _side(code: CodeType | str) -> _Side:
    path = "" if isinstance(code, str) else code.co_filename
    if not path.startswith(_ROOT) or path.startswith(_AS_LIBRARY, len(_ROOT)):
        return _Side.LIBRARY
    return _Side.STAND_IN if path.startswith(_STAND_IN, len(_ROOT)) else _Side.SCHEDULER


def _name(code: CodeType | str) -> str:
    """File and qualified name, without line numbers: they move. Empty for what is not counted."""
    if isinstance(code, str):
        return BUILTIN + _builtin_name(code)
    if code.co_name in _COMPREHENSIONS:
        return ""
    path = code.co_filename
    if path == _GENERATED:  # a dataclass's method; it is told by what the class has
        return f"dataclass:{code.co_name}({', '.join(code.co_varnames[1 : code.co_argcount])})"
    for root in _ROOTS:
        path = path.removeprefix(root)
    name = f"{path}:{code.co_qualname}"
    return _IN_THE_SERVICE.get(name, name)


def _builtin_name(text: str) -> str:
    if found := _METHOD.fullmatch(text):
        return f"{found[2]}.{found[1]}"
    found = _FUNCTION.fullmatch(text)
    return found[1] if found else text
