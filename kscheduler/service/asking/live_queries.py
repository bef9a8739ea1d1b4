"""Answers questions of HTTP with a copy of the service; counts them, and says each in the log."""

import asyncio
import importlib
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

from kscheduler.aio.clock import Clock
from kscheduler.server.pages.query_pages import POD_GROUP, QueryResponse
from kscheduler.service.asking.answering_fork import NO_FACTS
from kscheduler.service.asking.forked_service import ForkedQuery, ForkedService
from kscheduler.service.asking.live_copy import LiveCopy, LiveResponse
from kscheduler.service.asking.query_errors import CopyBusyError, QueryFailedError
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.samples import Numbers, Sample, gauge
from kscheduler.telemetry.series import LabelValues, MetricSeries

_log = get_logger("kscheduler")

QUERIES: Final = MetricSeries(
    "kscheduler_questions_total",
    "Questions of /explain, /nodes, /pending and /simulate by outcome: answered, wrong (a mistake in the question), "
    "busy, refused (no memory), timeout, too_large, failed, left (the client has).",
    ("question", "outcome"),
)
SECONDS: Final = MetricSeries(
    "kscheduler_question_seconds_total", "Time from a question to its answer, waiting included.", ("question",)
)
PAUSES: Final = MetricSeries(
    "kscheduler_question_pause_seconds_total", "How long the event loop has stood still to copy the process."
)
COPIES: Final = MetricSeries(
    "kscheduler_question_copies_total", "Copies of the process: each answers the questions of some seconds."
)
WAITING: Final = MetricSeries("kscheduler_questions_waiting", "Questions that wait for their turn or their answer.")
_LEFT: Final = "left"
_CODE: Final = "kscheduler.service.asking.query_functions"
_NOT_YET: Final = "the service has not read the cluster yet"


class LiveQueries:
    """Implements `server.pages.query_pages.QueryService`."""

    def __init__(
        self,
        live_copy: LiveCopy,
        service: ForkedService,
        clock: Clock,
        has_synced: Callable[[], bool],
        leads: Callable[[], bool],
    ) -> None:
        self._live_copy, self._service, self._clock = live_copy, service, clock
        self._has_synced, self._leads = has_synced, leads
        self._has_code = False
        self._queried: dict[LabelValues, float] = {}
        self._seconds: dict[LabelValues, float] = {}

    async def explain(
        self, pod_key: str, against_node: str, *, as_text: bool, with_suggestions: bool, fresh: bool = False
    ) -> QueryResponse:
        """Where a pod or a pod group goes and why; of a group nobody compares what is known, so it is asked again."""
        arguments = {
            "pod_key": pod_key,
            "against_node": against_node,
            "leads": self._leads(),
            "as_text": as_text,
            "with_suggestions": with_suggestions,
        }
        facts = self._service.facts((pod_key,), against_node)
        is_group = f"/{POD_GROUP}/" in pod_key
        return await self._answered("explain", arguments, facts, fresh=fresh or is_group, pod=pod_key)

    async def explain_new(self, body: bytes, *, as_text: bool, fresh: bool = False) -> QueryResponse:
        """Where pods that do not exist yet would go."""
        arguments = {"body": body, "leads": self._leads(), "as_text": as_text}
        return await self._answered("explain", arguments, function="explain_new", fresh=fresh, request_bytes=len(body))

    async def simulate(self, body: bytes, *, fresh: bool = False) -> QueryResponse:
        """What would happen if."""
        return await self._answered("simulate", {"body": body}, fresh=fresh, request_bytes=len(body))

    async def nodes(self, *, fresh: bool = False) -> QueryResponse:
        """How full each node is, and whom it has rejected."""
        return await self._answered("nodes", {}, fresh=fresh)

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> QueryResponse:
        """What would help most of the pods of each reason."""
        facts = self._service.facts(keys[0] for keys in reasons if keys)
        arguments = {"reasons": reasons}
        return await self._answered("pending", arguments, facts, function="helping_changes", reasons=len(reasons))

    async def _answered(
        self,
        name: str,
        arguments: dict[str, Any],
        facts: bytes = NO_FACTS,
        *,
        fresh: bool = False,
        function: str = "",
        **fields: object,
    ) -> QueryResponse:
        if not self._has_synced():
            return QueryResponse(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_YET.encode(), 5)
        began = self._clock.monotonic()
        try:
            query = ForkedQuery(_CODE, function or name, arguments).encoded()
            answer = await self._ask(query, facts, fresh=fresh)
            outcome = "answered" if answer.status == HTTPStatus.OK else "wrong"
        except QueryFailedError as problem:
            is_busy = isinstance(problem, CopyBusyError)
            status = HTTPStatus.TOO_MANY_REQUESTS if is_busy else HTTPStatus.SERVICE_UNAVAILABLE
            answer = QueryResponse(status, str(problem).encode(), problem.retry_after_seconds)
            outcome = problem.outcome
        except asyncio.CancelledError:
            self._queried[name, _LEFT] = self._queried.get((name, _LEFT), 0) + 1
            _log.info("question_not_answered", question=name, **fields, outcome=_LEFT, reason="its client has left")
            raise
        seconds = self._clock.monotonic() - began
        self._queried[name, outcome] = self._queried.get((name, outcome), 0) + 1
        self._seconds[name,] = self._seconds.get((name,), 0.0) + seconds
        self._log_query(name, outcome, answer, seconds, fields)
        return answer

    async def _ask(self, query: bytes, facts: bytes, *, fresh: bool) -> QueryResponse:
        if not self._has_code:
            # Before the copy is made, which else would import the code in each of its children; in a thread: it takes a
            # while, and a service that nobody asks does not need it.
            await asyncio.to_thread(importlib.import_module, _CODE)
            self._has_code = True
        found = await self._live_copy.ask(query, facts, fresh=fresh)
        answer = _unpacked(found)
        if answer.status != HTTPStatus.OK and found.is_older_than_query and not facts:
            # What it names may be younger than the copy: a node, a priority class.
            answer = _unpacked(await self._live_copy.ask(query, fresh=True))
        return answer

    def _log_query(
        self, name: str, outcome: str, answer: QueryResponse, seconds: float, fields: dict[str, object]
    ) -> None:
        facts = {"question": name, **fields, "seconds": round(seconds, 3)}
        if outcome == "answered":
            _log.info("question_answered", **facts, bytes=len(answer.body), age_seconds=answer.age_seconds)
        elif outcome == "failed":
            _log.error("question_not_answered", **facts, outcome=outcome, err=answer.body.decode(errors="replace"))
        else:
            _log.info("question_not_answered", **facts, outcome=outcome, reason=answer.body.decode(errors="replace"))

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source`."""
        return [
            Numbers("counter", QUERIES, dict(self._queried)),
            Numbers("counter", SECONDS, dict(self._seconds)),
            Numbers("counter", COPIES, {(): self._live_copy.forks}),
            Numbers("counter", PAUSES, {(): self._live_copy.fork_seconds}),
            gauge(WAITING, {(): float(self._live_copy.waiting)}),
        ]


def _unpacked(answer: LiveResponse) -> QueryResponse:
    status, _, body = answer.body.partition(b"\n")
    return QueryResponse(int(status), body, age_seconds=int(answer.age_seconds))
