"""What the status page reads of the running service."""

import asyncio
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from kscheduler import __version__
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.election.rules import Role
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.drift.pending import ClaimsNow, PendingPods
from kscheduler.scheduling.overcommit.overcommit_reports import summary_of
from kscheduler.scheduling.profile import devices_on
from kscheduler.server import Health
from kscheduler.server.status_page.sources import (
    MOST_NOTES,
    LiveQueryPort,
    NodeVerdict,
    PageSources,
    SchedulerStatus,
    Tree,
    Unavailable,
)
from kscheduler.service.asking.forked_service import ForkedQuery
from kscheduler.service.asking.helping_changes import gates_to_remove, pending_of
from kscheduler.service.asking.helping_changes import helping_changes as of_reasons
from kscheduler.service.asking.live_copy import LiveCopy
from kscheduler.service.asking.live_queries import LiveQueries
from kscheduler.service.asking.query_errors import QueryFailedError
from kscheduler.service.parts import Parts

# What the status page asks about pods, answered by a copy of the process (`app.querying`).

_CODE: Final = "kscheduler.service.page_sources"
_VERDICTS = msgspec.json.Decoder(list[NodeVerdict])
_CHANGES = msgspec.json.Decoder(dict[str, dict[str, Any]])


class StatusPageQueries:
    """Implements `status_page.sources.LiveQueryPort`."""

    def __init__(self, copy: LiveCopy, queries: LiveQueries) -> None:
        self._copy = copy
        self._queries = queries
        self._has_code = False

    async def explain(self, pod: Pod) -> Tree | Unavailable:
        """The explanation of one pod as it would be decided now."""
        found = await self._queries.explain(pod.key, "", as_text=False, with_suggestions=not pod.spec.node_name)
        if found.status != HTTPStatus.OK:
            return Unavailable(f"Not available now: {found.body.decode(errors='replace')}")
        tree: Tree = msgspec.json.decode(found.body)
        return tree

    async def verdicts_on(self, node_name: str, keys: Sequence[str]) -> list[NodeVerdict] | Unavailable:
        """What the cycle says of these pending pods on one node."""
        body = await self._ask("verdicts", node_name=node_name, keys=keys)
        return body if isinstance(body, Unavailable) else _VERDICTS.decode(body)

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> dict[str, Tree] | Unavailable:
        """For each reason, by the key of its first pod, the change that frees most of its pods."""
        body = await self._ask("helping_changes", reasons=reasons)
        return body if isinstance(body, Unavailable) else _CHANGES.decode(body)

    async def _ask(self, function: str, **arguments: Any) -> bytes | Unavailable:
        if not self._has_code:
            # Before the copy is made, which else would import the code in each of its children; in a thread: a service
            # whose page nobody looks at does not need it.
            await asyncio.to_thread(importlib.import_module, _CODE)
            self._has_code = True
        try:
            return (await self._copy.ask(ForkedQuery(_CODE, function, arguments).encoded())).body
        except QueryFailedError as failure:
            return Unavailable(f"Not available now: {failure}. Reload the page later.")


# What a copy of the process works out for the status page: imported with the first question.
#
# It runs in the copy, and may change what it likes.


def helping_changes(parts: Parts, as_of: float, *, reasons: Sequence[Sequence[str]]) -> bytes:
    """The change that frees most pods of each reason, as JSON by the key of the reason's first pod.

    Where none does and pods are gated, that the gates must go first (`isFirstStep`).
    """
    del as_of
    found = of_reasons(parts, reasons)
    for keys in reasons:
        first = None if not keys or "text" in found.get(keys[0], {}) else gates_to_remove(parts, keys)
        if first is not None:
            found[keys[0]] = first
    return msgspec.json.encode(found)


def verdicts(parts: Parts, as_of: float, *, node_name: str, keys: Sequence[str]) -> bytes:
    """What the cycle says of each of these pending pods on one node, as JSON."""
    del as_of
    return msgspec.json.encode([*_verdicts(parts, node_name, keys)])


def _verdicts(parts: Parts, node_name: str, keys: Iterable[str]) -> Iterable[NodeVerdict]:
    cache = parts.assembly.cache
    for pod, profile in pending_of(parts, keys):
        gate = profile.run_pre_enqueue(pod)
        if gate.is_rejected:
            yield NodeVerdict(pod.key, gate.plugin, tuple(gate.reasons))
            continue
        record = schedule(profile, pod, cache)
        whole = record.diagnosis.pre_filter
        if whole.is_rejected:
            yield NodeVerdict(pod.key, whole.plugin, tuple(whole.reasons))
            continue
        status = next((status for name, status in record.diagnosis.by_node() if name == node_name), None)
        search = record.state.find(PreemptionSearch)
        here = () if search is None else [each for each in search.candidates() if each.node_name == node_name]
        victims = tuple(victim.key for candidate in here for victim in candidate.victims)
        if status is None or victims:
            yield NodeVerdict(pod.key, "", (), victims)
        else:
            yield NodeVerdict(pod.key, status.plugin or "PreFilter", tuple(status.reasons))


def page_sources(
    parts: Parts,
    answers: LiveQueryPort | None,
    waiting: PendingPods,
    readyz: Health,
    is_scheduling: Callable[[], bool],
    has_read: Callable[[], bool],
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
        notes = list(readyz.information())
        leader = "" if election is None else _steady(election.note())
        shown = [note for note in notes if not leader or not note.startswith(leader.partition(":")[0])]
        more = [f"and {len(shown) - MOST_NOTES} more notes: /readyz?verbose"] if len(shown) > MOST_NOTES else []
        return SchedulerStatus(
            leader=leader,
            leads=election is None or election.statistics().role is Role.LEADING,
            is_scheduling=is_scheduling(),
            has_read=has_read(),
            profiles=tuple(assembly.profiles),
            kubernetes=assembly.config.gates.version,
            version=__version__,
            problems=problems,
            notes=(*shown[:MOST_NOTES], *more),
        )

    def overcommitted() -> Mapping[str, str]:
        return {each.node_name: summary_of(each) for each in parts.overcommit.nodes.incidents()}

    return PageSources(
        cache=assembly.cache,
        queue=assembly.queue,
        pods=parts.informers.informer(PODS).store,
        pending=waiting.tree_of,
        observations=parts.observations,
        recent=parts.pod_log.recent,
        at_permit=assembly.waiting,
        prebind_waits=ClaimsNow(assembly.cache, lambda: assembly.config).waits,
        binding=lambda: parts.workers.binding,
        awaited_events=assembly.queue.awaited_events,
        standing=standing,
        devices_on=lambda info: devices_on(assembly.profiles.values(), info),
        overcommitted=overcommitted,
        clock=parts.clock,
        answers=answers,
    )


def _steady(note: str) -> str:
    """The note without what changes with each second: the page compares it."""
    return note.partition(", renewed")[0]
