"""Conditions, written behind the binds: the newest word about each pod, a few at a time.

A cluster event may fail ten thousand pods at once, and every one of them wants its condition patched. Binds come first
and must not wait for that, so patches queue up here, one per pod at most (a newer one replaces it), and a few workers
send them. Nothing is sent where the pod has the condition already.
"""

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.events import EventRecorder
from kscheduler.logs import get_logger

_log = get_logger(__name__)

WORKERS: Final = 4


class PodPatcher(Protocol):
    """The part of `client.pods.PodWriter` that this needs."""

    async def patch_pod_status(self, pod: Pod, condition: Condition | None) -> bool:
        """Send what differs; whether anything did."""
        ...


class StatusWriter:
    """Reports failures. Implements `failures.FailureSink`."""

    def __init__(self, pods: PodPatcher, recorder: EventRecorder) -> None:
        self._pods = pods
        self._recorder = recorder
        self._pending: OrderedDict[str, tuple[Pod, Condition]] = OrderedDict()
        self._sending: set[str] = set()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._pending)

    def report(self, pod: Pod, condition: Condition, note: str) -> None:
        """Queue the patch and record the Event."""
        self._recorder.record(
            pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=note,
            reporting_controller=pod.spec.scheduler_name,
        )
        if not _has(pod, condition):
            self._pending[pod.metadata.uid] = (pod, condition)
            self._arrived.set()
        else:
            self._pending.pop(pod.metadata.uid, None)

    def withdraw(self, uid: str) -> None:
        """Leave unsaid what was not sent yet about this pod: it is about to be bound."""
        self._pending.pop(uid, None)

    async def run(self) -> None:
        """Send until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._send_all(), name=f"status-writer-{number}")

    async def _send_all(self) -> None:
        while True:
            while (uid := self._next()) is None:
                self._arrived.clear()
                await self._arrived.wait()
            pod, condition = self._pending.pop(uid)
            self._sending.add(uid)
            try:
                await self._send(pod, condition)
            finally:
                self._sending.discard(uid)
                self._arrived.set()

    def _next(self) -> str | None:
        """The oldest pod that no worker is writing about: two patches of one pod could overtake each other."""
        return next((uid for uid in self._pending if uid not in self._sending), None)

    async def _send(self, pod: Pod, condition: Condition) -> None:
        try:
            await self._pods.patch_pod_status(pod, condition)
        except ClientError as failure:
            gone = isinstance(failure, APIError) and (failure.is_not_found or failure.is_conflict)
            if not gone:
                _log.warning("pod_status_not_patched", pod=pod.key, err=str(failure))


def _has(pod: Pod, condition: Condition) -> bool:
    """Whether the pod shows this condition already (its times apart)."""
    for one in pod.status.conditions:
        if one.type == condition.type:
            return (one.status, one.reason, one.message) == (condition.status, condition.reason, condition.message)
    return False
