"""A plugin of one's own, from a Python file or module to a factory that the registry knows.

Three steps, from the bottom up: which plugins a module declares, and how a class is built by the names of its
parameters; a file, checked and run once per content; what is logged when an import does not end.
"""

import hashlib
import inspect
import linecache
import re
import stat
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

import msgspec

from kscheduler.framework.handle import Handle
from kscheduler.framework.per_node import DECLARED, PluginDeclarationError
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.plugin_results import FILE_MODULES, shown, words_of
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.registry import PluginFactory
from kscheduler.framework.traits import points_of
from kscheduler.telemetry.logs import get_logger

# A plugin's class as a factory.
#
# The runtime builds each plugin by `factory(args, handle)`. Most policies need neither, so a class says by the names of
# its constructor's parameters what it wants: `args`, `handle`, both, or nothing. Arguments that nobody takes are
# refused, as they would be lost without a word.


class WrongConstructorError(TypeError):
    """A plugin's class cannot be built from arguments and handle."""


class ClassFactory:
    """Builds a plugin of a class for each profile that enables it."""

    def __init__(self, kind: type[Plugin]) -> None:
        """Raises `WrongConstructorError`."""
        self.name: str = kind.name
        self._kind = kind
        self._wanted = _wanted(kind)
        self.args_kind: type[msgspec.Struct] | None = _args_kind(kind)
        """The struct of its arguments, in the class as `Args`; `None`: it gets a plain mapping."""

    def __repr__(self) -> str:
        return f"class {self._kind.__qualname__} of {self._kind.__module__}"

    def __call__(self, args: Any, handle: Handle) -> Plugin:
        """Build the plugin. Raises `ValueError` for arguments that it does not take, else what its class raises."""
        if args and "args" not in self._wanted:
            where = f"`{self._kind.__name__}.__init__`"
            raise ValueError(f"it takes no arguments: give {where} a parameter `args` to get {shown(args)}")
        if args is None and self.args_kind is not None:
            args = msgspec.convert({}, self.args_kind)  # a ValueError where an argument without default is missing
        given = {"args": args, "handle": handle}
        return self._kind(**{name: given[name] for name in self._wanted})


def _wanted(kind: type[Plugin]) -> tuple[str, ...]:
    signature = inspect.signature(kind)
    wanted = tuple(name for name in ("args", "handle") if name in signature.parameters)
    try:
        signature.bind(**dict.fromkeys(wanted))
    except TypeError as mistake:
        text = f"`{kind.__name__}{signature}` is built with `args` and `handle`, as far as it names them: {mistake}"
        raise WrongConstructorError(text) from None
    return wanted


def _args_kind(kind: type[Plugin]) -> type[msgspec.Struct] | None:
    declared = getattr(kind, "Args", None)
    if declared is None:
        return None
    if not (isinstance(declared, type) and issubclass(declared, msgspec.Struct)):
        raise WrongConstructorError(f"`{kind.__name__}.Args` is {shown(declared)}: let it be a msgspec.Struct")
    if "args" not in inspect.signature(kind).parameters:
        raise WrongConstructorError(f"`{kind.__name__}` declares `Args`, and its constructor has no parameter `args`")
    return declared


# Which plugins a module declares: functions under `@plugin`, and classes that derive from `Plugin` and have a `name`.
#
# Only what the module itself defines counts: a policy that imports `NodeResourcesFit` to look at it does not declare
# it. A class without a `name` of its own is a part of another one; a name that begins with an underscore says so, too.

_NOTHING: Final = (
    'it declares no plugin: neither a function `filter` or `score` under @plugin("Name"), nor a class that derives '
    "from `kscheduler.framework.plugin.Plugin` and has a `name`"
)


_CURE: Final = (
    "give each a name of its own (a profile can enable both), or make one plugin of them: a class that derives from "
    "`kscheduler.framework.plugin.Plugin` with both methods"
)


class NoPluginsError(ValueError):
    """A module declares no plugin, or two of one name."""


def declared_plugins(module: ModuleType) -> Mapping[str, PluginFactory]:
    """Factories by plugin name.

    Raises `NoPluginsError`, and `WrongConstructorError` for a class that cannot be built.
    """
    found: dict[str, PluginFactory] = {}
    for factory in (*vars(module).get(DECLARED, ()), *map(ClassFactory, _classes(module))):
        if factory.name in found:
            both = f"{found[factory.name]!r}, {factory!r}"
            raise NoPluginsError(f"it declares two plugins named {factory.name}: {both}; {_CURE}")
        found[factory.name] = factory
    if not found:
        nearly = "; ".join(_nearly_plugins(module))
        raise NoPluginsError(f"it declares no plugin: {nearly}" if nearly else _NOTHING)
    return found


def factory_of(found: Any) -> PluginFactory | None:
    """The factory that an entry point leads to: a class, a function under `@plugin`, or a factory; else `None`."""
    if isinstance(found, type) and issubclass(found, Plugin) and isinstance(getattr(found, "name", None), str):
        return ClassFactory(found)
    return found if callable(found) and not isinstance(found, type) else None


def _nearly_plugins(module: ModuleType) -> Iterator[str]:
    """The module's own classes that lack a name or the base class to be plugins, each with what it lacks."""
    for kind in dict.fromkeys(value for value in vars(module).values() if isinstance(value, type)):
        if kind.__module__ != module.__name__ or kind.__name__.startswith("_"):
            continue
        derives, is_named = issubclass(kind, Plugin), isinstance(vars(kind).get("name"), str)
        if not derives and not points_of(kind):
            continue
        lacks = [] if is_named else [f'has no `name`, as in `name = "{kind.__name__}"`']
        lacks += [] if derives else ["does not derive from `kscheduler.framework.plugin.Plugin`"]
        yield f"class {kind.__name__}{_place_of(kind)} {' and '.join(lacks)}"


def _place_of(kind: type) -> str:
    """` (FILE:LINE)` where the class begins; empty where its source cannot be read."""
    try:
        return f" ({Path(inspect.getsourcefile(kind) or '').name}:{inspect.getsourcelines(kind)[1]})"
    except (OSError, TypeError):
        return ""


def _classes(module: ModuleType) -> list[type[Plugin]]:
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, Plugin)]
    own = (kind for kind in classes if kind.__module__ == module.__name__ and not kind.__name__.startswith("_"))
    return [kind for kind in dict.fromkeys(own) if isinstance(vars(kind).get("name"), str)]


# Says where the import of a plugin hangs, while it does.
#
# The problem: at a start, plugins are loaded before there is a server that could answer a probe, so a service whose
# plugin waits at its import for something that never comes looks as if it did nothing at all. The idea: a thread beside
# it looks once a second, and after some seconds logs the line at which the import stands, as faulthandler would print
# it.
#
# Limits: C code that holds the interpreter's lock keeps this thread from looking, too.

_log = get_logger("config")

# How long an import takes before it is told of.
FIRST_SECONDS: Final = 5.0
REPEAT_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 1.0
_OF_PYTHON: Final = "<frozen "


@dataclass(frozen=True, slots=True)
class BeingLoaded:
    """A place that plugins are loaded from at this moment."""

    origin: str
    """`file PATH`, `module NAME`, `distribution NAME VERSION`."""
    thread: int
    """That loads it."""
    since: float
    """Monotonic seconds."""

    @property
    def stands_at(self) -> str:
        """`FILE:LINE` of the plugin's file, or of the module that is being imported; empty if that is over."""
        frame = sys._current_frames().get(self.thread)
        frames = [] if frame is None else list(_outwards(frame))
        of_file = [each for each in frames if self.origin == f"file {each.f_code.co_filename}"]
        own = of_file or [each for each in frames if not each.f_code.co_filename.startswith(_OF_PYTHON)]
        return f"{own[0].f_code.co_filename}:{own[0].f_lineno}" if own else ""


def _outwards(frame: FrameType) -> Iterator[FrameType]:
    """The innermost frame first."""
    found: FrameType | None = frame
    while found is not None:
        yield found
        found = found.f_back


class HangReports:
    """Tells once of an import that takes long, and again each minute."""

    def __init__(self, loads: Callable[[], BeingLoaded | None]) -> None:
        self._loads = loads
        self._known: BeingLoaded | None = None
        self._next = 0.0

    def look(self, now: float) -> None:
        """Log what hangs, if it is due at this monotonic time."""
        loads = self._loads()
        if loads is not self._known:
            self._known, self._next = loads, 0.0 if loads is None else loads.since + PLUGIN_TIME.at_most(FIRST_SECONDS)
        if loads is None or now < self._next:
            return
        self._next = now + REPEAT_SECONDS
        hint = "what does it wait for at its import? nothing is scheduled until that is over"
        _log.warning(
            "plugin_import_hangs", origin=loads.origin, at=loads.stands_at, seconds=round(now - loads.since), hint=hint
        )


@contextmanager
def hangs_reported(loads: Callable[[], BeingLoaded | None]) -> Iterator[None]:
    """While plugins are loaded here, at a start: whatever hangs is told of."""
    ended, reports = threading.Event(), HangReports(loads)

    def watch() -> None:
        while not ended.wait(LOOK_SECONDS):
            reports.look(time.monotonic())

    threading.Thread(target=watch, name="plugin imports", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


# A Python file that declares plugins: found, checked, and run once for each content.
#
# The file is read once: what was hashed is what runs. Its module is called after the file and is registered with the
# interpreter, because dataclasses and type hints look there; a changed file takes the old module's place, and pods that
# are being decided keep the old plugins.
#
# Limits: one file is one module, and a file next to it cannot be imported: that wants a package, named by `module`. The
# code runs in the scheduler's process with all of its rights; who may write the file may do what the scheduler may.

# A policy is some kilobytes; a file of more is a mistake.
MAX_BYTES: Final = 1 << 20


class UnusablePluginError(ValueError):
    """A file or module cannot be loaded; the text says why, in a line or a few."""


@dataclass(frozen=True, slots=True)
class PluginFile:
    """A file that was run."""

    path: str
    digest: str
    """As `sha256sum` prints it."""
    plugins: dict[str, PluginFactory]


def content_of(path: str) -> bytes:
    """The file's content. Raises `UnusablePluginError`, also for a file that everybody may write."""
    try:
        mode = _readable_mode(path)
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except UnusablePluginError:
        raise
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)
        raise UnusablePluginError(f"{path} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise UnusablePluginError(f"{path} is larger than {MAX_BYTES:,} bytes: a plugin file is source code")
    if mode & stat.S_IWOTH:
        raise UnusablePluginError(f"{path} may be written by everybody on this machine: chmod o-w {path}")
    return data


def _readable_mode(path: str) -> int:
    """The file's mode. Raises `UnusablePluginError` for a pipe or a device, which may keep its reader forever."""
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # of a directory, opening says what it is
        raise UnusablePluginError(f"{path} is no regular file: write the plugin to one")
    return mode


def digest_of(data: bytes) -> str:
    """The content's digest, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()


def run_file(path: str, data: bytes) -> PluginFile:
    """Run the content of a file and collect its plugins. Raises `UnusablePluginError`, whatever the file does."""
    module = ModuleType(FILE_MODULES + re.sub(r"\W", "_", Path(path).stem))
    module.__file__ = path
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    linecache.checkcache(path)  # a traceback shall show the lines that run
    try:
        exec(compile(data, path, "exec", dont_inherit=True), vars(module))  # noqa: S102  the file is the plugin
        plugins = dict(declared_plugins(module))
    except BaseException as failure:
        if before is not None:
            sys.modules[module.__name__] = before
        else:
            sys.modules.pop(module.__name__, None)
        if isinstance(failure, KeyboardInterrupt):
            raise
        raise UnusablePluginError(f"{path}{_place(failure, path)}: {_reason(failure, module)}") from failure
    return PluginFile(path, digest_of(data), plugins)


def _reason(failure: BaseException, module: ModuleType) -> str:
    if _takes_the_module_for_the_decorator(failure, module):
        return "`kscheduler.framework.plugin` is a module: the decorator is imported by `from kscheduler import plugin`"
    if isinstance(failure, SyntaxError):
        return f"{type(failure).__name__}: {failure.msg}"
    if isinstance(failure, PluginDeclarationError):
        return failure.problem
    is_ours = type(failure).__module__.startswith("kscheduler.")
    return words_of(failure) if is_ours else f"{type(failure).__name__}: {failure}"


def _takes_the_module_for_the_decorator(failure: BaseException, module: ModuleType) -> bool:
    """Whether the file calls the module `kscheduler.framework.plugin`, or imports a decorator from it."""
    if isinstance(failure, ImportError):
        return failure.name == Plugin.__module__ and "cannot import name 'plugin'" in str(failure)
    has_the_module = any(value is sys.modules[Plugin.__module__] for value in vars(module).values())
    return has_the_module and isinstance(failure, TypeError) and str(failure) == "'module' object is not callable"


def _place(failure: BaseException, path: str) -> str:
    """`:LINE` of the file's own last line on the way to the failure, as compilers write it; empty if there is none."""
    if isinstance(failure, SyntaxError) and failure.filename == path:
        return f":{failure.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == path]
    return f":{lines[-1]}" if lines else ""
