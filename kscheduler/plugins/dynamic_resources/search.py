"""The devices that a pod's claims would get on a node.

An allocator holds for the claims of one cycle and for what was allocated when it was made. If anything else has been
allocated since (an extender was asked in between), a new one is made before the next node is looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Node
from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.devices.allocator import AllocationError, Allocator, FailedOnThisNodeError
from kscheduler.framework.status import StatusError

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
    make: Callable[[], Allocator]
    revision: Callable[[], int]
    """The revision of what is allocated."""
    clock: Clock
    timeout_seconds: float
    """How long the search on a node may take; 0: as long as it takes."""
    _allocator: Allocator | None = None
    _made_at: int = 0

    def on(self, node: Node) -> Sequence[AllocationResult] | int:
        """What each claim gets on the node, or a code why they do not all get something.

        Raises `StatusError`: the claims or their classes are wrong, or the time is over.
        """
        name = node.metadata.name
        until = None
        if self.timeout_seconds:
            until = partial(self._check_time, name, self.clock.monotonic() + self.timeout_seconds)
        try:
            results = self._current().allocate(name, node.metadata.labels, until)
        except FailedOnThisNodeError:
            return INVALID_POOLS
        except AllocationError as problem:
            raise StatusError(str(problem)) from None
        return NO_DEVICES if results is None or len(results) != len(self.claims) else results

    def _check_time(self, name: str, end: float) -> None:
        """Raises `StatusError` once the time is over."""
        if self.clock.monotonic() >= end:
            raise StatusError(f"node {name}: timed out trying to allocate devices")

    def _current(self) -> Allocator:
        revision = self.revision()
        if self._allocator is None or self._made_at != revision:
            self._allocator, self._made_at = self.make(), revision
        return self._allocator
