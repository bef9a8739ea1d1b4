"""The clock of `make bench-real`: what a watch tells, when a scheduler is given up, and why."""

import json

import aiohttp
import msgspec
import pytest
from aiohttp import web

from benchmarks.real.clock import Clock, binds_per_second, percentile
from benchmarks.real.run import Size, given_up, why
from benchmarks.real.watch import EMPTY_WATCHES, follow

SIZE = Size(nodes=10, pods=3, arrivals=0, arrivals_per_second=1.0, patience_seconds=60.0, limit_seconds=300.0)


def line(name: str, version: str, node: str | None = None) -> bytes:
    spec = {} if node is None else {"nodeName": node}
    return json.dumps(
        {"type": "ADDED", "object": {"metadata": {"name": name, "resourceVersion": version}, "spec": spec}}
    ).encode()


def test_only_the_first_sight_of_a_bound_pod_counts() -> None:
    clock = Clock()
    assert clock.see(line("a", "7"), 1.0) == "7"
    clock.see(line("a", "8", "node"), 2.0)
    clock.see(line("a", "9", "node"), 3.0)
    assert (clock.added, clock.bound, clock.last_bind()) == ({"a": 1.0}, {"a": 2.0}, 2.0)


def test_a_line_that_is_no_pod_is_an_error() -> None:
    with pytest.raises(msgspec.ValidationError):
        Clock().see(b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410}}', 1.0)


def test_latency_runs_from_the_sending_to_the_bind_and_leaves_out_what_is_not_bound() -> None:
    clock = Clock(sent={"a": 1.0, "b": 2.0, "c": 3.0}, bound={"b": 2.5, "a": 1.25})
    assert clock.latencies(["a", "b", "c"]) == [250.0, 500.0]


@pytest.mark.parametrize(
    ("times", "speed"),
    [([], 0.0), ([5.0], 0.0), ([5.0, 5.0], 0.0), ([7.0, 5.0, 6.0], 1.0)],
    ids=["none", "one", "all at once", "in any order"],
)
def test_the_first_bind_starts_the_clock_of_the_others(times: list[float], speed: float) -> None:
    assert binds_per_second(times) == speed


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert [percentile(range(1, 101), p) for p in (0, 50, 99, 100)] == [1, 50, 99, 100]


@pytest.mark.parametrize(
    ("bound", "now", "is_running", "said"),
    [
        pytest.param({}, 59.0, True, "", id="it may still start"),
        pytest.param({}, 61.0, True, "no bind for 60 s, 0 of 3 pods bound", id="it never began"),
        pytest.param({"a": 50.0}, 109.0, True, "", id="it goes on"),
        pytest.param({"a": 50.0}, 111.0, True, "no bind for 60 s, 1 of 3 pods bound", id="it stopped"),
        pytest.param({"a": 299.0}, 301.0, True, "not ready after 300 s, 1 of 3 pods bound", id="it crawls"),
        pytest.param({"a": 1.0}, 2.0, False, "its process has ended, 1 of 3 pods bound", id="it ended"),
    ],
)
def test_a_scheduler_is_given_up_for_a_reason(bound: dict[str, float], now: float, is_running: bool, said: str) -> None:
    assert given_up(Clock(bound=bound), 0.0, now, SIZE, is_running=is_running) == said


def test_why_reports_the_most_frequent_conditions_of_waiting_pods() -> None:
    condition = {"type": "PodScheduled", "message": "0/10 nodes are available"}
    waiting = [{"spec": {}, "status": {"conditions": [condition]}}] * 2
    other = {"spec": {}, "status": {"conditions": [{"type": "PodScheduled", "message": "rare"}]}}
    bound = {"spec": {"nodeName": "n"}, "status": {"conditions": [condition]}}
    assert why([other, *waiting, bound]) == "2 pods: 0/10 nodes are available; 1 pods: rare"
    assert why([{"spec": {}}]) == "1 pods wait and have no condition"


class Watches:
    """An API server whose watches each tell the lines after the version that is asked for, two at most, and end."""

    def __init__(self, lines: dict[str, bytes]) -> None:
        self.lines = lines
        self.queried: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        version = request.query["resourceVersion"]
        self.queried.append(version)
        later = [text for number, text in self.lines.items() if int(number) > int(version)]
        return web.Response(body=b"".join(text + b"\n" for text in later[:2]))


async def followed(lines: dict[str, bytes]) -> tuple[Watches, Clock]:
    """What is asked for, and seen, until the server has had nothing new for many watches."""
    server, clock = Watches(lines), Clock()
    application = web.Application()
    application.router.add_get("/pods", server.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with aiohttp.ClientSession(f"http://{host}:{port}") as http:
            with pytest.raises(RuntimeError, match="ends each watch"):
                await follow(http, "/pods", "0", clock.see)
    finally:
        await runner.cleanup()
    return server, clock


async def test_a_watch_that_is_cut_goes_on_where_it_was_and_one_that_reports_nothing_is_given_up() -> None:
    lines = {str(number): line(f"pod-{number}", str(number), "node") for number in range(1, 6)}
    server, clock = await followed(lines)
    assert server.queried == ["0", "2", "4"] + ["5"] * EMPTY_WATCHES
    assert list(clock.bound) == [f"pod-{number}" for number in range(1, 6)]
