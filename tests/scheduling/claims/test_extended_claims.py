"""The claim for a pod's extended resources is created, written and named in the pod; without the pod it is deleted."""

import asyncio

import msgspec

from kscheduler.api.core import ContainerExtendedResourceRequest
from kscheduler.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kscheduler.api.meta import ObjectMeta, OwnerReference
from kscheduler.framework.cluster.claim_writing import ClaimRules, Deallocation, PodReservation, ReservedClaim
from kscheduler.framework.pods.pod_info import PodInfo
from tests.builders import make_pod
from tests.scheduling.claims.stage import LOST, Stage, allocation, refusal

POD = make_pod("p", uid="pod-uid")
MAPPINGS = (ContainerExtendedResourceRequest("main", "example.com/gpu", "container-0-request-0"),)
NAME = "p-extended-resources-abcde"


def reserved(stage: Stage) -> PodReservation:
    """As the plugin has prepared it: the claim exists in memory only."""
    owner = OwnerReference(kind="Pod", name="p", uid="pod-uid", api_version="v1", controller=True)
    meta = ObjectMeta(
        name="<extended-resources>",
        namespace="default",
        uid="in-memory",
        annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        owner_references=(owner,),
    )
    request = DeviceRequest("container-0-request-0", ExactDeviceRequest("gpu", count=1))
    claim = ResourceClaim(metadata=meta, spec=ResourceClaimSpec(DeviceClaim((request,))))
    chosen = allocation("gpu-0")
    status = msgspec.structs.replace(claim.status, allocation=chosen)
    stage.tracker.signal_pending("in-memory", msgspec.structs.replace(claim, status=status))
    return PodReservation(PodInfo(POD), "node-1", [ReservedClaim(claim, chosen, "in-memory", MAPPINGS)])


async def test_it_is_created_allocated_reserved_and_named_in_the_pods_status() -> None:
    stage = Stage()
    reservation = reserved(stage)
    assert (await stage.commits.pre_bind(reservation, ClaimRules())).is_success
    created = stage.server.objects[NAME]
    assert created["metadata"]["annotations"] == {EXTENDED_RESOURCE_CLAIM: "true"}
    assert created["metadata"]["ownerReferences"][0]["uid"] == "pod-uid"
    assert created["spec"]["devices"]["requests"][0]["exactly"] == {"deviceClassName": "gpu", "count": 1}
    assert created["status"]["reservedFor"][0]["uid"] == "pod-uid"
    reported = stage.server.pod_patches[0]["status"]["extendedResourceClaimStatus"]
    assert reported["resourceClaimName"] == NAME
    assert reported["requestMappings"][0]["requestName"] == "container-0-request-0"
    assert stage.taken() == {"gpu-0"}
    assert stage.tracker.pending("in-memory") is None
    assert stage.observations.claims_created == {("success", "false", "", "Pod"): 1}


async def test_its_devices_are_taken_although_the_watch_has_not_shown_it_yet() -> None:
    stage = Stage(watch_lags=True)
    running = asyncio.ensure_future(stage.commits.pre_bind(reserved(stage), ClaimRules()))
    await stage.settle()
    await stage.clock.advance(10)
    assert not running.done()
    assert stage.taken() == {"gpu-0"}
    stage.catch_up()
    await stage.clock.advance(1)
    await stage.settle()
    assert (await running).is_success
    assert stage.taken() == {"gpu-0"}


async def test_it_is_deleted_when_the_pod_is_not_bound_after_all() -> None:
    stage = Stage()
    stage.server.before = lambda request: refuse(request, "PATCH pods/p/status")
    reservation = reserved(stage)
    status = await stage.commits.pre_bind(reservation, ClaimRules())
    assert status.reasons == ("update pod default/p ExtendedResourceClaimStatus: no",)
    stage.commits.unreserve(reservation)
    await stage.settle()
    assert stage.server.objects == {}
    assert stage.taken() == set()


async def test_one_that_cannot_be_created_leaves_nothing() -> None:
    stage = Stage()
    stage.server.before = lambda request: refuse(request, "POST resourceclaims")
    reservation = reserved(stage)
    status = await stage.commits.pre_bind(reservation, ClaimRules())
    assert status.reasons == ("create claim for extended resources default/<extended-resources>: no",)
    stage.commits.unreserve(reservation)
    await stage.settle()
    assert stage.taken() == set()
    assert stage.observations.claims_created == {("failure", "false", "", "Pod"): 1}


async def test_one_that_an_earlier_scheduler_left_is_deleted_whatever_it_holds() -> None:
    stage = Stage()
    left = stage.server.put_object("left", allocation={"devices": {}}, reservedFor=[{"uid": "pod-uid"}])
    left["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    stage.commits.free(Deallocation(POD, stage.server.claim("left"), is_deletion=True))
    await stage.settle()
    assert stage.server.objects == {}


async def test_a_pod_without_devices_of_drivers_needs_no_claim() -> None:
    stage = Stage()
    reservation = reserved(stage)
    reservation.claims[0].mappings = ()
    assert (await stage.commits.pre_bind(reservation, ClaimRules())).is_success
    assert stage.server.requests == []


def refuse(request: str, refused: str) -> None:
    if request == refused:
        raise refusal(403) if "PATCH" in request or "POST" in request else LOST
