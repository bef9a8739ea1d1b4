"""What the service writes about itself: when it begins, once a minute, when it ends."""

import asyncio
import signal

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.client.access.connection import plain_connection
from kscheduler.config.loader import default_configuration
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.scheduling.observations import AttemptResult, Observations
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from kscheduler.service.parts import Parts
from kscheduler.service.service_log import QUIET_SECONDS, SUMMARY_SECONDS, Counts, ServiceLog, counts_of
from kscheduler.service.signals import Stop, _on_signal
from kscheduler.telemetry.logs import get_logger
from tests.builders import node_tree, pod_tree
from tests.service.log.reading import log_at
from tests.service.running import node_of, put, running, until
from tests.told import preemption_begun


def service_log() -> tuple[ServiceLog, Parts, VirtualClock]:
    clock = VirtualClock()
    options = Options(default_configuration(), serving=HTTPServing.plain_on_loopback(), clock=clock)
    parts = Parts(options, plain_connection("http://127.0.0.1:1"))
    one = ServiceLog(parts)
    one.scheduling("1.37", "it was given")
    return one, parts, clock


async def minutes(one: ServiceLog, clock: VirtualClock, number: float) -> None:
    task = asyncio.ensure_future(one.run())
    await asyncio.sleep(0)
    await clock.advance(number * 60.0 + 0.5)
    task.cancel()
    await asyncio.wait({task})


async def test_its_beginning_reports_versions_profiles_and_what_was_synced() -> None:
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            for name in ("n1", "n2"):
                put(server, "nodes", node_tree(name))
            put(server, "pods", pod_tree("runs", node="n1"))
            async with running(server) as (app, _, _):
                line = await log.until("scheduling")
                async with asyncio.timeout(20):
                    while not app.parts.server_version.text:  # noqa: ASYNC110  # nobody waits for it
                        await asyncio.sleep(0)
                assert app.parts.server_version.text.startswith("v1.")
    assert (line["profiles"], line["nodes"], line["pods"]) == (["kscheduler"], 2, 1)
    assert line["version"]
    assert line["server_version"]
    assert line["decides_as"] in BEHAVIOURS
    assert line["seconds"] >= 0


async def test_an_api_server_that_does_not_report_its_version_delays_nothing() -> None:
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            server.faults.add(InjectedFault("answer", path="/version", code=403))
            put(server, "nodes", node_tree("node"))
            async with running(server) as (app, _, _):
                put(server, "pods", pod_tree("web"))
                await until(server, lambda: node_of(server, "web") == "node")
                async with asyncio.timeout(20):
                    while not app.parts.server_version.text:  # noqa: ASYNC110
                        await asyncio.sleep(0)
                assert app.parts.server_version.text == "unknown"
    loud = {line["msg"] for line in log.lines() if line["level"] != "info"}
    assert loud <= {"setting_not_honoured"}, "the start tells what is not built, and nothing more"


async def test_its_end_reports_why_and_how_long() -> None:
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server:
            put(server, "nodes", node_tree("node"))
            async with running(server):
                put(server, "pods", pod_tree("web"))
                await until(server, lambda: node_of(server, "web") == "node")
    stopping, stopped = log.lines()[-2:]
    assert (stopping["msg"], stopped["msg"]) == ("stopping", "stopped")
    assert stopped["reason"] == "it was asked to"
    assert stopped["bound"] == 1
    assert 0 <= stopped["seconds"] <= stopped["uptime_seconds"]


async def test_an_end_by_a_failure_is_an_error_and_an_orderly_one_is_not() -> None:
    with log_at(0) as log:
        async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
            await log.until("http_server_listening")
            options = Options(default_configuration(), serving=HTTPServing.plain_on_loopback(app.server.port))
            with pytest.raises(OSError, match="in use"):
                await App(options, plain_connection(server.url)).run(asyncio.Event())
            (failed,) = log.named("stopped")
    assert (failed["level"], failed["reason"].split(":")[0]) == ("error", "address already in use")
    assert [line["level"] for line in log.named("stopped")] == ["error", "info"]


def test_a_signal_is_the_reason() -> None:
    stop = Stop()
    with log_at(0) as log:
        _on_signal(stop, signal.SIGTERM)
    assert (stop.is_set(), stop.reason) == (True, "SIGTERM")
    assert log.named("requested_to_terminate", signal="SIGTERM")


async def test_a_minute_in_which_something_happened_is_one_line() -> None:
    with log_at(0) as log:
        one, parts, clock = service_log()
        for _ in range(7):
            parts.observations.attempt(AttemptResult.SCHEDULED, "kscheduler", 0.1)
        parts.observations.attempt(AttemptResult.ERROR, "kscheduler", 0.1)
        parts.observations.preemption_begun(preemption_begun(3, to_go=3))
        await minutes(one, clock, 1)
        parts.observations.attempt(AttemptResult.UNSCHEDULABLE, "kscheduler", 0.1)
        await minutes(one, clock, 1)
    first, second = log.named("summary")
    counts = [(line["bound"], line["unschedulable"], line["errors"], line["preempted"]) for line in (first, second)]
    assert counts == [(7, 0, 1, 3), (0, 1, 0, 0)]
    assert first["seconds"] >= SUMMARY_SECONDS
    assert first["active"] == 0


async def test_a_quiet_service_says_nothing_but_once_an_hour_that_it_is_there() -> None:
    with log_at(0) as log:
        one, _, clock = service_log()
        await minutes(one, clock, 59)
        assert log.named("summary") == []
        await minutes(one, clock, 2)
        (line,) = log.named("summary")
    assert line["seconds"] >= QUIET_SECONDS


async def test_warnings_that_were_left_out_are_reported_even_if_none_follows() -> None:
    with log_at(0) as log:
        one, _, clock = service_log()
        for _ in range(500):
            get_logger("t").warning("again")
        await minutes(one, clock, 0.1)
    (line,) = log.named("lines_suppressed")
    assert (line["of"], line["of_logger"]) == ("again", "t")
    assert line["lines"] + len(log.named("again")) == 500


def test_after_a_reset_of_the_metrics_counts_begin_anew() -> None:
    observations = Observations()
    observations.attempt(AttemptResult.SCHEDULED, "a", 0.1)
    before = Counts(5, 5, 5, 5)
    assert counts_of(observations).since(before) == Counts(1, 0, 0, 0)
