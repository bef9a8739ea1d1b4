"""An API server that has nothing but one Lease, in virtual time, and candidates on it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from kscheduler.aio.clock import VirtualClock
from kscheduler.client.errors import APIError, APIStatus, ClientError, NetworkError
from kscheduler.client.events.recorder import EventReference
from kscheduler.election.announcements import Announcements
from kscheduler.election.election import Election
from kscheduler.election.fence import Fence
from kscheduler.election.lease import StoredLease
from kscheduler.election.rules import Elector, Timing, Write
from kscheduler.election.watchdog import Watchdog

# Method to the error of this request; `None`: it works.
Fault = Callable[[str], ClientError | None]


def refusal(code: int, message: str = "no") -> APIError:
    return APIError(APIStatus(kind="Status", code=code, message=message))


class LeaseServer:
    """One Lease with versions, watches and a log of the requests."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.stored: StoredLease | None = None
        self.version = 0
        self.requests: list[tuple[float, str, str]] = []
        """Time, identity and method."""
        self.watchers: list[asyncio.Queue[StoredLease | ClientError | None]] = []

    def put(self, lease: StoredLease | None) -> None:
        self.stored = lease
        for watcher in self.watchers:
            watcher.put_nowait(lease)

    def write(self, step: Write) -> StoredLease:
        if (step.over and step.over.version) != (self.stored and self.stored.version):
            raise refusal(409)
        self.version += 1
        metadata = {"name": "x", "namespace": "ns", "uid": "u"}
        lease = StoredLease(step.record, str(self.version), metadata)
        self.put(lease)
        return lease

    def end_watches(self, failure: ClientError | None = None) -> None:
        """All watches end: in order, or broken."""
        for watcher in self.watchers:
            watcher.put_nowait(failure or NetworkError("cut"))


@dataclass
class Link:
    """A candidate's connection: its faults, and how long each request takes."""

    server: LeaseServer
    identity: str
    name: str = "x"
    fault: Fault = lambda _method: None
    seconds: float = 0.0
    can_watch: bool = True
    watch_refusal: ClientError = field(default_factory=lambda: refusal(403, "cannot watch resource leases"))
    loses_answers: int = 0
    """Of so many writes, which are applied."""

    async def _request(self, method: str, timeout_seconds: float) -> None:
        self.server.requests.append((self.server.clock.monotonic(), self.identity, method))
        if self.seconds > timeout_seconds:
            await self.server.clock.sleep(timeout_seconds)
            raise NetworkError("no answer in time")
        if self.seconds:
            await self.server.clock.sleep(self.seconds)
        failure = self.fault(method)
        if failure is not None:
            raise failure

    async def read(self, timeout_seconds: float) -> StoredLease | None:
        await self._request("GET", timeout_seconds)
        return self.server.stored

    async def write(self, write: Write) -> StoredLease:
        await self._request("POST" if write.over is None else "PUT", write.timeout_seconds)
        written = self.server.write(write)
        if self.loses_answers:
            self.loses_answers -= 1
            await self.server.clock.sleep(write.timeout_seconds)
            raise NetworkError("no answer in time")
        return written

    async def watch(self) -> AsyncGenerator[StoredLease | None]:
        if not self.can_watch:
            raise self.watch_refusal
        queue: asyncio.Queue[StoredLease | ClientError | None] = asyncio.Queue()
        self.server.watchers.append(queue)
        try:
            if self.server.stored is not None:
                yield self.server.stored
            while True:
                change = await queue.get()
                if isinstance(change, ClientError):
                    raise change
                yield change
        finally:
            if queue in self.server.watchers:
                self.server.watchers.remove(queue)


@dataclass
class RecordedRun:
    """The Events of an election."""

    notes: list[str] = field(default_factory=list)

    def record(
        self,
        regarding: EventReference,
        *,
        type: str,  # noqa: A002
        reason: str,
        action: str,
        note: str,
        reporting_controller: str,
    ) -> None:
        assert (regarding.kind, type, reason, action) == ("Lease", "Normal", "LeaderElection", "LeaderElection")
        assert reporting_controller == "profile"
        self.notes.append(note)


@dataclass
class Candidate:
    """An election with everything around it."""

    election: Election
    link: Link
    fence: Fence
    events: RecordedRun
    ended: list[str]
    """Reasons for which the watchdog would have ended the process."""


def candidate(
    server: LeaseServer,
    identity: str,
    timing: Timing | None = None,
    now: Callable[[], float] | None = None,
) -> Candidate:
    clock, link, events, ended = server.clock, Link(server, identity), RecordedRun(), list[str]()
    now = now or clock.monotonic
    fence = Fence(now, clock)
    election = Election(
        Elector(identity, timing or Timing(), lambda: 0.0),
        link,
        fence,
        Watchdog(now, ended.append),
        Announcements("ns", "x", identity, events, "profile", clock),
        clock,
        now,
    )
    return Candidate(election, link, fence, events, ended)
