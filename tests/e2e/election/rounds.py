"""Fail-overs one after the other, and what the API server says of them.

    the fault -> the first Binding of the other replica -> the old leader ends and starts again -> no pod waits

What is measured is the time from the fault to that Binding, as the API server's audit log has it.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.controlplane.process import NotReadyError, wait_until
from tests.e2e.election.audit_log import AuditLog, Request, bound_twice, leader, writes_by_others
from tests.e2e.election.flow import Flow, ResourceCapacity
from tests.e2e.election.replicas import Fault, Replicas, wait_for

LEADS_SECONDS = 90.0
DRAINS_SECONDS = 120.0


@dataclass
class Outcome:
    """What fail-overs of one kind have shown."""

    program: str
    fault: str
    seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """What must not happen, a line each."""
    pods: int = 0


class Rounds:
    """Fail-overs of one group."""

    def __init__(self, replicas: Replicas, flow: Flow, room: ResourceCapacity, log: AuditLog, fault: Fault) -> None:
        self._replicas = replicas
        self._flow = flow
        self._room = room
        self._log = log
        self._fault = fault
        self.outcome = Outcome(replicas.program, fault.name)

    def play(self, count: int) -> Outcome:
        """Play the rounds and judge them."""
        wait_until("somebody leads", lambda: leader(self._log.requests(), self._replicas.lease), LEADS_SECONDS)
        self._flow.wait_until_bound(DRAINS_SECONDS)
        for _ in range(count):
            try:
                self.outcome.seconds.append(self._round())
            except NotReadyError as failure:
                # What was seen so far counts, and so does this; the logs' ends say which replica is to blame.
                tails = "\n".join(replica.process.tail(20) for replica in self._replicas.members)
                self.outcome.faults.append(f"{failure}; {tails}")
                return self.outcome
        self._flow.end()
        wait_until("no pod waits", lambda: self._flow.pending() <= 0, DRAINS_SECONDS)
        self._judge()
        return self.outcome

    def _round(self) -> float:
        old = self._replicas.of(leader(self._log.requests(), self._replicas.lease))
        new = self._replicas.beside(old)
        began = time.time()
        self._fault.inflict(old)
        wait_for(
            f"{new.source} binds after {self._fault.name} of {old.source}",
            lambda: self._log.first_binding(new.source, began),
            LEADS_SECONDS,
        )
        first = self._log.first_binding(new.source, began)
        assert first is not None
        self._fault.relieve(old)
        goes_on = self._fault.goes_on and old.program == "kscheduler"
        if goes_on:
            old.goes_on()
        elif (code := old.ends()) != self._fault.exit_code:
            self.outcome.faults.append(f"{old.source} ended with {code}, not {self._fault.exit_code}")
        if not new.process.running:
            self.outcome.faults.append(f"{new.source} has ended by itself: {new.process.tail(20)}")
            new.start()
        if not goes_on:
            old.start()
        self._flow.wait_until_bound(DRAINS_SECONDS)
        return first.answered - began

    def _judge(self) -> None:
        self.outcome.pods = self._flow.created
        requests, replicas = self._log.requests(), self._replicas
        self.outcome.faults += wrongs(requests, replicas.lease, replicas.sources, self._flow, self._room)


def wrongs(
    requests: Sequence[Request], lease: str, sources: Iterable[str], flow: Flow, room: ResourceCapacity
) -> list[str]:
    """A line for each thing that must not happen, after the flow has ended and no pod waits."""
    namespace = flow.namespace
    faults = writes_by_others(requests, lease, sources)
    faults += [f"{name} was bound twice" for name in bound_twice(requests, namespace)]
    faults += [line for line in room.overfull if f" on {namespace}-" in line]
    faults += flow.failures
    bindings = {one.name for one in requests if one.is_binding and one.name.startswith(f"{namespace}/")}
    if len(bindings) != flow.created:
        faults.append(f"{flow.created} pods were created and {len(bindings)} bound")
    return faults


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table in Markdown."""
    lines = [
        "| fault | scheduler | fail-overs | median | longest | pods | what must not happen |",
        "|---|---|---|---|---|---|---|",
    ]
    for outcome in sorted(outcomes, key=lambda one: (one.fault, one.program)):
        ordered = sorted(outcome.seconds)
        middle = ordered[len(ordered) // 2] if ordered else float("nan")
        longest = ordered[-1] if ordered else float("nan")
        lines.append(
            f"| {outcome.fault} | {outcome.program} | {len(ordered)} | {middle:.2f} s | {longest:.2f} s "
            f"| {outcome.pods} | {len(outcome.faults)} |"
        )
    return "\n".join(lines)
