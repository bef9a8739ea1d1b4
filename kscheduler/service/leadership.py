"""Builds the election of a service: its fence, its own connection, its watchdog; none where `leaderElect` is off."""

import socket
import uuid
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.client.access.connection import Connection
from kscheduler.client.events.recorder import EventRecorder
from kscheduler.client.reachability import APIServerReachability
from kscheduler.client.rest import APIClient
from kscheduler.config.types import LeaderElectionConfiguration
from kscheduler.election import Election, Elector, Fence, Timing, boot_time
from kscheduler.election.announcements import Announcements
from kscheduler.election.lease_client import LeaseClient
from kscheduler.election.watchdog import Watchdog
from kscheduler.informers.factory import KnownState
from kscheduler.server.tls.serving_contexts import MadePair
from kscheduler.service.options import Options

# The watch has a connection of its own; one request at a time, and another while a broken connection is closed.
LEASE_CONNECTIONS: Final = 2


class EarlierTerm(msgspec.Struct, frozen=True):
    """What a process that has lost its lease goes on with: what it has seen, and nothing that it has begun."""

    options: Options
    """With the configuration that was in force."""
    elector: Elector
    views: Mapping[str, KnownState]
    """By resource; the others are listed again."""
    reachability: APIServerReachability
    """An outage goes on."""
    process_began: float
    """When the first term began, in monotonic seconds."""
    server_version: str
    """What the API server told last; empty or `unknown`: nothing."""
    bound: int
    """How many pods the process has bound so far."""
    certificate: MadePair | None
    """What the HTTPS port serves where no files are given: it stays the same for clients that have noted it."""


class Leadership:
    """An election, and the connection that nothing else uses: a lease must not wait behind ten thousand binds."""

    def __init__(
        self,
        options: Options,
        connection: Connection,
        reachability: APIServerReachability,
        fence: Fence,
        elector: Elector | None = None,
    ) -> None:
        """`elector`: of a process that has led before."""
        self._elector = elector
        self._settings = options.config.configuration.leader_election
        self._controller = options.config.configuration.profiles[0].scheduler_name
        self._options = options
        self.fence = fence
        self.client = APIClient(
            connection, max_connections=LEASE_CONNECTIONS, clock=options.clock, reachability=reachability
        )

    def election(self, recorder: EventRecorder) -> Election:
        """The election; its Events go through `recorder`, whose connections no fence closes."""
        settings, clock = self._settings, self._options.clock
        elector = self._elector or Elector(f"{socket.gethostname()}_{uuid.uuid4()}", timing_of(settings))
        place = settings.resource_namespace, settings.resource_name
        now = clock_of(clock)
        return Election(
            elector,
            LeaseClient(self.client, *place, silence_seconds=settings.renew_deadline.seconds),
            self.fence,
            Watchdog(now, self._options.end_at_once),
            Announcements(*place, elector.identity, recorder, self._controller, clock),
            clock,
            now,
        )


def fence_of(options: Options) -> Fence | None:
    """The fence for all writes of the scheduler; `None` without election."""
    if not options.config.configuration.leader_election.leader_elect:
        return None
    return Fence(clock_of(options.clock), options.clock)


def clock_of(clock: Clock) -> Callable[[], float]:
    """What the lease is measured with: suspension counts, except on a virtual clock."""
    return boot_time if clock is REAL_CLOCK else clock.monotonic


def timing_of(settings: LeaderElectionConfiguration) -> Timing:
    """The configured times in seconds."""
    return Timing(settings.lease_duration.seconds, settings.renew_deadline.seconds, settings.retry_period.seconds)
