"""What the status page reads of the running service."""

from collections.abc import Callable, Mapping

from kscheduler import __version__
from kscheduler.api.kinds import PODS
from kscheduler.app.parts import Parts
from kscheduler.election.rules import Role
from kscheduler.scheduling.overfill.overfill_reports import summary_of
from kscheduler.scheduling.profile import devices_on
from kscheduler.scheduling.truth.pending import PendingPods
from kscheduler.scheduling.truth.prebind_waits import ClaimsNow
from kscheduler.server import Health
from kscheduler.server.status_page.sources import MOST_NOTES, LiveAnswers, PageSources, ServiceStanding


def page_sources(
    parts: Parts,
    answers: LiveAnswers | None,
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

    def standing() -> ServiceStanding:
        election = parts.election
        found = ((name, check()) for name, check in readyz.checks.items())
        problems = tuple(f"{name}: {reason}" for name, reason in found if reason is not None)
        notes = list(readyz.information())
        leader = "" if election is None else _steady(election.note())
        shown = [note for note in notes if not leader or not note.startswith(leader.partition(":")[0])]
        more = [f"and {len(shown) - MOST_NOTES} more notes: /readyz?verbose"] if len(shown) > MOST_NOTES else []
        return ServiceStanding(
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

    def overfilled() -> Mapping[str, str]:
        return {each.node_name: summary_of(each) for each in parts.overfill.nodes.incidents()}

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
        overfilled=overfilled,
        clock=parts.clock,
        answers=answers,
    )


def _steady(note: str) -> str:
    """The note without what changes with each second: the page compares it."""
    return note.partition(", renewed")[0]
