"""A leader that loses its lease again and again, at any moment: it goes on in the same process, and nothing is lost."""

import asyncio
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import structlog

from kscheduler.api.kinds import DEVICE_TAINT_RULES
from kscheduler.api.kinds import NODES as NODES_KIND
from kscheduler.client.access.connection import plain_connection
from kscheduler.config.durations import seconds
from kscheduler.config.loader import LoadedConfig
from kscheduler.election import LeaseLostError, Role
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.embedded.objects.store import Change
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from kscheduler.service import terms as terms_module
from kscheduler.service.leadership import EarlierTerm
from kscheduler.service.signals import Stop
from kscheduler.service.terms import run_in_terms
from tests.builders import node_tree, pod_tree
from tests.effort import IS_LONG
from tests.service.running import SECONDS, node_of, put
from tests.service.test_followed_version import reading
from tests.service.test_leader_election import config, holder

TERMS = pytest.mark.slow("terms of a leader end and begin on real clocks")

SHORT = config(leaseDuration=seconds(1.2), renewDeadline=seconds(0.8), retryPeriod=seconds(0.15))
CPUS = 4
NODES = 6


class Process:
    """Terms of one process, one after the other."""

    def __init__(self, server: EmbeddedAPIServer, loaded: LoadedConfig = SHORT, **more: Any) -> None:
        self.ended: list[str] = []
        """What would have ended the process at once."""
        self.apps: list[App] = []
        self.earlier: list[EarlierTerm | None] = []
        self._connection = plain_connection(server.url)
        more.setdefault("serving", HTTPServing.plain_on_loopback())
        self.options = Options(loaded, end_at_once=self.ended.append, **more)
        self.stop = Stop()

    def begin(self, options: Options, earlier: EarlierTerm | None) -> App:
        self.earlier.append(earlier)
        self.apps.append(App(options, self._connection, None, earlier))
        return self.apps[-1]

    @property
    def role(self) -> Role | None:
        election = self.apps[-1].parts.election if self.apps else None
        return election.statistics().role if election is not None else None

    async def until(self, role: Role, term: int) -> None:
        async with asyncio.timeout(SECONDS):
            while len(self.apps) < term or self.role is not role:  # noqa: ASYNC110  # a state that tells nobody
                await asyncio.sleep(0.005)


@asynccontextmanager
async def running(process: Process) -> AsyncIterator["asyncio.Task[None]"]:
    """The process, until the block ends."""
    task = asyncio.create_task(run_in_terms(process.begin, process.options, process.stop))
    try:
        yield task
    finally:
        process.stop.set()
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({task})


def without_leases(server: EmbeddedAPIServer) -> None:
    """The lease cannot be renewed; all else works."""
    for method in ("PUT", "GET"):
        server.faults.add(InjectedFault("answer", method=method, path="*/leases/*"))


class ShadowEvaluator:
    """Reads each change of the API server's pods: Bindings, and room on nodes at each moment."""

    def __init__(self, server: EmbeddedAPIServer) -> None:
        self.bound: dict[str, str] = {}
        self.wrongs: list[str] = []
        self._room = Counter[str]()
        server.store.subscribe("pods", self._on_change)

    def _on_change(self, change: Change) -> None:
        tree = change.record.value
        name, node = tree["metadata"]["name"], tree["spec"].get("nodeName") or ""
        if not node or self.bound.get(name) == node:
            return
        if name in self.bound:
            self.wrongs.append(f"{name} was bound to {self.bound[name]}, then to {node}")
        self.bound[name] = node
        self._room[node] += 1
        if self._room[node] > CPUS:
            self.wrongs.append(f"{node} has {self._room[node]} pods")


def in_cache(app: App, names: Iterable[str]) -> dict[str, str]:
    """The node that the cache has each pod on."""
    return {name: app.parts.assembly.cache.node_of(f"uid-of-{name}") for name in names}


@TERMS
@pytest.mark.parametrize("seed", range(20 if IS_LONG else 2))
async def test_whenever_the_lease_is_lost_no_pod_is_lost_bound_twice_or_given_room_that_is_taken(seed: int) -> None:
    """Bindings are slow, or their answers are lost; there is room for all pods, and not for one more."""
    rng = random.Random(seed)
    async with EmbeddedAPIServer(seed=seed) as server:
        for number in range(NODES):
            put(server, "nodes", node_tree(f"n{number}", cpu=str(CPUS)))
        judge, process = ShadowEvaluator(server), Process(server)
        async with running(process) as task:
            for term in range(1, 5):
                await process.until(Role.LEADING, term)
                slow = InjectedFault("delay", method="POST", path="*/binding", probability=0.5, seconds=rng.random())
                lost = InjectedFault("apply_then_reset", method="POST", path="*/binding", probability=0.3)
                server.faults.add(slow)
                server.faults.add(lost)
                await asyncio.sleep(rng.random() * 0.2)
                without_leases(server)
                for number in range(CPUS * NODES // 4):
                    put(server, "pods", pod_tree(f"p{term}-{number}", requests={"cpu": "1"}))
                    await asyncio.sleep(rng.random() * 0.1)
                await process.until(Role.FOLLOWING, term + 1)
                server.faults.clear()
            await process.until(Role.LEADING, 5)
            async with asyncio.timeout(SECONDS):
                while len(judge.bound) < CPUS * NODES:  # noqa: ASYNC110  # until all are bound
                    await asyncio.sleep(0.01)
            assert judge.wrongs == []
            async with asyncio.timeout(SECONDS):  # the watch tells of the last ones
                while in_cache(process.apps[-1], judge.bound) != judge.bound:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert not task.done()
            assert process.ended == []
        task.result()
        # All of one process: one identity, and each term began with the objects of the one before.
        identities = {
            app.parts.election.statistics().identity for app in process.apps if app.parts.election is not None
        }
        assert len(identities) == 1
        assert all(earlier is not None and "pods" in earlier.views for earlier in process.earlier[1:])


async def test_what_could_be_watched_on_is_not_listed_again() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("n"))
        process = Process(server)
        async with running(process):
            await process.until(Role.LEADING, 1)
            without_leases(server)
            await process.until(Role.FOLLOWING, 2)
            put(server, "nodes", node_tree("m"))  # before the watch is open again, or after
            server.faults.clear()
            await process.until(Role.LEADING, 2)
            informers = {found.resource: found for found in process.apps[-1].parts.informers.statistics()}
            async with asyncio.timeout(SECONDS):
                while process.apps[-1].parts.informers.informer(NODES_KIND).store.get("m") is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert informers["nodes"].relists == {}
            assert informers["pods"].relists in ({}, {"new leader": 1})  # `catch_up`


async def test_a_process_starts_once_and_keeps_its_certificate() -> None:
    """Clients that noted the certificate of the HTTPS port, and counts of starts, see one process."""
    async with EmbeddedAPIServer(seed=1) as server:
        process = Process(server, serving=HTTPServing(secure_port=0, bind_address="127.0.0.1"))
        with structlog.testing.capture_logs() as lines:
            async with running(process):
                served = []
                for term in (1, 2):
                    await process.until(Role.LEADING, term)
                    port = process.apps[-1].server.port
                    served.append(await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port)))
                    if term == 1:
                        without_leases(server)
                        await process.until(Role.FOLLOWING, 2)
                        server.faults.clear()
        assert served[0] == served[1]
        said = Counter(line["event"] for line in lines)
        assert (said["following_again"], said["starting"], said["self_signed_certificate_made"]) == (1, 1, 1)


async def test_its_end_tells_uptime_and_bound_pods_of_all_terms() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("n"))
        put(server, "pods", pod_tree("first"))
        process = Process(server)
        with structlog.testing.capture_logs() as lines:
            async with running(process):
                began = time.monotonic()
                await process.until(Role.LEADING, 1)
                async with asyncio.timeout(SECONDS):
                    while not process.apps[0].service_log.bound:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                without_leases(server)
                await process.until(Role.FOLLOWING, 2)
                server.faults.clear()
                await process.until(Role.LEADING, 2)
                ran = time.monotonic() - began
        assert process.apps[1].parts.process_began == process.apps[0].parts.process_began
        (stopped,) = (line for line in lines if line["event"] == "stopped")
        assert stopped["uptime_seconds"] >= round(ran, 3)
        assert stopped["bound"] == 1


async def test_a_term_knows_what_the_one_before_was_reported_of_the_server() -> None:
    """Its version, and which resources it does not serve: neither is asked for again before the first decision."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("n"))
        process = Process(server, read_under=reading())
        async with running(process):
            await process.until(Role.LEADING, 1)
            absent = process.apps[0].parts.informers.informer(DEVICE_TAINT_RULES)
            assert absent.resting, "a server of 1.36 has no such rules"
            without_leases(server)
            await process.until(Role.FOLLOWING, 2)
            server.faults.clear()
            for path in ("/version", "/apis/resource.k8s.io/*"):
                server.faults.add(InjectedFault("answer", method="GET", path=path, code=503))
            put(server, "pods", pod_tree("late"))
            async with asyncio.timeout(SECONDS):
                while node_of(server, "late") != "n":  # noqa: ASYNC110  # until it is bound
                    await asyncio.sleep(0.01)
            app = process.apps[-1]
            assert app.followed_version.why.startswith("the API server is v1.36")
            assert app.parts.informers.informer(DEVICE_TAINT_RULES).resting


async def test_a_signal_during_the_end_of_a_term_ends_the_process_in_order() -> None:
    """And the log says `stopped` of the process alone: an error `stopped` of a term was taken for its end."""
    with structlog.testing.capture_logs() as lines:
        async with EmbeddedAPIServer(seed=1) as server:
            process = Process(server)
            async with running(process) as task:
                await process.until(Role.LEADING, 1)
                without_leases(server)
                await process.until(Role.FOLLOWING, 2)
                process.stop.set()
                async with asyncio.timeout(SECONDS):
                    await task
    reported = [line for line in lines if line["event"] in {"lease_lost", "term_ended", "following_again", "stopped"}]
    assert [line["event"] for line in reported] == ["lease_lost", "term_ended", "following_again", "stopped"]
    assert [line["log_level"] for line in reported] == ["error", "info", "info", "info"]
    assert reported[1]["reason"].startswith("lost the lease kube-system/kscheduler: ")


async def test_a_task_that_does_not_end_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin's own, which ignores its cancellation: nobody knows what it would do in the next term."""
    monkeypatch.setattr(terms_module, "END_SECONDS", 0.1)
    deaf = True

    async def ignores_cancellation() -> None:
        while deaf:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    async with EmbeddedAPIServer(seed=1) as server:
        process = Process(server)
        async with running(process) as task:
            await process.until(Role.LEADING, 1)
            loop = asyncio.get_running_loop()
            beside: list[asyncio.Task[None]] = []
            loop.call_soon(lambda: beside.append(loop.create_task(ignores_cancellation())))
            await asyncio.sleep(0.01)
            without_leases(server)
            with pytest.raises(LeaseLostError):
                async with asyncio.timeout(SECONDS):
                    await task
            deaf = False
            await asyncio.wait(beside)
            assert len(process.apps) == 1
            assert holder(server)
