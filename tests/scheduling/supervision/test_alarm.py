"""The timer signal ends a plugin's call, and touches nothing else. Real signals, short budgets; no time is asserted."""

import asyncio
import contextlib
import json
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.plugin_results import words_of
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.runtime.timing import Steps
from kscheduler.scheduling.supervision.alarm import ALARM, BudgetAlarm, TimeBudgetError
from kscheduler.scheduling.supervision.supervised import BudgetedCall, SupervisedPlugin
from kscheduler.state.cache import Cache
from tests.builders import make_node, pod_info

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
with contextlib.suppress(ImportError):
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop

BUDGET = 0.02
# After this a loop gives up, and the test fails.
FOREVER = 20.0


class Noted:
    """What was reported as late."""

    def __init__(self) -> None:
        self.overruns: list[tuple[str, str, str]] = []

    def overran(self, plugin: str, point: str, pod: PodInfo | None, failure: TimeBudgetError) -> None:
        self.overruns.append((plugin, point, str(failure)))

    def answered(self, plugin: str, point: str, pod: PodInfo | None) -> None:
        """A right answer after failures."""


def budgeted(method: Callable[..., Any], noted: Noted | None = None, seconds: float = BUDGET) -> BudgetedCall:
    return BudgetedCall("Mine", "Filter", method, seconds, noted or Noted())


def busy() -> str:
    """Python that does not end."""
    end = time.perf_counter() + FOREVER
    while time.perf_counter() < end:
        pass
    return "gave up"


def sleeps() -> str:
    time.sleep(FOREVER)
    return "gave up"


def reads_json() -> str:
    """A library works for the plugin."""
    end = time.perf_counter() + FOREVER
    while time.perf_counter() < end:
        json.loads("[1, 2]", parse_int=lambda text: [text] * 1000)
    return "gave up"


def swallows() -> str:
    """The author has caught everything, so nothing ends the loop but its own patience."""
    caught = 0
    while caught < 3:
        try:
            busy()
        except BaseException:  # noqa: BLE001
            caught += 1
    return "an answer"


def waits_for_a_lock() -> str:
    threading.Event().wait(FOREVER)
    return "gave up"


@pytest.mark.parametrize("method", [busy, sleeps, reads_json, waits_for_a_lock], ids=lambda method: method.__name__)
def test_a_call_ends_at_its_budget(method: Callable[[], str]) -> None:
    with pytest.raises(TimeBudgetError, match="ended at its time budget of 20ms"):
        budgeted(method)()


def test_a_call_that_catches_the_interrupt_is_interrupted_again_and_its_answer_is_not_used() -> None:
    with pytest.raises(TimeBudgetError, match="went on after it was interrupted"):
        budgeted(swallows)()


def test_a_call_within_its_budget_is_left_alone() -> None:
    noted = Noted()
    call = budgeted(lambda: "in time", noted, seconds=FOREVER)
    assert [call() for _ in range(1000)] == ["in time"] * 1000
    assert noted.overruns == []


def test_a_late_answer_of_c_code_is_used_and_reported() -> None:
    """The method itself is C: no Python frame of the plugin could be interrupted."""
    noted = Noted()
    call = BudgetedCall("Mine", "Filter", time.sleep, BUDGET, noted)
    assert call(3 * BUDGET) is None
    ((plugin, point, text),) = noted.overruns
    assert (plugin, point) == ("Mine", "Filter")
    assert text.endswith("its time budget is 20ms; its answer was used")


def test_an_interrupt_that_comes_after_the_call_hits_nothing() -> None:
    budgeted(lambda: "in time")()
    end = time.perf_counter() + 5 * BUDGET
    while time.perf_counter() < end:  # the timer of the call above fires here
        pass


class _Table:
    """Stands for a cache of kscheduler's: its parts must agree."""

    def __init__(self) -> None:
        self.left = self.right = 0

    def write(self) -> None:
        self.left += 1
        for _ in range(200):
            pass
        self.right += 1


def _as_if_part_of_kscheduler(function: Any) -> Any:
    """The function, defined in a module of kscheduler's."""
    space = {"__name__": "kscheduler.framework.pretended"}
    return type(function)(function.__code__, space, function.__name__)


@pytest.mark.parametrize("number", range(10))
def test_what_a_plugin_calls_in_kscheduler_is_not_cut_in_half(number: int) -> None:
    del number
    table = _Table()
    write = _as_if_part_of_kscheduler(_Table.write)

    def plugin() -> None:
        end = time.perf_counter() + FOREVER
        while time.perf_counter() < end:
            write(table)

    with pytest.raises(TimeBudgetError):
        budgeted(plugin, seconds=0.005)()
    assert table.left == table.right > 0


def test_a_callback_of_a_weak_reference_is_not_interrupted() -> None:
    """`weakref` runs its own Python when the last reference goes: kscheduler's tables rely on it."""

    class Pod:
        pass

    table: weakref.WeakValueDictionary[int, Pod] = weakref.WeakValueDictionary()

    def plugin() -> None:
        end = time.perf_counter() + FOREVER
        number = 0
        while time.perf_counter() < end:
            number += 1
            table[number] = Pod()

    with pytest.raises(TimeBudgetError):
        budgeted(plugin, seconds=0.01)()
    assert len(table) <= 1


def test_a_call_within_a_call_has_its_own_budget_and_does_not_use_up_the_outer_one() -> None:
    """PostFilter runs filters again in a dry run: the filter that sleeps is the one that is named."""
    noted = Noted()
    inner = BudgetedCall("Inner", "Filter", busy, 4 * BUDGET, noted)

    def outer() -> str:
        with pytest.raises(TimeBudgetError, match="80ms"):
            inner()
        return "made room"

    assert budgeted(outer, noted, seconds=2 * BUDGET)() == "made room"
    assert noted.overruns == []


def test_the_outer_call_is_interrupted_after_the_inner_one() -> None:
    inner = budgeted(lambda: "quick", seconds=FOREVER)

    def outer() -> str:
        inner()
        return busy()

    with pytest.raises(TimeBudgetError, match="20ms"):
        budgeted(outer)()


def test_in_another_thread_a_call_is_measured_and_not_interrupted() -> None:
    noted, answers = Noted(), []

    def slow() -> str:
        time.sleep(3 * BUDGET)
        return "an answer"

    thread = threading.Thread(target=lambda: answers.append(budgeted(slow, noted)()))
    thread.start()
    thread.join()
    assert answers == ["an answer"]
    assert len(noted.overruns) == 1


@pytest.fixture
def foreign_handler() -> Iterator[list[int]]:
    """Another part of the process handles SIGALRM."""
    seen: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGALRM, before)


def test_a_handler_of_somebody_else_is_left_alone(foreign_handler: list[int]) -> None:
    alarm = BudgetAlarm()
    call = alarm.begin(0.001)
    time.sleep(0.01)
    assert alarm.end(call) >= 0.01
    assert not call.interrupts
    signal.raise_signal(signal.SIGALRM)
    assert foreign_handler == [signal.SIGALRM]


class Binder(Plugin):
    """Binds in three steps, the second of which does not end."""

    name = "Binder"

    def __init__(self, hold: Callable[[], object]) -> None:
        self.steps: list[str] = []
        self._hold = hold

    async def bind(self, *_: object) -> str:
        self.steps.append("first")
        await asyncio.sleep(3 * BUDGET)  # a wait has no budget
        self.steps.append("second")
        self._hold()
        self.steps.append("third")
        return "bound"


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("hold", [busy, sleeps], ids=["busy", "sleeps"])
def test_a_step_of_a_coroutine_ends_at_its_budget_and_a_wait_has_none(
    loop: Callable[[], asyncio.AbstractEventLoop], hold: Callable[[], object]
) -> None:
    plugin = Binder(hold)
    stand_in: Any = SupervisedPlugin(plugin, BUDGET, Noted())

    async def bind() -> None:
        signalled = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, signalled.set)  # the loop looks at signals, too
        with pytest.raises(TimeBudgetError):
            await Steps(stand_in.bind(), lambda _seconds: None, time.perf_counter)
        await asyncio.sleep(2 * BUDGET)  # the loop lives, and late signals wake nobody
        assert not signalled.is_set()
        signal.raise_signal(signal.SIGUSR1)
        await asyncio.wait_for(signalled.wait(), FOREVER)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(bind())
    assert plugin.steps == ["first", "second"]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_coroutine_in_time_gets_its_results_and_exceptions(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    plugin = Binder(lambda: None)
    stand_in: Any = SupervisedPlugin(plugin, FOREVER, Noted())

    async def bind() -> str:
        work = asyncio.ensure_future(_awaited(stand_in.bind()))
        await asyncio.sleep(0)
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        return await _awaited(stand_in.bind())

    async def _awaited(work: Any) -> str:
        answer: str = await Steps(work, lambda _seconds: None, time.perf_counter)
        return answer

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(bind()) == "bound"
    assert plugin.steps == ["first", "first", "second", "third"], "the first was cancelled while it waited"


def test_the_timer_is_set_once_for_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps a call cheap: the timer of an earlier call fires early enough for the later ones."""
    budgeted(lambda: None)()
    settings: list[float] = []
    monkeypatch.setattr(ALARM, "_fires_at", 0.0)
    monkeypatch.setattr(signal, "setitimer", lambda _which, seconds: settings.append(seconds))
    call = budgeted(lambda: None, seconds=FOREVER)
    for _ in range(100):
        call()
    assert settings == [FOREVER]
    monkeypatch.undo()
    signal.setitimer(signal.ITIMER_REAL, 0)
    ALARM._fires_at = 0.0


def test_a_function_that_is_ended_says_how_many_nodes_it_had_answered_for() -> None:
    @plugin("Mine")
    def score(pod: Any, node: NodeInfo) -> int:
        return len(busy()) if node.name == "n7" else 1

    cache = Cache()
    for number in range(20):
        cache.add_node(make_node(f"n{number}"))
    mine: Any = score(None, None)  # type: ignore[arg-type]  # it needs no handle
    call = BudgetedCall("Mine", "Score", mine.score, BUDGET, Noted())
    with pytest.raises(TimeBudgetError) as ended:
        call(CycleState(), pod_info("p"), cache.nodes, cache.nodes.rows())
    words = "it was ended at its time budget of 20ms, while looking at node n7; it had answered for 7 of 20 nodes"
    assert (str(ended.value), words_of(ended.value)) == (words, words), "it has raised nothing"


def test_a_function_that_is_ended_while_it_is_tried_again_says_how_many_nodes_it_had_answered_for() -> None:
    """After a failure it is tried on the first, the middle and the last node."""
    asked: list[str] = []

    @plugin("Mine")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        asked.append(node.name)
        if asked.count(node.name) > 1:
            busy()
        if node.name == "n3":
            raise ValueError("not this one")
        return 1

    cache = Cache()
    for number in range(20):
        cache.add_node(make_node(f"n{number}"))
    mine: Any = score(None, None)  # type: ignore[arg-type]  # it needs no handle
    call = BudgetedCall("Mine", "Score", mine.score, BUDGET, Noted())
    with pytest.raises(TimeBudgetError, match="while looking at node n0; it had answered for 3 of 20 nodes"):
        call(CycleState(), pod_info("p"), cache.nodes, cache.nodes.rows())


def test_a_column_that_is_ended_says_how_many_nodes_it_was_queried_about() -> None:
    def ended(rows: Any) -> str:
        return busy()

    with pytest.raises(TimeBudgetError, match="ended at its time budget of 20ms for 5 nodes"):
        BudgetedCall("Mine", "Score", ended, BUDGET, Noted())(np.arange(5))
