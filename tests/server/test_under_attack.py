"""What a hostile client gets over TLS: a bounded number of places, a cut, and nothing of what probes need.

No test here looks at a clock: what is bounded is counted, and what must happen is waited for.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import aiohttp
import pytest

from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.server import Limits
from tests.server.pki import trusting
from tests.server.secure_site import SecureSite, secure_site

RANDOM = pytest.mark.slow("sends hundreds of random requests")

SECONDS = 20.0
QUICK = 1_000_000.0


@asynccontextmanager
async def connected(
    site: SecureSite, source: str = "127.0.0.1", *, tls: bool = True
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", site.server.port, local_addr=(source, 0), ssl=trusting() if tls else None
        )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def until_cut(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(SECONDS):
        try:
            return await reader.read()
        except (ConnectionError, OSError):
            return b""


async def test_five_hundred_half_open_connections_hold_no_more_than_their_places() -> None:
    async with secure_site(limits=Limits(connections=16, connections_per_address=8, turns_per_second=QUICK)) as site:
        async with AsyncExitStack() as held:
            for number in range(500):
                source = f"127.0.0.{2 + number % 10}"
                _, writer = await held.enter_async_context(connected(site, source, tls=False))
                writer.write(b"\x16\x03\x01\x02\x00" if number % 2 else b"")
                assert site.server.connections <= 16
                if number % 100 == 0:
                    assert await site.get("/livez") == (200, "ok")
            assert await site.get("/livez") == (200, "ok")
        assert site.server.connection_slots.displaced >= 480


async def test_an_address_displaces_its_own_connections_first() -> None:
    limits = Limits(connections=16, connections_per_address=4, turns_per_second=QUICK)
    async with secure_site(limits=limits) as site, AsyncExitStack() as held:
        reader, writer = await held.enter_async_context(connected(site))
        for _ in range(50):
            await held.enter_async_context(connected(site, "127.0.0.9", tls=False))
        while site.server.connection_slots.displaced < 46:  # noqa: ASYNC110  # a count tells nobody
            await asyncio.sleep(0)
        assert site.server.connections <= 5
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in await until_cut(reader)


@pytest.mark.parametrize(
    ("tls", "sent"),
    [
        pytest.param(False, b"", id="says nothing"),
        pytest.param(False, b"\x16\x03\x01\x02\x00\x01", id="half a hello"),
        pytest.param(True, b"", id="established, says nothing"),
        pytest.param(True, b"GET /livez HTTP/1.1\r\n", id="half a head"),
    ],
)
async def test_who_stops_in_the_middle_is_cut_in_each_phase(tls: bool, sent: bytes) -> None:
    limits = Limits(head_seconds=0.3, handshake_seconds=0.3, idle_seconds=0.3)
    async with secure_site(limits=limits) as site, connected(site, tls=tls) as (reader, writer):
        writer.write(sent)
        assert await until_cut(reader) == b""
        while site.server.connections:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_requests_that_hang_leave_the_reserve_to_probes() -> None:
    """All places of other requests are busy with reviews that get no answer; health is told all the same."""
    limits = Limits(connections=8, connections_per_address=8, turns_per_second=QUICK)
    async with secure_site(limits=limits) as site, AsyncExitStack() as held:
        site.api.faults.add(_delay())
        readers = []
        for _ in range(limits.busy_requests):
            reader, writer = await held.enter_async_context(connected(site, "127.0.0.9"))
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            readers.append(reader)
        while site.server.connection_slots.busy_requests < limits.busy_requests:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert await site.status("/metrics") == 429
        for _ in range(10):
            assert await site.get("/livez") == (200, "ok")
        assert site.server.connection_slots.refused_requests == 1


async def test_forty_questions_of_one_address_are_all_answered_or_reported_to_come_again() -> None:
    """With the limits as they are: 32 are being answered, the others are told that they are too many, none is cut."""
    limits = Limits(turns_per_second=QUICK)
    async with secure_site(limits=limits) as site, AsyncExitStack() as held:
        site.api.faults.add(_delay())
        clients = (held.enter_async_context(connected(site, "127.0.0.9")) for _ in range(40))
        heads = [asyncio.create_task(_ask(*streams)) for streams in await asyncio.gather(*clients)]
        while len(reported := [head for head in heads if head.done()]) < 40 - limits.busy_requests:
            await asyncio.wait({*heads}.difference(reported), return_when=asyncio.FIRST_COMPLETED)
        for head in reported:
            assert head.result().startswith(b"HTTP/1.1 429 ")
            assert b"\r\nRetry-After: 1\r\n" in head.result()
        assert site.server.connection_slots.busy_requests == limits.busy_requests
        assert site.server.connection_slots.displaced == 0
        assert await site.get("/livez") == (200, "ok")
        for head in heads:
            head.cancel()
        await asyncio.wait(heads)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """The head of the answer."""
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    return await reader.readuntil(b"\r\n\r\n")


def _delay() -> InjectedFault:
    return InjectedFault("delay", path="/apis/*reviews", seconds=600.0)


async def test_plain_http_on_the_secure_port_is_cut() -> None:
    async with secure_site() as site, connected(site, tls=False) as (reader, writer):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in await until_cut(reader)
        while not site.server.connection_slots.not_established:  # noqa: ASYNC110
            await asyncio.sleep(0)


WORDS = (
    b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"PRI", b" ", b"/", b"/metrics", b"/livez", b"/configz", b"/%2e%2e",
    b"?verbose", b"HTTP/1.1", b"HTTP/2.0", b"\r\n", b"\r\n\r\n", b"Host: x", b"Content-Length: ", b"9", b"-1",
    b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Upgrade: websocket", b"Connection: upgrade",
    b"Authorization: Bearer x", b"Content-Encoding: gzip", b"Cookie: a=b", b"\x00", b"\xff\xfe", b"A" * 300,
)  # fmt: skip


def request_of(chance: random.Random) -> bytes:
    """Something like a request, more or less."""
    if chance.random() < 0.3:
        return chance.randbytes(chance.randrange(1, 200))
    if chance.random() < 0.4:
        words = [chance.choice(WORDS) for _ in range(chance.randrange(1, 12))]
        return b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"\r\n".join(words) + b"\r\n\r\n"
    return b"".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 20)))


@RANDOM
@pytest.mark.parametrize("seed", range(4))
async def test_random_requests_never_reach_what_is_closed_and_leave_nothing_behind(seed: int) -> None:
    chance = random.Random(seed)
    limits = Limits(turns_per_second=QUICK, head_seconds=0.2, answer_seconds=2.0, idle_seconds=0.2)
    async with secure_site(limits=limits) as site:
        answers = await asyncio.gather(*(_play(site, chance.getrandbits(32)) for _ in range(8)))
        for answer in (one for several in answers for one in several):
            for head in answer.split(b"HTTP/1.1 ")[1:]:
                status, _, rest = head.partition(b" ")
                assert status in {b"100", b"400", b"401", b"403", b"404", b"405", b"413", b"415", b"417", b"431"} or (
                    status == b"200" and (rest.endswith(b"ok") or b"\r\nContent-Length: 2\r\n" in rest)
                ), answer
        assert await site.get("/livez") == (200, "ok")
        while site.server.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert site.server.connection_slots.busy_requests == 0
        assert not site.server.connection_slots._by_address


async def _play(site: SecureSite, seed: int) -> list[bytes]:
    chance, answers = random.Random(seed), []
    for _ in range(25):
        with suppress(OSError):  # cut during the handshake
            async with connected(site, f"127.0.0.{2 + seed % 9}") as (reader, writer):
                for _ in range(chance.randrange(1, 4)):
                    writer.write(request_of(chance))
                if chance.random() < 0.2:
                    continue
                if chance.random() < 0.5:
                    writer.write(b"\r\n\r\n")
                answers.append(await until_cut(reader))
    return answers


async def test_many_probes_beside_a_flood_are_all_answered() -> None:
    limits = Limits(connections=32, connections_per_address=16, turns_per_second=200.0, turns_at_once=20)
    async with secure_site(limits=limits) as site:
        stop = asyncio.Event()
        flood = [asyncio.create_task(_flood(site, f"127.0.0.{2 + number}", stop)) for number in range(4)]
        try:
            for _ in range(20):
                assert await site.get("/livez") == (200, "ok")
        finally:
            stop.set()
            await asyncio.gather(*flood)


async def _flood(site: SecureSite, source: str, stop: asyncio.Event) -> None:
    connector = aiohttp.TCPConnector(ssl=trusting(), local_addr=(source, 0), limit=20)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{site.server.port}", connector=connector) as session:
        while not stop.is_set():
            try:
                async with session.get("/metrics") as response:
                    await response.read()
            except (aiohttp.ClientError, OSError):
                await asyncio.sleep(0)
