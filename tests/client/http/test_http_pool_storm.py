"""Many requests, a server that misbehaves in many ways, requests that are cancelled: no answer goes astray.

One way is left out: an answer that nobody asked for, and that arrives after the next request has been written. Nothing
in HTTP/1.1 tells it from the answer to that request.
"""

import asyncio
import random

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import NotSentError
from kscheduler.client.http.http1 import HttpRequest, MalformedResponseError
from kscheduler.client.http.pool import HTTPPool
from tests.client.http.raw_server import Peer, raw_server

AT_A_TIME = 8
# By each of those.
REQUESTS = 60
OUTCOMES = (NotSentError, MalformedResponseError, OSError, TimeoutError)


class Moody:
    """Answers each request with its own path, or does something else."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.moods: dict[str, int] = {}

    async def __call__(self, peer: Peer) -> None:
        while await self.serve(peer, (await peer.request()).split(b" ")[1]):
            pass

    async def serve(self, peer: Peer, path: bytes) -> bool:
        """Whether the connection stays open."""
        mood = self.rng.choice(["good"] * 6 + ["pieces", "chunks", "last", "extra", "close", "reset", "half"])
        self.moods[mood] = self.moods.get(mood, 0) + 1
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path)
        match mood:
            case "good":
                peer.say(whole)
            case "pieces":
                for at in range(0, len(whole), 7):
                    peer.say(whole[at : at + 7])
                    await asyncio.sleep(0)
            case "chunks":
                peer.say(
                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(path), path)
                )
            case "last":
                peer.say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path))
            case "extra":
                peer.say(whole + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nastray")
            case "half":
                peer.say(whole[:-1])
            case "reset":
                peer.reset()
        return mood not in ("close", "reset", "half")


@pytest.mark.parametrize("seed", [pytest.param(seed, id=f"seed-{seed}") for seed in range(4)])
async def test_each_request_gets_its_own_answer_or_none(seed: int) -> None:
    rng = random.Random(seed)
    server_side = Moody(random.Random(f"server {seed}"))
    answered = 0

    async def ask(pool: HTTPPool, path: str) -> None:
        nonlocal answered
        sending = asyncio.ensure_future(pool.send(HttpRequest("POST", path, b"{}", "application/json"), {}, 20.0))
        if rng.random() < 0.1:
            for _ in range(rng.randrange(8)):
                await asyncio.sleep(0)
            sending.cancel()
        await asyncio.wait({sending})
        if sending.cancelled():
            return
        if (failure := sending.exception()) is not None:
            assert isinstance(failure, OUTCOMES)
            return
        assert sending.result().body == path.encode()
        answered += 1

    async def client(pool: HTTPPool, number: int) -> None:
        for count in range(REQUESTS):
            await ask(pool, f"/{number}/{count}")

    async with raw_server(server_side) as server:
        pool = HTTPPool(plain_connection(server.url))
        async with asyncio.TaskGroup() as group:
            for number in range(AT_A_TIME):
                group.create_task(client(pool, number))
        await pool.close()
        assert pool.connections == 0
    assert answered > AT_A_TIME * REQUESTS / 2
    assert len(server_side.moods) == 8
