"""What lasts is in the last minutes of the log, whenever one reads it."""

import asyncio

import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service.monitors.ongoing_problems import EACH_SECONDS, MAX_LINES, OngoingProblems
from tests.builders import node_tree
from tests.service.running import put, running


async def test_it_is_reported_every_two_minutes_until_it_is_over() -> None:
    clock, notes = VirtualClock(), ["a configuration was refused"]
    task = asyncio.create_task(OngoingProblems(lambda: notes, clock).run())
    with structlog.testing.capture_logs() as lines:
        await clock.next_sleep()
        await clock.advance(3600)
        assert len(lines) == 3600 / EACH_SECONDS
        notes.clear()
        await clock.advance(3600)
    task.cancel()
    assert len(lines) == 3600 / EACH_SECONDS
    assert lines[0] == {"event": "trouble_lasts", "log_level": "warning", "trouble": "a configuration was refused"}


def test_a_hundred_thousand_are_a_few_lines() -> None:
    many = OngoingProblems(
        lambda: (f"pods: default/{number} cannot be decoded" for number in range(100_000)), VirtualClock()
    )
    with structlog.testing.capture_logs() as lines:
        many.report()
    assert len(lines) == MAX_LINES
    assert {line["not_told"] for line in lines} == {1000}


async def test_an_object_that_cannot_be_read_is_among_them_and_a_sound_service_has_none() -> None:
    async with EmbeddedAPIServer() as server:
        put(server, "nodes", node_tree("sound"))
        async with running(server) as (app, _, _):
            async with asyncio.timeout(20):
                while not app.http_app.is_scheduling:  # noqa: ASYNC110  nothing tells it
                    await asyncio.sleep(0.01)
            assert list(app.http_app.ongoing_problems()) == []
            put(server, "nodes", {**node_tree("odd"), "spec": {"unschedulable": "perhaps"}})
            async with asyncio.timeout(20):
                while not list(app.http_app.ongoing_problems()):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            (note,) = app.http_app.ongoing_problems()
            assert "odd" in note
            assert note in list(app.http_app._notes())
