"""The extenders of the configuration in force, and their connections.

A configuration is drafted, and then adopted or dropped. A draft opens nothing, so only what was adopted has to be
closed: when another configuration is adopted, or at the end. Pods whose extenders were being asked are tried again,
and then the new ones are asked. Whoever configures no extender imports no client for them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Node, Pod
from kscheduler.client.errors import ClientError
from kscheduler.config.types import Extender
from kscheduler.scheduling.extenders.answers import AsksExtenders

if TYPE_CHECKING:
    from kscheduler.scheduling.extenders.building import ExtenderSet

UNKNOWN: Final = ""
"""The node of a pod that has none, or of which the API server tells nothing now."""


class PodReader(Protocol):
    """The part of `client.writes.pods.PodWriter` that is needed."""

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Read the pod, uncached."""
        ...


class ExtenderConnections:
    """Builds the extenders of drafts, and keeps those in force. Implements `assembly.ports.Ports.extenders`."""

    def __init__(self, pods: PodReader, node_of: Callable[[str], Node | None], may_bind: Callable[[], bool]) -> None:
        """`may_bind`: whether this process leads, asked before each call that binds a pod."""
        self._pods = pods
        self._node_of = node_of
        self._may_bind = may_bind
        self._drafts: dict[int, ExtenderSet] = {}
        """By the identity of what asks; only the draft made last may still be adopted."""
        self._in_force: ExtenderSet | None = None
        self._to_close: list[ExtenderSet] = []

    def __call__(self, extenders: Sequence[Extender]) -> AsksExtenders | None:
        """The extenders of a draft; `None` without any."""
        self._drafts.clear()
        if not extenders:
            return None
        from kscheduler.scheduling.extenders.building import ExtenderSet  # brings the client, and the start is measured

        drafted = ExtenderSet(extenders, self._node_of, may_bind=self._may_bind, pod_is_on=self.node_in_api)
        self._drafts[id(drafted.asking)] = drafted
        return drafted.asking

    def adopt(self, asking: AsksExtenders | None) -> None:
        """Take a draft into force. What was in force before is closed by `close_replaced`."""
        if self._in_force is not None:
            self._to_close.append(self._in_force)
        self._in_force = self._drafts.pop(id(asking), None)
        if self._in_force is not None:
            self._in_force.announce()

    async def close_replaced(self) -> None:
        """Close the connections of extenders that are in force no more."""
        while self._to_close:
            await self._to_close.pop().close()

    async def aclose(self) -> None:
        """Close all connections."""
        self.adopt(None)
        await self.close_replaced()

    async def node_in_api(self, pod: Pod) -> str:
        """The node that the API server has the pod on, or `UNKNOWN`."""
        meta = pod.metadata
        try:
            found = await self._pods.get_pod(meta.namespace, meta.name)
        except (ClientError, UndecodableError):
            return UNKNOWN
        return found.spec.node_name if found.metadata.uid == meta.uid else UNKNOWN
