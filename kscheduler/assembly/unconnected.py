"""Ports without effect: nothing is written, nothing is notified, and there is nothing to read.

Only the binder returns an error: a cycle over copied state may choose victims and report failures, and both end here.
But a Binding that was never sent must not look like a success.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import Any

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.config.types import Extender
from kscheduler.framework.status import Status, error
from kscheduler.scheduling.extenders.answers import Extenders


class NoBinder:
    """Refuses every Binding. Implements `framework.handle.Writer`."""

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Refuse."""
        return error(f"nobody binds pods here: {pod.key} stays off {node_name}")


class NoEviction:
    """Finds every victim gone already. Implements `scheduling.eviction.victims.VictimWriter`."""

    async def evict_pod(self, pod: Pod, condition: Condition) -> bool:
        """Nothing to delete."""
        del pod, condition
        return False


class NoEvents:
    """Drops Events. Implements `scheduling.reports.EventSink`."""

    def record(self, regarding: Any, **fields: Any) -> None:
        """Pass."""


class NoStatuses:
    """Drops conditions and nominations. Implements `assembly.ports.StatusPort`."""

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        """Pass."""

    def report_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        """Pass."""

    def withdraw(self, uid: str) -> None:
        """Nothing is kept."""

    async def settled(self, uid: str) -> None:
        """Nothing is under way."""

    async def patch_pod_status(self, pod: Pod, condition: Condition | None, nominated_node_name: str) -> bool:
        """Nothing had to be changed."""
        del pod, condition, nominated_node_name
        return False


def no_pod(_key: str) -> Pod | None:
    """There is no pod of this key."""
    return None


def nobody_waits() -> None:
    """Wake no worker on an arrival."""


def no_extenders(_extenders: Sequence[Extender]) -> Extenders | None:
    """Extenders are not called."""
    return None
