"""What can come between a decision about devices and its end: a 409, a deleted claim, a SIGKILL after any write.

kscheduler talks to the API server through a proxy here, so that each fault strikes at its moment and not by chance. In
the end the history of the claims must show that no device was ever held by two of them.
"""

import random
import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.devices import DevicesRoom
from tests.e2e.outages.conftest import Start
from tests.e2e.scenario import Scenario
from tests.e2e.write_proxy import Write, WriteProxy, once

NO_DEVICE = "cannot allocate all claims"
SECONDS = 30.0

pytestmark = pytest.mark.usefixtures("only_kscheduler")


def device_writes(method: str, path: str, body: bytes) -> str:
    """`finalizer`, `status` and `release` of claims, and `binding`."""
    if path.endswith("/binding"):
        return "binding"
    if "/resourceclaims/" not in path:
        return ""
    if method == "PATCH":
        return "finalizer" if b"finalizers" in body else "release"
    return "status" if method == "PUT" and path.endswith("/status") else "other"


@pytest.fixture
def proxy(devices: DevicesRoom) -> Iterator[WriteProxy]:
    with WriteProxy(devices.scenario.server.identity("kscheduler"), device_writes) as running:
        yield running


@pytest.mark.parametrize("kind", ["finalizer", "status"])
def test_a_claim_that_changes_between_reading_and_writing_is_read_again(
    scenario: Scenario, devices: DevicesRoom, proxy: WriteProxy, start_behind: Start, kind: str
) -> None:
    devices.publish("node-0", "gpu-0")
    devices.add_claim("a")
    devices.add_pod("user", "a")
    touch = {"metadata": {"labels": {"touched": "yes"}}}
    proxy.before = once(lambda _: scenario.api.patch(f"{devices.claims_path}/a", touch), kind)
    start_behind()
    scenario.wait_bound("user")
    assert [(write.kind, code) for write, code in proxy.refused] == [(kind, 409)]
    assert scenario.events("user", "FailedScheduling") == []
    assert devices.claim("a")["metadata"]["labels"] == {"touched": "yes"}
    assert devices.users("a") == ["user"]


def test_a_claim_that_is_deleted_while_it_is_allocated_gives_its_device_to_the_one_made_next(
    scenario: Scenario, devices: DevicesRoom, proxy: WriteProxy, start_behind: Start
) -> None:
    devices.publish("node-0", "gpu-0")
    devices.add_claim("a")
    devices.add_pod("user", "a")
    proxy.before = once(lambda _: scenario.api.delete(f"{devices.claims_path}/a"), "finalizer")
    start_behind()
    scenario.wait_rejected("user", 'resourceclaims.resource.k8s.io "a" not found', reason="SchedulerError")
    assert not scenario.api.answers(f"{devices.claims_path}/a")
    devices.add_claim("a")
    scenario.wait_bound("user")
    assert devices.held_by("a") == ["node-0/gpu-0"]


def test_a_device_that_is_withdrawn_while_it_is_allocated_is_no_longer_given_to_others(
    scenario: Scenario, devices: DevicesRoom, proxy: WriteProxy, start_behind: Start
) -> None:
    """The write that is under way wins, as with kube-scheduler; the next pod sees what the driver publishes now."""
    devices.publish("node-0", "gpu-0")
    for name in ("a", "b"):
        devices.add_claim(name)
    devices.add_pod("user", "a")
    proxy.before = once(lambda _: devices.publish("node-0", "gpu-1", generation=2), "status")
    start_behind()
    scenario.wait_bound("user")
    devices.add_pod("next", "b")
    scenario.wait_bound("next")
    assert devices.held_by("a") == ["node-0/gpu-0"]
    assert devices.held_by("b") == ["node-0/gpu-1"]


@pytest.mark.parametrize("is_applied", [True, False], ids=["applied", "not-applied"])
def test_a_lost_answer_to_an_allocation_costs_nothing_but_time(
    scenario: Scenario, devices: DevicesRoom, proxy: WriteProxy, start_behind: Start, is_applied: bool
) -> None:
    devices.publish("node-0", "gpu-0")
    for name in ("a", "b"):
        devices.add_claim(name)
    devices.add_pod("user", "a")

    def lose(write: Write) -> None:
        del write
        devices.add_pod("rival", "b")
        raise ConnectionAbortedError("the answer is lost")

    if is_applied:
        proxy.after = once(lose, "status")
    else:
        proxy.before = once(lose, "status")
    start_behind()
    scenario.wait_bound("user")
    scenario.wait_rejected("rival", NO_DEVICE)
    assert devices.held_by("a") == ["node-0/gpu-0"]


# For a pod with two claims, in their order.
WRITES = ["finalizer", "status", "finalizer", "status", "binding"]


@pytest.mark.parametrize(
    "written", range(len(WRITES) + 1), ids=["no-write", *(f"{n}-{w}" for n, w in enumerate(WRITES))]
)
def test_a_scheduler_that_is_killed_after_any_of_its_writes_goes_on_from_there(
    scenario: Scenario, devices: DevicesRoom, proxy: WriteProxy, start_behind: Start, written: int
) -> None:
    """SIGKILL when so many writes are applied, before the last answer arrives. A rival comes for one of the devices."""
    devices.publish("node-0", "gpu-0", "gpu-1")
    for name in ("a", "b", "rivals"):
        devices.add_claim(name)
    devices.add_pod("user", "a", "b")
    kill_when(proxy, written, scenario)
    assert start_behind().wait(SECONDS) == -signal.SIGKILL
    assert [write.kind for write in proxy.applied] == WRITES[:written]
    assert bool(scenario.node_of("user")) is (written == len(WRITES))
    devices.add_pod("rival", "rivals")
    scenario.start_scheduler()
    scenario.wait("one of them is bound", lambda: len(scenario.pending()) == 1)
    (loser,) = scenario.pending()
    scenario.wait_rejected(loser, NO_DEVICE)
    if written == len(WRITES):
        assert loser == "rival"
    winner = "rival" if loser == "user" else "user"
    scenario.delete_pod(winner)
    if winner == "user":  # its claims are the user's own: they keep their devices for the next pod with them
        for name in ("a", "b"):
            scenario.api.delete(f"{devices.claims_path}/{name}")
    scenario.wait_bound(loser)


def kill_when(proxy: WriteProxy, written: int, scenario: Scenario) -> None:
    """Kills the newest kscheduler when so many writes are applied."""

    def kill_before(write: Write) -> None:
        del write
        if not written:
            scenario.processes[-1].kill()
            raise ConnectionAbortedError("killed before it wrote anything")

    def kill_after(write: Write) -> None:
        del write
        if len(proxy.applied) == written:
            scenario.processes[-1].kill()

    proxy.before, proxy.after = kill_before, kill_after


def test_a_storm_of_conflicts_and_kills_gives_no_device_away_twice(
    scenario: Scenario, devices: DevicesRoom, proxy: WriteProxy, start_behind: Start
) -> None:
    """Eight devices, 32 pods with a claim of their own, a third of the writes answered 409; a SIGKILL every eight pods.

    Pods go as soon as they are bound, so each device is given away four times.
    """
    chance = random.Random(28)
    for number in range(4):
        devices.publish(f"node-{number}", "gpu-0", "gpu-1")
    devices.add_template("each")

    def disturb(write: Write) -> None:
        if write.kind in ("finalizer", "status") and chance.random() < 0.3:
            claim = write.path.removesuffix("/status")
            scenario.api.patch(claim, {"metadata": {"labels": {"touched": str(chance.random())}}})

    proxy.before = disturb
    names = [f"pod-{number}" for number in range(32)]
    for name in names:
        devices.add_pod(name, template="each")
    process, ended = start_behind(), 0
    deadline = time.monotonic() + 120
    while ended < len(names):
        assert time.monotonic() < deadline, f"{ended} of {len(names)} pods were bound; {process.tail()}"
        bound = [pod["metadata"]["name"] for pod in scenario.pods() if pod["spec"].get("nodeName")]
        devices.check_pods()
        for name in bound:
            scenario.api.delete(f"{scenario.pods_path}/{name}", grace_seconds=0)
            ended += 1
            if ended % 8 == 0 and ended < len(names):
                process.kill()
                process = start_behind()
        time.sleep(0.05)
    assert [code for _, code in proxy.refused if code == 409], "there were conflicts"
