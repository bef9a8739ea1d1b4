"""Selectors of devices: CEL expressions over `device`, compiled and evaluated as kube-scheduler does it.

`device` has a driver, attributes and capacities by domain, and whether it may be allocated several times. The errors
are kube-scheduler's, which decide nothing: a selector that fails ends the cycle.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec

from kscheduler.api.device_values import PreparedDevice, UnreadableDeviceError
from kscheduler.api.devices import Device
from kscheduler.api.selector_errors import SelectorBudgetError, SelectorCompileError, SelectorRuntimeError
from kscheduler.bounded import WithinBudget
from kscheduler.cel import types
from kscheduler.cel.checking.declarations import QUANTITY
from kscheduler.cel.environment import (
    MAX_STEPS,
    CompileBudgetError,
    CompileError,
    Environment,
    EvaluationError,
    LanguageRules,
    Program,
    deep_calls,
)
from kscheduler.cel.planning.attributes import EvaluationRules
from kscheduler.cel.values.converting import unconvertible
from kscheduler.cel.values.kinds import Optional, StringMap
from kscheduler.cel.values.typing import type_name

Release = Literal["1.36", "1.37", "1.38"]

# What one evaluation may cost, `CELSelectorExpressionMaxCost` of resource.k8s.io.
COST_LIMIT = 1_000_000

# Expressions that a compiler keeps: some kilobytes each, if they are as people write them (kube-scheduler keeps ten).
COMPILED_KEPT, COMPILED_BYTES = 256, 32 * 2**20
_BYTES_PER_NODE = 1_000

# Devices whose attributes stay ready to be asked about: about two kilobytes each.
DEVICES_KEPT, DEVICES_BYTES = 8192, 32 * 2**20

# device, attributes, domain, name.
_PATH_OF_ATTRIBUTE = 4

_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)


class _Rules(msgspec.Struct, frozen=True):
    """What one release does with selectors where another one does otherwise."""

    language: LanguageRules
    always_reads_lists: bool
    """Attributes may be lists, whether the gate is on or off: that matters to new objects in the API server only."""
    wants_the_type_of_attributes: bool
    """A result whose type is unknown must have the very type of attributes."""
    hints_at_optionals: bool
    """An error about a missing key tells of optional chaining."""
    own_maps: bool
    """Attributes and capacities are maps of their own kind: an attribute that cannot be read fails only what reads it
    (1.38: DR1, DR2).
    """


_RULES: dict[Release, _Rules] = {
    "1.36": _Rules(
        LanguageRules(
            qualified_locals=True,
            old_positions=True,
            shared_decimals=True,
            bounded_ranges=False,
            short_includes=True,
            quoted_fields=False,
            duration_of_int=True,
            wide_quantities=False,
            knows_masks=False,
            nan_is_unordered=False,
            suggests_names=False,
            evaluation=EvaluationRules(
                optionals_through_go=True,
                lenient_or=True,
                old_costs=True,
                stops_at_errors=False,
                counts_all_lookups=False,
                ranges_of_nothing=False,
                bound_stays=False,
            ),
        ),
        always_reads_lists=False,
        wants_the_type_of_attributes=False,
        hints_at_optionals=False,
        own_maps=False,
    ),
    "1.37": _Rules(
        LanguageRules(
            qualified_locals=False,
            old_positions=False,
            shared_decimals=False,
            bounded_ranges=True,
            short_includes=False,
            quoted_fields=True,
            duration_of_int=False,
            wide_quantities=False,
            knows_masks=False,
            nan_is_unordered=False,
            suggests_names=False,
            evaluation=EvaluationRules(
                optionals_through_go=False,
                lenient_or=False,
                old_costs=False,
                stops_at_errors=False,
                counts_all_lookups=False,
                ranges_of_nothing=False,
                bound_stays=False,
            ),
        ),
        always_reads_lists=True,
        wants_the_type_of_attributes=True,
        hints_at_optionals=True,
        own_maps=False,
    ),
    "1.38": _Rules(
        LanguageRules(
            qualified_locals=False,
            old_positions=False,
            shared_decimals=False,
            bounded_ranges=True,
            short_includes=False,
            quoted_fields=True,
            duration_of_int=False,
            wide_quantities=True,
            knows_masks=True,
            nan_is_unordered=True,
            suggests_names=True,
            evaluation=EvaluationRules(
                optionals_through_go=False,
                lenient_or=False,
                old_costs=False,
                stops_at_errors=True,
                counts_all_lookups=True,
                ranges_of_nothing=True,
                bound_stays=True,
            ),
        ),
        always_reads_lists=True,
        wants_the_type_of_attributes=True,
        hints_at_optionals=True,
        own_maps=True,
    ),
}


class CompiledSelector:
    """An expression that can be asked about devices."""

    def __init__(self, expression: str, program: Program, compiler: "SelectorCompiler") -> None:
        self.expression = expression
        self._program, self._compiler = program, compiler

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        return 4 * len(self.expression) + _BYTES_PER_NODE * self._program.nodes

    @property
    def attributes_read(self) -> frozenset[str] | None:
        """The attributes that it may read, by their names without domains; `None`: perhaps all.

        The others only must be readable: else, up to 1.37, the selector fails.
        """
        names = set()
        for path in self._program.paths:
            if path[:2] == ("device", "attributes"):
                if len(path) < _PATH_OF_ATTRIBUTE:
                    return None
                names.add(path[_PATH_OF_ATTRIBUTE - 1])
            elif path == ("device",):
                return None
        return frozenset(names)

    @property
    def result_type(self) -> str:
        """The type of the answer: bool, or that of attributes."""
        return str(self._program.result_type)

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the expression is true for a device of `driver`. Raises `SelectorRuntimeError`."""
        return self.evaluate(driver, device)[0]

    def evaluate(self, driver: str, device: Device, limit: int = COST_LIMIT) -> tuple[bool, int]:
        """The answer and what it cost. Raises `SelectorRuntimeError`, also where it would cost more than `limit`."""
        return self.evaluation(driver, device, limit)()

    def evaluation(self, driver: str, device: Device, limit: int = COST_LIMIT) -> Callable[[], tuple[bool, int]]:
        """What `evaluate` does, to be called in any thread. Raises `SelectorRuntimeError` for unreadable devices."""
        return partial(self._run, self._compiler.prepared(driver, device).variable(), limit)

    def _run(self, variable: StringMap, limit: int) -> tuple[bool, int]:
        if not self._program.deep:
            return self._evaluate(variable, limit)
        with deep_calls():
            return self._evaluate(variable, limit)

    def _evaluate(self, variable: StringMap, limit: int) -> tuple[bool, int]:
        try:
            value, cost = self._program.evaluate({"device": variable}, limit)
        except EvaluationError as error:
            raise self._compiler.failed(str(error), error.cost) from None
        described = type_name(value)
        while type(value) is Optional and value.present:
            value = value.value
        if type(value) is bool:
            return value, cost
        reason = "optional.none() dereference" if type(value) is Optional else unconvertible(value, "bool")
        message = f"CEL result of type {described} could not be converted to bool: {reason}"
        raise self._compiler.failed(message, cost)


class SelectorCompiler:
    """Compiles selectors as one release of Kubernetes does, and keeps those that were used last."""

    def __init__(self, version: Release, list_attributes: bool = False, consumable_capacity: bool = True) -> None:
        # `device.allowMultipleAllocations` is known to stored expressions whether the gate is on or off.
        del consumable_capacity
        self._rules = _RULES[version]
        self._lists = list_attributes or self._rules.always_reads_lists
        self._attribute_type = types.DYN if self._lists else types.ANY
        self._environment = _environment(self._rules.language, self._attribute_type)
        self._compiled: WithinBudget[str, CompiledSelector] = WithinBudget(COMPILED_BYTES, COMPILED_KEPT)
        self._devices: WithinBudget[tuple[str, int], tuple[Device, PreparedDevice]] = WithinBudget(
            DEVICES_BYTES, DEVICES_KEPT
        )

    def compile(self, expression: str) -> CompiledSelector:
        """The selector, kept for the next who asks. Raises `SelectorCompileError`."""
        selector = self._compiled.take(expression) or self.compile_again(expression)
        self._compiled.put(expression, selector, selector.weight)
        return selector

    def compile_again(self, expression: str, most_steps: int = MAX_STEPS) -> CompiledSelector:
        """May be called in any thread. Raises `SelectorCompileError`, `SelectorBudgetError`."""
        try:
            program = self._environment.compile(expression, self._check_result, most_steps)
        except CompileBudgetError as error:
            raise SelectorBudgetError(str(error)) from None
        except CompileError as error:
            raise SelectorCompileError(str(error)) from None
        return CompiledSelector(expression, program, self)

    def _check_result(self, described: types.Type) -> str:
        if self._rules.wants_the_type_of_attributes:
            fine = described.kind in ("bool", self._attribute_type.kind)
        else:
            fine = described is types.BOOL or described is types.ANY or (self._lists and described is types.DYN)
        return "" if fine else f"must evaluate to bool or the unknown type, not {described}"

    def prepared(self, driver: str, device: Device) -> PreparedDevice:
        """What is the same in all evaluations of a device. Raises `SelectorRuntimeError`."""
        key = driver, id(device)
        known = self._devices.get(key)
        if known is None:
            known = device, self._prepare(driver, device)
            # The entry keeps the device, so that no other one gets its id.
            self._devices.put(key, known, known[1].weight)
        return known[1]

    def _prepare(self, driver: str, device: Device) -> PreparedDevice:
        try:
            return PreparedDevice(driver, device, reads_lists=self._lists, own_maps=self._rules.own_maps)
        except UnreadableDeviceError as error:
            raise SelectorRuntimeError(str(error)) from None

    def failed(self, message: str, cost: int | None) -> SelectorRuntimeError:
        """The error, with the release's hint where a key is missing."""
        hint = _HINT if self._rules.hints_at_optionals and "no such key:" in message else ""
        return SelectorRuntimeError(message + hint, cost)


def _environment(rules: LanguageRules, attribute: types.Type) -> Environment:
    fields = {
        "driver": types.STRING,
        "allowMultipleAllocations": types.BOOL,
        "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
        "capacity": types.map_of(types.STRING, types.map_of(types.STRING, QUANTITY)),
    }
    name = "kubernetes.DRADevice"
    return Environment({"device": types.struct(name)}, {name: fields}, rules)
