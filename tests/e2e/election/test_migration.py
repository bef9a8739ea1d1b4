"""docs/migration.md played on a real API server: kube-scheduler hands its Lease to kscheduler, and takes it back.

kscheduler has exactly the rights of the chart's replace mode, rendered. Pods that name nobody flow all the time; the
API server's audit log says who bound them, and that never two schedulers wrote at once.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.process import NotReadyError, wait_until
from tests.e2e.election.audit_log import leader
from tests.e2e.election.flow import Flow
from tests.e2e.election.replicas import Replica, Replicas
from tests.e2e.election.rig import Rig, rig
from tests.e2e.election.rounds import wrongs

DEPLOY = Path(__file__).parents[3] / "deploy"
REPLACE = DEPLOY / "kustomize" / "replace" / "kscheduler.yaml"
NAMESPACES = DEPLOY / "examples" / "namespaces.yaml"
NAMESPACE = "kube-system"
LEASE = "kube-scheduler"
SCHEDULER_NAME = "default-scheduler"
# Seconds: far more than a released Lease takes to change hands, and not enough for much else to go wrong unseen.
SOON = 30.0


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, program: str) -> Iterator[Rig]:
    if request.config.getoption("--server") == "embedded":
        pytest.skip("the judge is the audit log of a real API server")
    if program != "kscheduler":
        pytest.skip("this is about both")
    with rig(binaries.find()) as found:
        yield found


def scheduler(running: Rig, program: str, identity: Path, address: str) -> Replicas:
    """One process that elects on kube-scheduler's Lease and schedules the pods that name nobody."""
    folder = running.folder / program
    plane = running.plane.binaries
    return Replicas(program, LEASE, SCHEDULER_NAME, identity, plane, folder, (address,), lease_namespace=NAMESPACE)


def hand_over(running: Rig, old: Replica, new: Replica) -> None:
    """Stop the leader in order: the other one binds."""
    began = time.time()
    old.process.send(signal.SIGTERM)
    wait_until(f"{new.program} binds", lambda: running.log.first_binding(new.source, began), SOON)
    assert old.ends() == 0


def test_the_lease_goes_from_kube_scheduler_to_kscheduler_and_back_and_no_pod_is_lost_or_bound_twice(
    running: Rig,
) -> None:
    plane = running.plane
    identity = plane.kscheduler_kubeconfig(REPLACE, NAMESPACE)
    original = scheduler(running, "kube-scheduler", plane.kube_scheduler_kubeconfig, "127.0.3.1")
    ours = scheduler(running, "kscheduler", identity, "127.0.3.2")

    def who_leads() -> str:
        return leader(running.log.requests(), f"{NAMESPACE}/{LEASE}")

    with original, Flow(plane.api, running.room, "migration", SCHEDULER_NAME, 5.0) as flow:
        (kube_scheduler,) = original.members
        wait_until("kube-scheduler leads", who_leads, SOON)
        flow.wait_until_bound(SOON)
        with ours:  # ready, and does nothing
            (kscheduler,) = ours.members
            assert who_leads() == kube_scheduler.source
            hand_over(running, kube_scheduler, kscheduler)
            kube_scheduler.start()  # the static pod is back, and stands by
            flow.wait_until_bound(SOON)
            assert who_leads() == kscheduler.source
            hand_over(running, kscheduler, kube_scheduler)
            flow.end()
            wait_until("no pod waits", lambda: flow.pending() <= 0, SOON)
            sources = (kube_scheduler.source, kscheduler.source)

            def judged() -> list[str]:
                return wrongs(running.log.requests(), original.lease, sources, flow, running.room)

            with suppress(NotReadyError):  # the log is written behind the answers
                wait_until("the log tells of each binding", lambda: not judged(), SOON)
            assert judged() == []


def pod_in(running: Rig, namespace: str, **spec: object) -> str:
    """Which scheduler a new pod of the namespace has, as a dry run tells."""
    container = {"name": "main", "image": "registry.example/app:1"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}}
    whole = {**pod, "spec": {"containers": [container], **spec}}
    made = running.plane.api.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", whole)
    name: str = made["spec"]["schedulerName"]
    return name


def test_a_labelled_namespace_sends_its_new_pods_to_kscheduler_and_no_other_namespace_does(running: Rig) -> None:
    kubectl = running.plane.kubectl
    kubectl("create", "namespace", "tried")
    kubectl("create", "namespace", "left-alone")
    kubectl("apply", "--filename", str(NAMESPACES))
    kubectl("label", "namespace", "tried", "kscheduler.io/schedule=all")
    wait_until("the policy is in force", lambda: pod_in(running, "tried") == "kscheduler", SOON)
    assert pod_in(running, "tried", schedulerName="another") == "another"
    assert pod_in(running, "tried", nodeName="node-0") == "default-scheduler"
    assert pod_in(running, "left-alone") == "default-scheduler"
    kubectl("label", "namespace", "tried", "kscheduler.io/schedule-")
    wait_until("the namespace is as before", lambda: pod_in(running, "tried") == "default-scheduler", SOON)
