"""Whether a port accepts connections: asked within a second, on uvloop, and with nothing left behind."""

import asyncio
import socket
from typing import Any

import pytest

from kscheduler.aio.event_loop import new_event_loop
from kscheduler.client.http.transport import accepts_connections


class SlowNames:
    """A resolver that does not answer in time: lookups that were begun, and what was reported to the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lookups: list[asyncio.Future[Any]] = []
        self.reports: list[dict[str, Any]] = []
        self._loop = loop
        loop.set_exception_handler(lambda _loop, context: self.reports.append(context))

    def getaddrinfo(self, *_address: object, **_options: object) -> "asyncio.Future[Any]":
        self.lookups.append(self._loop.create_future())
        return self.lookups[-1]


def test_a_lookup_that_takes_too_long_is_given_up_and_its_failure_reported_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        names = SlowNames(runner.get_loop())
        monkeypatch.setattr(runner.get_loop(), "getaddrinfo", names.getaddrinfo)
        assert not runner.run(accepts_connections("scheduler.test", 1))
    assert [lookup.cancelled() for lookup in names.lookups] == [True]
    assert names.reports == []


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_port_accepts_connections_or_not(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert await accepts_connections(name, port)
    assert not await accepts_connections(name, port)
