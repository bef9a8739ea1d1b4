"""Never two processes that may write, whatever happens to requests, answers, watches and processes.

A machine of three candidates with clocks of different speed and one Lease. Requests arrive late, twice as late as their
sender waits for, or never; answers are lost; the watch brings old states; processes stand still for any time (no rule
makes anybody act), end and are replaced. What must hold: at each moment at most one of them is within its right to
write, by its own clock. And when the network is good again, one of them leads within a lease's duration.
"""

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kscheduler.election.lease import StoredLease
from kscheduler.election.rules import Elector, GiveUp, Read, RequestFailure, Role, Timing, Write

TIMING = Timing(15.0, 10.0, 2.0)
# Their ratio stays below leaseDuration / renewDeadline: what the margin is for.
SPEEDS = (0.85, 1.0, 1.2)
CANDIDATES = 3
CANDIDATE = st.integers(0, CANDIDATES - 1)


@dataclass
class Request:
    """A request on its way: to the server, or its answer back."""

    step: Read | Write
    sent_at: float
    is_settled: bool = False
    found: StoredLease | None = None
    is_conflict: bool = False


@dataclass
class Candidate:
    """A process and its clock."""

    elector: Elector
    speed: float
    offset: float
    request: Request | None = None
    may_lead_from: float = float("-inf")
    """By its clock: a process that has lost the lease waits as long as any other would have to."""

    def clock(self, time: float) -> float:
        return self.offset + time * self.speed


@dataclass
class Server:
    """The API server, as far as a Lease is concerned."""

    stored: StoredLease | None = None
    history: list[StoredLease] = field(default_factory=list)

    def settle(self, request: Request) -> None:
        """Carry a request out, as soon or late as it arrives."""
        request.is_settled = True
        step = request.step
        if isinstance(step, Read):
            request.found = self.stored
            return
        if (step.over and step.over.version) != (self.stored and self.stored.version):
            request.is_conflict = True
            return
        self.stored = request.found = StoredLease(step.record, str(len(self.history) + 1), {"uid": "u"})
        self.history.append(self.stored)


class OneLeader(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.server = Server()
        self.candidates: list[Candidate] = []
        self.late: list[Request] = []
        """Writes that their senders have given up, and that may still arrive."""
        self.released: list[Candidate] = []
        """Processes that have released the lease and still run: they may not write either."""
        self.processes = 0

    @initialize(speeds=st.lists(st.sampled_from(SPEEDS), min_size=CANDIDATES, max_size=CANDIDATES))
    def start(self, speeds: list[float]) -> None:
        self.candidates = [Candidate(self.fresh(), speed, 1000.0 * number) for number, speed in enumerate(speeds)]

    def fresh(self) -> Elector:
        self.processes += 1
        return Elector(f"process-{self.processes}", TIMING, lambda: 0.0)

    def wall(self) -> float:
        return 1_790_000_000.0 + self.time

    # --- what may happen ----------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.5, 2.0, 4.0, 7.9, 10.0, 15.0, 18.0]))
    def time_passes(self, seconds: float) -> None:
        self.time += seconds

    @rule(number=CANDIDATE)
    def time_passes_until_a_lease_expires(self, number: int) -> None:
        """For one follower: the moment at which a mistake of the rules would show."""
        candidate = self.candidates[number]
        self.time += candidate.elector.expires_in(candidate.clock(self.time)) / candidate.speed + 1e-6

    @rule(number=CANDIDATE, goes_on=st.booleans())
    def act(self, number: int, goes_on: bool = True) -> None:
        """A candidate that waits for no answer does what its rules say. One that has lost goes on, or is started again.

        What it has sent as a leader may still arrive, in the next term as well.
        """
        candidate = self.candidates[number]
        if candidate.request is not None:
            return
        now = candidate.clock(self.time)
        step = candidate.elector.step(now, self.wall())
        if isinstance(step, GiveUp) and goes_on and candidate.elector.role is Role.LOST:
            candidate.may_lead_from = candidate.elector.renewed_at + TIMING.lease_duration
            candidate.elector = candidate.elector.next_term()
        elif isinstance(step, GiveUp):
            candidate.elector = self.fresh()
        elif isinstance(step, Read | Write):
            candidate.request = Request(step, now)

    @rule(number=CANDIDATE)
    def arrives(self, number: int) -> None:
        request = self.candidates[number].request
        if request is not None and not request.is_settled:
            self.server.settle(request)

    @rule(number=CANDIDATE)
    def is_known(self, number: int) -> None:
        candidate = self.candidates[number]
        request = candidate.request
        if request is None or not request.is_settled:
            return
        candidate.request = None
        if request.is_conflict:
            candidate.elector.failed(RequestFailure.CONFLICT, candidate.clock(self.time))
        elif isinstance(request.step, Read):
            candidate.elector.saw(request.found, candidate.clock(self.time))
        else:
            assert request.found is not None
            candidate.elector.wrote(request.found, request.sent_at)

    @rule(number=CANDIDATE)
    def answer_is_lost(self, number: int) -> None:
        candidate = self.candidates[number]
        request, candidate.request = candidate.request, None
        if request is None:
            return
        candidate.elector.failed(RequestFailure.FAILED, candidate.clock(self.time))
        if isinstance(request.step, Write) and not request.is_settled:
            self.late.append(request)

    @precondition(lambda self: self.late)
    @rule(pick=st.integers(0, 1_000_000))
    def a_given_up_write_arrives(self, pick: int) -> None:
        self.server.settle(self.late.pop(pick % len(self.late)))

    @precondition(lambda self: self.server.history)
    @rule(number=CANDIDATE, back=st.integers(0, 3))
    def the_watch_brings(self, number: int, back: int) -> None:
        """A state of the Lease, perhaps an old one. Only followers watch."""
        candidate, history = self.candidates[number], self.server.history
        if candidate.elector.role is Role.FOLLOWING:
            candidate.elector.saw(history[max(0, len(history) - 1 - back)], candidate.clock(self.time))

    @rule(number=CANDIDATE)
    def is_killed(self, number: int) -> None:
        candidate = self.candidates[number]
        self.answer_is_lost(number)
        candidate.elector, candidate.may_lead_from = self.fresh(), float("-inf")

    @rule(number=CANDIDATE)
    def is_released(self, number: int) -> None:
        """An orderly end: the release is on its way like any other write, and a fresh process takes the place."""
        candidate = self.candidates[number]
        if candidate.request is not None or candidate.elector.role is not Role.LEADING:
            return
        candidate.elector.stop_leading()
        write = candidate.elector.release(self.wall())
        if write is not None:
            self.late.append(Request(write, candidate.clock(self.time)))
        self.released.append(replace(candidate))
        candidate.elector = self.fresh()

    @rule(number=CANDIDATE)
    def all_is_well_for_one(self, number: int) -> None:
        """A request there and back at once, so that leaders come to be."""
        self.act(number)
        self.arrives(number)
        self.is_known(number)

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def at_most_one_may_write(self) -> None:
        writers = [
            candidate.elector.identity
            for candidate in (*self.candidates, *self.released)
            if candidate.clock(self.time) < candidate.elector.may_write_until
        ]
        assert len(writers) <= 1, writers

    @invariant()
    def no_term_begins_before_another_process_could_have_begun(self) -> None:
        for candidate in self.candidates:
            if candidate.elector.role is Role.LEADING:
                assert candidate.elector.renewed_at >= candidate.may_lead_from

    def teardown(self) -> None:
        """With a good network one of them leads soon, and stays the only one."""
        if not self.candidates:
            return
        end = self.time + (TIMING.lease_duration + 3 * TIMING.retry_period) / min(SPEEDS)
        while self.time < end:
            for number in range(CANDIDATES):
                self.all_is_well_for_one(number)
                self.at_most_one_may_write()
            self.time += 0.5
        roles = [candidate.elector.role for candidate in self.candidates]
        assert roles.count(Role.LEADING) == 1, roles


TestOneLeader = OneLeader.TestCase
TestOneLeader.settings = settings(stateful_step_count=60, deadline=None)
