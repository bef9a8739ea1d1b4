"""Patches a pod group's status."""

from typing import Any, Final
from urllib.parse import quote

import msgspec

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.api.meta import Condition, rfc3339
from kscheduler.client.rest import STRATEGIC_MERGE, APIClient

_encode: Final = msgspec.json.Encoder().encode


class PodGroupStatusPatcher:
    """Patches a condition with a single request."""

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
