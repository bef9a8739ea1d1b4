"""Stories with claims to devices: written, given back and taken again, shared, refused, and in the middle of it all."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from benchmarks.recorder.random_cluster import RandomCluster
from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.devices import DeviceClass, ResourceClaim
from kscheduler.api.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from kscheduler.assembly import Assembly, Ports
from kscheduler.client.claim_writes import ApiClaimWriter
from kscheduler.client.errors import UnknownOutcomeError
from kscheduler.client.watch import WatchEvent
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.informers.store import Store
from kscheduler.plugins.in_tree import registry
from kscheduler.recorder.entries import Op
from kscheduler.recorder.replaying.replay import Report
from kscheduler.recorder.restored_state import SnapshotRestore
from kscheduler.recorder.segments import SegmentReader, segments_in
from kscheduler.recorder.snapshot import SchedulerSnapshot, snapshot_of
from tests.effort import sampled
from tests.plugins.dynamic_resources.stage import allocation, claim, device_class, devices_of
from tests.recorder.recorded import record, replayed
from tests.recorder.test_stories import Evaluators, VolumeStory
from tests.scheduling.claims.stage import ClaimServer, refusal

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
VERSIONS = pytest.mark.parametrize("version", ["1.36", "1.37"])
KEYS = pytest.mark.parametrize(
    "key", sampled([b"", b"0123456789abcdef"], 1, "records and replays once more"), ids=["with names", "redacted"]
)
SHARED = ("shared-a", "shared-b")
Tree = dict[str, Any]


def assert_equal(report: Report) -> None:
    assert report.differences == []
    assert report.astray == []
    assert report.is_equal
    assert report.wrong_digests == 0 < report.digests


def configuration(version: str) -> Any:
    """Without the end of a search after ten seconds: these are half a second here, and a machine may be busy."""
    return default_configuration("kscheduler", parse_feature_gates("DRASchedulerFilterTimeout=false", version=version))


def ops(directory: Path) -> set[int]:
    found = set()
    for name in segments_in(directory):
        for block in SegmentReader(name.path).blocks():
            found |= {entry[0] for entry in block}
    return found


class ClaimStory(RandomCluster):
    """Half of the pods have claims of their own or share one; requests are late, and some fail.

    The watch shows a claim some turns after the API server has it. What a pod held is given back when it is gone.
    """

    fails = 0.1

    def _ports(self, journal: Any) -> Ports:
        self.server = ClaimServer()
        self.server.on_change = self._changed
        self.server.before, self.server.after = self._before_claim, self._after_claim
        return replace(super()._ports(journal), claim_storage=ApiClaimWriter(self.server))

    def populate(self) -> None:
        self._show(DEVICE_CLASSES, "ADDED", convert({"metadata": {"name": "gpu", "uid": "gpu"}}, DeviceClass))
        super().populate()
        for name in SHARED:
            self.server.put_object(name)

    def _add_node(self) -> None:
        before = set(self._nodes)
        super()._add_node()
        for name in set(self._nodes) - before:
            self._show(RESOURCE_SLICES, "ADDED", devices_of(name, "gpu-0", "gpu-1", "gpu-2"))

    def report(self, pod: Tree) -> None:
        chance, name = self._random.random(), pod["metadata"]["name"]
        if chance < 0.5:
            return
        names = [f"{name}-a", f"{name}-b"][: 1 + (chance < 0.65)]
        for each in names:
            self.server.put_object(each)
        if chance > 0.9:
            names.append(self._random.choice(SHARED))
        pod["spec"]["resourceClaims"] = [
            {"name": f"r{number}", "resourceClaimName": each} for number, each in enumerate(names)
        ]

    # --- the API server -----------------------------------------------------------------------------------------------

    def _changed(self, now: Tree | None, last: Tree) -> None:
        claim, event = convert(now or last, ResourceClaim), "DELETED" if now is None else "MODIFIED"
        self._soon(lambda: self._show_claim(event, claim))

    def _show_claim(self, event: str, claim: ResourceClaim) -> None:
        informer = self.informers[RESOURCE_CLAIMS]
        known = informer.store.get(claim.key)
        versions = claim.metadata.resource_version, known and known.metadata.resource_version
        if event == "DELETED" or versions[1] is None or int(versions[0]) > int(versions[1]):
            informer.apply(WatchEvent(event, claim))

    def _before_claim(self, request: str) -> Awaitable[object]:
        async def wait() -> None:
            for _ in range(self._random.randrange(6)):
                await asyncio.sleep(0)
            if not request.startswith("GET") and self._random.random() < self.fails:
                raise refusal(409, "the object has been modified") if self._random.random() < 0.5 else refusal(403)

        return wait()

    def _after_claim(self, request: str) -> Awaitable[object]:
        async def wait() -> None:
            for _ in range(self._random.randrange(4)):
                await asyncio.sleep(0)
            if not request.startswith("GET") and self._random.random() < self.fails / 4:
                raise UnknownOutcomeError("no answer")

        return wait()

    def _delete(self, key: str) -> None:
        """The pod is gone; as the controller of claims does, so is what was made for it, and what it shared is free."""
        pod = self.pod_of(key)
        super()._delete(key)
        if pod is None:
            return
        for reference in pod.spec.resource_claims:
            name = reference.resource_claim_name or ""
            stored = self.server.objects.get(name)
            if stored is None:
                continue
            if name not in SHARED:
                self.server.remove(name)
                continue
            users = stored["status"].get("reservedFor", ())
            left = [user for user in users if user["uid"] != pod.metadata.uid]
            changes: Tree = {"reservedFor": left} if left else {"reservedFor": [], "allocation": None}
            if len(left) < len(users):
                self.server.change(name, **changes)


@VERSIONS
@KEYS
def test_claims_that_are_written_given_back_and_taken_again_are_decided_as_recorded(
    version: str, key: bytes, tmp_path: Path
) -> None:
    record(tmp_path, 200, 11, config=configuration(version), cluster_type=ClaimStory, redaction_key=key)
    assert_equal(replayed(tmp_path).report)
    assert {Op.CLAIM, Op.NOT_PENDING, Op.ABANDONED} <= ops(tmp_path)


@pytest.mark.parametrize(
    ("story", "version", "key"),
    [
        (ClaimStory, "1.36", b""),
        pytest.param(ClaimStory, "1.37", b"0123456789abcdef", marks=pytest.mark.slow("records and replays once more")),
        (VolumeStory, "1.37", b"0123456789abcdef"),
    ],
    ids=["devices, 1.36", "devices, redacted", "volumes, redacted"],
)
def test_a_segment_that_begins_in_the_middle_knows_what_is_reserved(
    story: type[RandomCluster], version: str, key: bytes, tmp_path: Path
) -> None:
    config = configuration(version)
    record(tmp_path, 300, 12, config=config, cluster_type=story, segment_bytes=2_000, redaction_key=key)
    report = replayed(tmp_path, each_segment=True).report
    assert report.segments > 3
    assert_equal(report)


class ExtendersAndClaims(ClaimStory):
    """Some pods are decided about after extenders have answered."""

    def _ports(self, journal: Any) -> Ports:
        return replace(super()._ports(journal), extenders=lambda _: Evaluators())


class ExtendersAndVolumes(VolumeStory):
    """Likewise."""

    def _ports(self, journal: Any) -> Ports:
        return replace(super()._ports(journal), extenders=lambda _: Evaluators())


@pytest.mark.parametrize("story", [ExtendersAndClaims, ExtendersAndVolumes], ids=["devices", "volumes"])
def test_what_a_followed_decision_has_reserved_is_not_given_to_the_next_pod(
    story: type[RandomCluster], tmp_path: Path
) -> None:
    record(tmp_path, 250, 13, config=configuration("1.37"), cluster_type=story)
    report = replayed(tmp_path).report
    assert report.differences == []
    assert report.followed
    if story is ExtendersAndClaims:  # few pods have volumes, and of these few are asked about
        assert Op.RESERVED in ops(tmp_path)


# --- one by one -------------------------------------------------------------------------------------------------------


def state_of(assembly: Assembly) -> tuple[SchedulerSnapshot, dict[str, Any]]:
    """A snapshot, and what it says of the state."""
    objects: dict[Kind, list[Any]] = {RESOURCE_CLAIMS: [], DEVICE_CLASSES: []}
    taken = snapshot_of(assembly, objects, {}, 0, {}, 0)
    *_, (_, _, state) = taken.entries()
    return taken, state


def put_back(assembly: Assembly, taken: SchedulerSnapshot, state: dict[str, Any], *stored: Any) -> None:
    versions = [
        (number, obj)
        for entry in taken.entries()
        if entry[1] == "versions"
        for number, obj in ((entry[2], each) for each in entry[3])
    ]
    stores: dict[Kind, Store[Any]] = {kind: Store() for kind in (RESOURCE_CLAIMS, DEVICE_CLASSES, NODES, PODS)}
    for obj in stored:
        stores[DEVICE_CLASSES if isinstance(obj, DeviceClass) else RESOURCE_CLAIMS].put(obj.key, obj)
    SnapshotRestore(assembly, stores, versions).put(state, 0.0)


def test_a_claim_that_is_written_and_still_pending_is_put_back_so() -> None:
    """In 1.37 it stays pending until the pod's other claims are written: its end must not end more than that."""
    assembly, other = (Assembly(configuration("1.37"), registry(), Ports(), VirtualClock()) for _ in range(2))
    claims = assembly.cache.devices.claims
    claims.update(claim("c0"))
    claims.signal_pending("uid-c0", claim("c0", allocated=allocation("n0", "gpu-0")))
    claims.signal_pending("uid-c0", claim("c0", allocated=allocation("n0", "gpu-0")))
    claims.assume(claim("c0", allocated=allocation("n0", "gpu-0"), version=2))
    put_back(other, *state_of(assembly), claim("c0"))
    found = other.cache.devices.claims
    assert found.all_pending() == claims.all_pending()
    assert found.get("default/c0") == claims.get("default/c0")
    found.delete(claim("c0"))
    assert found.allocated_state().devices


def test_the_class_that_stands_for_a_resource_is_put_back_whatever_the_order_of_classes() -> None:
    """A name that its class has lost belongs to nobody until another class changes: the classes alone do not tell."""
    assembly, other = (Assembly(configuration("1.37"), registry(), Ports(), VirtualClock()) for _ in range(2))
    devices = assembly.cache.devices
    old, new = device_class("old", extendedResourceName="a.b/c"), device_class("new", extendedResourceName="a.b/c")
    devices.put_class(old)
    devices.put_class(new)
    devices.remove_class("new")
    assert devices.class_of_resource("a.b/c") is None
    put_back(other, *state_of(assembly), old)
    assert other.cache.devices.classes_of_resources() == devices.classes_of_resources()


def test_a_recording_of_before_is_put_back_without_what_is_reserved() -> None:
    assembly, other = (Assembly(configuration("1.37"), registry(), Ports(), VirtualClock()) for _ in range(2))
    taken, state = state_of(assembly)
    later = {"reserved", "pending claims", "assumed claims", "assumed volumes", "extended resources"}
    assert later <= state.keys()
    put_back(other, taken, {name: value for name, value in state.items() if name not in later}, device_class("gpu"))
    assert other.cache.devices.class_names() == ("gpu",)
