"""Requests that leave together: which do, whose answer is whose, and what a caller may conclude when one breaks."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest
import structlog

from kscheduler.aio import REAL_CLOCK
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError, FencedError, UnknownOutcomeError
from kscheduler.client.http.http1 import HttpRequest, MalformedResponseError, Response
from kscheduler.client.http.pipelining import (
    ALONE_SECONDS,
    MOST_BROKEN,
    PAUSE_SECONDS,
    SLOW_SECONDS,
    Pipelining,
    ReadyRequest,
)
from kscheduler.client.http.pool import HTTPPool
from kscheduler.client.pod_writes import PodWriter
from kscheduler.client.rest import APIClient
from kscheduler.scheduling.attempt.binding import BindingWriter
from kscheduler.scheduling.observations import Observations
from tests.builders import make_pod
from tests.client.http.raw_server import OK, Peer, Play, RawServer, raw_server

NO_LISTENER: Mapping[str, str] = {}
GET = HttpRequest("GET", "/warm")
SECONDS = 20.0
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


def post(number: int, joins: str = "team") -> HttpRequest:
    return HttpRequest("POST", f"/{number}", b"{}", "application/json", joins=joins)


def answer_to(request: bytes) -> bytes:
    """An answer that says which request it is to."""
    target = request.split(b" ", 2)[1]
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(target), target)


async def answer_by_target(peer: Peer) -> None:
    while True:
        peer.say(answer_to(await peer.request()))


def taken(depth: int) -> Pipelining:
    """Of a server that is known to take pipelines."""
    pipelining = Pipelining(depth)
    pipelining.completed(pipelining.began("", 2, 0.0), 0.0)
    return pipelining


def known_to_take_them(client: APIClient) -> None:
    client._pipelining.completed(client._pipelining.began("", 2, 0.0), 0.0)


@asynccontextmanager
async def pool_of(
    play: Play, *, depth: int = 4, busy: int = 0, may_write: list[bool] | None = None, idle: int = 1
) -> AsyncIterator[tuple[RawServer, HTTPPool]]:
    """A pool with so many idle connections, to a server that plays this after their first request."""

    async def after_the_first(peer: Peer) -> None:
        await peer.request()
        peer.say(OK)
        await play(peer)

    fence = None if may_write is None else (lambda: bool(may_write))
    async with raw_server(after_the_first) as server:
        pool = HTTPPool(plain_connection(server.url), pipelining=taken(depth), busy=busy, may_write=fence)
        await asyncio.gather(*(pool.send(GET, NO_LISTENER, SECONDS) for _ in range(idle)))
        try:
            yield server, pool
        finally:
            await pool.close()
            assert (pool.connections, pool.under_way) == (0, 0)


async def sent(pool: HTTPPool, *requests: HttpRequest, seconds: float = SECONDS) -> list[Response | BaseException]:
    """What became of these, which are ready together."""
    return await asyncio.gather(
        *(pool.send(request, NO_LISTENER, seconds) for request in requests), return_exceptions=True
    )


def bodies(found: list[Response | BaseException]) -> list[bytes | type[BaseException]]:
    return [one.body if isinstance(one, Response) else type(one) for one in found]


# --- who leaves with whom -------------------------------------------------------------------------------------------


async def test_what_is_ready_together_leaves_in_one_write_over_few_connections() -> None:
    reads: list[bytes] = []

    async def play(peer: Peer) -> None:
        await asyncio.sleep(0)
        reads.append(await peer.reader.read(65536))
        for request in reads[-1].split(b"POST ")[1:]:
            peer.say(answer_to(b"POST " + request))
        await answer_by_target(peer)

    async with pool_of(play, idle=3) as (server, pool):
        found = await sent(pool, *(post(number) for number in range(8)))
        assert bodies(found) == [b"/%d" % number for number in range(8)]
        assert [read.count(b"POST /") for read in reads] == [4, 4]
        assert len(server.peers) == 3


async def test_only_those_that_say_the_same_share_a_connection() -> None:
    """A namespace whose Bindings hang delays no other."""
    gate = asyncio.Event()

    async def play(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.startswith(b"POST /9"):
                await gate.wait()
            peer.say(answer_to(request))

    async with pool_of(play, idle=2) as (_, pool):
        hanging = asyncio.ensure_future(sent(pool, post(9, "hostile"), post(90, "hostile")))
        assert bodies(await sent(pool, post(1), post(2))) == [b"/1", b"/2"]
        gate.set()
        assert bodies(await hanging) == [b"/9", b"/90"]


async def test_one_that_joins_nobody_and_one_that_is_alone_leave_as_ever() -> None:
    async with pool_of(answer_by_target, idle=3) as (server, pool):
        assert bodies(await sent(pool, post(1, ""), post(2, ""), post(3))) == [b"/1", b"/2", b"/3"]
        assert len(server.peers) == 3, "each over a connection of its own"


async def test_while_few_are_under_way_each_leaves_in_the_same_turn() -> None:
    """What comes one by one is not delayed by a turn, and has a connection for itself."""
    async with pool_of(answer_by_target, busy=8, idle=2) as (server, pool):
        first, second = (asyncio.ensure_future(pool.send(post(number), NO_LISTENER, SECONDS)) for number in (1, 2))
        await asyncio.sleep(0)
        assert pool.under_way == 2
        assert bodies([await first, await second]) == [b"/1", b"/2"]
        assert [peer.requests for peer in server.peers] == [2, 2]


async def test_without_an_idle_connection_each_opens_its_own() -> None:
    async with pool_of(answer_by_target, idle=0) as (server, pool):
        found = await sent(pool, *(post(number) for number in range(3)))
        assert bodies(found) == [b"ok"] * 3
        assert len(server.peers) == 3


# --- whose answer it is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
async def test_answers_go_to_their_requests_however_they_are_cut(size: int) -> None:
    async def play(peer: Peer) -> None:
        while True:
            answers = b"".join([answer_to(await peer.request()) for _ in range(3)])
            for at in range(0, len(answers), size):
                peer.say(answers[at : at + size])
                await asyncio.sleep(0)

    async with pool_of(play) as (server, pool):
        for first in (0, 10, 20):
            found = await sent(pool, *(post(first + number) for number in range(3)))
            assert bodies(found) == [b"/%d" % (first + number) for number in range(3)]
        assert len(server.peers) == 1, "the connection is kept"


async def test_a_refusal_is_of_its_own_request_only() -> None:
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
    error = b"HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n4\r\noops\r\n0\r\n\r\n"

    async def play(peer: Peer) -> None:
        for answer in (OK, refusal, error, OK):
            await peer.request()
            peer.say(answer)

    async with pool_of(play) as (_, pool):
        found = await sent(pool, *(post(number) for number in range(4)))
        assert [one.status for one in found if isinstance(one, Response)] == [200, 429, 500, 200]


async def test_the_answer_to_one_that_was_cancelled_goes_to_nobody() -> None:
    gate = asyncio.Event()

    has_come = asyncio.Event()

    async def play(peer: Peer) -> None:
        requests = [await peer.request() for _ in range(3)]
        has_come.set()
        await gate.wait()
        for request in requests:
            peer.say(answer_to(request))
        await answer_by_target(peer)

    async with pool_of(play) as (server, pool):
        sending = [asyncio.ensure_future(pool.send(post(number), NO_LISTENER, SECONDS)) for number in range(3)]
        await has_come.wait()
        sending[1].cancel()
        await asyncio.sleep(0)
        gate.set()
        found = await asyncio.gather(*sending, return_exceptions=True)
        assert bodies(found) == [b"/0", asyncio.CancelledError, b"/2"]
        assert bodies(await sent(pool, post(7))) == [b"/7"]
        assert len(server.peers) == 1


async def test_one_that_is_cancelled_before_it_leaves_is_not_sent() -> None:
    async with pool_of(answer_by_target) as (server, pool):
        sending = [asyncio.ensure_future(pool.send(post(number), NO_LISTENER, SECONDS)) for number in range(3)]
        asyncio.get_running_loop().call_soon(sending[0].cancel)
        found = await asyncio.gather(*sending, return_exceptions=True)
        assert bodies(found) == [asyncio.CancelledError, b"/1", b"/2"]
        assert server.requests == 1 + 2


async def test_none_leaves_once_the_fence_is_closed() -> None:
    """Ready before, sent after: what counts is the instant of the write."""
    may_write = [True]
    async with pool_of(answer_by_target, may_write=may_write) as (server, pool):
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, may_write.clear)  # after `send`, before the end of the turn
        assert bodies(await sent(pool, post(1), post(2), post(3))) == [FencedError] * 3
        assert server.requests == 1
        may_write.append(True)
        assert bodies(await sent(pool, post(4), post(5))) == [b"/4", b"/5"]
        assert len(server.peers) == 1, "refusals cost no connection"


# --- what breaks ----------------------------------------------------------------------------------------------------


def closes(peer: Peer, last_words: bytes = b"") -> None:
    peer.say(last_words)
    peer.writer.close()


BREAKS: dict[str, Callable[[Peer], None]] = {
    "reset": Peer.reset,
    "closed": closes,
    "cut-in-half": partial(closes, last_words=OK[: len(OK) // 2]),
    "not-http": partial(Peer.say, data=b"hello\r\n\r\n"),
    "says-that-it-closes": partial(closes, last_words=CLOSING),
}


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_a_broken_connection_costs_what_is_not_answered_and_nothing_is_sent_twice(
    answered: int, how: str
) -> None:
    async def play(peer: Peer) -> None:
        requests = [await peer.request() for _ in range(4)]
        for request in requests[:answered]:
            peer.say(answer_to(request))
            await peer.writer.drain()
        BREAKS[how](peer)
        await peer.reader.read()

    async with pool_of(play) as (server, pool):
        found = await sent(pool, *(post(number) for number in range(4)))
        whole = answered + (how == "says-that-it-closes")
        if how == "reset":  # it may overtake answers that were sent before it
            whole = sum(isinstance(one, Response) for one in found)
            assert whole <= answered
        assert all(isinstance(one, Response) for one in found[:whole])
        assert all(isinstance(one, OSError | MalformedResponseError) for one in found[whole:])
        assert server.requests == 1 + 4


async def test_a_late_first_answer_takes_the_pipeline_with_it_and_no_other_request() -> None:
    async def play(peer: Peer) -> None:
        if (await peer.request()).startswith(b"POST /0"):
            await peer.reader.read()  # never answers
        peer.say(OK)

    async with pool_of(play, idle=2) as (server, pool):
        late = asyncio.ensure_future(sent(pool, *(post(number) for number in range(3)), seconds=0.5))
        assert bodies(await sent(pool, post(5, "other"))) == [b"ok"]
        assert bodies(await late) == [TimeoutError] * 3
        assert pool.under_way == 0
        assert pool._pipelining.split(ready(2, "other"), 0.0)[0][1:], "nothing was broken"
        assert len(server.peers) == 2


async def test_what_a_write_in_a_broken_pipeline_means_is_what_it_means_alone() -> None:
    """Unknown to the client, for each that was not answered."""

    async def play(peer: Peer) -> None:
        await peer.request()
        peer.say(OK)
        await peer.request()
        peer.say(OK)
        peer.writer.close()

    async with (
        raw_server(play) as server,
        APIClient(plain_connection(server.url), pipeline_depth=4, busy=0) as client,
    ):
        await client.post("/warm", b"{}")
        known_to_take_them(client)
        found = await asyncio.gather(
            *(client.post(f"/{number}", b"{}", joins="team") for number in range(3)), return_exceptions=True
        )
        assert [type(one) for one in found] == [bytes, UnknownOutcomeError, UnknownOutcomeError]


# --- a server that does not take them -------------------------------------------------------------------------------


def ready(count: int, joins: str = "team") -> list[ReadyRequest]:
    loop = asyncio.new_event_loop()
    try:
        return [ReadyRequest(post(number, joins), b"", 0.0, loop.create_future()) for number in range(count)]
    finally:
        loop.close()


def sizes(pipelining: Pipelining, count: int, now: float = 0.0) -> list[int]:
    return [len(one) for one in pipelining.split(ready(count), now)]


def test_pipelines_are_as_long_as_each_other_and_keep_the_order() -> None:
    pipelining = taken(4)
    assert [sizes(pipelining, count) for count in (1, 4, 5, 9)] == [[1], [4], [3, 2], [3, 3, 3]]
    assert [one.request.target for one in pipelining.split(ready(5), 0.0)[0]] == ["/0", "/2", "/4"]


def test_the_first_pipeline_has_two_requests_and_others_wait_for_what_becomes_of_it() -> None:
    pipelining = Pipelining(4)
    assert sizes(pipelining, 5) == [2, 1, 1, 1]
    first = pipelining.began("team", 2, 0.0)
    assert sizes(pipelining, 5) == [1] * 5
    pipelining.completed(first, 0.5)
    assert sizes(pipelining, 5) == [3, 2]


def test_one_that_breaks_is_no_proof_and_two_in_a_row_are_for_a_while() -> None:
    reasons: list[str] = []
    pipelining = Pipelining(4, reasons.append)
    pipelining.broke(pipelining.began("team", 2, 0.0), "closed", 0.0)
    assert (sizes(pipelining, 4), reasons) == ([2, 1, 1], [])
    pipelining.broke(pipelining.began("team", 2, 1.0), "closed again", 1.0)
    assert (sizes(pipelining, 4, 2.0), reasons) == ([1] * 4, ["closed again"])
    assert sizes(pipelining, 4, 1.0 + PAUSE_SECONDS) == [2, 1, 1], "it is tried again"
    pipelining.broke(pipelining.began("team", 2, 1.0 + PAUSE_SECONDS), "and again", 1.0 + PAUSE_SECONDS)
    assert (sizes(pipelining, 4, 2.0 + PAUSE_SECONDS), len(reasons)) == ([1] * 4, 2)


def test_pipelines_that_break_at_the_same_time_break_once() -> None:
    """As when the API server restarts."""
    pipelining = taken(4)
    for pipeline in [pipelining.began("team", 4, 0.0) for _ in range(8)]:
        pipelining.broke(pipeline, "reset", 0.0)
    assert sizes(pipelining, 4) == [2, 1, 1]


def test_an_answer_that_does_not_come_in_time_says_nothing_of_pipelines() -> None:
    reasons: list[str] = []
    pipelining = Pipelining(4, reasons.append)
    for number in range(5):
        pipelining.timed_out(pipelining.began(f"team-{number}", 2, 0.0), 50.0)
    assert (sizes(pipelining, 4, 50.0), reasons) == ([2, 1, 1], [])


def test_where_a_pipeline_takes_long_its_like_leave_alone_for_a_minute() -> None:
    """Side by side they would be answered sooner; whether it has come to its end or not."""
    pipelining = taken(4)
    late = pipelining.began("team", 4, 0.0)
    assert sizes(pipelining, 4, SLOW_SECONDS) == [4]
    assert sizes(pipelining, 4, SLOW_SECONDS + 0.1) == [1] * 4
    assert [len(one) for one in pipelining.split(ready(4, "other"), 2.0)] == [4], "others are not concerned"
    pipelining.completed(late, 30.0)
    assert sizes(pipelining, 4, 29.0 + ALONE_SECONDS) == [1] * 4
    assert sizes(pipelining, 4, 30.0 + ALONE_SECONDS) == [4]


def test_a_pipeline_that_was_slow_without_company_is_noticed_at_its_end() -> None:
    pipelining = taken(4)
    pipelining.completed(pipelining.began("team", 4, 0.0), 1.5)
    assert sizes(pipelining, 4, 2.0) == [1] * 4


async def test_a_server_that_does_not_take_pipelines_is_noticed_and_said() -> None:
    """It closes after each answer that others are behind; each alone goes as ever."""

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            await asyncio.sleep(0)
            is_alone = not peer.reader._buffer  # type: ignore[attr-defined]  # what a server without pipelines sees
            peer.say(OK if is_alone else CLOSING)
            if not is_alone:
                return

    async with (
        raw_server(play) as server,
        APIClient(plain_connection(server.url), pipeline_depth=4, busy=0) as client,
    ):
        unknown = 0
        with structlog.testing.capture_logs() as lines:
            for _ in range(6):
                await client.post("/warm", b"{}")
                found = await asyncio.gather(
                    *(client.post("/x", b"{}", joins="team") for _ in range(4)), return_exceptions=True
                )
                unknown += sum(isinstance(one, UnknownOutcomeError) for one in found)
        assert unknown == MOST_BROKEN, "one request of each that was tried"
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == ["pipelines_given_up"]


# --- Bindings -------------------------------------------------------------------------------------------------------


class FaultyAPIServer:
    """Binds pods as the API server does, and breaks pipelines: what it has applied and what it says are two things."""

    def __init__(self, plan: list[tuple[int, int, str]]) -> None:
        """Of each pipeline in turn: how many are applied, how many are answered, and how it breaks."""
        self.plan = plan
        self.bound: dict[str, str] = {}
        self.applied = 0

    async def play(self, peer: Peer) -> None:
        while True:
            requests = [await peer.request()]
            await asyncio.sleep(0)
            while peer.reader._buffer:  # type: ignore[attr-defined]  # those of the same write
                requests.append(await peer.request())
            applied, answered, how = len(requests), len(requests), ""
            if len(requests) > 1 and self.plan:
                applied, answered, how = self.plan.pop(0)
            answers = [self.answer(request) for request in requests[:applied]]
            for answer in answers[:answered]:
                peer.say(answer)
            if how:
                BREAKS[how](peer)
                return

    def answer(self, request: bytes) -> bytes:
        verb, target, _ = request.split(b" ", 2)
        name = target.decode().split("/")[6]
        if verb == b"GET":
            meta = {"name": name, "namespace": "ns", "uid": f"uid-of-{name}"}
            spec = {"containers": [], **({"nodeName": self.bound[name]} if name in self.bound else {})}
            return whole(200, {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec})
        binding = msgspec.json.decode(request.partition(b"\r\n\r\n")[2])
        assert binding["metadata"]["uid"] == f"uid-of-{name}"
        if name in self.bound:
            return whole(409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "already assigned"})
        self.bound[name] = binding["target"]["name"]
        self.applied += 1
        return whole(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})


def whole(status: int, body: object) -> bytes:
    data = msgspec.json.encode(body)
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        len(data),
        data,
    )


PLANS = {
    "applied-and-not-answered": [(3, 0, "reset"), (2, 0, "closed")],
    "applied-in-part": [(2, 1, "closed"), (1, 1, "closed")],
    "neither": [(0, 0, "reset"), (0, 0, "closed")],
    "an-answer-cut-in-half": [(3, 1, "cut-in-half"), (1, 0, "cut-in-half")],
    "closes-after-the-first": [(1, 1, "closed"), (4, 1, "closed")],
    "garbage": [(3, 2, "not-http"), (2, 1, "not-http")],
}


@pytest.mark.parametrize("plan", PLANS)
async def test_each_pod_is_bound_once_whatever_breaks(plan: str) -> None:
    """What is unknown is settled by reading the pod, as for a Binding that left alone."""
    api = FaultyAPIServer(list(PLANS[plan]))
    throttled: list[APIError] = []
    async with (
        raw_server(api.play) as server,
        APIClient(plain_connection(server.url), pipeline_depth=4, busy=0) as client,
    ):
        writer = BindingWriter(
            PodWriter(client), REAL_CLOCK, Observations(), lambda _, refusal: throttled.append(refusal)
        )
        await asyncio.gather(*(client.get(f"/api/v1/namespaces/ns/pods/warm-{number}") for number in range(2)))
        known_to_take_them(client)
        pods = [make_pod(f"p{number}", namespace="ns") for number in range(12)]
        assert {pod.metadata.uid for pod in pods} == {f"uid-of-p{number}" for number in range(12)}
        statuses = await asyncio.gather(*(writer.bind(pod, f"node-{pod.metadata.name}") for pod in pods))
        assert all(status.is_success for status in statuses)
        assert not api.plan, "all of the plan was played"
    assert api.bound == {f"p{number}": f"node-p{number}" for number in range(12)}
    assert api.applied == 12, "each was applied once"
