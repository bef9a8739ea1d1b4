"""A scheduler's writes to pods and their groups: binding, status, deletion.

Bodies are built by hand, since binds are the hot path.

Each write carries the pod's UID, so that a decision for one pod never touches a later pod of the same name: the API
server answers 409.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Final
from urllib.parse import quote

import msgspec

from kscheduler.aio import REAL_CLOCK, Backoff, Clock
from kscheduler.api.codec import Decoder, UndecodableError
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition, rfc3339
from kscheduler.client.errors import APIError, ClientError, NotSentError, UnknownOutcomeError
from kscheduler.client.rest import STRATEGIC_MERGE, APIClient


class Unchanged(Enum):
    """The type of `UNCHANGED`."""

    UNCHANGED = "unchanged"


# Leave the nominated node as it is; the empty string clears it.
UNCHANGED: Final = Unchanged.UNCHANGED

_encode = msgspec.json.Encoder().encode
_pods: Decoder[Pod] = Decoder(Pod)
_STATUS_TRIES = 4
# A webhook may take 30 s, and its answer is waited for. A Binding that was lost on the way is never answered: the pod
# is read after this time, and bound within a minute of the fault. A shorter timeout would leave the outcome of slow
# Bindings unknown, so that they are sent again; one that takes longer is settled by the same reading. (A dead
# connection is noticed after 30 s.)
BIND_SECONDS: Final = 50.0
# Two names as nearly all are, joined; `quote` costs three times as much and changes nothing of them.
_needs_no_quotes = re.compile("[A-Za-z0-9._~-]+/[A-Za-z0-9._~-]+").fullmatch
_BINDING = (
    b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":%b,"namespace":%b,"uid":%b},'
    b'"target":{"kind":"Node","name":%b}}'
)
_ANNOTATED = _BINDING.replace(b'"uid":%b', b'"uid":%b,"annotations":%b')


def pod_path(namespace: str, name: str) -> str:
    """The pod's URL path."""
    if _needs_no_quotes(f"{namespace}/{name}"):
        return f"/api/v1/namespaces/{namespace}/pods/{name}"
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def binding_body(namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] | None = None) -> bytes:
    """The Binding of a pod to a node, valid for this UID only; the pod gets the annotations with it."""
    if annotations:
        return _ANNOTATED % (_encode(name), _encode(namespace), _encode(uid), _encode(annotations), _encode(node))
    return _BINDING % (_encode(name), _encode(namespace), _encode(uid), _encode(node))


class PodWriter:
    """Writes to pods, and reads a pod uncached when a write's outcome is unknown."""

    def __init__(self, client: APIClient, clock: Clock = REAL_CLOCK) -> None:
        self._client = client
        self._clock = clock

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Bind a pod to a node; it gets the annotations with it.

        Raises `APIError` (409: bound already, or another pod under this name; 404: gone), `NotSentError` (safe to try
        again) and `UnknownOutcomeError` (read the pod to know). Nothing is tried again here, not even after a 429: the
        caller slows down for all pods, not for this one.
        """
        path = f"{pod_path(namespace, name)}/binding"
        body = binding_body(namespace, name, uid, node, annotations)
        await self._client.post(path, body, retries=0, timeout_seconds=BIND_SECONDS, joins=namespace)

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """The pod as the API server has it now, not as a cache has it. Raises `APIError`, `UndecodableError`."""
        return _pods.decode(await self._client.get(pod_path(namespace, name)))

    async def patch_pod_status(
        self, pod: Pod, condition: Condition | None, nominated_node_name: str | Unchanged = UNCHANGED
    ) -> bool:
        """Set a condition and the nominated node; whether anything had to change.

        `pod` is our copy: UID for the precondition, previous condition and nomination, generation. Tried four times on
        conflict, 500, 503 and refused connections, as in kube-scheduler, and also when no answer came. Raises as
        `bind`.
        """
        now = rfc3339(self._clock.time())
        body = status_patch(pod, condition, nominated_node_name, now)
        if body is None:
            return False
        path = f"{pod_path(pod.metadata.namespace, pod.metadata.name)}/status"
        await self._insist(lambda: self._client.patch(path, body, STRATEGIC_MERGE))
        return True

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        """Give the pod this condition, then delete it; False if it was gone already, or another pod has its name.

        Both are tried four times, as `patch_pod_status`; doing it again does no harm. Raises as `bind`.
        """
        meta = pod.metadata
        try:
            await self.patch_pod_status(pod, condition)
            await self._insist(lambda: self.delete_pod(meta.namespace, meta.name, meta.uid))
        except APIError as refusal:
            if refusal.is_not_found or (refusal.is_conflict and await self._is_gone(pod)):
                return False
            raise
        return True

    async def evict_as_seen(self, pod: Pod) -> None:
        """Evict the pod through the eviction API, if it is still the version that we have seen.

        Raises as `bind`; 429: a disruption budget forbids it, 409: it has changed, 404: it is gone. Sent once.
        """
        meta = pod.metadata
        preconditions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": preconditions},
        }
        await self._client.post(f"{pod_path(meta.namespace, meta.name)}/eviction", _encode(eviction), retries=0)

    async def _is_gone(self, pod: Pod) -> bool:
        """After a conflict: whether the pod is gone, or another pod has its name now."""
        try:
            found = await self.get_pod(pod.metadata.namespace, pod.metadata.name)
        except APIError as refusal:
            return refusal.is_not_found
        except (ClientError, UndecodableError):
            return False
        return found.metadata.uid != pod.metadata.uid

    async def _insist(self, send: Callable[[], Awaitable[object]]) -> None:
        """Send up to four times while a retry can help. (The client itself waits after a 429 with Retry-After.)

        `send` must be safe to repeat: after a lost answer, sending again is how the outcome becomes known.
        """
        backoff = Backoff(0.01, factor=5.0, cap_seconds=10.0, jitter=0.1, clock=self._clock)
        for left in range(_STATUS_TRIES - 1, -1, -1):
            try:
                await send()
            except (APIError, NotSentError, UnknownOutcomeError) as error:
                if not left or not _worth_another_try(error):
                    raise
                await self._clock.sleep(backoff.next())
            else:
                return

    async def delete_pod(self, namespace: str, name: str, uid: str, *, grace_period_seconds: int | None = None) -> None:
        """Delete the pod with this UID; the grace period is the pod's own unless given. Raises as `bind`."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        await self._client.delete(pod_path(namespace, name), _encode(options))


def _worth_another_try(error: APIError | NotSentError | UnknownOutcomeError) -> bool:
    return not isinstance(error, APIError) or error.is_conflict or error.is_timeout or error.code in (500, 503)


def status_patch(pod: Pod, condition: Condition | None, nominated_node_name: str | Unchanged, now: str) -> bytes | None:
    """A strategic merge patch of the status (conditions merge by type), or `None` when nothing would change.

    `now` in RFC 3339; lastTransitionTime moves only when the condition's status does (UpdatePodCondition upstream).
    """
    status: dict[str, Any] = {}
    changed = _changed_condition(pod, condition, now) if condition is not None else None
    if changed is not None:
        status["conditions"] = [changed]
    if nominated_node_name is not UNCHANGED and nominated_node_name != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated_node_name or None
    if not status:
        return None
    return _encode({"metadata": {"uid": pod.metadata.uid}, "status": status})


def _changed_condition(pod: Pod, condition: Condition, now: str) -> dict[str, Any] | None:
    previous = next((known for known in pod.status.conditions if known.type == condition.type), None)
    same_status = previous is not None and previous.status == condition.status
    generation = condition.observed_generation or pod.metadata.generation or None
    updated = msgspec.structs.replace(
        condition,
        observed_generation=generation,
        last_transition_time=previous.last_transition_time if previous is not None and same_status else now,
        last_probe_time=previous.last_probe_time if previous is not None else None,
    )
    if updated == previous:
        return None
    fields: dict[str, Any] = msgspec.to_builtins(updated)
    # Defaults are not encoded, but a merge patch must say explicitly that a reason or message is gone.
    return {"reason": None, "message": None, "lastProbeTime": None, **fields}


class PodStatusPatcher:
    """Patches a condition and a nomination with a single request.

    The answer is the pod as the server has it now. The watch brings it a moment later; until then the next patch is
    compared with the answer.
    """

    def __init__(self, client: APIClient, clock: Clock = REAL_CLOCK) -> None:
        self._client = client
        self._clock = clock

    async def patch_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str | None) -> Pod:
        """Send what differs from `pod` and return the server's version; `pod` itself if nothing differs.

        `None` leaves that part as it is, the empty string clears the nomination. One request and no retries. Raises
        `APIError` (409: another pod has the name, or the object moved on), `NotSentError`, `UnknownOutcomeError`,
        `UndecodableError`.
        """
        now = rfc3339(self._clock.time())
        node = UNCHANGED if nominated_node_name is None else nominated_node_name
        body = status_patch(pod, condition, node, now)
        if body is None:
            return pod
        path = f"{pod_path(pod.metadata.namespace, pod.metadata.name)}/status"
        return _pods.decode(await self._client.patch(path, body, STRATEGIC_MERGE, retries=0))


class PodGroupStatusPatcher:
    """Patches a condition of a pod group with a single request."""

    def __init__(self, client: APIClient, clock: Clock = REAL_CLOCK) -> None:
        self._client = client
        self._clock = clock

    async def patch_condition(
        self, collection: str, namespace: str, name: str, uid: str, condition: Condition, since: str | None
    ) -> None:
        """Set the condition of the group with this UID; `since`: when its status last changed, `None`: now.

        `collection`: group, version and plural, as scheduling.k8s.io/v1beta1/podgroups. Raises as
        `PodStatusPatcher.patch_status`.
        """
        now = rfc3339(self._clock.time())
        changed: dict[str, Any] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": since or now,
        }
        if condition.observed_generation is not None:
            changed["observedGeneration"] = condition.observed_generation
        body = _encode({"metadata": {"uid": uid}, "status": {"conditions": [changed]}})
        group_version, _, plural = collection.rpartition("/")
        place = f"/apis/{group_version}/namespaces/{quote(namespace, safe='')}/{plural}/{quote(name, safe='')}/status"
        await self._client.patch(place, body, STRATEGIC_MERGE, retries=0)
