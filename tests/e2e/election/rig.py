"""One real API server with its audit log, on which groups of replicas fail over side by side."""

import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.controlplane.binaries import Binaries
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.process import wait_until
from tests.e2e.election.audit_log import POLICY, AuditLog, bound_twice, leader, writes_by_others
from tests.e2e.election.flow import Flow, ResourceCapacity
from tests.e2e.election.replicas import FAULTS, LEASE_NAMESPACE, Replicas, Timing
from tests.e2e.election.rounds import Outcome, Rounds

# The Lease that the manifests' own Role allows; leases of further groups are allowed by the rig.
FIRST_LEASE = "kscheduler"


@dataclass
class Rig:
    """A running API server."""

    plane: ControlPlane
    room: ResourceCapacity
    log: AuditLog
    folder: Path
    groups: int = 0

    def group(self, program: str, timing: Timing | None = None) -> tuple[Replicas, str]:
        """Two replicas, not yet started, and the name of their group."""
        self.groups += 1
        number = self.groups
        name = f"{program}-{number}"
        identity = self.identities[program]
        addresses = f"127.0.1.{2 * number}", f"127.0.1.{2 * number + 1}"
        lease = FIRST_LEASE if number == 1 else name
        folder = self.folder / name
        return Replicas(program, lease, name, identity, self.plane.binaries, folder, addresses, timing), name

    def __post_init__(self) -> None:
        self.identities = {
            "kscheduler": self.plane.kscheduler_kubeconfig(),
            "kube-scheduler": self.plane.kube_scheduler_kubeconfig,
        }
        self._allow_leases()

    def _allow_leases(self) -> None:
        kubectl, name = self.plane.kubectl, "leases-of-the-rig"
        place = ("--namespace", LEASE_NAMESPACE)
        verbs = "--verb=get,create,update,watch"
        kubectl("create", "role", name, verbs, "--resource=leases.coordination.k8s.io", *place)
        account = f"--serviceaccount={LEASE_NAMESPACE}:kscheduler"
        kubectl("create", "rolebinding", name, f"--role={name}", account, "--user=system:kube-scheduler", *place)

    def play(self, programs: Sequence[str], kinds: Sequence[str], rounds: int, timing: Timing) -> list[Outcome]:
        """Play all kinds of faults on all programs at the same time."""
        pairs = [(program, kind) for kind in kinds for program in programs]
        groups = [self.group(program, timing) for program, _ in pairs]
        with ThreadPoolExecutor(len(pairs)) as pool:
            played = [
                pool.submit(self._play_one, replicas, name, kind, rounds)
                for (replicas, name), (_, kind) in zip(groups, pairs, strict=True)
            ]
            return [one.result() for one in played]

    def _play_one(self, replicas: Replicas, name: str, kind: str, rounds: int, pods_per_second: float = 5.0) -> Outcome:
        with replicas, Flow(self.plane.api, self.room, name, name, pods_per_second) as flow:
            return Rounds(replicas, flow, self.room, self.log, FAULTS[kind]).play(rounds)

    def roll(self, program: str, pods_per_second: float = 50.0) -> "RollingUpdate":
        """Replace both replicas, one after the other and each by one that is ready, as the Deployment does."""
        replicas, name = self.group(program)
        # As many nodes as the pods of some seconds need: an update must not be slowed by a lack of room.
        with replicas, Flow(self.plane.api, self.room, name, name, pods_per_second, nodes=100) as flow:
            wait_until("somebody leads", lambda: leader(self.log.requests(), replicas.lease), 60)
            wait_until("pods are bound", lambda: flow.created > pods_per_second and flow.pending() < 10, 60)
            began = time.time()
            # The leader goes first, so that the lease changes hands at least twice.
            old = sorted(replicas.members, key=lambda one: one.source != leader(self.log.requests(), replicas.lease))
            for number, replica in enumerate(old):
                replicas.add(f"127.0.2.{2 * self.groups + number}")
                replica.process.send(signal.SIGTERM)
                replica.ends()
            sources, last = replicas.sources[len(old) :], time.time()
            wait_until("a new one binds", lambda: any(self.log.first_binding(one, last) for one in sources), 60)
            ended = time.time()
            flow.end()
            wait_until("no pod waits", lambda: flow.pending() <= 0, 120)
            requests = self.log.requests()
            mine = [one for one in requests if one.is_binding and one.name.startswith(f"{name}/")]
            times = sorted(one.answered for one in mine if began <= one.answered <= ended)
            gaps = [after - before for before, after in pairwise([began, *times])]
            faults = [*writes_by_others(requests, replicas.lease, replicas.sources), *bound_twice(requests, name)]
            faults += [line for line in self.room.overfull if f" on {name}-" in line]
            return RollingUpdate(max(gaps), len(times), ended - began, faults)


@dataclass(frozen=True, slots=True)
class RollingUpdate:
    """What a rolling update has shown."""

    longest_gap: float
    """Seconds between two Bindings."""
    bindings: int
    seconds: float
    faults: list[str]


@contextmanager
def rig(binaries: Binaries) -> Iterator[Rig]:
    """The rig while the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="kscheduler-election-"))
    try:
        policy, log = folder / "policy.yaml", folder / "audit.log"
        policy.write_text(POLICY)
        # Never rotated: the judge reads one file from its beginning.
        options = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=100000")
        settings = Settings(controllers=False, apiserver_options=options)
        with ControlPlane(binaries, settings) as plane, ResourceCapacity(plane.api) as room:
            yield Rig(plane, room, AuditLog(log), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
