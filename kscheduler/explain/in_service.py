"""What only the running service knows of a pod: its place in the queue, its attempts, what it waits for."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from kscheduler.explain.answer import InServiceAnswer
from kscheduler.explain.awaited_events import awaited_in_words

# In the place of a queue's name: it is being decided or bound at this moment.
UNDER_WAY: Final = "underWay"
PERMIT: Final = "permit"
EXTENDER_LINE: Final = "extenderLine"
# The service does not have it: the pod is on a node already, or nobody here serves it.
NOWHERE: Final = "none"
_LATER: Final = "it is tried again after some minutes"


@dataclass(frozen=True, slots=True)
class InService:
    """A pod as the service knows it. Times are wall-clock seconds."""

    at: float
    """When this was observed."""
    place: str
    """`active`, `backoff`, `unschedulable`, `gated`, or one of the constants above."""
    leads: bool
    """Whether this replica schedules; the queue of another one is not the one that counts."""
    attempts: int = 0
    since: float | None = None
    """When it came to its place."""
    first_attempt: float | None = None
    backoff_until: float | None = None
    rejected_by: tuple[str, ...] = ()
    """The plugins that rejected it in its last attempt."""
    awaits: tuple[str, ...] = ()
    """Labels of the events that would bring it back into the queue."""
    gated_by: str = ""
    last_error: str = ""
    assumed_on: str = ""
    """The node that is reserved for it: it is being bound there, or waits for Permit."""
    permit: Mapping[str, float] = field(default_factory=dict)
    """By plugin that has not let it through: in how many seconds it is rejected."""

    @property
    def answer(self) -> InServiceAnswer:
        return InServiceAnswer(
            as_of=_time(self.at),
            place=self.place,
            leads=self.leads,
            attempts=self.attempts,
            since=_time_or_none(self.since),
            first_attempt=_time_or_none(self.first_attempt),
            backoff_until=_time_or_none(self.backoff_until),
            rejected_by=tuple(self.rejected_by),
            awaits_events=tuple(self.awaits),
            gated_by=self.gated_by or None,
            last_error=self.last_error or None,
            assumed_on=self.assumed_on or None,
            permit_rejects_in_seconds={plugin: round(left, 3) for plugin, left in self.permit.items()},
        )


def service_lines(known: InService, reported: Collection[str] = (), *, waits: bool = False) -> Iterator[str]:
    """The facts as sentences.

    `reported`: errors that stand elsewhere in the answer. `waits`: whether that says what it waits for in PreBind.
    """
    if not known.leads:
        yield "this replica is not the leader: another one schedules, with its own queue"
    tries = "1 attempt" if known.attempts == 1 else f"{known.attempts} attempts"
    match known.place:
        case "active":
            yield f"in the active queue, tried next ({tries} so far)"
        case "backoff":
            left = max((known.backoff_until or known.at) - known.at, 0.0)
            yield f"backs off after {tries}: it is tried again in {left:.1f} s, at {_time_or_none(known.backoff_until)}"
        case "unschedulable":
            events = ", or ".join(f"when {words}" for words in awaited_in_words(known.awaits))
            again = f"it is tried again {events}" if events else f"no event wakes it: {_LATER}"
            yield f"parked since {_time_or_none(known.since)} after {tries}; {again}"
        case "gated":
            yield f"gated by {known.gated_by or 'a PreEnqueue plugin'}"
        case "permit":
            holding = ", ".join(f"{plugin} (for {left:.0f} s at most)" for plugin, left in known.permit.items())
            yield f"node {known.assumed_on} is reserved for it; it waits for Permit plugins: {holding}"
        case "extenderLine":
            yield "waits for its turn to call its HTTP extenders"
        case "underWay" if known.assumed_on and waits:
            yield f"node {known.assumed_on} is reserved for it; it is bound when PreBind is done"
        case "underWay" if known.assumed_on:
            yield f"is being bound to {known.assumed_on} now"
        case "underWay":
            yield "is being scheduled now"
        case _:
            return
    if known.last_error and known.last_error not in reported:
        yield f"its last attempt ended in an error: {known.last_error}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _time_or_none(seconds: float | None) -> str | None:
    return None if seconds is None else _time(seconds)
