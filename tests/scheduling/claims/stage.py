"""Claims with an API server, a watch and a clock in a test's hands."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from kscheduler.client.claim_writes import ApiClaimWriter
from kscheduler.client.errors import APIError, APIStatus, UnknownOutcomeError
from kscheduler.client.rest import APIClient
from kscheduler.framework.cluster.claim_writing import PodReservation, ReservedClaim
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.claims.claim_commits import ClaimCommits
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.reports import Reporter
from kscheduler.state.devices.claims import ClaimTracker
from tests.builders import make_pod
from tests.scheduling.around import RecordedEvents

LOST = UnknownOutcomeError("no answer")


def refusal(code: int, message: str = "no", reason: str = "") -> APIError:
    """The server's answer."""
    return APIError(APIStatus(kind="Status", code=code, message=message, reason=reason))


def allocation(*devices: str, conditions: tuple[str, ...] = (), failures: tuple[str, ...] = ()) -> AllocationResult:
    """Devices of the pool `node-1`."""
    results = tuple(
        DeviceRequestAllocationResult(
            request="r",
            driver="gpu.example.com",
            pool="node-1",
            device=device,
            binding_conditions=conditions,
            binding_failure_conditions=failures,
        )
        for device in devices
    )
    return AllocationResult(devices=DeviceAllocationResult(results=results))


class ClaimServer(APIClient):
    """The resourceclaims of an API server, as `APIClient` would reach them: versions, UIDs, subresources, finalizers.

    `before` and `after` are asked about each request (`PUT claims/a/status`): what they raise is the answer, without
    and with the request having been applied.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.requests: list[str] = []
        self.before: Callable[[str], Awaitable[object] | None] = lambda _request: None
        self.after: Callable[[str], Awaitable[object] | None] = lambda _request: None
        self.on_change: Callable[[dict[str, Any] | None, dict[str, Any]], None] = lambda _now, _last: None
        self.pod_patches: list[dict[str, Any]] = []

    # --- what tests do ------------------------------------------------------------------------------------------------

    def put_object(self, name: str, **status: Any) -> dict[str, Any]:
        """Create a claim with fields that no scheduler knows."""
        self.version += 1
        self.objects[name] = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"{name}-uid-{self.version}",
                "resourceVersion": str(self.version),
                "finalizers": ["example.com/other"],
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "new": 1}}]}},
            "status": status,
        }
        self.on_change(self.objects[name], self.objects[name])
        return self.objects[name]

    def change(self, name: str, **status: Any) -> None:
        """Somebody else writes to the claim."""
        self._store(name, self.objects[name] | {"status": self.objects[name]["status"] | status})

    def mark_deleted(self, name: str) -> None:
        """Somebody deletes the claim, and a finalizer keeps it."""
        stored = self.objects[name]
        metadata = stored["metadata"] | {"deletionTimestamp": "2026-09-21T14:13:20Z"}
        self._store(name, stored | {"metadata": metadata})

    def remove(self, name: str) -> None:
        """The claim is gone."""
        last = self.objects.pop(name)
        self.on_change(None, last)

    def claim(self, name: str) -> ResourceClaim:
        """The claim as a scheduler sees it."""
        return convert(self.objects[name], ResourceClaim)

    def writes(self) -> list[str]:
        """All requests but reads."""
        return [request for request in self.requests if not request.startswith("GET")]

    # --- what `ApiClaimWriter` calls ----------------------------------------------------------------------------------

    async def get(self, path: str, *_: Any, **__: Any) -> bytes:
        return await self._result(f"GET {_short(path)}", lambda: self._found(_name(path)))

    async def put(self, path: str, body: bytes, **_: Any) -> bytes:
        return await self._result(f"PUT {_short(path)}", lambda: self._put(path, json.loads(body)))

    async def patch(self, path: str, body: bytes, *_: Any, **__: Any) -> bytes:
        return await self._result(f"PATCH {_short(path)}", lambda: self._patch(path, json.loads(body)))

    async def post(self, path: str, body: bytes, *_: Any, **__: Any) -> bytes:
        return await self._result(f"POST {_short(path)}", lambda: self._create(json.loads(body)))

    async def delete(self, path: str, body: bytes = b"", **_: Any) -> bytes:
        return await self._result(f"DELETE {_short(path)}", lambda: self._delete(_name(path), json.loads(body)))

    async def _result(self, request: str, work: Callable[[], dict[str, Any]]) -> bytes:
        self.requests.append(request)
        await asyncio.sleep(0)
        if (waiting := self.before(request)) is not None:
            await waiting
        answer = json.dumps(work()).encode()
        if (waiting := self.after(request)) is not None:
            await waiting
        return answer

    def _found(self, name: str) -> dict[str, Any]:
        if name not in self.objects:
            raise refusal(404, f'resourceclaims.resource.k8s.io "{name}" not found', "NotFound")
        return self.objects[name]

    def _put(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        name = _name(path)
        stored, meta = self._found(name), sent["metadata"]
        if (meta["uid"], meta["resourceVersion"]) != (stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]):
            raise refusal(409, "the object has been modified", "Conflict")
        assert path.endswith("/status"), "the rest of a claim is not sent back"
        if len(sent["status"].get("reservedFor", ())) > 256:
            raise refusal(422, "Too many: 257: must have at most 256 items", "Invalid")
        return self._store(name, stored | {"status": sent["status"]})

    def _patch(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        if "/pods/" in path:
            self.pod_patches.append(sent)
            return {}
        stored = self._found(_name(path))
        if sent["metadata"]["uid"] != stored["metadata"]["uid"]:
            raise refusal(409, "Precondition failed: UID in precondition", "Conflict")
        if "status" not in sent:
            return self._patch_finalizers(stored, sent["metadata"])
        gone = {entry["uid"] for entry in sent["status"]["reservedFor"]}
        kept = [entry for entry in stored["status"].get("reservedFor", ()) if entry["uid"] not in gone]
        return self._store(_name(path), stored | {"status": stored["status"] | {"reservedFor": kept}})

    def _patch_finalizers(self, stored: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
        metadata = stored["metadata"]
        if sent["resourceVersion"] != metadata["resourceVersion"]:
            raise refusal(409, "the object has been modified", "Conflict")
        gone = sent.get("$deleteFromPrimitiveList/finalizers", ())
        finalizers = dict.fromkeys([*metadata["finalizers"], *sent.get("finalizers", ())])
        kept = [name for name in finalizers if name not in gone]
        return self._store(metadata["name"], stored | {"metadata": metadata | {"finalizers": kept}})

    def _create(self, sent: dict[str, Any]) -> dict[str, Any]:
        name = sent["metadata"].pop("generateName") + "abcde"
        created = self.put_object(name)
        return self._store(name, {**sent, "metadata": created["metadata"] | sent["metadata"], "status": {}})

    def _delete(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        stored = self._found(name)
        if options["preconditions"]["uid"] != stored["metadata"]["uid"]:
            raise refusal(409, "Precondition failed", "Conflict")
        self.remove(name)
        return {}

    def _store(self, name: str, tree: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        tree = copy.deepcopy(tree)
        tree["metadata"]["resourceVersion"] = str(self.version)
        self.objects[name] = tree
        self.on_change(tree, tree)
        return tree


@dataclass
class Stage:
    """`ClaimCommits` with everything around it."""

    server: ClaimServer = field(default_factory=ClaimServer)
    tracker: ClaimTracker = field(default_factory=ClaimTracker)
    clock: VirtualClock = field(default_factory=VirtualClock)
    events: RecordedEvents = field(default_factory=RecordedEvents)
    observations: Observations = field(default_factory=Observations)
    activated: list[str] = field(default_factory=list)
    watch_lags: bool = False
    """The watch shows nothing until `catch_up`."""
    _unseen: list[tuple[dict[str, Any] | None, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.on_change = self._changed
        self.commits = ClaimCommits(
            ApiClaimWriter(self.server),
            self.tracker,
            self.activated.extend,
            Observers(self.observations, Reporter(self.events)),
            self.clock,
        )

    def _changed(self, now: dict[str, Any] | None, last: dict[str, Any]) -> None:
        self._unseen.append((copy.deepcopy(now), copy.deepcopy(last)))
        if not self.watch_lags:
            self.catch_up()

    def catch_up(self) -> None:
        """The watch shows all that has happened."""
        unseen, self._unseen[:] = list(self._unseen), []
        for now, last in unseen:
            if now is None:
                self.tracker.delete(convert(last, ResourceClaim))
            else:
                self.tracker.update(convert(now, ResourceClaim))

    def reserve(self, pod: Pod | None, **claims: AllocationResult | None) -> PodReservation:
        """What the plugin does in Reserve: by claim, the devices that were chosen, `None` for an allocated claim."""
        reservation = PodReservation(PodInfo(pod or make_pod("p", uid="pod-uid")), "node-1")
        for name, chosen in claims.items():
            claim = self.tracker.get(f"default/{name}")
            assert claim is not None
            uid = claim.metadata.uid if chosen is not None else ""
            if chosen is not None:
                status = msgspec.structs.replace(claim.status, allocation=chosen)
                self.tracker.signal_pending(uid, msgspec.structs.replace(claim, status=status))
            reservation.claims.append(ReservedClaim(claim, chosen, uid))
        return reservation

    def taken(self) -> set[str]:
        """The devices that decisions must leave alone."""
        return {device.device for device in self.tracker.allocated_state().devices}

    async def settle(self) -> None:
        """Let tasks run until nothing happens without time passing."""
        for _ in range(200):
            await asyncio.sleep(0)


def _name(path: str) -> str:
    return path.removesuffix("/status").rpartition("/")[2]


def _short(path: str) -> str:
    return path.partition("/namespaces/default/")[2]
