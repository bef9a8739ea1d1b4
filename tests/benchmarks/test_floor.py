"""The floor of `make bench-real` decides nothing, but what it sends is a scheduler's work, whole and correct."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from benchmarks.real import floor
from benchmarks.real.floor import Server, Turns
from benchmarks.real.floor_wire import BarePoster, RefusedError
from benchmarks.real.run import EVENTS_PATH as EVENTS
from benchmarks.real.run import PODS_PATH as PODS
from benchmarks.real.run import create_all
from benchmarks.real.workloads import NAMESPACE, SCHEDULER_NAME, WORKLOADS, node
from kscheduler.embedded.apiserver import EmbeddedAPIServer


def test_nodes_take_turns_until_each_is_full() -> None:
    turns = Turns({"a": 2, "b": 1, "c": 0})
    assert [turns.next() for _ in range(4)] == ["a", "b", "a", None]


@pytest.mark.parametrize(("text", "expected"), [("110", 110), ("30k", 30_000), ("1M", 1_000_000)])
def test_room_is_read_as_the_api_server_writes_it(text: str, expected: int) -> None:
    assert floor.count(text) == expected


def test_pods_that_run_already_take_room() -> None:
    turns = Turns({"a": 1, "b": 1})
    turns.take("a")
    turns.take("unknown")
    assert [turns.next(), turns.next()] == ["b", None]


def test_a_pod_that_is_gone_gives_its_room_back() -> None:
    turns = Turns({"a": 1, "b": 1})
    assert [turns.next() for _ in range(3)] == ["a", "b", None]
    for name in ("b", "unknown", ""):
        turns.give_back(name)
    assert [turns.next(), turns.next()] == ["b", None]


def line(kind: str, uid: str, *, is_gated: bool = False, node: str = "") -> bytes:
    spec = {"schedulerName": "me", "nodeName": node, "schedulingGates": [{"name": "g"}] if is_gated else []}
    pod = {"metadata": {"name": uid, "namespace": "ns", "uid": uid, "resourceVersion": "1"}, "spec": spec}
    return json.dumps({"type": kind, "object": pod}).encode()


class Recorder:
    """Answers some pods' Bindings with a status. Implements `Poster`."""

    def __init__(self, codes: dict[str, int], wanted: int = 1) -> None:
        self.codes = codes
        self.bound: list[tuple[str, str]] = []
        self._wanted = wanted
        self.has_enough = asyncio.Event()

    async def post(self, path: str, body: bytes) -> None:
        if path.endswith("/binding"):
            pod = path.split("/")[-2]
            if pod in self.codes:
                raise RefusedError("POST", path, self.codes[pod], b"")
            self.bound.append((pod, json.loads(body)["target"]["name"]))
            if len(self.bound) == self._wanted:
                self.has_enough.set()


async def bound_by(client: floor.Floor, poster: Recorder) -> list[tuple[str, str]]:
    """Lets it send until so many are bound as the poster wants, or it fails."""
    sending, waiting = asyncio.create_task(client.send(poster)), asyncio.create_task(poster.has_enough.wait())
    done, others = await asyncio.wait({sending, waiting}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        task.result()
    return poster.bound


async def test_a_gated_pod_waits_until_its_gates_are_gone() -> None:
    client = floor.Floor("me", Turns({"n": 9}))
    client.read(line("ADDED", "gated", is_gated=True), 0.0)
    client.read(line("ADDED", "removed", is_gated=True), 0.0)
    client.read(line("ADDED", "free"), 0.0)
    assert await bound_by(client, Recorder({})) == [("free", "n")]
    client.read(line("DELETED", "removed", is_gated=True), 0.0)
    for kind in ("MODIFIED", "MODIFIED"):
        client.read(line(kind, "gated"), 0.0)
    client.read(line("MODIFIED", "removed"), 0.0)
    client.read(line("ADDED", "last"), 0.0)
    assert await bound_by(client, Recorder({}, 2)) == [("gated", "n"), ("last", "n")]


@pytest.mark.parametrize("code", [404, 409])
async def test_a_pod_that_is_gone_or_bound_meanwhile_is_passed_over(code: int) -> None:
    client = floor.Floor("me", Turns({"n": 1}))
    for name in ("late", "next"):
        client.read(line("ADDED", name), 0.0)
    assert await bound_by(client, Recorder({"late": code})) == [("next", "n")], "its room is free again"


async def test_any_other_refusal_ends_it() -> None:
    client = floor.Floor("me", Turns({"n": 1}))
    client.read(line("ADDED", "late"), 0.0)
    with pytest.raises(RefusedError, match="500"):
        await bound_by(client, Recorder({"late": 500}))


def test_an_event_says_what_a_scheduler_says() -> None:
    pod = floor.Metadata(name="p", namespace="ns", uid="u", resource_version="7")
    written = json.loads(floor.event(pod, "n", "me", datetime(2026, 1, 2, 3, 4, 5, 6, UTC)))
    assert written["note"] == "Successfully assigned ns/p to n"
    assert written["eventTime"] == "2026-01-02T03:04:05.000006Z"
    assert written["regarding"]["uid"] == "u"


# --- the bare wire ----------------------------------------------------------------------------------------------------

ANSWERS = {
    "/length": b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
    "/chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    "/conflict": b"HTTP/1.1 409 Conflict\r\nContent-Length: 8\r\n\r\nassigned",
}


@asynccontextmanager
async def scripted_server() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answers each path with its bytes. Yields its URL and the bodies that came."""
    bodies: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            bodies.append(await reader.readexactly(length))
            writer.write(ANSWERS[head.split()[1].decode()])

    async def until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()
        await writer.wait_closed()
        closed.set()

    closed = asyncio.Event()
    async with await asyncio.start_server(until_closed, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", bodies
        await closed.wait()


async def test_the_bare_wire_reads_each_answer_to_its_end_so_that_the_next_one_is_its_own() -> None:
    async with scripted_server() as (url, bodies), BarePoster(url, None, {"X": "y"}) as poster:
        await poster.post("/length", b"1")
        await poster.post("/chunked", b"2")
        with pytest.raises(RuntimeError, match="409 assigned"):
            await poster.post("/conflict", b"3")
        await poster.post("/length", b"4")
    assert bodies == [b"1", b"2", b"3", b"4"]


# --- all of it, on the embedded API server ----------------------------------------------------------------------------


@asynccontextmanager
async def running_floor(url: str, *, bare: bool) -> AsyncIterator[None]:
    client = floor.run(Server(url, "", None), SCHEDULER_NAME, bare=bare, connections=4)
    task = asyncio.create_task(client, name="floor")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def items(http: aiohttp.ClientSession, path: str) -> list[dict[str, Any]]:
    async with http.get(path) as response:
        found: list[dict[str, Any]] = (await response.json())["items"]
        return found


async def seen(http: aiohttp.ClientSession, path: str, count: int, wanted: Callable[[Any], bool]) -> None:
    """Returns when a watch has shown so many objects as wanted."""
    names: set[str] = set()
    async with asyncio.timeout(20), http.get(path, params={"watch": "1"}) as response:
        async for text in response.content:
            thing = json.loads(text)["object"]
            names |= {thing["metadata"]["name"]} if wanted(thing) else set()
            if len(names) == count:
                return


def is_bound(pod: Any) -> bool:
    return bool(pod["spec"].get("nodeName"))


@pytest.mark.parametrize("bare", [False, True], ids=["aiohttp", "bare"])
async def test_every_pod_that_waits_or_comes_is_bound_and_reported_of(*, bare: bool) -> None:
    plain = WORKLOADS["plain"]
    async with EmbeddedAPIServer(seed=1, admin=True) as server, aiohttp.ClientSession(server.url) as http:
        http.headers["Content-Type"] = "application/json"
        await create_all(http, "/api/v1/namespaces", [{"metadata": {"name": NAMESPACE}}])
        await create_all(http, "/api/v1/nodes", (node(number) for number in range(3)))
        await create_all(http, PODS, (plain.pod(number) for number in range(6)))
        async with running_floor(server.url, bare=bare):
            await seen(http, PODS, 6, is_bound)
            await create_all(http, PODS, (plain.pod(number) for number in range(6, 9)))
            await seen(http, EVENTS, 9, lambda _: True)
        events, pods = await items(http, EVENTS), await items(http, PODS)
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == sorted([f"node-{n:05}" for n in range(3)] * 3)
    assert {event["regarding"]["uid"] for event in events} == {pod["metadata"]["uid"] for pod in pods}
