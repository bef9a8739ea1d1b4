"""What can come between a decision about volumes and its end: a 409, the time limit, a SIGKILL after any write.

kscheduler talks to the API server through a proxy here, so that each fault strikes at its moment and not by
chance.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.outages.conftest import Start
from tests.e2e.provisioner import VOLUMES
from tests.e2e.scenario import Scenario
from tests.e2e.servers import NAME
from tests.e2e.storage import Storage
from tests.e2e.write_proxy import Write, WriteProxy, once

NO_VOLUME = "didn't find available persistent volumes to bind"
OUT_OF_TIME = "binding volumes: context deadline exceeded"
SHORT_WAIT = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %s
profiles:
- schedulerName: {NAME}
  pluginConfig:
  - name: VolumeBinding
    args:
      bindTimeoutSeconds: 2
"""
SECONDS = 30.0

pytestmark = pytest.mark.usefixtures("only_kscheduler")


@pytest.fixture
def proxy(storage: Storage) -> Iterator[WriteProxy]:
    with WriteProxy(storage.scenario.server.identity("kscheduler")) as running:
        yield running


def test_a_volume_that_changes_between_decision_and_write_is_decided_about_anew(
    scenario: Scenario, storage: Storage, proxy: WriteProxy, start_behind: Start
) -> None:
    disk = storage.add_disk(0, "node-1")
    storage.add_claim("disk", storage.local)
    storage.add_pod("stateful", "disk")
    touch = {"metadata": {"labels": {"touched": "yes"}}}
    proxy.before = once(lambda write: scenario.api.patch(write.path, touch), "volume")
    start_behind()
    scenario.wait_bound("stateful")
    assert [(write.name, code) for write, code in proxy.refused] == [(disk, 409)]
    assert [write.kind for write in proxy.applied] == ["volume", "binding"]
    assert scenario.events("stateful", "FailedScheduling"), "the refusal was told"
    assert storage.volume_of("disk") == disk


def test_a_volume_that_somebody_else_takes_between_decision_and_write_is_left_to_them(
    scenario: Scenario, storage: Storage, proxy: WriteProxy, start_behind: Start
) -> None:
    """The better of two disks is gone in that moment: the pod takes the other one."""
    storage.add_disk(0, "node-1")
    storage.add_claim("disk", storage.local)
    storage.add_claim("rivals-disk", storage.local)
    storage.add_pod("stateful", "disk")
    proxy.before = once(lambda write: give_away(storage, write), "volume")
    start_behind()
    scenario.wait_rejected("stateful", NO_VOLUME)
    assert [code for _, code in proxy.refused] == [409]
    assert [write.kind for write in proxy.applied] == []
    other = storage.add_disk(1, "node-2")
    scenario.wait_bound("stateful")
    assert storage.volume_of("disk") == other
    assert storage.wait_claim_bound("rivals-disk") != other


def give_away(storage: Storage, write: Write) -> None:
    """Somebody names another claim on the volume."""
    owner = {field: storage.claim("rivals-disk")["metadata"][field] for field in ("namespace", "name", "uid")}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | owner
    storage.api.patch(f"{VOLUMES}/{write.name}", {"spec": {"claimRef": reference}})


def test_a_pod_whose_volume_is_not_made_in_time_gives_its_node_back_and_comes_when_it_is(
    scenario: Scenario, storage: Storage, start_behind: Start, tmp_path: Path
) -> None:
    """Both pods want all of one node; the one that waits for its volume loses it to the other at the time limit."""
    config = tmp_path / "short-wait.yaml"
    config.write_text(SHORT_WAIT % (tmp_path / "proxied.json"))
    storage.provisioner.working.clear()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data", node_name="node-1", cpu="3")
    start_behind("--config", str(config))
    assert storage.wait_selected("data") == "node-1"
    storage.add_pod("other", node_name="node-1", cpu="3")
    scenario.wait_rejected("other", "1 Insufficient cpu")
    scenario.wait_rejected("stateful", OUT_OF_TIME, reason="SchedulerError")
    scenario.wait_bound("other")
    assert scenario.node_of("other") == "node-1"
    scenario.wait_rejected("stateful", "1 Insufficient cpu")
    storage.provisioner.working.set()
    storage.wait_claim_bound("data")
    scenario.delete_pod("other")
    scenario.wait_bound("stateful")
    assert scenario.node_of("stateful") == "node-1"


# For a pod with a disk that is there and a volume that is to be made, in their order.
WRITES = ["volume", "claim", "binding"]


@pytest.mark.parametrize("written", range(len(WRITES) + 1), ids=["no-write", *WRITES])
def test_a_scheduler_that_is_killed_after_any_of_its_writes_goes_on_from_there(
    scenario: Scenario, storage: Storage, proxy: WriteProxy, start_behind: Start, written: int
) -> None:
    """SIGKILL when so many writes are applied, before the last answer arrives; a rival comes for the disk meanwhile."""
    disk = storage.add_disk(0, "node-1")
    storage.add_claim("disk", storage.local)
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "disk", "data")
    kill_when(proxy, written, scenario)
    assert start_behind().wait(SECONDS) == -signal.SIGKILL
    assert [write.kind for write in proxy.applied] == WRITES[:written]
    assert bool(scenario.node_of("stateful")) is (written == len(WRITES))
    if written:  # else the two are alike, and the disk is anybody's
        storage.add_claim("rivals-disk", storage.local)
        storage.add_pod("rival", "rivals-disk")
    scenario.start_scheduler()
    scenario.wait_bound("stateful")
    assert scenario.node_of("stateful") == "node-1"
    assert storage.volume_of("disk") == disk
    assert storage.selected_node("data") == "node-1"
    if written:
        scenario.wait_rejected("rival", NO_VOLUME)


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
