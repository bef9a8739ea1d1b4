"""What a copy of the process has decided about pods, kept: a copy costs a fork, and ten readers ask for the same.

ReasonChanges   for the overview: of each reason the change that frees most of its pods. Looked for beside
                everything else while anybody looks, and paused for long after a long search
SharedResponses   for the pages of pods and nodes: an answer serves everybody for some seconds
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.answers.pending_in_queue import ReasonInQueue
from kscheduler.answers.suggestions import CommonSuggestion, HelpingChange
from kscheduler.bounded import RecentlyUsed
from kscheduler.server.status_page.sources import LiveQueryPort, Unavailable
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger("server")

# Pods whose smallest change is kept.
MAX_CHANGES: Final = 64
# Pods that are asked about together: those of the reasons that the overview shows.
MAX_AT_ONCE: Final = 12
SHORTEST_PAUSE_SECONDS: Final = 15.0
LONGEST_PAUSE_SECONDS: Final = 600.0
# Of a processor that the searches may take, in a copy that every other process goes before.
PART_OF_TIME: Final = 1 / 200
MAX_ANSWERS: Final = 32
ANSWER_SECONDS: Final = 10.0
NO_SINGLE_CHANGE: Final = "no single change that was tried helps the largest set of its pods that are alike"
ASK_A_MEMBER: Final = "they are decided about together: the page of any member says what would help the group"

V = TypeVar("V")


class ShownReason(msgspec.Struct, frozen=True):
    """A reason of pending pods, with what would help them as far as it is known."""

    reason: ReasonInQueue
    change: CommonSuggestion | None = None
    first_step: CommonSuggestion | None = None
    no_change: str = ""
    """Why there is none."""
    looking: bool = False


class _KeptChange(msgspec.Struct, frozen=True):
    found: HelpingChange
    why_not: str
    at: float
    """Monotonic seconds."""


def _of_group(reason: ReasonInQueue) -> str:
    """Where to look instead: what would help a pod group is worked out with one member's page."""
    return ASK_A_MEMBER if reason.pod_group and reason.is_rejected else ""


class ReasonChanges:
    """Looks for the changes that the overview shows; `run` must run for any to be found."""

    def __init__(self, answers: LiveQueryPort | None, clock: Clock) -> None:
        self._answers = answers
        self._clock = clock
        self._kept: RecentlyUsed[str, _KeptChange] = RecentlyUsed(MAX_CHANGES)
        self._wanted: list[list[str]] = []
        self._is_wanted = asyncio.Event()
        self.pause_seconds = SHORTEST_PAUSE_SECONDS

    def beside(self, reasons: Iterable[ReasonInQueue]) -> Iterator[ShownReason]:
        """The reasons, each with what is known. The rest is looked for."""
        wanted: list[list[str]] = []
        for reason in reasons:
            keys = self._keys(reason)
            key = keys[0] if keys else ""
            kept = self._kept.use(key) if key else None
            if kept is None:
                yield ShownReason(reason, no_change=_of_group(reason), looking=bool(key))
            else:
                found = kept.found
                why_not = "" if found.change or found.first_step else kept.why_not
                yield ShownReason(reason, found.change, found.first_step, why_not)
            if key and (kept is None or self._clock.monotonic() - kept.at > self.pause_seconds):
                wanted.append(keys)
        self._wanted = wanted[:MAX_AT_ONCE]
        if wanted:
            self._is_wanted.set()

    def _keys(self, reason: ReasonInQueue) -> list[str]:
        """The pods to ask about, the oldest first. Empty where there is nothing to ask."""
        return reason.keys if self._answers is not None and reason.is_rejected and not reason.pod_group else []

    async def run(self) -> None:
        """Look for what is wanted, pause, until cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            try:
                await self._look()
            except Exception:  # noqa: BLE001  who looks must not end who schedules
                count_caught(Boundary.HTTP)
                _log.exception("status_page_changes_not_found")
                self.pause_seconds = LONGEST_PAUSE_SECONDS
            await self._clock.sleep(self.pause_seconds)

    async def _look(self) -> None:
        wanted, answers = self._wanted, self._answers
        if answers is None or not wanted:
            return
        began = time.perf_counter()
        found = await answers.helping_changes(wanted)
        seconds = time.perf_counter() - began
        self.pause_seconds = min(max(seconds / PART_OF_TIME, SHORTEST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        now = self._clock.monotonic()
        for key, *_ in wanted:
            if isinstance(found, Unavailable):
                if key not in self._kept:  # else what was found before still tells more
                    self._kept[key] = _KeptChange(HelpingChange(), found.reason, now - self.pause_seconds)
            else:
                helping = found.get(key, HelpingChange())
                self._kept[key] = _KeptChange(helping, helping.left_off or NO_SINGLE_CHANGE, now)


@dataclass(slots=True)
class _CachedResponse(Generic[V]):
    answer: V
    until: float


class SharedResponses(Generic[V]):
    """Answers by question, each asked for once at a time. A refusal is not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: RecentlyUsed[Hashable, _CachedResponse[V]] = RecentlyUsed(MAX_ANSWERS)
        self._querying = asyncio.Lock()

    async def answer(self, query: Hashable, ask: Callable[[], Awaitable[V | Unavailable]]) -> V | Unavailable:
        """The answer, of some seconds ago at most."""
        kept = self._known(query)
        if kept is not None:
            return kept
        async with self._querying:  # the second to ask finds the kept answer
            kept = self._known(query)
            if kept is not None:
                return kept
            found = await ask()
            if not isinstance(found, Unavailable):
                self._kept[query] = _CachedResponse(found, self._clock.monotonic() + ANSWER_SECONDS)
            return found

    def _known(self, query: Hashable) -> V | None:
        kept = self._kept.use(query)
        return kept.answer if kept is not None and self._clock.monotonic() < kept.until else None
