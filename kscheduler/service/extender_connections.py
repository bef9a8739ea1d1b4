"""The extenders of the configuration in force, and their connections.

A configuration is drafted, and then applied or dropped. A draft opens nothing, so only what was applied has to be
closed. An attempt that has begun keeps its extenders, as it keeps its profile; so what another configuration replaced
is looked at whenever an attempt ends, and closed once no attempt has it. A configuration with the same extenders keeps
their connections. Without a configured extender no client for them is imported.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Node, Pod
from kscheduler.client.errors import APIError, ClientError
from kscheduler.config.types import Extender
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers

if TYPE_CHECKING:
    from kscheduler.client.extenders.whole_objects import ObjectReader
    from kscheduler.scheduling.extenders.bind_outcomes import PodPlace
    from kscheduler.scheduling.extenders.extender_set import ExtenderSet

CLOSE_SECONDS: Final = 2.0


class PodReader(Protocol):
    """The part of `client.pod_writes.PodWriter` that is needed."""

    async def get_pod(self, namespace: str, name: str) -> Pod:
        """Read the pod, uncached."""
        ...


class ExtenderConnections:
    """Builds the extenders of drafts, and keeps those in force. Implements `assembly.ports.Ports.extenders`."""

    def __init__(
        self,
        pods: PodReader,
        reader: "ObjectReader",
        node_of: Callable[[str], Node | None],
        pod_of: Callable[[str], Pod | None],
        may_bind: Callable[[], bool],
        observations: Observations | None = None,
        clock: Clock = REAL_CLOCK,
        observers: Observers = NO_OBSERVERS,
        in_use: Callable[[], Iterable[Extenders | None]] = tuple,
    ) -> None:
        """`reader` reads whole objects; `node_of` and `pod_of` (by key) are what the watch has shown. `may_bind`:
        whether this process leads, asked before each call that binds a pod. `in_use`: the extenders of all attempts
        under way.
        """
        self._pods = pods
        self._reader = reader
        self._observations = observations
        self._clock = clock
        self._observers = observers
        self._node_of = node_of
        self._pod_of = pod_of
        self._may_bind = may_bind
        self._drafts: dict[int, ExtenderSet] = {}
        """By the identity of what asks; only the draft made last may still be applied."""
        self._in_force: ExtenderSet | None = None
        self._replaced: list[ExtenderSet] = []
        self._closing = TaskSet("closing extenders")
        self.in_use = in_use

    def __call__(self, extenders: Sequence[Extender]) -> Extenders | None:
        """The extenders of a draft; `None` without any."""
        self._drafts.clear()
        if not extenders:
            return None
        if self._in_force is not None and self._in_force.settings == tuple(extenders):
            return self._in_force.http_extenders
        # These bring the client, and the start is measured.
        from kscheduler.client.extenders.whole_objects import WholeObjects
        from kscheduler.scheduling.extenders.extender_set import ExtenderSet

        drafted = ExtenderSet(
            extenders,
            WholeObjects(self._reader, self._node_of),
            may_bind=self._may_bind,
            place_of=self.place_of,
            observations=self._observations,
            clock=self._clock,
            observers=self._observers,
        )
        self._drafts[id(drafted.http_extenders)] = drafted
        return drafted.http_extenders

    def apply(self, extenders: Extenders | None) -> None:
        """Take a draft into force. What was in force before is closed when its last attempt has ended."""
        if self._in_force is not None:
            if self._in_force.http_extenders is extenders:
                return
            self._replaced.append(self._in_force)
        self._in_force = self._drafts.pop(id(extenders), None)
        if self._in_force is not None:
            self._in_force.announce()
        self.look()

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` for each extender that fails; the scheduler stays ready for all other pods."""
        return self._in_force.notes() if self._in_force is not None else ()

    def look(self) -> None:
        """Close what nobody uses any more. Called after each attempt."""
        if not self._replaced:
            return
        in_use = {id(extenders) for extenders in self.in_use()}
        for replaced in self._replaced:
            if id(replaced.http_extenders) not in in_use:
                self._closing.spawn("extenders", replaced.close())
        self._replaced = [replaced for replaced in self._replaced if id(replaced.http_extenders) in in_use]

    async def aclose(self) -> None:
        """Close all connections."""
        self.in_use = tuple
        self.apply(None)
        await self._closing.drain(CLOSE_SECONDS)

    async def place_of(self, pod: Pod) -> "PodPlace":
        """Where the pod is: as the watch has it, or, if that shows no node, as the API server has it now."""
        from kscheduler.scheduling.extenders.bind_outcomes import UNKNOWN_PLACE, PodPlace

        meta = pod.metadata
        found = self._pod_of(pod.key)
        if found is None or found.metadata.uid != meta.uid or not found.spec.node_name:
            try:
                found = await self._pods.get_pod(meta.namespace, meta.name)
            except (ClientError, UndecodableError) as failure:
                is_gone = isinstance(failure, APIError) and failure.is_not_found
                return PodPlace(is_gone=True) if is_gone else UNKNOWN_PLACE
        return PodPlace(found.spec.node_name) if found.metadata.uid == meta.uid else PodPlace(is_gone=True)
