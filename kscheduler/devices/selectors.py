"""Selectors of devices: CEL expressions over `device`, compiled and evaluated as kube-scheduler does it."""

from typing import Literal

from kscheduler.api.devices import Device

Release = Literal["1.36", "1.37"]


class SelectorError(ValueError):
    """A selector cannot be answered."""


class SelectorCompileError(SelectorError):
    """The expression is not one that can be evaluated; the text is what follows `CEL compile error: `."""


class SelectorRuntimeError(SelectorError):
    """The expression fails for one device; the text is what follows `CEL runtime error: `."""


class CompiledSelector:
    """An expression that can be asked about devices."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the expression is true for a device of `driver`. Raises `SelectorRuntimeError`."""
        return self.evaluate(driver, device)[0]

    def evaluate(self, driver: str, device: Device) -> tuple[bool, int]:
        """The answer and what it cost. Raises `SelectorRuntimeError`."""
        message = "selectors are not evaluated yet"
        raise SelectorRuntimeError(message)


class SelectorCompiler:
    """Compiles selectors as one release of Kubernetes does, and keeps those that were used last."""

    def __init__(self, version: Release, list_attributes: bool = False, consumable_capacity: bool = True) -> None:  # noqa: FBT001, FBT002
        self._version = version
        self._list_attributes = list_attributes
        self._consumable_capacity = consumable_capacity

    def compile(self, expression: str) -> CompiledSelector:
        """Raises `SelectorCompileError`."""
        return CompiledSelector(expression)
