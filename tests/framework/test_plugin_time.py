"""While plugins are debugged no limit on the time of their code holds. Real signals; no time is asserted."""

import io
import pdb
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from structlog.testing import capture_logs

import kscheduler
from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.assembly.hanging_imports import FIRST_SECONDS, BeingLoaded, HangReports
from kscheduler.framework.plugin import Plugin, PreFilterResult
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.in_time import TimedCycles
from kscheduler.scheduling.supervision.alarm import TimeBudgetError
from kscheduler.scheduling.supervision.supervised import BudgetedCall, SupervisedPlugin
from kscheduler.state.cache import Cache
from kscheduler.testing import Cluster, RunningCluster, make_node, make_pod
from tests.builders import pod_info
from tests.scheduling.supervision.test_alarm import Noted

HOUR: Final = 3600.0
BUDGET: Final = 0.2
LATE: Final = 0.6


@pytest.fixture(params=[False, True], ids=["limited", "debugged"])
def is_debugged(request: pytest.FixtureRequest) -> Iterator[bool]:
    PLUGIN_TIME.is_limited = not request.param
    yield request.param
    PLUGIN_TIME.is_limited = PLUGIN_TIME.lets_debuggers_in = True


class Slow(Plugin):
    """Takes an hour for whatever it is asked."""

    name = "Slow"
    refresh_interval = 10 * HOUR
    fetched = reported = closed = False

    def __init__(self, handle: Any) -> None:
        self.clock = handle.clock
        Slow.fetched = Slow.reported = Slow.closed = False

    async def refresh(self) -> None:
        await self.clock.sleep(HOUR)
        Slow.fetched = True

    async def permit(self, cycle: Any, pod: Any, node_name: str) -> Any:
        await self.clock.sleep(HOUR)
        return SUCCESS

    async def post_bind(self, cycle: Any, pod: Any, node_name: str) -> None:
        await self.clock.sleep(HOUR)
        Slow.reported = True


async def _queried(running: RunningCluster) -> str:
    pod = make_pod("web")
    await running.add(pod)
    await running.advance(2 * HOUR)
    return running.node_of(pod)


async def test_what_a_plugin_awaits_has_all_the_time(is_debugged: bool) -> None:
    async with Cluster(make_node("a")).enable(Slow).running() as running:
        node = await _queried(running)
        await running.advance(2 * HOUR)
    assert (node == "a", Slow.fetched, Slow.reported) == (is_debugged, is_debugged, is_debugged)


def test_a_call_has_all_the_time(is_debugged: bool) -> None:
    noted = Noted()

    class Sleeps(Plugin):
        name = "Sleeps"

        def pre_filter(self, cycle: Any, pod: Any, nodes: Any) -> str:
            time.sleep(LATE)
            return "answered"

    ask = SupervisedPlugin(Sleeps(), BUDGET, noted).pre_filter
    if is_debugged:
        assert ask(None, pod_info("web"), None) == "answered"
    else:
        with pytest.raises(TimeBudgetError):
            ask(None, pod_info("web"), None)
    assert noted.overruns == []


def test_a_decision_has_all_the_time(is_debugged: bool) -> None:
    assert TimedCycles(REAL_CLOCK, Cache(), lambda _: None)._is_timed is not is_debugged


def test_an_import_is_not_said_to_hang(is_debugged: bool) -> None:
    loads = BeingLoaded("file mine.py", 0, 0.0)
    reports = HangReports(lambda: loads)
    with capture_logs() as lines:
        reports.look(FIRST_SECONDS + HOUR)
    assert bool(lines) is not is_debugged


# --- a debugger without the flag: in explain, plugin check and tests -------------------------------------------------


class Person(io.TextIOBase):
    """Thinks for a while, then types `c`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
        del size
        time.sleep(self._seconds)
        return "c\n"


def _stopped(seconds: float = LATE) -> str:
    pdb.Pdb(stdin=cast("Any", Person(seconds)), stdout=io.StringIO(), nosigint=True).set_trace()
    return "answered"


def test_a_call_in_which_a_debugger_stands_goes_on_and_is_no_overrun() -> None:
    noted = Noted()
    assert BudgetedCall("Mine", "Filter", _stopped, BUDGET, noted)() == "answered"
    assert noted.overruns == []


def test_the_next_call_has_its_budget_again() -> None:
    BudgetedCall("Mine", "Filter", _stopped, BUDGET, Noted())()
    with pytest.raises(TimeBudgetError):
        BudgetedCall("Mine", "Filter", lambda: time.sleep(5.0), BUDGET, Noted())()


def test_a_service_ends_it_whatever_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PLUGIN_TIME, "lets_debuggers_in", False)
    with pytest.raises(TimeBudgetError):
        BudgetedCall("Mine", "Filter", _stopped, BUDGET, Noted())()


def test_a_test_of_a_plugin_may_stop_in_it() -> None:
    class Stops(Plugin):
        name = "Stops"

        def pre_filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
            _stopped()  # the budget is 200 ms
            return PreFilterResult(SUCCESS)

    assert Cluster(make_node("a")).enable(Stops).node_for(make_pod("web")) == "a"


# --- no limit is forgotten -------------------------------------------------------------------------------------------

WAITS: Final = re.compile(r"finishes_within\(|wait_for\(|_threads\.call\(")
# By module, what is waited for there that runs no code of a plugin, or only after the service has ended.
NO_PLUGINS_CODE: Final = {
    "service/reloading.py": ("files.note_reading", "self._requested.wait()", "files.has_changed", "call(look"),
    "service/asking/live_copies.py": ("self._stopping.wait()",),
    "service/followed_version.py": ("self._settled.wait()",),
    "service/server_version.py": ("self._requested.wait()",),
    "service/shadowing/service.py": ("follower.begun", "wait_for_sync", "wait_for_first(FIRST_DATA_SECONDS)"),
    "service/service.py": ("wait_for_sync", "followed_version.wait_for_first()"),
    "scheduling/attempt/binding_cycle.py": ("_wait(decided)",),  # up to deadlines that were asked for
    "scheduling/background/refreshed_plugins.py": ("all_tried()", "END_SECONDS"),
    "scheduling/failures/status_writer.py": ("_until_sent", "self._changed"),
    "scheduling/drift/drift_check.py": ("self._requested",),
}


def test_whoever_limits_the_time_of_plugins_code_asks_how_long_it_may_be() -> None:
    root = Path(kscheduler.__file__).parent
    forgotten = []
    for folder in ("service", "assembly", "scheduling", "testing", "scenario", "explain", "simulate"):
        for path in sorted((root / folder).rglob("*.py")):
            name = str(path.relative_to(root))
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                is_wait = WAITS.search(line) and not re.search(r"\bdef |^\s*#|import ", line)
                known = ("at_most(", *NO_PLUGINS_CODE.get(name, ()))
                if is_wait and not any(each in line for each in known):
                    forgotten.append(f"{name}:{number}: {line.strip()}")
    assert forgotten == []
