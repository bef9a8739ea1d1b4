"""Which devices pass the selectors of a class and of a request: asked once per device, for all pods.

An answer depends on nothing but the selectors and the device, so it is kept beside the slice for as long as the slice
is published. Answers are worked out one by one, when the search comes to the device: the error of a device that nobody
looks at is nobody's error.
"""

from collections.abc import Generator, Sequence
from typing import Final, Protocol

from kscheduler.api.devices import Device, DeviceClass, DeviceSelector
from kscheduler.api.selector_errors import SelectorBudgetError, SelectorCompileError, SelectorRuntimeError
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.devices.pools import PoolDevice
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures

_KEPT_SELECTIONS: Final = 64
_KEPT_BYTES: Final = 16 * 2**20
# Of all selections, a hundred bytes each; those that were used longest ago are asked for again.
_MAX_ANSWERS: Final = 524_288
# Of a compile error, which shows a long expression once for each mistake: the pod's status is written with it.
_LONGEST_TEXT: Final = 8_192


class DevicePredicate(Protocol):
    """A compiled expression."""

    @property
    def attributes_read(self) -> frozenset[str] | None:
        """The attributes that it may read, by their names without domains; `None`: perhaps all."""
        ...

    def matches(self, driver: str, device: Device) -> bool:
        """Whether the expression is true for the device. Raises `SelectorRuntimeError`."""
        ...


class Compiler(Protocol):
    """Compiles expressions."""

    def compile(self, expression: str) -> DevicePredicate:
        """Raises `SelectorCompileError`."""
        ...


Expressions = tuple[str, ...]
# By driver and `id` of a device: drivers may publish equal devices, which then are one object.
_Answers = dict[tuple[str, int], tuple[Device, bool]]


class Selections:
    """The answers for the selectors that were used last."""

    def __init__(self, compiler: Compiler, features: AllocatorFeatures) -> None:
        self._compiler = compiler
        self._features = features
        self._kept: RecentlyUsed[tuple[Expressions, Expressions], _Answers] = RecentlyUsedByWeight(
            _KEPT_SELECTIONS, _KEPT_BYTES, lambda key, _: weight_of(key)
        )

    def of(
        self, device_class: DeviceClass, selectors: Sequence[DeviceSelector], claim: str, request: str
    ) -> "DeviceSelection":
        """`claim`: `namespace/name`; `request`: its name: for error texts."""
        by_class, by_request = _expressions(device_class.spec.selectors), _expressions(selectors)
        known = self._kept.use((by_class, by_request))
        if known is None:
            known = self._kept[by_class, by_request] = {}
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > _MAX_ANSWERS:
            self._kept.popitem(last=False)
        return DeviceSelection(
            self._compiler,
            self._features,
            known,
            (f"class {device_class.metadata.name}", "", by_class),
            (f"claim {claim}", f", request {request}", by_request),
        )

    def attributes_read(self, selectors: Sequence[DeviceSelector]) -> frozenset[str] | None:
        """The attributes that they may read, by their names without domains; `None`: perhaps all.

        Raises what the compiler raises.
        """
        read: set[str] = set()
        for expression in _expressions(selectors):
            of_selector = self._compiler.compile(expression).attributes_read
            if of_selector is None:
                return None
            read |= of_selector
        return frozenset(read)


class DeviceSelection:
    """The devices that pass the selectors of one class and one request."""

    def __init__(
        self,
        compiler: Compiler,
        features: AllocatorFeatures,
        known: _Answers,
        *parts: tuple[str, str, Expressions],
    ) -> None:
        self._compiler = compiler
        self._features = features
        self._known = known
        self._parts = parts

    def has(self, found: PoolDevice) -> bool:
        """Whether the device passes. Raises `AllocationError`."""
        known = self.known(found)
        if known is not None:
            return known
        parts = self.worked_out(found)
        while True:
            try:
                next(parts)
            except StopIteration as ended:
                return bool(ended.value)

    def known(self, found: PoolDevice) -> bool | None:
        """The same, if somebody has asked before."""
        entry = self._known.get((found.id.driver, id(found.device)))
        return entry[1] if entry is not None and entry[0] is found.device else None

    def worked_out(self, found: PoolDevice) -> Generator[None, None, bool]:
        """The same for a device that is not known, selector by selector: who runs it may pause at each `yield`."""
        passes = True
        for part in self._parts:
            passes = passes and (yield from self._passes(*part, found))
        if len(self._known) > _MAX_ANSWERS:
            self._known.clear()
        self._known[found.id.driver, id(found.device)] = found.device, passes
        return passes

    def _passes(
        self, where: str, request: str, expressions: Expressions, found: PoolDevice
    ) -> Generator[None, None, bool]:
        for number, expression in enumerate(expressions):
            yield
            try:
                selector = self._compiler.compile(expression)
            except SelectorBudgetError as problem:  # no error of kube-scheduler, whose texts name no request
                message = f"{where}{request}: selector #{number}: CEL compile error: {problem}"
                raise AllocationError(message) from None
            except SelectorCompileError as problem:
                message = f"{where}: selector #{number}: CEL compile error: {_shortened(str(problem))}"
                raise AllocationError(message) from None
            try:
                if not selector.matches(found.id.driver, found.device):
                    return False
            except SelectorRuntimeError as problem:
                on_device = f" on device {found.id}" if self._features.reports_device_of_error else ""
                message = f"{where}: selector #{number}{on_device}: CEL runtime error: {problem}"
                raise AllocationError(message) from None
        return True


def _shortened(text: str) -> str:
    beyond = len(text) - _LONGEST_TEXT
    return text if beyond <= 0 else f"{text[:_LONGEST_TEXT]} ... and {beyond:,} more characters"


def _expressions(selectors: Sequence[DeviceSelector]) -> Expressions:
    return tuple(selector.cel.expression for selector in selectors if selector.cel is not None)
