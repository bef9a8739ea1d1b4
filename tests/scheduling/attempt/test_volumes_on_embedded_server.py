"""Volumes all the way: claims, decisions, writes and waiting, over real HTTP, with a stand-in provisioner."""

import asyncio

import pytest

from kscheduler.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE
from kscheduler.embedded.apiserver.faults import InjectedFault
from tests.scheduling.attempt.volume_cluster import (
    CLAIMS_PATH,
    PODS_PATH,
    VOLUMES_PATH,
    Provisioner,
    provisioning,
    volume_cluster,
)


async def turns(count: int = 50) -> None:
    """Let every task do what it can."""
    for _ in range(count):
        await asyncio.sleep(0)


NO_VOLUME = "didn't find available persistent volumes to bind"


async def test_a_claim_that_waits_gets_its_volume_made_where_its_pod_goes() -> None:
    async with volume_cluster() as it, provisioning(Provisioner(it)):
        await it.create_claim("data")
        await it.create_pod("p", "data", nodeSelector={"zone": "b"})
        await it.until_bound("p")
        assert it.node_of("p") == "node-b"
        assert it.claim("data").metadata.annotations[SELECTED_NODE] == "node-b"
        assert it.claim("data").spec.volume_name == "made-for-data"
        assert it.reported.notes == []


async def test_a_provisioner_that_cannot_gives_the_node_back_and_the_pod_is_tried_again() -> None:
    async with volume_cluster() as it, provisioning(Provisioner(it, refusals=1)):
        await it.create_claim("data")
        await it.create_pod("p", "data")
        await it.until_reported("selectedNode annotation reset for PVC")
        assert it.cache.statistics().assumed_pods == 0
        await it.try_again()
        await it.until_bound("p")


async def test_a_claim_that_is_deleted_while_its_pod_waits_ends_the_wait() -> None:
    async with volume_cluster() as it:
        await it.create_claim("data")
        await it.create_pod("p", "data")
        await it.until_selected("data")
        await it.client.delete(f"{CLAIMS_PATH}/data")
        await it.until_reported('failed to check provisioning pvc: persistentvolumeclaims "default/data" not found')
        await it.try_again()
        await it.until_reported('persistentvolumeclaim "data" not found')
        assert it.node_of("p") == ""


async def test_a_claim_made_again_under_its_name_is_not_the_one_that_was_waited_for() -> None:
    async with volume_cluster() as it:
        await it.create_claim("data")
        await it.create_pod("p", "data")
        await it.until_selected("data")
        await it.client.delete(f"{CLAIMS_PATH}/data")
        await it.create_claim("data")
        await it.until_reported("failed to check provisioning pvc")
        async with provisioning(Provisioner(it)):
            await it.try_again()
            await it.until_bound("p")


async def test_a_pod_that_is_deleted_while_it_waits_gives_everything_back() -> None:
    async with volume_cluster() as it:
        await it.create_claim("data")
        await it.create_pod("p", "data")
        await it.until_selected("data")
        await it.client.delete(f"{PODS_PATH}/p", b'{"gracePeriodSeconds":0}')
        await it.changes.until(lambda: it.cache.statistics().pods == 0)
        await turns()
        assert it.queue.statistics().in_flight == 0
        assert it.reported.notes == [], "nobody is left to be told"


async def test_a_wait_ends_with_its_time() -> None:
    async with volume_cluster() as it:
        await it.create_claim("data")
        await it.create_pod("p", "data")
        node = await it.until_selected("data")
        await it.clock.next_sleep()
        await it.clock.advance(601)
        await it.until_reported("binding volumes: context deadline exceeded")
        assert it.reported.reports[0][1].reason == "SchedulerError"
        async with provisioning(Provisioner(it)):
            await it.try_again()
            await it.until_bound("p")
        assert it.node_of("p") == node, "the node was selected: the volume is made there or nowhere"


async def test_a_volume_in_another_zone_sends_the_pod_back() -> None:
    async with volume_cluster() as it, provisioning(Provisioner(it, zone="a")):
        await it.create_claim("data")
        await it.create_pod("p", "data", nodeSelector={"zone": "b"})
        await it.until_reported('pv "made-for-data" node affinity doesn\'t match node "node-b"')
        await it.try_again()
        await it.until_reported("didn't match PersistentVolume's node affinity")
        assert it.node_of("p") == ""


async def test_a_free_volume_is_given_to_the_claim_and_draws_the_pod_to_its_zone() -> None:
    async with volume_cluster() as it, provisioning(Provisioner(it)):
        await it.create_volume("disk", "b")
        await it.create_claim("data", "local")
        await it.until_volume_is("disk", "Available")
        await it.create_pod("p", "data")
        await it.until_bound("p")
        assert it.node_of("p") == "node-b"
        reference = it.volume("disk").spec.claim_ref
        assert reference is not None
        assert (reference.namespace, reference.name, reference.uid) == (
            "default",
            "data",
            it.claim("data").metadata.uid,
        )
        assert (reference.kind, reference.api_version) == ("PersistentVolumeClaim", "v1")
        assert it.volume("disk").metadata.annotations[BOUND_BY_CONTROLLER] == "yes"


async def test_two_pods_that_race_for_one_volume_do_not_both_get_it() -> None:
    async with volume_cluster() as it, provisioning(Provisioner(it)):
        await it.create_volume("disk", "a")
        await it.create_claim("one", "local")
        await it.create_claim("two", "local")
        await it.until_volume_is("disk", "Available")
        await asyncio.gather(it.create_pod("p1", "one"), it.create_pod("p2", "two"))
        await it.until_reported(NO_VOLUME)
        await it.changes.until(lambda: bool(it.node_of("p1") or it.node_of("p2")))
        placed = [pod for pod in ("p1", "p2") if it.node_of(pod)]
        assert placed == ["p1"] if it.claim("one").spec.volume_name else ["p2"]
        await it.create_volume("disk-2", "b")
        await it.try_again()
        await it.until_bound("p1", "p2")


@pytest.mark.parametrize("path", [VOLUMES_PATH, CLAIMS_PATH], ids=["volume", "claim"])
async def test_a_write_that_meets_a_409_is_tried_again_from_fresh_knowledge(path: str) -> None:
    async with volume_cluster() as it, provisioning(Provisioner(it)):
        storage_class = "local" if path == VOLUMES_PATH else "fast"
        name = "disk" if path == VOLUMES_PATH else "data"
        await it.create_volume("disk", "a")
        await it.create_claim("data", storage_class)
        await it.until_volume_is("disk", "Available")
        it.server.faults.add(InjectedFault("answer", method="PATCH", path=f"{path}/{name}", code=409, count=1))
        await it.create_pod("p", "data")
        await it.until_reported('running PreBind plugin "VolumeBinding": 409 Conflict')
        assert it.cache.volumes.volume("disk") is it.cache.volumes.confirmed_volume("disk")
        assert it.cache.volumes.claim("default", "data") is it.cache.volumes.confirmed_claim("default", "data")
        await it.try_again()
        await it.until_bound("p")


async def test_a_volume_that_changed_unseen_is_refused_by_the_server() -> None:
    async with volume_cluster() as it:
        await it.create_volume("disk", "a")
        await it.create_claim("data", "local")
        await it.until_volume_is("disk", "Available")
        it.server.faults.add(InjectedFault("lose_event", path=VOLUMES_PATH, count=1))
        await it.patch(f"{VOLUMES_PATH}/disk", {"metadata": {"labels": {"changed": "meanwhile"}}})
        await it.create_pod("p", "data")
        await it.until_reported("409 Conflict")
        assert b"claimRef" not in await it.client.get(f"{VOLUMES_PATH}/disk")


async def test_a_write_whose_answer_is_lost_is_found_done() -> None:
    async with volume_cluster() as it, provisioning(Provisioner(it)):
        await it.create_claim("data")
        it.server.faults.add(InjectedFault("apply_then_reset", method="PATCH", path=f"{CLAIMS_PATH}/data", count=1))
        await it.create_pod("p", "data")
        await it.until_reported('running PreBind plugin "VolumeBinding"')
        await it.try_again()
        await it.until_bound("p")


async def test_a_pod_that_waits_for_its_volume_holds_no_worker() -> None:
    async with volume_cluster(workers=1) as it:
        await it.create_claim("data")
        await it.create_pod("waits", "data")
        await it.until_selected("data")
        await it.create_pod("plain")
        await it.until_bound("plain")
        assert it.node_of("waits") == ""
        assert it.reported.notes == [], "it still waits"


async def test_pods_that_share_a_claim_go_where_its_volume_is_to_be() -> None:
    async with volume_cluster() as it:
        await it.create_claim("data")
        await it.create_pod("p1", "data")
        node = await it.until_selected("data")
        await it.create_pod("p2", "data")
        await it.changes.until(lambda: it.cache.statistics().assumed_pods == 2)
        async with provisioning(Provisioner(it)):
            await it.until_bound("p1", "p2")
        assert {it.node_of("p1"), it.node_of("p2")} == {node}
