"""A plugin's class as a factory.

The runtime builds each plugin by `factory(args, handle)`. Most policies need neither, so a class says by the names of
its constructor's parameters what it wants: `args`, `handle`, both, or nothing. Arguments that nobody takes are
refused, as they would be lost without a word.
"""

import inspect
from typing import Any

import msgspec

from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.plugin_results import shown


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
