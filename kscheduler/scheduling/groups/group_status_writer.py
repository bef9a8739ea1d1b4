"""Writes the conditions of pod groups, in the background.

One request per group at a time; what is reported meanwhile replaces what was not sent yet. A request that fails is
sent again with growing pauses, as often as `MAX_TRIES`. At most `MAX_WAITING` groups wait: of more, the oldest is
dropped. What is not written after all is forgotten, and the group's next attempt reports it again. Limit: what waits
when the process is killed is lost, likewise.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.aio.rate_limiters import Backoff
from kscheduler.aio.tasks import TaskSet
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, ClientError
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.state.pod_groups import PodGroupTable
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

# The condition PodGroupInitiallyScheduled of a group (of a composite one, from 1.38 on, CompositePodGroupInitially-
# Scheduled), written when it has changed.
#
# Once it is True it stays True: a later attempt for further members may fail, and the group has been scheduled all the
# same. Groups of other APIs than Kubernetes' own have conditions of their controllers, and get none of ours.


class GroupReport(msgspec.Struct, frozen=True):
    """A condition to be written."""

    group: GroupDefinition
    """As it was before."""
    kind: Kind
    condition: Condition
    on_given_up: Callable[[], None]
    """Called if it is not written after all."""


class GroupStatusSink(Protocol):
    """Writes the conditions of pod groups."""

    def report_group(self, report: GroupReport) -> None:
        """Patch the condition into the group's status, in the background."""
        ...


class NoGroupStatuses:
    """Drops all conditions."""

    def report_group(self, report: GroupReport) -> None:
        """Nothing is written."""


class GroupReports:
    """Decides whether a condition is news."""

    def __init__(self, sink: GroupStatusSink, groups: PodGroupTable) -> None:
        self._sink = sink
        self._groups = groups

    def report(self, group: GroupDefinition, condition: Condition, *, is_final: bool = False) -> None:
        """Write the condition, unless the group has it already, or has been scheduled before.

        `is_final`: not even another generation of a group that has been scheduled is told of.
        """
        kind = self._groups.kind_of(group.key)
        if kind is None or kind.group != POD_GROUPS.group:
            return
        known = next((each for each in group.conditions if each.type == condition.type), None)
        condition = replace(condition, observed_generation=group.generation or None)
        if known is not None and known.status == "True" and (is_final or condition.status != "True"):
            return
        if known is not None and _says_the_same(known, condition):
            return
        self._groups.note_condition(group.key, condition)
        withdraw = partial(self._groups.withdraw_condition, group.key, condition)
        self._sink.report_group(GroupReport(group, kind, condition, withdraw))


def _says_the_same(known: Condition, new: Condition) -> bool:
    return (known.status, known.reason, known.message, known.observed_generation) == (
        new.status,
        new.reason,
        new.message,
        new.observed_generation,
    )


_log = get_logger(__name__)

MAX_TRIES: Final = 12
MAX_WAITING: Final = 10_000


class ConditionPatcher(Protocol):
    """The part of `client.pod_writes.PodGroupStatusPatcher` that this needs."""

    async def patch_condition(
        self, collection: str, namespace: str, name: str, uid: str, condition: Condition, since: str | None
    ) -> None:
        """Send the condition. Raises `ClientError`."""
        ...


class GroupStatusWriter:
    """Implements `GroupStatusSink`."""

    def __init__(self, patcher: ConditionPatcher, clock: Clock = REAL_CLOCK) -> None:
        self._patcher = patcher
        self._clock = clock
        self._waiting: dict[GroupKey, GroupReport] = {}
        self._sending: set[GroupKey] = set()
        self._tasks = TaskSet("group status", clock)

    def report_group(self, report: GroupReport) -> None:
        """Send the condition soon, in place of what was to be sent for the group before."""
        key = report.group.key
        self._waiting.pop(key, None)
        self._waiting[key] = report
        if len(self._waiting) > MAX_WAITING:
            self._waiting.pop(next(iter(self._waiting))).on_given_up()
        if key not in self._sending:
            self._sending.add(key)
            self._tasks.spawn(key.text, self._send_all(key))

    async def run(self) -> None:
        """Own the requests until cancelled; those that are under way then are cancelled, too."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self._tasks.cancel_all()

    async def flush(self, seconds: float) -> bool:
        """Wait until all that was reported is sent; whether that was so in time."""
        return await self._tasks.drain(seconds)

    async def _send_all(self, key: GroupKey) -> None:
        try:
            while (newest := self._waiting.pop(key, None)) is not None:
                is_written = False
                try:
                    is_written = await self._insist(newest)
                finally:
                    if not is_written:
                        newest.on_given_up()
        except Exception:  # noqa: BLE001  a bug here must not keep later conditions from being written
            count_caught(Boundary.POD_TASK)
            _log.exception("group_status_failed", group=key.text)
        finally:
            self._sending.discard(key)

    async def _insist(self, report: GroupReport) -> bool:
        """Whether the condition was written."""
        group, condition = report.group, report.condition
        known = next((each for each in group.conditions if each.type == condition.type), None)
        since = known.last_transition_time if known is not None and known.status == condition.status else None
        pauses = Backoff(0.1, cap_seconds=30.0, clock=self._clock)
        for left in range(MAX_TRIES - 1, -1, -1):
            try:
                await self._patcher.patch_condition(
                    f"{report.kind.group_version}/{report.kind.plural}",
                    group.key.namespace,
                    group.key.name,
                    group.uid,
                    condition,
                    since,
                )
            except ClientError as failure:
                if isinstance(failure, APIError) and failure.is_not_found:
                    break
                if not left or not _may_pass(failure):
                    _log.warning("group_status_not_patched", group=group.key.text, err=str(failure))
                    break
                if group.key in self._waiting:
                    break  # something newer is to be said
                await self._clock.sleep(pauses.next())
            else:
                return True
        return False


def _may_pass(failure: ClientError) -> bool:
    if not isinstance(failure, APIError):
        return True
    return failure.is_server_error or failure.is_timeout or failure.is_too_many_requests or failure.is_unauthorized
