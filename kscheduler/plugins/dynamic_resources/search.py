"""The devices that a pod's claims would get on a node.

An allocator holds for the claims of one cycle and for the state when it was made. If anything has changed since (an
extender was asked in between), a new one is made before the next node is looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Node
from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.allocator import AllocationError, Allocator, FailedOnThisNodeError
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.status import StatusError
from kscheduler.plugins.dynamic_resources.kept_answers import Answer, KeptAnswers

NO_DEVICES: Final = -1
NOT_AVAILABLE: Final = -2
INVALID_POOLS: Final = -3
"""Codes of Filter: no preemption can help against any of them."""

REASONS: Final = {
    NO_DEVICES: "cannot allocate all claims",
    NOT_AVAILABLE: "resourceclaim not available on the node",
    INVALID_POOLS: "invalid resource pools were encountered",
}


@dataclass(slots=True)
class DeviceSearch:
    """Searches the devices of nodes for the claims of one pod."""

    claims: Sequence[ResourceClaim]
    devices: Devices
    follow: Callable[[], None]
    """Brings `kept` up to date."""
    make: Callable[[], Allocator]
    clock: Clock
    timeout_seconds: float
    """How long the search on a node may take; 0: as long as it takes."""
    kept: KeptAnswers
    _allocator: Allocator | None = None
    _seen: int = -1
    """The revision of the state that `kept` and the allocator know."""

    def on(self, node: Node) -> Answer:
        """What each claim gets on the node, or a code why they do not all get something.

        Raises `StatusError`: the claims or their classes are wrong, or the time is over.
        """
        self._catch_up()
        answer = self.kept.get(node)
        if answer is None:
            answer = self._searched(node)
            self.kept.put(node, answer)
        return answer

    def on_rows(self, nodes: NodeTable, rows: Rows) -> tuple[Codes, dict[str, Answer]]:
        """The same for rows of the live table, as `KeptAnswers.on_rows` returns it. Raises `StatusError`."""
        self._catch_up()
        return self.kept.on_rows(nodes, rows, self.on)

    def _catch_up(self) -> None:
        if self._seen != self.devices.revision:
            self._seen, self._allocator = self.devices.revision, None
            self.follow()

    def _searched(self, node: Node) -> Answer:
        name = node.metadata.name
        if self._allocator is None:
            self._allocator = self.make()
        until = None
        if self.timeout_seconds:
            until = partial(self._check_time, name, self.clock.monotonic() + self.timeout_seconds)
        try:
            results = self._allocator.allocate(name, node.metadata.labels, until)
        except FailedOnThisNodeError:
            return INVALID_POOLS
        except AllocationError as problem:
            raise StatusError(str(problem)) from None
        return NO_DEVICES if results is None or len(results) != len(self.claims) else results

    def _check_time(self, name: str, end: float) -> None:
        """Raises `StatusError` once the time is over."""
        if self.clock.monotonic() >= end:
            raise StatusError(f"node {name}: timed out trying to allocate devices")
