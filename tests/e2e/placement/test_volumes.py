"""Volumes all the way: kscheduler decides, a stand-in provisioner makes, kube-controller-manager binds.

In every scenario a pod ends bound rightly or pending with a true reason, and the audit of volumes finds nothing.
"""

import pytest

from tests.e2e.scenario import Scenario
from tests.e2e.storage import ZONES, Storage

NO_VOLUME = "didn't find available persistent volumes to bind"
OUT_OF_REACH = "didn't match PersistentVolume's node affinity"
OTHER_ZONE = {"a": "b", "b": "a"}


def test_a_claim_that_waits_for_its_pod_gets_a_volume_made_where_the_pod_goes(
    scenario: Scenario, storage: Storage
) -> None:
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data", zone="b")
    scenario.start_scheduler()
    scenario.wait_bound("stateful")
    node = scenario.node_of("stateful")
    assert ZONES[node] == "b"
    assert storage.selected_node("data") == node
    assert storage.volume_of("data") == f"pvc-{storage.claim('data')['metadata']['uid']}"
    storage.add_pod("reader", "data")
    scenario.wait_bound("reader")
    assert ZONES[scenario.node_of("reader")] == "b", "the volume that is there draws the next pod to its zone"


def test_a_provisioner_that_gives_the_node_back_is_queried_again(scenario: Scenario, storage: Storage) -> None:
    storage.provisioner.refusals = 1
    storage.provisioner.working.clear()
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data")
    scenario.wait_rejected("stateful", 'provisioning failed for PVC "data"', reason="SchedulerError")
    assert storage.provisioner.refusals == 0
    storage.wait_selected("data")
    storage.provisioner.working.set()
    scenario.wait_bound("stateful")


def test_of_two_pods_that_race_for_one_disk_one_gets_it_and_the_other_waits_for_the_next(
    scenario: Scenario, storage: Storage
) -> None:
    storage.add_disk(0, "node-1")
    for name in ("one", "two"):
        storage.add_claim(f"disk-of-{name}", storage.local)
        storage.add_pod(name, f"disk-of-{name}")
    scenario.start_scheduler()
    scenario.wait("one is bound", lambda: len(scenario.pending()) == 1)
    (loser,) = scenario.pending()
    scenario.wait_rejected(loser, f"0/4 nodes are available: 4 node(s) {NO_VOLUME}")
    (winner,) = {"one", "two"} - {loser}
    assert scenario.node_of(winner) == "node-1"
    assert not storage.volume_of(f"disk-of-{loser}")
    second = storage.add_disk(1, "node-2")
    scenario.wait_bound(loser)
    assert scenario.node_of(loser) == "node-2"
    assert storage.volume_of(f"disk-of-{loser}") == second


def test_a_pod_whose_claim_is_deleted_while_it_waits_says_so_and_takes_the_claim_that_comes_next(
    scenario: Scenario, storage: Storage
) -> None:
    storage.provisioner.working.clear()
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data")
    storage.wait_selected("data")
    first = storage.claim("data")["metadata"]["uid"]
    storage.api.delete(f"{storage.claims_path}/data")
    scenario.wait_rejected("stateful", 'persistentvolumeclaim "data" not found')
    storage.add_claim("data", storage.made)
    storage.provisioner.working.set()
    scenario.wait_bound("stateful")
    assert storage.volume_of("data") != f"pvc-{first}"


def test_a_pod_that_is_kept_from_the_zone_of_its_volume_waits(scenario: Scenario, storage: Storage) -> None:
    storage.provisioner.misplaced = OTHER_ZONE
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data", zone="b")
    scenario.wait_rejected("stateful", f"2 node(s) {OUT_OF_REACH}")
    assert storage.volume_of("data"), "the claim is bound, and the pod cannot go there"
    assert ZONES[storage.selected_node("data")] == "b"


def test_a_pod_that_is_free_to_move_follows_its_volume_to_another_zone(scenario: Scenario, storage: Storage) -> None:
    storage.provisioner.misplaced = OTHER_ZONE
    scenario.start_scheduler()
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "data")
    scenario.wait_bound("stateful")
    queried_for = ZONES[storage.selected_node("data")]
    assert ZONES[scenario.node_of("stateful")] == OTHER_ZONE[queried_for]


@pytest.mark.parametrize("made_while_down", [True, False], ids=["made-while-down", "made-after"])
def test_a_scheduler_that_is_killed_while_a_pod_waits_for_its_volumes_ends_the_work_when_it_is_back(
    scenario: Scenario, storage: Storage, made_while_down: bool
) -> None:
    """The pod needs a disk that is there and a volume that is made; a rival wants the same disk after the restart."""
    disk = storage.add_disk(0, "node-1")
    storage.provisioner.working.clear()
    storage.add_claim("disk", storage.local)
    storage.add_claim("data", storage.made)
    storage.add_pod("stateful", "disk", "data")
    first = scenario.start_scheduler()
    assert storage.wait_selected("data") == "node-1"
    first.kill()
    assert not scenario.node_of("stateful")
    storage.add_claim("rivals-disk", storage.local)
    storage.add_pod("rival", "rivals-disk")
    if made_while_down:
        storage.provisioner.working.set()
        storage.wait_claim_bound("data")
    scenario.start_scheduler()
    scenario.wait_rejected("rival", NO_VOLUME)
    storage.provisioner.working.set()
    scenario.wait_bound("stateful")
    assert scenario.node_of("stateful") == "node-1"
    assert storage.volume_of("disk") == disk
    assert scenario.pending() == ["rival"]
