"""What the status page reads of the running service."""

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from kscheduler import __version__
from kscheduler.answers.suggestions import HelpingChange
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.election.rules import Role
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.scheduling.drift.prebind_waits import ClaimsNow
from kscheduler.scheduling.overcommit.overcommit_reports import summary_of
from kscheduler.scheduling.pending_pods import PendingPods
from kscheduler.scheduling.profile import devices_on
from kscheduler.server import Health
from kscheduler.server.status_page.sources import (
    MAX_NOTES,
    LiveQueryPort,
    NodeVerdict,
    PageSources,
    SchedulerStatus,
    Unavailable,
)
from kscheduler.service.asking.live_queries import LiveQueries, StateQuery
from kscheduler.service.asking.query_errors import QueryFailedError
from kscheduler.service.parts import Parts

if TYPE_CHECKING:
    from kscheduler.explain.answer import PodExplanation
    from kscheduler.explain.group_answer import PodGroupExplanation

# What the status page asks about pods, answered by a copy of the process (`service.asking`).

_CODE: Final = "kscheduler.service.asking.page_answers_in_copy"
_VERDICTS = msgspec.json.Decoder(list[NodeVerdict])
_CHANGES = msgspec.json.Decoder(dict[str, HelpingChange])


class StatusPageQueries:
    """Implements `status_page.sources.LiveQueryPort`."""

    def __init__(self, queries: LiveQueries) -> None:
        self._queries = queries

    async def explain(self, pod: Pod) -> "PodExplanation | PodGroupExplanation | Unavailable":
        """The explanation of one pod as it would be decided now."""
        found = await self._queries.explain(pod.key, "", as_text=False, with_suggestions=not pod.spec.node_name)
        if found.status != HTTPStatus.OK:
            return Unavailable(f"Not available now: {found.body.decode(errors='replace')}")
        from kscheduler.explain.group_answer import decoded_explanation  # not at the start: nobody has asked yet

        return decoded_explanation(found.body)

    async def verdicts_on(self, node_name: str, keys: Sequence[str]) -> list[NodeVerdict] | Unavailable:
        """What the cycle says of these pending pods on one node."""
        body = await self._ask(lambda code, parts, as_of: code.verdicts(parts, as_of, node_name=node_name, keys=keys))
        return body if isinstance(body, Unavailable) else _VERDICTS.decode(body)

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> dict[str, HelpingChange] | Unavailable:
        """For each reason, by the key of its first pod, the change that frees most of its pods."""
        body = await self._ask(lambda code, parts, as_of: code.changes_or_gates(parts, as_of, reasons=reasons))
        return body if isinstance(body, Unavailable) else _CHANGES.decode(body)

    async def _ask(self, query: StateQuery) -> bytes | Unavailable:
        try:
            return await self._queries.ask(_CODE, query)
        except QueryFailedError as failure:
            return Unavailable(f"Not available now: {failure}. Reload the page later.")


def page_sources(
    parts: Parts,
    answers: LiveQueryPort | None,
    waiting: PendingPods,
    readyz: Health,
    is_scheduling: Callable[[], bool],
    has_read: Callable[[], bool],
    class_devices: ClassDevices,
    fragments: Callable[[], Sequence[ResourceFragmentation]],
) -> PageSources:
    """The parts and functions.

    `answers`: `None` where nobody may ask. `readyz`: whose failing checks and notes are shown. `has_read`: whether the
    cluster has been read once.
    """
    assembly = parts.assembly

    def standing() -> SchedulerStatus:
        election = parts.election
        found = ((name, check()) for name, check in readyz.checks.items())
        problems = tuple(f"{name}: {reason}" for name, reason in found if reason is not None)
        notes = list(readyz.notes())
        leader = "" if election is None else _steady(election.note())
        shown = [note for note in notes if not leader or not note.startswith(leader.partition(":")[0])]
        more = [f"and {len(shown) - MAX_NOTES} more notes: /readyz?verbose"] if len(shown) > MAX_NOTES else []
        return SchedulerStatus(
            leader=leader,
            leads=election is None or election.statistics().role is Role.LEADING,
            is_scheduling=is_scheduling(),
            has_read=has_read(),
            profiles=tuple(assembly.profiles),
            kubernetes=assembly.config.gates.version,
            version=__version__,
            problems=problems,
            notes=(*shown[:MAX_NOTES], *more),
        )

    def overcommitted() -> Mapping[str, str]:
        return {each.node_name: summary_of(each) for each in parts.overcommit.nodes.incidents()}

    return PageSources(
        cache=assembly.cache,
        queue=assembly.queue,
        pods=parts.informers.informer(PODS).store,
        pending=waiting.of,
        observations=parts.observations,
        recent=parts.pod_log.recent,
        at_permit=assembly.waiting,
        prebind_waits=ClaimsNow(assembly.cache, lambda: assembly.config).waits,
        binding=lambda: parts.workers.binding,
        awaited_events=assembly.queue.awaited_events,
        standing=standing,
        class_devices=class_devices,
        fragments=fragments,
        devices_on=lambda info: devices_on(assembly.profiles.values(), info),
        overcommitted=overcommitted,
        clock=parts.clock,
        answers=answers,
    )


def _steady(note: str) -> str:
    """The note without what changes with each second: the page compares it."""
    return note.partition(", renewed")[0]
