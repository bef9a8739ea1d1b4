"""Claims are written before their pod is bound, and no device is free while a write of it may be applied."""

import asyncio
from typing import Any

import msgspec
import pytest

from kscheduler.framework.cluster.claim_writing import ClaimRules, Deallocation, PodReservation
from kscheduler.framework.status import Fault, Status
from tests.builders import make_pod
from tests.scheduling.claims.stage import LOST, Stage, allocation, refusal

RULES = ClaimRules()
POD = make_pod("p", uid="pod-uid")


async def pre_bound(stage: Stage, reservation: PodReservation, rules: ClaimRules = RULES) -> Status:
    """PreBind in virtual time."""
    running = asyncio.ensure_future(stage.commits.pre_bind(reservation, rules))
    for _ in range(1000):
        await stage.settle()
        if running.done():
            break
        await stage.clock.advance(0.5)
    return await running


def once(request: str, failure: BaseException, times: int = 1) -> Any:
    """A hook that raises at the first requests of this kind."""
    left = times

    def hook(seen: str) -> None:
        nonlocal left
        if seen == request and left:
            left -= 1
            raise failure

    return hook


# --- what is written --------------------------------------------------------------------------------------------------


async def test_the_finalizer_comes_first_then_allocation_and_reservation_in_one_write() -> None:
    stage = Stage()
    stage.server.put_object("a")
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    assert (await pre_bound(stage, reservation)).is_success
    assert stage.server.requests == ["PATCH resourceclaims/a", "PUT resourceclaims/a/status"]
    stored = stage.server.objects["a"]
    assert stored["metadata"]["finalizers"] == ["example.com/other", "resource.kubernetes.io/delete-protection"]
    assert stored["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "pod-uid"}]
    assert stored["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert stored["status"]["allocation"]["allocationTimestamp"] == "2026-09-21T14:13:20Z"


async def test_fields_that_nobody_here_knows_are_kept() -> None:
    stage = Stage()
    before = stage.server.put_object("a", future={"x": [1]})
    await pre_bound(stage, stage.reserve(POD, a=allocation("gpu-0")))
    after = stage.server.objects["a"]
    assert after["spec"] == before["spec"]
    assert after["status"]["future"] == {"x": [1]}
    assert after["metadata"]["managedFields"] == [{"manager": "kubectl"}]


async def test_an_allocated_claim_is_only_reserved() -> None:
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {"results": []}}, reservedFor=[{"name": "q", "uid": "q-uid"}])
    assert (await pre_bound(stage, stage.reserve(POD, a=None))).is_success
    assert stage.server.writes() == ["PUT resourceclaims/a/status"]
    assert [user["uid"] for user in stage.server.objects["a"]["status"]["reservedFor"]] == ["q-uid", "pod-uid"]


async def test_a_claim_that_the_pod_has_reserved_is_looked_at_and_not_written() -> None:
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {}}, reservedFor=[{"name": "p", "uid": "pod-uid"}])
    assert (await pre_bound(stage, stage.reserve(POD, a=None))).is_success
    assert stage.server.requests == ["GET resourceclaims/a"]


@pytest.mark.parametrize(("rules", "has_time"), [(RULES, True), (ClaimRules(has_binding_conditions=False), False)])
async def test_only_the_gates_of_binding_conditions_bring_a_timestamp(rules: ClaimRules, has_time: bool) -> None:
    stage = Stage()
    stage.server.put_object("a")
    await pre_bound(stage, stage.reserve(POD, a=allocation("gpu-0")), rules)
    assert ("allocationTimestamp" in stage.server.objects["a"]["status"]["allocation"]) is has_time


# --- what decisions see ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keeps", "pending_at_b"), [(True, True), (False, False)])
async def test_devices_are_pending_until_all_claims_are_written_or_their_own_is(
    keeps: bool, pending_at_b: bool
) -> None:
    stage = Stage(watch_lags=True)
    for name in ("a", "b"):
        stage.server.put_object(name)
    stage.catch_up()
    uid = stage.server.objects["a"]["metadata"]["uid"]
    seen: list[bool] = []
    stage.server.before = lambda request: (
        seen.append(stage.tracker.pending(uid) is not None) if request == "PUT resourceclaims/b/status" else None
    )
    reservation = stage.reserve(POD, a=allocation("gpu-0"), b=allocation("gpu-1"))
    assert (await pre_bound(stage, reservation, ClaimRules(keeps_pending=keeps))).is_success
    assert seen == [pending_at_b]
    assert stage.tracker.pending(uid) is None
    assert stage.taken() == {"gpu-0", "gpu-1"}


async def test_a_written_claim_keeps_its_devices_although_the_next_claim_failed_and_the_watch_lags() -> None:
    """kube-scheduler 1.37 restores the first claim to what its informer last showed."""
    stage = Stage(watch_lags=True)
    for name in ("a", "b"):
        stage.server.put_object(name)
    stage.catch_up()
    reservation = stage.reserve(POD, a=allocation("gpu-0"), b=allocation("gpu-1"))
    stage.server.before = once("PUT resourceclaims/b/status", refusal(403, "denied"))
    status = await pre_bound(stage, reservation)
    assert status.reasons == ("add allocation and reservation to claim default/b: denied",)
    assert status.fault is Fault.REFUSED
    stage.commits.unreserve(reservation)
    assert stage.taken() == {"gpu-0"}
    await stage.settle()
    assert stage.taken() == {"gpu-0"}
    assert stage.server.objects["a"]["status"]["reservedFor"] == []
    assert stage.tracker.get("default/a").status.reserved_for == ()  # type: ignore[union-attr]


async def test_nothing_is_left_when_the_pod_is_given_up_before_pre_bind() -> None:
    stage = Stage()
    stage.server.put_object("a")
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    assert stage.taken() == {"gpu-0"}
    stage.commits.unreserve(reservation)
    assert stage.taken() == set()
    assert stage.server.requests == []


# --- what can go wrong ----------------------------------------------------------------------------------------


async def test_a_claim_that_has_changed_is_read_again_up_to_five_tries() -> None:
    stage = Stage()
    stage.server.put_object("a")
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    stage.server.before = once("PUT resourceclaims/a/status", refusal(409, "modified", "Conflict"), times=4)
    assert (await pre_bound(stage, reservation)).is_success
    assert stage.server.requests.count("GET resourceclaims/a") == 4
    assert stage.server.requests.count("PATCH resourceclaims/a") == 1


async def test_after_five_conflicts_the_pod_is_tried_again_later() -> None:
    stage = Stage()
    stage.server.put_object("a")
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    stage.server.before = once("PATCH resourceclaims/a", refusal(409, "modified", "Conflict"), times=5)
    assert (await pre_bound(stage, reservation)).reasons == ("add finalizer to claim default/a: modified",)


def deleting(stage: Stage) -> None:
    stage.server.mark_deleted("a")


def made_again(stage: Stage) -> None:
    stage.server.remove("a")
    stage.server.put_object("a")


def allocated(stage: Stage) -> None:
    stage.server.change("a", allocation={"devices": {"results": [{"driver": "gpu.example.com", "device": "gpu-9"}]}})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (deleting, "claim default/a got deleted in the meantime"),
        (made_again, "claim default/a got deleted in the meantime"),
        (allocated, "claim default/a got allocated elsewhere in the meantime"),
        (
            lambda stage: stage.server.remove("a"),
            'add finalizer to claim default/a: resourceclaims.resource.k8s.io "a" not found',
        ),
    ],
)
@pytest.mark.parametrize("watch_lags", [False, True])
async def test_a_claim_that_is_no_longer_what_was_decided_about_is_not_written(
    change: Any, text: str, watch_lags: bool
) -> None:
    stage = Stage(watch_lags=watch_lags)
    stage.server.put_object("a")
    stage.catch_up()
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    change(stage)
    stored = dict(stage.server.objects)
    assert (await pre_bound(stage, reservation)).reasons == (text,)
    assert stage.server.writes() == (["PATCH resourceclaims/a"] if watch_lags else [])
    assert stage.server.objects == stored, "a patch that was sent was refused"
    stage.commits.unreserve(reservation)
    assert "gpu-0" not in stage.taken()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"allocation": None}, "claim default/a got deallocated elsewhere in the meantime"),
        (
            {"allocation": {"devices": {"results": [{"device": "gpu-7"}]}}},
            "claim default/a got allocated elsewhere in the meantime",
        ),
    ],
)
async def test_an_allocated_claim_that_lost_its_devices_is_not_reserved(status: Any, text: str) -> None:
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {"results": [{"device": "gpu-0"}]}})
    reservation = stage.reserve(POD, a=None)
    stage.server.change("a", **status)
    assert (await pre_bound(stage, reservation)).reasons == (text,)


async def test_the_257th_pod_of_a_claim_gets_the_servers_words() -> None:
    stage = Stage()
    users = [{"resource": "pods", "name": f"u{number}", "uid": f"u{number}"} for number in range(256)]
    stage.server.put_object("a", allocation={"devices": {}}, reservedFor=users)
    status = await pre_bound(stage, stage.reserve(POD, a=None))
    assert status.reasons == ("add reservation to claim default/a: Too many: 257: must have at most 256 items",)


@pytest.mark.parametrize("is_applied", [True, False])
async def test_a_lost_answer_is_settled_by_reading_the_claim(is_applied: bool) -> None:
    stage = Stage(watch_lags=True)
    stage.server.put_object("a")
    stage.catch_up()
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    hook = once("PUT resourceclaims/a/status", LOST)
    if is_applied:
        stage.server.after = hook
    else:
        stage.server.before = hook
    assert (await pre_bound(stage, reservation)).is_success
    assert stage.server.requests.count("PUT resourceclaims/a/status") == (1 if is_applied else 2)
    assert stage.taken() == {"gpu-0"}


async def test_devices_stay_taken_while_nobody_knows_whether_they_were_written() -> None:
    stage = Stage(watch_lags=True)
    stage.server.put_object("a")
    stage.catch_up()
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    is_down = False

    def fail(request: str) -> None:
        nonlocal is_down
        if request == "PUT resourceclaims/a/status":
            is_down = True
            raise LOST
        if is_down:
            raise LOST

    stage.server.after = fail
    running = asyncio.ensure_future(stage.commits.pre_bind(reservation, RULES))
    await stage.settle()
    for _ in range(10):
        await stage.clock.advance(20)
        assert stage.taken() == {"gpu-0"}
    assert not running.done()
    stage.server.after = lambda _request: None
    await stage.clock.advance(20)
    await stage.settle()
    assert (await running).is_success
    assert stage.taken() == {"gpu-0"}


async def test_devices_stay_taken_where_somebody_took_our_reservation_away_before_we_saw_it() -> None:
    """The answer is lost, the pod ends, and the controller releases the claim, which keeps its allocation."""
    stage = Stage(watch_lags=True)
    stage.server.put_object("a")
    stage.catch_up()
    stage.server.after = once("PUT resourceclaims/a/status", LOST)
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    changed = stage.server.on_change

    def release(now: Any, last: Any) -> None:
        changed(now, last)
        if now is not None and now["status"].get("reservedFor"):
            stage.server.change("a", reservedFor=[])

    stage.server.on_change = release
    status = await pre_bound(stage, reservation)
    assert status.message == "claim default/a got allocated elsewhere in the meantime"
    stage.commits.unreserve(reservation)
    assert stage.taken() == {"gpu-0"}, "the API server has it allocated, although the watch has not shown that"


async def test_a_server_that_fails_three_times_has_refused_if_the_claim_is_as_before() -> None:
    stage = Stage()
    stage.server.put_object("a")
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    stage.server.before = once("PUT resourceclaims/a/status", refusal(500, "webhook"), times=99)
    status = await pre_bound(stage, reservation)
    assert status.reasons == ("add allocation and reservation to claim default/a: webhook",)
    assert stage.server.requests.count("PUT resourceclaims/a/status") == 3


async def test_a_cancelled_pre_bind_gives_its_devices_back_when_the_write_is_over() -> None:
    stage = Stage(watch_lags=True)
    stage.server.put_object("a")
    stage.catch_up()
    reservation = stage.reserve(POD, a=allocation("gpu-0"))
    gate = asyncio.Event()
    stage.server.before = lambda request: gate.wait() if request.endswith("/status") else None
    running = asyncio.ensure_future(stage.commits.pre_bind(reservation, RULES))
    await stage.settle()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    stage.commits.unreserve(reservation)
    await stage.settle()
    assert stage.taken() == {"gpu-0"}  # the request is on its way
    gate.set()
    await stage.settle()
    assert stage.taken() == {"gpu-0"}  # it was applied: the claim has the device now, and nobody has it reserved
    assert stage.server.objects["a"]["status"]["reservedFor"] == []
    assert stage.tracker.pending(reservation.claims[0].claim.metadata.uid) is None
    assert len(stage.commits) == 0


async def test_a_new_attempt_waits_until_the_old_reservation_is_taken_away() -> None:
    """Otherwise the late patch would take the reservation from a pod that is bound."""
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {}}, reservedFor=[{"name": "p", "uid": "pod-uid"}])
    gate = asyncio.Event()
    stage.server.before = lambda request: gate.wait() if request.startswith("PATCH") else None
    stage.commits.unreserve(stage.reserve(POD, a=None))
    running = asyncio.ensure_future(stage.commits.pre_bind(stage.reserve(POD, a=None), RULES))
    await stage.settle()
    assert stage.server.requests == ["PATCH resourceclaims/a/status"]
    gate.set()
    await stage.settle()
    assert (await running).is_success
    assert [user["uid"] for user in stage.server.objects["a"]["status"]["reservedFor"]] == ["pod-uid"]


async def test_a_new_attempt_waits_for_all_that_were_given_up_before_it() -> None:
    """The first one's request is slow. The second is given up, too, and its reservation taken away at once."""
    stage, slow = Stage(), asyncio.Event()
    user = {"resource": "pods", "name": "p", "uid": "pod-uid"}
    allocated = msgspec.to_builtins(allocation("gpu-0"))
    stage.server.put_object("a", allocation=allocated, reservedFor=[user])
    stage.server.before = lambda request: slow.wait() if stage.server.requests == [request] else None
    for _ in range(2):
        given_up = stage.reserve(POD, a=None)
        running = asyncio.ensure_future(stage.commits.pre_bind(given_up, RULES))
        await stage.settle()
        running.cancel()
        await stage.settle()
        stage.commits.unreserve(given_up)
        await stage.settle()
    third = asyncio.ensure_future(stage.commits.pre_bind(stage.reserve(POD, a=None), RULES))
    await stage.settle()
    slow.set()
    await stage.settle()
    assert (await third).is_success
    await stage.settle()
    assert stage.server.objects["a"]["status"]["reservedFor"] == [user]


async def test_only_the_pods_own_pending_devices_are_given_back() -> None:
    """A pod that merely shares an allocated claim must not free what another pod is about to write."""
    stage = Stage()
    stage.server.put_object("a")
    other = stage.reserve(make_pod("q", uid="q-uid"), a=allocation("gpu-0"))
    stage.commits.unreserve(stage.reserve(POD, a=None))
    assert stage.tracker.pending(other.claims[0].claim.metadata.uid) is not None


# --- freeing ----------------------------------------------------------------------------------------------------------


async def test_a_freed_claim_has_no_allocation_no_reservation_and_no_status_of_devices() -> None:
    stage = Stage()
    reserved = [{"name": "p", "uid": "pod-uid"}]
    stage.server.put_object("a", allocation={"devices": {}}, reservedFor=reserved, devices=[{}], future=1)
    request = Deallocation(POD, stage.server.claim("a"))
    stage.commits.free(request)
    stage.commits.free(request)  # the pod was tried again meanwhile
    await stage.settle()
    assert stage.server.objects["a"]["status"] == {"future": 1}
    assert stage.server.writes() == ["PUT resourceclaims/a/status"]


async def test_a_claim_that_somebody_else_has_reserved_meanwhile_is_not_freed() -> None:
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {}})
    request = Deallocation(POD, stage.server.claim("a"))

    def race(seen: str) -> None:
        if seen.startswith("PUT"):
            stage.server.before = lambda _request: None
            stage.server.change("a", reservedFor=[{"name": "q", "uid": "q-uid"}])

    stage.server.before = race
    stage.commits.free(request)
    await stage.settle()
    await stage.clock.advance(1)
    assert "allocation" in stage.server.objects["a"]["status"]
    assert stage.activated == []


async def test_a_pod_whose_claim_could_not_be_freed_is_tried_again() -> None:
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {}})
    stage.server.before = once("PUT resourceclaims/a/status", refusal(403))
    stage.commits.free(Deallocation(POD, stage.server.claim("a")))
    await stage.settle()
    assert stage.activated == []
    await stage.clock.advance(5)
    assert stage.activated == ["default/p"]


async def test_a_pod_that_is_tried_again_while_its_claim_is_freed_does_not_reserve_it() -> None:
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {}}, reservedFor=[{"name": "p", "uid": "pod-uid"}])
    reservation = stage.reserve(POD, a=None)
    stage.commits.free(Deallocation(POD, stage.server.claim("a")))
    status = await pre_bound(stage, reservation)
    assert status.reasons == ("claim default/a got deallocated elsewhere in the meantime",)


async def test_stopping_waits_for_what_has_begun() -> None:
    stage = Stage()
    stage.server.put_object("a", allocation={"devices": {}})
    stage.commits.free(Deallocation(POD, stage.server.claim("a")))
    assert await stage.commits.stop()
    assert stage.server.objects["a"]["status"] == {}
