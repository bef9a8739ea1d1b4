"""Each family of the exposition has something that moves it: a series that nothing moves tells nobody anything."""

import ast
import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import kscheduler
from kscheduler.client.access.connection import plain_connection
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import App
from kscheduler.service.http_app import features_of
from kscheduler.service.metrics.process import build_info_source, feature_source
from kscheduler.telemetry.exposition import Exposition
from kscheduler.telemetry.samples import Source
from tests.effort import sampled
from tests.service.running import SECONDS, running
from tests.telemetry.metrics.series_stories import STORIES, World, everything

# By family, by sample with its labels.
Page = dict[str, dict[str, str]]

# What is the same as long as a process lives, and what makes it another; each has a test below.
CONSTANT = {
    "kscheduler_build_info": "another version of kscheduler",
    "kubernetes_build_info": "another version of kscheduler",
    "version_info": "another version of Kubernetes that is followed",
    "kubernetes_feature_enabled": "--feature-gates",
    "process_start_time_seconds": "another process",
    "kscheduler_memory_limit_bytes": "another limit: tests/service/supervision/test_memory_watch.py",
}


async def page_of(exposition: Exposition) -> Page:
    """Read by hand: a parser of the format needs ten times as long, for pages that are taken all the time."""
    page: Page = {}
    family: dict[str, str] = {}
    for line in (await exposition.render()).body.decode().splitlines():
        if line.startswith("# TYPE "):
            family = page[line.split(" ")[2]] = {}
        elif not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            family[sample] = value
    return page


class Watcher:
    """Takes pages as fast as the loop lets it, and remembers which families were not as on the first."""

    def __init__(self, exposition: Exposition) -> None:
        self._exposition = exposition
        self._first: Page | None = None
        self.has_first = asyncio.Event()
        self.moved: set[str] = set()

    async def begin(self) -> None:
        """The next page is the first; until it is taken nothing may happen."""
        self._first = None
        self.has_first.clear()
        await self.has_first.wait()
        self.moved = set()

    async def run(self) -> None:
        while True:
            page = await page_of(self._exposition)
            first = self._first = self._first or page
            self.has_first.set()
            self.moved |= {name for name in {*first, *page} if page.get(name) != first.get(name)}
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("name", sampled(STORIES, 12, "a service is watched until what must move has moved"))
async def test_a_story_moves_its_series(name: str) -> None:
    story = STORIES[name]
    async with (
        EmbeddedAPIServer(seed=1, bookmark_seconds=0.05, kinds=story.kinds) as server,
        running(server, story.options()) as (app, _, _),
    ):
        watcher, world = Watcher(app.http_app.exposition), World(server, app)
        watching = asyncio.ensure_future(watcher.run())
        try:
            async with asyncio.timeout(SECONDS):
                await app.parts.informers.wait_for_sync(SECONDS)
                if not story.from_start:
                    await watcher.begin()
                await story.act(world)
                while not story.moves <= watcher.moved:  # noqa: ASYNC110  # a page tells nobody
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"{name} did not move {sorted(story.moves - watcher.moved)}") from None
        finally:
            server.faults.clear()
            watching.cancel()
            await asyncio.wait({watching})


def exposed() -> frozenset[str]:
    app = App(everything(), plain_connection("http://127.0.0.1:1"))
    try:
        return app.http_app.exposition.names()
    finally:
        app.http_app.exposition.close()


async def test_every_series_that_is_exposed_is_in_the_table() -> None:
    """Anyone who adds a metric adds, in `series_stories.py`, what moves it."""
    in_table = set(CONSTANT).union(*(story.moves for story in STORIES.values()))
    assert exposed() - in_table == set(), "nothing is known to move these"
    assert in_table - exposed() == set(), "there are no such series"


# --- what is constant in a process ------------------------------------------------------------------------------------


def labels_of(source: Source, name: str) -> object:
    (sample,) = [one for one in source() if one.series.name == name]
    return sample


@pytest.mark.parametrize("name", ["kscheduler_build_info", "kubernetes_build_info"])
def test_another_version_is_reported(name: str) -> None:
    reported = [labels_of(build_info_source(version, lambda: "1.36"), name) for version in ("0.1.0", "0.2.0")]
    assert reported[0] != reported[1]


def test_kubernetes_build_info_names_the_minor_version_whose_rules_are_followed() -> None:
    followed = ["1.36"]
    source = build_info_source("0.1.0", lambda: followed[0])
    assert "v1.36.0+kscheduler.0.1.0" in str(labels_of(source, "kubernetes_build_info"))
    assert "('kube', '1.38', '1.36', '1.36')" in str(labels_of(source, "version_info"))
    followed[0] = "1.37"
    assert "v1.37.0+kscheduler.0.1.0" in str(labels_of(source, "kubernetes_build_info"))
    assert "('kube', '1.38', '1.37', '1.36')" in str(labels_of(source, "version_info"))


def test_a_feature_gate_is_reported_by_name_stage_and_value() -> None:
    gates = parse_feature_gates("NominatedNodeNameForExpectation=false")
    features = features_of(gates)
    assert features["NominatedNodeNameForExpectation", "BETA"] is False
    assert features["SchedulerQueueingHints", ""] is True
    assert features["GangScheduling", "ALPHA"] is False
    both = [feature_source(lambda chosen=chosen: features_of(chosen)) for chosen in (gates, parse_feature_gates(""))]  # type: ignore[misc]
    assert labels_of(both[0], "kubernetes_feature_enabled") != labels_of(both[1], "kubernetes_feature_enabled")


def test_another_process_has_another_start_time() -> None:
    code = (
        "from kscheduler.service.metrics.process import process_families; "
        "print([m.samples[0].value for m in process_families() if 'start' in m.name])"
    )
    starts = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(starts) == 2


# --- bugs -------------------------------------------------------------------------------------------------------------

SOURCES = Path(kscheduler.__file__).parent
OUTSIDE_OF_THE_SERVICE = ("embedded", "bench", "cli", "scenario", "explain", "simulate")


def broad_handlers() -> list[tuple[str, ast.ExceptHandler]]:
    found: list[tuple[str, ast.ExceptHandler]] = []
    for path in sorted(SOURCES.rglob("*.py")):
        if path.relative_to(SOURCES).parts[0] in OUTSIDE_OF_THE_SERVICE:
            continue
        handlers = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ExceptHandler)]
        broad = [one for one in handlers if is_broad(one.type)]
        found += [(f"{path.relative_to(SOURCES)}:{one.lineno}", one) for one in broad]
    return found


def is_broad(caught: ast.expr | None) -> bool:
    """`except:`, `except Exception`, `except BaseException`, alone or among others."""
    if isinstance(caught, ast.Tuple):
        return any(map(is_broad, caught.elts))
    return caught is None or (isinstance(caught, ast.Name) and caught.id in {"Exception", "BaseException"})


# Files in which one or more handlers neither count nor raise, and why nothing is lost by that.
QUERIED_AGAIN = {
    "service/asking/answering_copy.py": "the service raises it, and counts the question as failed",
    "service/asking/live_copies.py": "what making a copy raises is raised to who asks",
    "aio/abandonable_calls.py": "what a call in a thread raises is raised where the call was made",
    "aio/synchronous.py": "what a coroutine in a thread raises is raised to the caller, who waits for it",
    "framework/plugin_results.py": "how a wrong answer looks; the answer itself is told",
    "assembly/plugin_loading.py": "a package that cannot be imported is told as a mistake of the configuration",
    "sweep/plugin_sources.py": "a module that is not found has its name as digest, and loading it says why",
    "sweep/running.py": "a run that fails is a row with its error",
    "telemetry/logs/pipeline.py": "a line that cannot be written is written otherwise",
    "plugins/dynamic_resources/long_evaluations.py": "what a selector raises in a thread is raised where it is awaited",
    "informers/informer.py": "`_handler_failed` counts it",
    "recorder/flight_recorder.py": "`cannot_pack` counts it",
    "scheduling/runtime/timing.py": "it is thrown into the plugin's coroutine, and told when it comes out",
    "scheduling/work/workers.py": "whoever waits for the pod meets the failure again, and counts it",
}


def counts_reports_or_raises(handler: ast.ExceptHandler) -> bool:
    """Counts by itself, tells the listener of plugins, which counts, or raises to somebody who does."""
    calls = [node.func for node in ast.walk(handler) if isinstance(node, ast.Call)]
    counts = any(isinstance(one, ast.Name) and one.id == "count_caught" for one in calls)
    reports = any(isinstance(one, ast.Attribute) and one.attr == "failed" for one in calls)
    return counts or reports or isinstance(handler.body[-1], ast.Raise)


def test_every_place_that_catches_any_exception_counts_it() -> None:
    handlers = broad_handlers()
    assert len(handlers) > 10, "the search itself must find them"
    silent = {where.partition(":")[0] for where, handler in handlers if not counts_reports_or_raises(handler)}
    assert silent == QUERIED_AGAIN.keys()
