"""The fault proxy: between one scheduler and an API server, it passes everything on but what a `Fault` says.

    scheduler --HTTP/1.1--> this --the API server's scheme, TLS and token--> API server

`play(fault)` begins a fault and `rest()` ends it; between them the proxy is an honest one. It works on the bytes of the
connections, so that an answer can end within a chunk. Each connection of the scheduler has one to the API server. Its
event loop runs in a thread of its own; what tests call waits for that thread.

What the scheduler has asked for is never sent twice, and the answers that the API server gave to Bindings are counted
here before any damage: `applied` is what truly happened.
"""

import asyncio
import json
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from tests.e2e.faults import http1
from tests.e2e.faults.fault import (
    STREAM_ACTIONS,
    Action,
    Applied,
    CutAnswer,
    Delay,
    EachEvent,
    Edited,
    EndStream,
    Explanation,
    Fault,
    Hang,
    Injected,
    Raw,
    Request,
    Reset,
    SlowAnswer,
    StallStream,
    Swapped,
    TwiceAnswered,
    Unreachable,
    parse,
)

CALL_SECONDS = 30.0
REASONS = {409: "Conflict", 429: "TooManyRequests", 410: "Expired", 403: "Forbidden", 401: "Unauthorized"}
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}\n'
BODILESS = frozenset({204, 304})


class FaultProxy:
    """Serves while it is entered."""

    def __init__(self, identity: Path) -> None:
        """`identity`: a kubeconfig with a server, and perhaps a token and an authority."""
        document = json.loads(identity.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        address = urlsplit(cluster["server"])
        self.host, self.port_above = address.hostname or "127.0.0.1", address.port or 443
        authority = cluster.get("certificate-authority")
        self.tls = ssl.create_default_context(cafile=authority) if authority else None
        self.token: str = user.get("token", "")
        self.port = 0
        self.met: Counter[str] = Counter()
        """How many requests, streams or events each fault has met, by its id."""
        self.applied: Counter[str] = Counter()
        """How many Bindings of each pod, `namespace/name`, the API server has accepted."""
        self.fault: Fault | None = None
        self.began = 0.0
        self.over = asyncio.Event()
        """Set while no fault is played."""
        self.over.set()
        self.streams: set[Stream] = set()
        self.connections: set[asyncio.StreamWriter] = set()
        self.chance = random.Random()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._is_serving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_serving.wait(CALL_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(CALL_SECONDS)

    def watched(self) -> set[str]:
        """The resources whose watches are open."""
        return {stream.request.resource for stream in tuple(self.streams)}

    def play(self, fault: Fault) -> None:
        """Begins the fault; returns when streams that are open already have met it."""
        self._call(lambda: self._begin(fault))

    def rest(self) -> None:
        """Ends the fault: what hangs is reset or goes on, new requests pass."""
        self._call(self._end)

    def _call(self, act: Callable[[], None]) -> None:
        done = threading.Event()

        def acting() -> None:
            act()
            done.set()

        self._loop.call_soon_threadsafe(acting)
        done.wait(CALL_SECONDS)

    def _begin(self, fault: Fault) -> None:
        self.fault, self.began = fault, time.monotonic()
        self.chance = random.Random(fault.id)
        self.over.clear()
        if isinstance(fault.does, Unreachable) and not fault.does.silently:
            for writer in self.connections:
                http1.reset(writer)
        if fault.open_watches != "stay":
            for stream in tuple(self.streams):
                stream.end_in_order(EXPIRED if fault.open_watches == "expire" else b"")
        elif isinstance(fault.does, STREAM_ACTIONS):
            for stream in tuple(self.streams):
                if fault.requests.match(stream.request):
                    stream.strike(fault)

    def _end(self) -> None:
        self.fault = None
        self.over.set()
        for stream in tuple(self.streams):
            stream.relieve()

    def action_for(self, request: Request) -> Action | None:
        """What is to be done to a request that has just come."""
        fault = self.fault
        if fault is None or isinstance(fault.does, Unreachable):
            return None
        if request.verb == "watchlist" and fault.requests.verb == "list" and fault.open_watches == "expire":
            return Explanation(400)  # as servers answer that do not know it, so that there are lists to be hurt
        if not fault.requests.match(request):
            return None
        if isinstance(fault.does, STREAM_ACTIONS):
            return fault.does
        if not self.strikes(fault):
            return None
        self.met[fault.id] += 1
        return fault.does

    def strikes(self, fault: Fault) -> bool:
        """Whether it is on at this moment, for this one of the requests or events that it may meet."""
        if fault.on_off is not None:
            on, off = fault.on_off
            if (time.monotonic() - self.began) % (on + off) >= on:
                return False
        if fault.requests.first and self.met[fault.id] >= fault.requests.first:
            return False
        return fault.requests.probability >= 1.0 or self.chance.random() < fault.requests.probability

    # --- its own thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=http1.LONGEST_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        self._is_serving.set()
        await self._stop.wait()
        server.close()
        while left := asyncio.all_tasks() - {asyncio.current_task()}:  # a connection may begin meanwhile
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault = self.fault
        if fault is not None and isinstance(fault.does, Unreachable):
            self.met[fault.id] += 1
            if fault.does.silently:
                await self.over.wait()
            http1.reset(writer)
            return
        self.connections.add(writer)
        connection = Connection(self, reader, writer)
        try:
            await connection.serve()
        except (OSError, EOFError, asyncio.CancelledError, http1.MessageEndedError):
            pass  # either side has gone, or the proxy ends; asyncio would report a handler that ends as cancelled
        finally:
            self.connections.discard(writer)
            connection.abort()


class Connection:
    """One connection of the scheduler with its counterpart to the API server: requests one after the other."""

    def __init__(self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._above: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def abort(self) -> None:
        self._writer.transport.abort()
        self._leave()

    def _leave(self) -> None:
        if self._above is not None:
            self._above[1].transport.abort()
            self._above = None

    async def serve(self) -> None:
        while (head := await http1.read_head(self._reader)) is not None:
            body = await http1.read_body(self._reader, head, has_body=False)
            await self._passes_now()
            method, target, _ = head.start.split(" ", 2)
            request = parse(method, target)
            action = self._proxy.action_for(request)
            if not await self._handle(request, head, body, action):
                return
            await self._writer.drain()

    async def _passes_now(self) -> None:
        """Waits while all connections are silent; they stay so for the request that has come."""
        fault = self._proxy.fault
        if fault is not None and isinstance(fault.does, Unreachable):
            self._proxy.met[fault.id] += 1
            await self._hang(for_ever=False)
            raise ConnectionResetError

    async def _handle(self, request: Request, head: http1.Head, body: bytes, action: Action | None) -> bool:
        """Whether the connection goes on."""
        match action:
            case Explanation():
                self._write_answer(action)
                return True
            case Raw():
                self._writer.write(action.data)
                if action.closes:
                    self._writer.close()
                return not action.closes
            case Hang():
                await self._hang(for_ever=action.for_ever)
                http1.reset(self._writer)
                return False
            case Reset():
                if action.quietly:
                    self._writer.close()
                else:
                    http1.reset(self._writer)
                return False
            case Delay():
                await asyncio.sleep(action.seconds)
                return await self._handle(request, head, body, action.then)
            case Applied():
                response, _ = await self._exchange(head, body)
                self._note(request, response.code)
                return await self._handle(request, head, body, action.then)
            case _:
                return await self._forward(request, head, body, action)

    async def _hang(self, *, for_ever: bool) -> None:
        """Returns when the fault is over; `for_ever`, or before, when the scheduler has closed the connection."""
        gone = asyncio.ensure_future(self._reader.read(1))
        over = asyncio.ensure_future(self._proxy.over.wait())
        try:
            await asyncio.wait({gone} if for_ever else {gone, over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (gone, over):
                waiting.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await waiting

    def _write_answer(self, answer: Explanation) -> None:
        body = answer.body if answer.body is not None else status(answer.code)
        headers = [*answer.headers]
        if answer.code not in BODILESS:
            headers += [("Content-Type", answer.content_type), ("Content-Length", str(len(body)))]
        start = f"HTTP/1.1 {answer.code} {REASONS.get(answer.code, 'Whatever')}"
        self._writer.write(http1.head_bytes(start, headers) + (b"" if answer.code in BODILESS else body))

    # --- passing on -------------------------------------------------------------------------------------------------

    async def _exchange(self, head: http1.Head, body: bytes) -> tuple[http1.Head, bytes]:
        response = await self._ask(head, body)
        reader = self._above[0] if self._above else self._reader
        return response, await http1.read_body(reader, response, has_body=response.code not in BODILESS)

    async def _ask(self, head: http1.Head, body: bytes) -> http1.Head:
        """Sends the request above and reads the head of the answer."""
        if self._above is not None and self._above[0].at_eof():
            self._leave()
        if self._above is None:
            proxy = self._proxy
            address = proxy.host, proxy.port_above
            self._above = await asyncio.open_connection(*address, ssl=proxy.tls, limit=http1.LONGEST_HEAD)
        reader, writer = self._above
        headers = head.without("host", "authorization", "accept-encoding", "transfer-encoding", "content-length")
        headers += [("Host", f"{self._proxy.host}:{self._proxy.port_above}")]
        if self._proxy.token:
            headers += [("Authorization", f"Bearer {self._proxy.token}")]
        if body or head.get("content-length"):
            headers += [("Content-Length", str(len(body)))]
        writer.write(http1.head_bytes(head.start, headers) + body)
        await writer.drain()
        response = await http1.read_head(reader)
        if response is None:
            raise http1.MessageEndedError
        return response

    def _note(self, request: Request, code: int) -> None:
        if request.resource == "pods/binding" and code < 300:
            self._proxy.applied[f"{request.namespace}/{request.name}"] += 1

    async def _forward(self, request: Request, head: http1.Head, body: bytes, action: Action | None) -> bool:
        response = await self._ask(head, body)
        above = self._above
        if above is None:
            return False
        if request.is_stream and response.code == 200:
            stream = Stream(self._proxy, request, self._writer, response)
            if isinstance(action, STREAM_ACTIONS) and self._proxy.fault is not None:
                stream.meet(self._proxy.fault)
            await stream.relay(above[0], self._reader)
            return False
        answer = await http1.read_body(above[0], response, has_body=response.code not in BODILESS)
        self._note(request, response.code)
        headers = response.without("transfer-encoding", "content-length")
        if isinstance(action, Edited):
            answer = action.edit(answer)
        if response.code not in BODILESS:
            headers += [("Content-Length", str(len(answer)))]
        if not response.may_go_on:
            self._leave()
        return await self._write(http1.head_bytes(response.start, headers), answer, response, action)

    async def _write(self, head: bytes, answer: bytes, response: http1.Head, action: Action | None) -> bool:
        """Writes the answer as the fault has it; whether the connection goes on."""
        writer = self._writer
        match action:
            case CutAnswer(within="head"):
                writer.write(head[: len(head) // 2])
            case CutAnswer(within="chunk"):
                headers = response.without("transfer-encoding", "content-length")
                writer.write(http1.head_bytes(response.start, [*headers, ("Transfer-Encoding", "chunked")]))
                writer.write(http1.chunk_bytes(answer)[: -2 - len(answer) // 2])
            case CutAnswer():
                writer.write(head + answer[: len(answer) // 2])
            case SlowAnswer():
                for data in sliced(head + answer, max(1, action.bytes_per_second // 10)):
                    writer.write(data)
                    await writer.drain()
                    await asyncio.sleep(0 if self._proxy.over.is_set() else 0.1)
                return True
            case TwiceAnswered():
                writer.write((head + answer) * 2)
                return True
            case _:
                writer.write(head + answer)
                return response.may_go_on
        await writer.drain()
        if action.resets:
            await asyncio.sleep(0.05)  # else the reset overtakes what was written
            http1.reset(writer)
        else:
            writer.close()
        return False


class Stream:
    """An open watch, relayed line by line, each line a chunk."""

    def __init__(self, proxy: FaultProxy, request: Request, writer: asyncio.StreamWriter, response: http1.Head) -> None:
        self.request = request
        self._proxy = proxy
        self._writer = writer
        self._passes = asyncio.Event()
        self._passes.set()
        self._fault: Fault | None = None
        self._held = b""
        headers = response.without("transfer-encoding", "content-length")
        writer.write(http1.head_bytes(response.start, [*headers, ("Transfer-Encoding", "chunked")]))

    def strike(self, fault: Fault) -> None:
        """A fault begins while the stream is open."""
        match fault.does:
            case EndStream():
                self._count(fault)
                self._end(fault.does.within, b'{"type":"BOOKMARK","object":{"kind":"Pod"}}\n')
            case Injected():
                self._count(fault)
                self._send(fault.does.line)
            case StallStream():
                self._count(fault)
                self._fault = fault
                self._passes.clear()
            case _:
                self._fault = fault

    def meet(self, fault: Fault) -> None:
        """The stream is opened while a fault is played."""
        if isinstance(fault.does, EndStream):
            self._fault = fault
        else:
            self.strike(fault)

    def end_in_order(self, last_line: bytes) -> None:
        if last_line:
            self._send(last_line)
        self._end("order", b"")

    def relieve(self) -> None:
        """The fault is over."""
        fault, self._fault = self._fault, None
        if self._held:
            self._send(self._held)
            self._held = b""
        if fault is None or not isinstance(fault.does, StallStream) or fault.does.for_ever:
            return
        if not fault.does.passes_later:
            http1.reset(self._writer)
        self._passes.set()

    def _count(self, fault: Fault) -> None:
        self._proxy.met[fault.id] += 1

    def _send(self, line: bytes) -> None:
        self._writer.write(http1.chunk_bytes(line))

    def _end(self, within: str, line: bytes) -> None:
        match within:
            case "order":
                self._writer.write(b"0\r\n\r\n")
            case "line":
                self._writer.write(http1.chunk_bytes(line[: len(line) // 2]) + b"0\r\n\r\n")
            case "chunk":
                self._writer.write(http1.chunk_bytes(line)[: -2 - len(line) // 2])
            case _:
                http1.reset(self._writer)
                return
        self._writer.close()

    async def relay(self, above: asyncio.StreamReader, below: asyncio.StreamReader) -> None:
        """Returns when either side has ended it."""
        self._proxy.streams.add(self)
        passing = asyncio.create_task(self._pass(above), name="watch")
        gone = asyncio.create_task(below.read(1), name="the scheduler leaves")
        try:
            await asyncio.wait({passing, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._proxy.streams.discard(self)
            for task in (passing, gone):
                task.cancel()
            await asyncio.gather(passing, gone, return_exceptions=True)

    async def _pass(self, above: asyncio.StreamReader) -> None:
        head = http1.Head("", [("Transfer-Encoding", "chunked")])
        async for line in self._damaged(http1.lines(above, head)):
            self._send(line)
            await self._writer.drain()
        if not self._writer.is_closing():
            self._writer.write(b"0\r\n\r\n")
            self._writer.close()

    async def _damaged(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            await self._passes.wait()
            fault = self._fault
            if fault is None or b'"BOOKMARK"' in line[:40] or not self._proxy.strikes(fault):
                yield line
                continue
            self._count(fault)
            match fault.does:
                case EndStream():
                    self._end(fault.does.within, line)
                    return
                case EachEvent():
                    for other in fault.does.edit(line):
                        yield other
                case Swapped() if self._held:
                    yield line
                    yield self._held
                    self._held = b""
                case Swapped():
                    self._held = line
                case _:
                    yield line


def status(code: int, message: str = "a fault of the suite") -> bytes:
    reason = REASONS.get(code, "InternalError")
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    return json.dumps(body | {"message": message, "reason": reason}).encode()


def sliced(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
