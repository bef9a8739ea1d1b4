"""The process that sends what a workload creates, many requests at a time, so that feeding costs the clock nothing.

    python -m benchmarks.upstream.feeder --kubeconfig FILE

Each line of standard input names a file of requests, which lie ready in it: a line `METHOD PATH BODY` each. The answer
is a line, too: how many were sent, and what was refused. Connections stay open. It ends with its standard input.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Self

import msgspec

from benchmarks.real.floor import Server, fastest_loop
from benchmarks.real.floor_wire import JSON, BarePoster
from benchmarks.upstream.requests import MERGE_PATCH, Request

CONNECTIONS: Final = 48
LONGEST_TEXT: Final = 300


class Order(msgspec.Struct, frozen=True):
    """What is to be sent."""

    file: str
    per_second: float = 0.0
    """0: as fast as it goes."""


class Refused(msgspec.Struct, frozen=True):
    """Requests that the API server answered with the same error status."""

    code: int
    count: int
    text: str
    """What it said to the first of them."""


class Done(msgspec.Struct, frozen=True):
    """What became of an order."""

    requests: int
    seconds: float
    refused: tuple[Refused, ...] = ()


def write_requests(path: Path, requests: Iterable[Request]) -> None:
    with path.open("wb") as file:
        for one in requests:
            file.write(b"%b %b %b\n" % (one.method.encode(), one.path.encode(), one.body))


def read_requests(path: Path) -> Iterator[Request]:
    for line in path.read_bytes().splitlines():
        method, target, body = line.split(b" ", 2)
        yield Request(target.decode(), body, method.decode())


class Sender:
    """Sends the requests of one order over all connections."""

    def __init__(self, requests: Iterable[Request], per_second: float) -> None:
        self._remaining = iter(requests)
        self._per_second = per_second
        self._sent = 0
        self._refused: dict[int, Refused] = {}

    async def send(self, posters: Sequence[BarePoster]) -> Done:
        for poster in posters:
            await poster.refresh()
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for poster in posters:
                group.create_task(self._send_each(poster, began))
        return Done(self._sent, time.monotonic() - began, tuple(self._refused.values()))

    async def _send_each(self, poster: BarePoster, began: float) -> None:
        for one in self._remaining:
            number, self._sent = self._sent, self._sent + 1
            if self._per_second:
                await asyncio.sleep(max(0.0, began + number / self._per_second - time.monotonic()))
            kind = MERGE_PATCH if one.method == "PATCH" else JSON
            code, answer = await poster.exchange(one.method, one.path, one.body, kind)
            if code >= 400:
                self._note(code, answer)

    def _note(self, code: int, answer: bytes) -> None:
        seen = self._refused.get(code)
        text = seen.text if seen else answer[:LONGEST_TEXT].decode(errors="replace")
        self._refused[code] = Refused(code, (seen.count if seen else 0) + 1, text)


async def serve(server: Server) -> None:
    """Orders from standard input, one after the other."""
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        posters: list[BarePoster] = []
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            if not posters:
                for _ in range(CONNECTIONS):
                    poster = BarePoster(server.url, server.tls, server.headers())
                    posters.append(await stack.enter_async_context(poster))
            order = msgspec.json.decode(line, type=Order)
            done = await Sender(read_requests(Path(order.file)), order.per_second).send(posters)
            sys.stdout.write(msgspec.json.encode(done).decode() + "\n")
            sys.stdout.flush()


class Feeder:
    """The process, from the side that gives orders. Orders wait for each other."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._number = 0
        self._turn = asyncio.Lock()
        self._child: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        command = ("-m", "benchmarks.upstream.feeder", "--kubeconfig", str(self._kubeconfig))
        pipe = asyncio.subprocess.PIPE
        self._child = await asyncio.create_subprocess_exec(sys.executable, *command, stdin=pipe, stdout=pipe)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            async with asyncio.timeout(5):
                await self._child.wait()
        except TimeoutError:
            self._child.kill()
            await self._child.wait()

    async def send(self, requests: Iterable[Request], per_second: float = 0.0) -> Done:
        """Returns when all are answered. Raises RuntimeError if the process has ended."""
        self._number += 1
        path = self._folder / f"{self._number}.requests"
        write_requests(path, requests)
        async with self._turn:
            assert self._child.stdin is not None
            assert self._child.stdout is not None
            self._child.stdin.write(json.dumps({"file": str(path), "per_second": per_second}).encode() + b"\n")
            line = await self._child.stdout.readline()
        path.unlink()
        if not line:
            raise RuntimeError("the feeder has ended, see what it printed")
        return msgspec.json.decode(line, type=Done)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upstream.feeder")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    options = parser.parse_args()
    fastest_loop()(serve(Server.read(options.kubeconfig)))


if __name__ == "__main__":
    main()
