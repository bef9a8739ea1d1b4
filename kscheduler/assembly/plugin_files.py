"""A Python file that declares plugins: found, checked, and run once for each content.

The file is read once: what was hashed is what runs. Its module is called after the file and is registered with the
interpreter, because dataclasses and type hints look there; a changed file takes the old module's place, and pods that
are being decided keep the old plugins.

Limits: one file is one module, and a file next to it cannot be imported: that wants a package, named by `module`. The
code runs in the scheduler's process with all of its rights; who may write the file may do what the scheduler may.
"""

import hashlib
import linecache
import re
import stat
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

from kscheduler.assembly.declared_plugins import declared_plugins
from kscheduler.framework.per_node import PluginDeclarationError
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.plugin_results import FILE_MODULES, words_of
from kscheduler.framework.registry import PluginFactory

# A policy is some kilobytes; a file of more is a mistake.
MAX_BYTES: Final = 1 << 20


class UnusablePluginError(ValueError):
    """A file or module cannot be loaded; the text says why, in a line or a few."""


class PluginFile(msgspec.Struct, frozen=True):
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
