"""A plugin call that holds the event loop is told: by whom, where, for which pod, for how long; a wait is not."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.events import NODE_ADD, ClusterEventWithHint, QueueingHint
from kscheduler.framework.plugin import Plugin, PostFilterResult, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SKIP, SUCCESS, Status, unschedulable
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.plugin_reports import MAX_CAUSES, PluginReports
from kscheduler.scheduling.runtime import guard, queue_calls
from kscheduler.scheduling.runtime.timing import Steps
from kscheduler.scheduling.stopwatch import ObservedStopwatch
from tests.builders import make_node, make_pod, pod_info
from tests.scheduling.plugins_for_tests import TurnsDown, cluster, profile
from tests.scheduling.runtime.hostile_plugin import SOUND, VICTIM, Hostile, hostile
from tests.scheduling.runtime.plugin_cluster import PluginCluster
from tests.state.queue.hostile_keys import Complaints

# Modules that read the clock of the process.
READERS = (guard, queue_calls)

POINTS = {
    "pre_enqueue": ("PreEnqueue", None),
    "pre_filter": ("PreFilter", 1),
    "filter": ("Filter", 2),
    "pre_score": ("PreScore", 1),
    "score": ("Score", 2),
    "post_filter": ("PostFilter", None),
    "reserve": ("Reserve", None),
    "permit": ("Permit", None),
    "pre_bind_pre_flight": ("PreBindPreFlight", None),
    "pre_bind": ("PreBind", None),
    "bind": ("Bind", None),
    "post_bind": ("PostBind", None),
    "unreserve": ("Unreserve", None),
    "sign": ("Sign", None),
}


def makes_time_pass(monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> None:
    """The process's clock is the virtual one."""
    for module in READERS:
        monkeypatch.setattr(module, "perf_counter", clock.monotonic)


def jump(clock: VirtualClock, seconds: float) -> None:
    """Time passes, and nobody has a turn."""
    clock._now += seconds


@pytest.mark.parametrize("method", POINTS)
async def test_a_slow_call_is_reported_at_every_extension_point(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point, nodes = POINTS[method]
    plugin = hostile(method, "none")
    service = PluginCluster(plugin)
    makes_time_pass(monkeypatch, service.clock)
    sound = SOUND[method]

    def slowly(queried: str, arguments: tuple[Any, ...], otherwise: Any) -> Any:
        if queried == method:
            jump(service.clock, 5.0)
            return sound(*arguments) if callable(sound) else sound
        return Hostile.answer(plugin, queried, arguments, otherwise)

    monkeypatch.setattr(plugin, "answer", slowly)
    with structlog.testing.capture_logs() as lines:
        service.add(make_pod(VICTIM, requests={"cpu": "100" if method == "post_filter" else "1"}))
        async with service.at_work():
            pass
    reported = [one for one in lines if one["event"] == "plugin_slow"]
    assert {(one["plugin"], one["extension_point"]) for one in reported} == {("Hostile", point)}
    assert reported[0]["log_level"] == "warning"
    assert reported[0]["pod"] == "default/victim"
    assert reported[0]["seconds"] == pytest.approx(5.0)
    assert reported[0].get("nodes") == nodes
    assert service.observations.slow_plugin_calls["Hostile", point] >= 1
    assert not [one for one in lines if one["event"] == "plugin_failed"]


class _SlowHint(Plugin):
    """Rejects everybody and thinks long about whether a node may help."""

    name = "Hostile"

    def __init__(self) -> None:
        self.clock: VirtualClock | None = None

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(NODE_ADD, self.hint)]

    def hint(self, *_: object) -> QueueingHint:
        assert self.clock is not None
        jump(self.clock, 0.5)
        return QueueingHint.SKIP

    def pre_filter(self, cycle: Any, pod: PodInfo, nodes: Any) -> PreFilterResult:
        return PreFilterResult(unschedulable("no"))

    async def bind(self, cycle: Any, pod: PodInfo, node_name: str) -> Status:
        return SKIP


async def test_a_slow_hint_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = _SlowHint()
    service = PluginCluster(plugin)
    plugin.clock = service.clock
    makes_time_pass(monkeypatch, service.clock)
    with structlog.testing.capture_logs() as lines:
        service.add(make_pod(VICTIM))
        async with service.at_work():
            service.queue.move_all(NODE_ADD, None, make_node("new"), service.clock.time())
    assert [(one["extension_point"], one["pod"], one["seconds"]) for one in lines if one["event"] == "plugin_slow"] == [
        ("QueueingHint", "default/victim", 0.5)
    ]


def test_a_slow_filter_is_reported_of_in_dry_runs_too() -> None:
    """A preemption asks the filters about nodes as they might be; that takes the loop's time like any call."""
    clock, complaints, observations = VirtualClock(), Complaints(), Observations()

    class Slow(TurnsDown):
        def filter(self, *queried: Any) -> Any:
            jump(clock, 0.5)
            return super().filter(*queried)

    cache = cluster("node")
    watch = ObservedStopwatch("kscheduler", observations, clock.monotonic, complaints)
    watch.start(pod_info(VICTIM))
    record = schedule(profile(Slow("Slow", "node")), pod_info(VICTIM), cache, watch)
    counted = dict(observations.plugin_evaluations)
    jump(clock, 9.0)  # the preemption's own time is no filter's
    record.state.read(DryRun).passing(cache.nodes, record.state.copy(), cache.nodes.rows())
    slow = ("Slow", "Filter", "default/victim", 0.5, 1)
    assert complaints.slow_calls == [slow, slow]
    assert observations.plugin_evaluations == counted


class _SlowAtFirst(Plugin):
    """Signs all pods alike, so that it has columns; where it is asked first, it takes its time and fails."""

    name = "SlowAtFirst"
    depends_on = (Source.ROW,)

    def __init__(self, clock: VirtualClock, method: str) -> None:
        self._clock = clock
        self._method = method

    def _result(self, method: str, sound: Any) -> Any:
        if method == self._method:
            self._method = ""
            jump(self._clock, 0.5)
            raise LookupError("not yet")
        return sound

    def sign(self, pod: PodInfo) -> str:
        return "alike"

    def pre_filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return self._result("pre_filter", PreFilterResult(SUCCESS))

    def filter(self, cycle: Any, pod: Any, nodes: Any, rows: Any) -> Any:
        return self._result("filter", None)

    def pre_score(self, cycle: Any, pod: Any, nodes: Any, rows: Any) -> Any:
        return self._result("pre_score", SUCCESS)

    def score(self, cycle: Any, pod: Any, nodes: Any, rows: Any) -> Any:
        return self._result("score", np.zeros(len(rows), dtype=np.int64))

    def normalize(self, cycle: Any, pod: Any, rows: Any, scores: Any) -> Any:
        return self._result("normalize", scores)


@pytest.mark.parametrize(
    ("method", "point"),
    [
        ("pre_filter", "PreFilter"),
        ("filter", "Filter"),
        ("pre_score", "PreScore"),
        ("score", "Score"),
        ("normalize", "NormalizeScore"),
    ],
    ids=lambda one: one,
)
def test_a_failure_in_the_columns_of_a_class_is_reported_and_its_time_is_that_plugin_s(method: str, point: str) -> None:
    """The pod is judged without columns then; there the plugin answers, so nobody else would tell of its failure."""
    clock, complaints = VirtualClock(), Complaints()
    cache = cluster("one", "other")
    of_it = replace(profile(_SlowAtFirst(clock, method), TurnsDown("Next")), listener=complaints)
    watch = ObservedStopwatch("kscheduler", Observations(), clock.monotonic, complaints)
    watch.start(pod_info(VICTIM))
    record = schedule(of_it, pod_info(VICTIM), cache, watch, engine=ClassEngine(of_it, cache))
    assert record.status.is_success
    assert [(one[0], one[1], one[3]) for one in complaints.slow_calls] == [("SlowAtFirst", point, 0.5)]
    assert complaints.failures == [("SlowAtFirst", point, "default/victim", "LookupError: not yet", "")]


class _SlowTrier(Plugin):
    """A PostFilter that tries all nodes, and thinks about what it has seen for so long."""

    name = "SlowTrier"

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    def post_filter(self, cycle: Any, pod: Any, nodes: Any, diagnosis: Any) -> PostFilterResult:
        cycle.read(DryRun).passing(nodes, cycle.copy(), nodes.rows())
        jump(self._clock, self._seconds)
        return PostFilterResult(unschedulable("nothing to be done"))


@pytest.mark.parametrize(("seconds", "expected"), [(0.01, []), (0.25, [0.25])], ids=["quick", "slow itself"])
def test_a_slow_filter_of_a_dry_run_is_not_reported_again_as_its_post_filter(
    seconds: float, expected: list[float]
) -> None:
    clock, complaints = VirtualClock(), Complaints()

    class Slow(TurnsDown):
        def filter(self, *queried: Any) -> Any:
            jump(clock, 0.5)
            return super().filter(*queried)

    watch = ObservedStopwatch("kscheduler", Observations(), clock.monotonic, complaints)
    watch.start(pod_info(VICTIM))
    of_it = replace(profile(Slow("Slow", "node")), post_filter=(_SlowTrier(clock, seconds),))
    schedule(of_it, pod_info(VICTIM), cluster("node"), watch)
    reported = [(plugin, point, took) for plugin, point, _, took, _ in complaints.slow_calls]
    assert reported[:2] == [("Slow", "Filter", 0.5)] * 2, "in the search, and in the dry run"
    assert [(plugin, point) for plugin, point, _ in reported[2:]] == [("SlowTrier", "PostFilter")] * len(expected)
    assert [took for *_, took in reported[2:]] == pytest.approx(expected)


# --- coroutines


async def test_a_coroutine_that_waits_holds_nobody() -> None:
    clock = VirtualClock()
    slow: list[float] = []

    async def waits() -> str:
        await clock.sleep(30.0)
        return "done"

    async def run() -> str:
        return await Steps(waits(), slow.append, clock.monotonic)

    task = asyncio.ensure_future(run())
    await asyncio.sleep(0)
    await clock.advance(31.0)
    assert await task == "done"
    assert slow == []


async def test_each_step_of_a_coroutine_is_timed_by_itself() -> None:
    clock = VirtualClock()
    slow: list[float] = []

    async def works() -> None:
        jump(clock, 0.25)
        await clock.sleep(0.0)
        jump(clock, 0.05)
        await clock.sleep(0.0)
        jump(clock, 1.0)
        raise LookupError("after all that")

    async def run() -> None:
        await Steps(works(), slow.append, clock.monotonic)

    with pytest.raises(LookupError):
        await run()
    assert slow == pytest.approx([0.25, 1.0])


async def test_a_cancellation_reaches_the_coroutine() -> None:
    recorded: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            recorded.append("cancelled")
            raise

    async def run() -> None:
        await Steps(waits(), lambda _: None, VirtualClock().monotonic)

    task = asyncio.ensure_future(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorded == ["cancelled"]


# --- the reports


def reports(clock: VirtualClock) -> PluginReports:
    """Without pods to tell."""
    return PluginReports(Observations(), clock.monotonic, lambda *_: None, lambda *_: None)


def test_the_first_slow_call_is_reported_at_once_and_the_next_ones_with_their_number_and_seconds() -> None:
    clock = VirtualClock()
    reported = reports(clock)
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            reported.slow("Mine", "Filter", pod_info("p"), 2.0, 4)
            jump(clock, 10.0)
        reported.slow("Mine", "Score", pod_info("p"), 0.2, 4)
        jump(clock, 10.0)
        reported.slow("Mine", "Filter", pod_info("q"), 3.0, 4)
    first, other, later = lines
    assert (first["extension_point"], first["seconds"], first["nodes"]) == ("Filter", 2.0, 4)
    assert "times_since" not in first
    assert other["extension_point"] == "Score"
    assert (later["pod"], later["seconds"]) == ("default/q", 3.0)
    assert (later["times_since"], later["seconds_since"]) == (4, 8.0)


def test_the_slowest_call_is_handed_out_once_and_not_long_after() -> None:
    clock = VirtualClock()
    reported = reports(clock)
    with structlog.testing.capture_logs():
        reported.slow("Mine", "Filter", None, 2.0)
        reported.slow("Other", "Score", None, 1.0)
        slowest = reported.take_slowest(5.0)
        assert slowest is not None
        assert (slowest.plugin, slowest.extension_point, slowest.seconds) == ("Mine", "Filter", 2.0)
        assert reported.take_slowest(5.0) is None
        reported.slow("Mine", "Filter", None, 2.0)
        jump(clock, 6.0)
        assert reported.take_slowest(5.0) is None


def test_different_failures_of_one_plugin_are_reported_each_and_equal_ones_once() -> None:
    reported = reports(VirtualClock())
    with structlog.testing.capture_logs() as lines:
        for wrong in ("x", None, "y"):
            try:
                _ = wrong.upper() and int(wrong)  # type: ignore[union-attr, arg-type]
            except (ValueError, AttributeError) as failure:
                reported.failed("Mine", "Filter", pod_info("p"), failure)
    assert [one["err"].split(":")[0] for one in lines] == ["ValueError", "AttributeError"]


def failed_at_one_line(reported: PluginReports, *texts: str) -> list[str]:
    """The lines about failures that one line of code has raised with these texts."""
    with structlog.testing.capture_logs() as lines:
        for number, text in enumerate(texts):
            try:
                raise ValueError(text)  # noqa: TRY301  as a plugin would
            except ValueError as failure:
                reported.failed("Mine", "Score", pod_info(f"p{number}"), failure)
    return [line["err"].removeprefix("ValueError: ") for line in lines]


def test_another_text_from_the_same_line_is_reported_at_once_unless_only_values_differ() -> None:
    reported = reports(VirtualClock())
    assert failed_at_one_line(reported, "first mistake", "first mistake", "second mistake", "second mistake") == [
        "first mistake",
        "second mistake",
    ]
    assert failed_at_one_line(reported, "no tier 'a' of 3", "no tier 'b' of 4", 'no tier "c" of 5', "none of p3") == [
        "no tier 'a' of 3",
        "none of p3",
    ]


def test_a_text_that_is_another_one_each_time_is_reported_a_few_times_a_minute() -> None:
    clock = VirtualClock()
    reported = reports(clock)
    texts = [f"{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(300)]
    assert len(failed_at_one_line(reported, *texts)) == MAX_CAUSES
    jump(clock, 61.0)
    assert len(failed_at_one_line(reported, *texts)) == MAX_CAUSES


def test_what_is_remembered_of_failures_is_bounded() -> None:
    reported = reports(VirtualClock())
    with structlog.testing.capture_logs():
        for number in range(3000):
            reported.failed(f"plugin-{number}", "Filter", None, ValueError("made up"))
    assert len(reported._kinds) <= 1000
