"""One real API server with its audit log, on which groups of replicas fail over side by side."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.binaries import Binaries
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.e2e.election.audit_log import POLICY, AuditLog
from tests.e2e.election.flow import Flow, Room
from tests.e2e.election.replicas import FAULTS, LEASE_NAMESPACE, Replicas, Timing
from tests.e2e.election.rounds import Outcome, Rounds

FIRST_LEASE = "kscheduler"
"""The Lease that the manifests' own Role allows; leases of further groups are allowed by the rig."""


@dataclass
class Rig:
    """A running API server."""

    plane: ControlPlane
    room: Room
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


@contextmanager
def rig(binaries: Binaries) -> Iterator[Rig]:
    """The rig while the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="kscheduler-election-"))
    try:
        policy, log = folder / "policy.yaml", folder / "audit.log"
        policy.write_text(POLICY)
        options = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
        settings = Settings(controllers=False, apiserver_options=options)
        with ControlPlane(binaries, settings) as plane, Room(plane.api) as room:
            yield Rig(plane, room, AuditLog(log), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
