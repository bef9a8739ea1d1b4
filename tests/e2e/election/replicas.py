"""Replicas of a scheduler, each behind a network of its own, and the faults that a leader meets.

    sigterm   the orderly end
    sigkill   the end without a word
    sigstop   it stands still until another one leads, and then goes on where it was
    cut       nothing passes between it and the API server until another one leads

After each fault the replica is started again, as a Deployment would, and becomes the follower of the next round.
"""

import json
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.controlplane import kscheduler_process, kube_scheduler, kubeconfig
from tests.controlplane.binaries import Binaries
from tests.controlplane.process import Process, wait_until
from tests.e2e.election.tcp_proxy import TcpProxy

READY_SECONDS = 60.0
ENDS_SECONDS = 40.0
LEASE_NAMESPACE = "kscheduler-system"


@dataclass(frozen=True, slots=True)
class Timing:
    """A lease's times in seconds; the defaults are kube-scheduler's."""

    duration: int = 15
    deadline: int = 10
    period: int = 2


@dataclass
class Replica:
    """One process and its network."""

    process: Process
    proxy: TcpProxy
    program: str
    starts: int = 0
    terms: int = 0
    """How often it has gone on after a lost lease."""
    exit_codes: list[int] = field(default_factory=list)

    @property
    def source(self) -> str:
        return self.proxy.source_address

    def start(self) -> None:
        """Start and return when it is a candidate with a warm cache."""
        self.starts += 1
        self.process.start()
        self.process.wait_until("the replica is ready", self._is_ready, READY_SECONDS)

    def _is_ready(self) -> bool:
        if self.program == "kube-scheduler":
            return self.process.text().count("Attempting to acquire leader lease") >= self.starts
        if self.process.text().count(kscheduler_process.LISTENING) < self.starts + self.terms:
            return False
        try:
            return kscheduler_process.own_page(self.process, "/readyz")[0] == 200
        except OSError:
            return False

    def goes_on(self) -> None:
        """Return when it follows after a lost lease, in the same process, with a warm cache."""
        self.terms += 1
        self.process.wait_until("it follows again", self._follows_again, ENDS_SECONDS)
        self.process.wait_until("the replica is ready", self._is_ready, READY_SECONDS)

    def _follows_again(self) -> bool:
        return self.process.text().count('"following_again"') >= self.terms

    def ends(self) -> int:
        """Wait for its end; returns the exit code."""
        code = self.process.wait(ENDS_SECONDS)
        self.exit_codes.append(code)
        return code


class Replicas:
    """Replicas under one Lease, one per address, running while it is entered."""

    def __init__(
        self,
        program: str,
        lease: str,
        scheduler_name: str,
        identity: Path,
        binaries: Binaries,
        folder: Path,
        addresses: tuple[str, ...],
        timing: Timing | None = None,
        *,
        lease_namespace: str = LEASE_NAMESPACE,
    ) -> None:
        self.program = program
        self.lease = f"{lease_namespace}/{lease}"
        self._lease_namespace = lease_namespace
        self._stack = ExitStack()
        document: dict[str, Any] = json.loads(identity.read_text())
        self._cluster: Mapping[str, Any] = document["clusters"][0]["cluster"]
        self._token: str = document["users"][0]["user"]["token"]
        self._binaries = binaries
        self._folder = folder
        self._timing = timing or Timing()
        self._lease_name, self._scheduler_name = lease, scheduler_name
        self._addresses = addresses
        self.members: list[Replica] = []

    def add(self, address: str) -> Replica:
        """One more, from an address of its own; returns when it is ready."""
        proxy = self._stack.enter_context(TcpProxy(self._cluster["server"], address))
        process = self._process(proxy, self._folder / address)
        self._stack.callback(process.kill)
        replica = Replica(process, proxy, self.program)
        self.members.append(replica)
        replica.start()
        return replica

    def __enter__(self) -> Self:
        try:
            for address in self._addresses:
                self.add(address)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(replica.source for replica in self.members)

    def of(self, source: str) -> Replica:
        return next(replica for replica in self.members if replica.source == source)

    def beside(self, replica: Replica) -> Replica:
        """The other one."""
        return next(other for other in self.members if other is not replica)

    def _process(self, proxy: TcpProxy, folder: Path) -> Process:
        authority = Path(self._cluster["certificate-authority"])
        config = kubeconfig.write(folder / "kubeconfig.json", server=proxy.url, token=self._token, authority=authority)
        timing = self._timing
        if self.program == "kube-scheduler":
            election = {
                "leaderElect": True,
                "leaseDuration": f"{timing.duration}s",
                "renewDeadline": f"{timing.deadline}s",
                "retryPeriod": f"{timing.period}s",
                "resourceName": self._lease_name,
                "resourceNamespace": self._lease_namespace,
            }
            settings = {"leaderElection": election}
            return kube_scheduler.process(self._binaries, config, folder, self._scheduler_name, settings=settings)
        return kscheduler_process.process(
            config,
            folder,
            f"--leader-elect-resource-name={self._lease_name}",
            f"--leader-elect-resource-namespace={self._lease_namespace}",
            f"--leader-elect-lease-duration={timing.duration}s",
            f"--leader-elect-renew-deadline={timing.deadline}s",
            f"--leader-elect-retry-period={timing.period}s",
            scheduler_name=self._scheduler_name,
            elects=True,
        )


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to the leader, and what it may do again when another one leads."""

    name: str
    inflict: Callable[[Replica], None]
    relieve: Callable[[Replica], None]
    exit_code: int
    """kscheduler's and kube-scheduler's alike."""
    goes_on: bool = False
    """kscheduler does not end: it follows."""


def _nothing(replica: Replica) -> None:
    del replica


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("sigterm", lambda one: one.process.send(signal.SIGTERM), _nothing, 0),
        Fault("sigkill", lambda one: one.process.send(signal.SIGKILL), _nothing, -signal.SIGKILL),
        Fault(
            "sigstop",
            lambda one: one.process.send(signal.SIGSTOP),
            lambda one: one.process.send(signal.SIGCONT),
            1,
        ),
        Fault("cut", lambda one: one.proxy.cut(), lambda one: one.proxy.heal(), 1, goes_on=True),
    )
}


def wait_for(what: str, condition: Callable[[], object], seconds: float) -> None:
    """As `wait_until`, more often: what is waited for is measured."""
    wait_until(what, condition, seconds, poll_seconds=0.02)
