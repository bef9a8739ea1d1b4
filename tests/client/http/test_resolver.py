"""Addresses that were found once serve while no name server answers; a look-up that hangs keeps nobody waiting."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import NetworkError
from kscheduler.client.http import resolver as http_resolver
from kscheduler.client.http.over_aiohttp import RememberingResolver
from kscheduler.client.http.resolver import Addresses
from kscheduler.client.reachability import APIServerReachability
from kscheduler.client.rest import APIClient
from tests.client.scripted import lines, reply, scripted_server

FOUND = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))
OTHER = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 1, 0, 0))
GONE = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")


class Names:
    """A name server, and who hears how look-ups end."""

    def __init__(self) -> None:
        self.answer: list[Any] | Exception | None = [FOUND, OTHER]
        """`None`: it never answers."""
        self.queried = 0
        self.heard: list[str] = []

    async def getaddrinfo(self, *_address: object, **_options: object) -> list[Any]:
        self.queried += 1
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        assert self.answer is not None
        return self.answer

    def connected(self) -> None:
        self.heard.append("connected")

    def resolved(self) -> None:
        self.heard.append("resolved")

    def unresolved(self, failure: OSError) -> None:
        self.heard.append(f"unresolved: {failure}")


def of(names: Names, test: Callable[[Addresses], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test on a loop whose look-ups these names answer."""

    async def run() -> None:
        addresses = Addresses(names)
        try:
            await test(addresses)
        finally:
            addresses.close()

    with asyncio.Runner() as runner:
        monkeypatch.setattr(runner.get_loop(), "getaddrinfo", names.getaddrinfo)
        runner.run(run())


def test_addresses_are_kept_and_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names()

    async def test(addresses: Addresses) -> None:
        assert await addresses.of("h", 1) == [FOUND, OTHER]
        assert await addresses.of("h", 1) == [OTHER, FOUND]
        assert names.queried == 1
        assert names.heard == []

    of(names, test, monkeypatch)


def test_whoever_asks_at_the_moment_in_which_a_look_up_ends_gets_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def later(addresses: Addresses, turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return len(await addresses.of("h", 1))

    async def test(addresses: Addresses) -> None:
        found = await asyncio.gather(*(later(addresses, turns) for turns in range(6)))
        assert found == [2] * 6

    names = Names()
    of(names, test, monkeypatch)
    assert names.queried == 1


@pytest.mark.parametrize("answer", [pytest.param(GONE, id="fails"), pytest.param(None, id="hangs")])
def test_old_addresses_serve_while_look_ups_fail_and_both_ends_are_reported(
    answer: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names()
    monkeypatch.setattr(http_resolver, "ADDRESSES_SECONDS", 0.0)
    monkeypatch.setattr(http_resolver, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(http_resolver, "FIRST_ANSWER_SECONDS", 0.01)

    async def test(addresses: Addresses) -> None:
        await addresses.of("h", 1)
        names.answer = answer
        for _ in range(3):
            assert len(await addresses.of("h", 1)) == 2
        assert len(names.heard) == 3
        assert names.heard[0].startswith("unresolved")
        assert answer is not None or names.queried == 2, "one look-up is under way at a time"
        names.answer = [FOUND]
        addresses.close()
        for _ in range(5):
            await asyncio.sleep(0)
        assert await addresses.of("h", 1) == [FOUND]
        assert names.heard[3:] == ["resolved"]

    of(names, test, monkeypatch)


def test_a_client_that_is_closed_fails_those_who_wait_for_a_look_up_and_cancels_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names()
    names.answer = None

    async def test(addresses: Addresses) -> None:
        waiting = [asyncio.create_task(addresses.of("h", 1)) for _ in range(2)]
        await asyncio.sleep(0)
        addresses.close()
        failures = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(failure) for failure in failures] == [OSError, OSError]

    of(names, test, monkeypatch)


def test_a_name_that_was_never_found_is_an_error_and_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names()
    names.answer = GONE

    async def test(addresses: Addresses) -> None:
        for _ in range(2):
            with pytest.raises(socket.gaierror):
                await addresses.of("h", 1)
        assert names.heard == []

    of(names, test, monkeypatch)


def test_aiohttp_gets_the_addresses_of_the_family_that_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(addresses: Addresses) -> None:
        resolver = RememberingResolver(addresses)
        assert [each["host"] for each in await resolver.resolve("h", 1)] == ["127.0.0.1"]
        every = await resolver.resolve("h", 1, socket.AF_UNSPEC)
        assert {each["host"] for each in every} == {"127.0.0.1", "::1"}

    of(Names(), test, monkeypatch)


async def test_watches_are_opened_again_while_dns_is_gone_and_that_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_resolver, "ADDRESSES_SECONDS", 0.0)
    async with scripted_server(reply(), lines(), lines()) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        reachability = APIServerReachability("localhost")
        async with APIClient(plain_connection(url), reachability=reachability) as client:
            await client.get("/version")

            loop = asyncio.get_running_loop()
            resolves = loop.getaddrinfo

            async def gone(host: str, *address: Any, **options: Any) -> list[Any]:
                if host != "localhost":  # uvloop asks for numbers, too
                    return await resolves(host, *address, **options)
                raise GONE

            monkeypatch.setattr(loop, "getaddrinfo", gone)
            for _ in range(2):
                async with client.stream("/api/v1/pods", {"watch": "true"}) as stream:
                    assert [line async for line in stream] == []
        (line,) = reachability.lines(client._clock.monotonic() + 5.0)
        assert (line.message, line.fields["cause"]) == ("host_name_not_resolved", "name_server_fails")


async def test_without_old_addresses_a_watch_fails_as_before() -> None:
    async with APIClient(plain_connection("http://no-such-host.invalid:6443")) as client:
        with pytest.raises(NetworkError, match="cannot be looked up"):
            async with client.stream("/api/v1/pods", {"watch": "true"}):
                pass
