"""Selectors whose evaluation takes long, evaluated in a thread: none holds the event loop for longer than its budget.

CEL may loop: what one evaluation may cost is a second of work or more, for each device. A selector is evaluated at once
as far as a small part of that cost goes, which is all that selectors usually need. One that has needed more is known as
long from then on; its evaluations run in threads, one at a time, and whoever asks gets `StillEvaluatingError` until the
answer is there. Threads share the interpreter: others are slowed down meanwhile, and not held up.

Limit: a regular expression is matched in one step, which may take some tenths of a second the first time.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from kscheduler.api.devices import Device
from kscheduler.bounded.recently_used import RecentlyUsed
from kscheduler.devices.selectors import CompiledSelector, SelectorCompiler, SelectorRuntimeError

BUDGET_COST: Final = 2_000
"""What an evaluation may cost on the event loop: some milliseconds. Most selectors cost less than a hundredth of it."""
WAIT_SECONDS: Final = 0.005
"""How long the event loop waits for an evaluation in one go."""
MOST_EVALUATIONS: Final = 64
"""That are under way, each in a thread, or whose answer nobody has asked for yet. Further ones wait for these."""

_Answer = tuple[bool, int]


class StillEvaluatingError(Exception):
    """A selector's answer about a device is not there yet."""

    def __init__(self, answer: "Future[_Answer]") -> None:
        super().__init__("a selector is still being evaluated")
        self._answer = answer

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for it, for ever or for so long. Returns whether it is there."""
        return _is_there(self._answer, seconds)


class LongEvaluations:
    """Evaluations in threads."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str, int], tuple[Device, Future[_Answer]]] = {}
        """By expression, driver and device; an entry keeps its device, so that no other one gets its id."""
        self._turn = threading.Lock()

    def matches(self, selector: CompiledSelector, driver: str, device: Device) -> bool:
        """The answer. Raises `SelectorRuntimeError`, `StillEvaluatingError`."""
        key = selector.expression, driver, id(device)
        known = self._asked.get(key)
        if known is None:
            self._make_room()
            known = self._asked[key] = device, self._begin(selector.evaluation(driver, device))
        answer = known[1]
        if not _is_there(answer, WAIT_SECONDS):
            raise StillEvaluatingError(answer)
        del self._asked[key]
        return answer.result()[0]

    def _make_room(self) -> None:
        """Forget answers that nobody has asked for. Raises `StillEvaluatingError` if all are still under way."""
        if len(self._asked) < MOST_EVALUATIONS:
            return
        self._asked = {key: known for key, known in self._asked.items() if not known[1].done()}
        if len(self._asked) >= MOST_EVALUATIONS:
            raise StillEvaluatingError(next(iter(self._asked.values()))[1])

    def _begin(self, evaluate: Callable[[], _Answer]) -> "Future[_Answer]":
        answer: Future[_Answer] = Future()
        # A daemon: the process does not wait for it when it ends.
        threading.Thread(target=self._run, args=(evaluate, answer), name="cel", daemon=True).start()
        return answer

    def _run(self, evaluate: Callable[[], _Answer], answer: "Future[_Answer]") -> None:
        with self._turn:
            try:
                answer.set_result(evaluate())
            except BaseException as failure:  # noqa: BLE001  it is raised where the answer is asked for
                answer.set_exception(failure)


class PatientSelector:
    """A selector that is evaluated at once, or in a thread."""

    def __init__(self, selector: CompiledSelector, evaluations: LongEvaluations) -> None:
        self._selector, self._evaluations = selector, evaluations
        self.is_long = False
        """Some device has needed more than the budget."""

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
    """Compiles selectors. Implements `devices.selection.Compiler`."""

    def __init__(self, compiler: SelectorCompiler, most: int) -> None:
        """`most`: how many selectors are kept."""
        self._compiler = compiler
        self._evaluations = LongEvaluations()
        self._kept: RecentlyUsed[str, PatientSelector] = RecentlyUsed(most)

    def compile(self, expression: str) -> PatientSelector:
        """Raises `SelectorCompileError`."""
        known = self._kept.use(expression)
        if known is None:
            known = PatientSelector(self._compiler.compile(expression), self._evaluations)
            self._kept[expression] = known
        return known


def _is_there(answer: "Future[_Answer]", seconds: float | None) -> bool:
    try:
        answer.exception(seconds)
    except TimeoutError:
        return False
    return True
