"""Patches a pod's status.

The answer is the pod as the server has it now. The watch brings it a moment later; until then the next patch is
compared with the answer.
"""

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.api.codec import Decoder
from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition, rfc3339
from kscheduler.client.rest import STRATEGIC_MERGE, APIClient
from kscheduler.client.writes.pods import UNCHANGED, pod_path, status_patch

_pods: Decoder[Pod] = Decoder(Pod)


class PodStatusPatcher:
    """Patches a condition and a nomination with a single request."""

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
