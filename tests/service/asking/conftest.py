"""An event loop of each kind, for questions to the test's own process."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kscheduler.aio.event_loop import new_event_loop
from kscheduler.service.asking import live_copies
from tests.service.asking.asked import Run, copies


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions in a row need not wait for each other, which would take these tests minutes."""
    monkeypatch.setattr(live_copies, "next_fork_at", lambda *_: 0.0)


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs to the end, on asyncio's loop and on uvloop's; no copy may be left."""

    def to_the_end(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)
        assert copies() == []

    return to_the_end
