"""Selectors that take long, compiled and evaluated in a thread: none holds the event loop for longer than its budget.

CEL may loop: what one evaluation may cost is a second of work or more, for each device; and an expression may be made
so that its compilation takes as long. Both are done at once as far as a small part of that goes, which is all that
selectors usually need. What needs more is done in threads, one at a time, and the caller gets
`StillEvaluatingError` until the answer is there; a selector that has needed more for one device is known as long from
then on. Threads share the interpreter: others are slowed down meanwhile, and not held up.

All of it is counted in steps, so that what is refused is refused always, and everywhere.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kscheduler.api.devices import Device
from kscheduler.api.selector_errors import SelectorBudgetError, SelectorCompileError, SelectorRuntimeError
from kscheduler.bounded import WithinBudget

if TYPE_CHECKING:  # imported for the first selector
    from kscheduler.api.device_selectors import CompiledSelector, SelectorCompiler

# What a compilation may take on the event loop: ten milliseconds. Most selectors need a tenth of it.
BUDGET_STEPS: Final = 20_000
# What an evaluation may cost on the event loop: some milliseconds. Most selectors cost less than a hundredth of it.
BUDGET_COST: Final = 2_000
# How long the event loop waits for an evaluation in one go.
WAIT_SECONDS: Final = 0.005
# That are under way, each in a thread, or whose answer nobody has asked for yet. Further ones wait for these.
MAX_EVALUATIONS: Final = 64

_Key = tuple[str, ...] | tuple[str, str, int]
T = TypeVar("T")


class StillEvaluatingError(Exception):
    """A selector's answer about a device is not there yet, or it is being compiled."""

    def __init__(self, answer: "Future[Any]") -> None:
        super().__init__("a selector is still being evaluated")
        self._result = answer

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for it, forever or for so long. Returns whether it is there."""
        return _is_there(self._result, seconds)


class LongEvaluations:
    """Compilations and evaluations in threads."""

    def __init__(self) -> None:
        self._queried: dict[_Key, tuple[object, Future[Any]]] = {}
        """By expression, or expression, driver and device; an entry keeps its device, so that no other one gets its id.
        """
        self._turn = threading.Lock()

    def matches(self, selector: "CompiledSelector", driver: str, device: Device) -> bool:
        """The answer. Raises `SelectorRuntimeError`, `StillEvaluatingError`."""
        key = selector.expression, driver, id(device)
        return self._result(key, device, lambda: selector.evaluation(driver, device))[0]

    def compiled(self, expression: str, compile_it: "Callable[[], CompiledSelector]") -> "CompiledSelector":
        """The selector. Raises `SelectorCompileError`, `StillEvaluatingError`."""
        return self._result((expression,), None, lambda: compile_it)

    def is_compiling(self, expression: str) -> bool:
        """Whether the expression is being compiled, or nobody has asked for it since."""
        return (expression,) in self._queried

    def _result(self, key: _Key, about: object, prepare: Callable[[], Callable[[], T]]) -> T:
        """What the work answers that `prepare` makes: that runs here, the work in a thread."""
        known = self._queried.get(key)
        if known is None:
            self._make_room()
            known = self._queried[key] = about, self._begin(prepare())
        answer: Future[T] = known[1]
        if not _is_there(answer, WAIT_SECONDS):
            raise StillEvaluatingError(answer)
        del self._queried[key]
        return answer.result()

    def _make_room(self) -> None:
        """Forget answers that nobody has asked for. Raises `StillEvaluatingError` if all are still under way."""
        if len(self._queried) < MAX_EVALUATIONS:
            return
        self._queried = {key: known for key, known in self._queried.items() if not known[1].done()}
        if len(self._queried) >= MAX_EVALUATIONS:
            raise StillEvaluatingError(next(iter(self._queried.values()))[1])

    def _begin(self, work: Callable[[], T]) -> "Future[T]":
        answer: Future[T] = Future()
        # A daemon: the process does not wait for it when it ends.
        threading.Thread(target=self._run, args=(work, answer), name="cel", daemon=True).start()
        return answer

    def _run(self, work: Callable[[], T], answer: "Future[T]") -> None:
        with self._turn:
            try:
                answer.set_result(work())
            except BaseException as failure:  # noqa: BLE001  it is raised where the answer is asked for
                answer.set_exception(failure)


class PatientSelector:
    """A selector that is evaluated at once, or in a thread."""

    def __init__(self, selector: "CompiledSelector", evaluations: LongEvaluations) -> None:
        self._selector, self._evaluations = selector, evaluations
        self.is_long = False
        """Some device has needed more than the budget."""

    @property
    def attributes_read(self) -> frozenset[str] | None:
        """The attributes that it may read, by their names without domains; `None`: perhaps all."""
        return self._selector.attributes_read

    def matches(self, driver: str, device: Device) -> bool:
        """The answer. Raises `SelectorRuntimeError`, `StillEvaluatingError`."""
        if not self.is_long:
            try:
                return self._selector.evaluate(driver, device, BUDGET_COST)[0]
            except SelectorRuntimeError as error:
                if error.cost is None or error.cost <= BUDGET_COST:
                    raise
                self.is_long = True
        return self._evaluations.matches(self._selector, driver, device)


class PatientCompiler:
    """Compiles selectors, at once or in a thread. Implements `devices.selection.Compiler`."""

    def __init__(self, compiler: "SelectorCompiler") -> None:
        from kscheduler.api.device_selectors import COMPILED_BYTES, COMPILED_KEPT

        self._compiler = compiler
        self._evaluations = LongEvaluations()
        self._kept: WithinBudget[str, PatientSelector | SelectorCompileError] = WithinBudget(
            COMPILED_BYTES, COMPILED_KEPT
        )
        """Errors too: the pod comes again, and what could not be compiled costs as much as what could."""

    def compile(self, expression: str) -> PatientSelector:
        """Raises `SelectorCompileError`, `StillEvaluatingError`."""
        known = self._kept.get(expression)
        if known is None:
            known, weight = self._compiled(expression)
            self._kept.put(expression, known, weight)
        if isinstance(known, SelectorCompileError):
            raise type(known)(str(known))
        return known

    def _compiled(self, expression: str) -> tuple[PatientSelector | SelectorCompileError, int]:
        """The selector or why there is none, and the bytes that it takes. Raises `StillEvaluatingError`."""
        try:
            selector = self._now_or_in_background(expression)
        except SelectorCompileError as problem:
            return type(problem)(str(problem)), 4 * (len(expression) + len(str(problem)))
        return PatientSelector(selector, self._evaluations), selector.weight

    def _now_or_in_background(self, expression: str) -> "CompiledSelector":
        if not self._evaluations.is_compiling(expression):
            with suppress(SelectorBudgetError):
                return self._compiler.compile_again(expression, BUDGET_STEPS)
        return self._evaluations.compiled(expression, partial(self._compiler.compile_again, expression))


def _is_there(answer: "Future[Any]", seconds: float | None) -> bool:
    try:
        answer.exception(seconds)
    except TimeoutError:
        return False
    return True
