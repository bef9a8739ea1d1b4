"""Answers questions of HTTP with a copy of the service; counts them, and says each in the log.

Templates of claims are read before the fork, since the copy may open no connection and nobody watches them: no decision
reads them. But a claim that was made from a template comes back as the template says when its pod is made again, so
what would help such a pod is a change of the template. They are fetched when somebody asks about a pod that names one;
what may not be read, or does not come in time, counts as unknown, and no change of a template is suggested.
"""

import asyncio
import importlib
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.server.pages.query_pages import QueryResponse
from kscheduler.service.asking.live_copies import LiveCopies
from kscheduler.service.asking.query_errors import CopyBusyError, QueryFailedError
from kscheduler.service.parts import Parts
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.samples import Numbers, Sample, gauge
from kscheduler.telemetry.series import LabelValues, MetricSeries

_log = get_logger("kscheduler")

QUERIES: Final = MetricSeries(
    "kscheduler_questions_total",
    "Questions of /explain, /nodes, /pending and /simulate by outcome: answered, wrong (a mistake in the question), "
    "busy, refused (no memory), timeout, too_large, failed, left (the client closed the connection).",
    ("question", "outcome"),
)
SECONDS: Final = MetricSeries(
    "kscheduler_question_seconds_total", "Time from a question to its answer, waiting included.", ("question",)
)
PAUSES: Final = MetricSeries(
    "kscheduler_question_pause_seconds_total", "How long the event loop has stood still to fork the process."
)
COPIES: Final = MetricSeries(
    "kscheduler_question_copies_total", "Copies of the process (forks): each answers one question."
)
WAITING: Final = MetricSeries("kscheduler_questions_waiting", "Questions that wait for their turn or their answer.")
_LEFT: Final = "left"
_CODE: Final = "kscheduler.service.asking.answers_in_copy"
_TEMPLATES_CODE: Final = "kscheduler.explain.queries.live"
# Of a pod, that are fetched.
MAX_TEMPLATES: Final = 8
FETCH_SECONDS: Final = 2.0
_NOT_YET: Final = "the service has not read the cluster yet"

# Called in a copy with the module of the answers, the parts of the service, and the time of the fork as the wall clock
# has it; returns what that module's function answers.
StateQuery = Callable[[Any, Parts, float], bytes]


class LiveQueries:
    """Implements `server.pages.query_pages.QueryService`."""

    def __init__(
        self, parts: Parts, copies: LiveCopies, has_synced: Callable[[], bool], leads: Callable[[], bool]
    ) -> None:
        self._parts, self._copies = parts, copies
        self._has_synced, self._leads = has_synced, leads
        self._queried: dict[LabelValues, float] = {}
        self._seconds: dict[LabelValues, float] = {}

    async def explain(self, pod_key: str, against_node: str, *, as_text: bool, with_suggestions: bool) -> QueryResponse:
        """Where a pod or a pod group goes and why."""
        if with_suggestions:
            await self._fetch_claim_templates(pod_key)

        def query(code: Any, parts: Parts, as_of: float) -> bytes:
            form = {"as_text": as_text, "with_suggestions": with_suggestions}
            answer: bytes = code.explain(
                parts, as_of, pod_key=pod_key, against_node=against_node, leads=self._leads(), **form
            )
            return answer

        return await self._answered("explain", query, pod=pod_key)

    async def _fetch_claim_templates(self, pod_key: str) -> None:
        """Keep those of a waiting pod, by name: `None` does not exist, unreadable ones are left out."""
        pod: Pod | None = self._parts.informers.informer(PODS).store.get(pod_key)
        if pod is None or pod.spec.node_name or not pod.names_claim_templates:
            return
        code = await asyncio.to_thread(importlib.import_module, _TEMPLATES_CODE)  # rarely needed, and large
        self._parts.claim_templates[pod_key] = await code.known_claim_templates(
            self._parts.client, pod, MAX_TEMPLATES, FETCH_SECONDS
        )

    async def explain_new(self, body: bytes, *, as_text: bool) -> QueryResponse:
        """Where pods that do not exist yet would go."""
        return await self._answered(
            "explain",
            lambda code, parts, as_of: code.explain_new(parts, as_of, body=body, leads=self._leads(), as_text=as_text),
            request_bytes=len(body),
        )

    async def simulate(self, body: bytes) -> QueryResponse:
        """What would happen if."""
        return await self._answered(
            "simulate", lambda code, parts, as_of: code.simulate(parts, as_of, body=body), request_bytes=len(body)
        )

    async def nodes(self) -> QueryResponse:
        """How full each node is, and whom it has rejected."""
        return await self._answered("nodes", lambda code, parts, as_of: code.nodes(parts, as_of))

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> QueryResponse:
        """What would help most of the pods of each reason."""
        return await self._answered(
            "pending",
            lambda code, parts, as_of: code.helping_changes(parts, as_of, reasons=reasons),
            reasons=len(reasons),
        )

    async def ask(self, module: str, query: StateQuery) -> bytes:
        """What a module says of the service as it is now. Raises `QueryFailedError`."""
        # In a thread, since it takes a while, and not at the start: a service that nobody asks does not need it. And
        # not in the copy, which would import it again with each question.
        code = await asyncio.to_thread(importlib.import_module, module)

        def answer() -> bytes:
            self._parts.assembly.mute_reports()
            return query(code, self._parts, self._parts.clock.time())

        return await self._copies.ask(answer)

    async def _answered(self, name: str, query: StateQuery, **fields: object) -> QueryResponse:
        if not self._has_synced():
            return QueryResponse(HTTPStatus.SERVICE_UNAVAILABLE, _NOT_YET.encode(), 5)
        began = self._parts.clock.monotonic()
        try:
            status, _, body = (await self.ask(_CODE, query)).partition(b"\n")
            answer = QueryResponse(int(status), body)
            outcome = "answered" if answer.status == HTTPStatus.OK else "wrong"
        except QueryFailedError as problem:
            is_busy = isinstance(problem, CopyBusyError)
            refusal = HTTPStatus.TOO_MANY_REQUESTS if is_busy else HTTPStatus.SERVICE_UNAVAILABLE
            answer = QueryResponse(refusal, str(problem).encode(), problem.retry_after_seconds)
            outcome = problem.outcome
        except asyncio.CancelledError:
            self._queried[name, _LEFT] = self._queried.get((name, _LEFT), 0) + 1
            _log.info("question_not_answered", question=name, **fields, outcome=_LEFT, reason="its client has left")
            raise
        seconds = self._parts.clock.monotonic() - began
        self._queried[name, outcome] = self._queried.get((name, outcome), 0) + 1
        self._seconds[name,] = self._seconds.get((name,), 0.0) + seconds
        self._log_query(name, outcome, answer, seconds, fields)
        return answer

    def _log_query(
        self, name: str, outcome: str, answer: QueryResponse, seconds: float, fields: dict[str, object]
    ) -> None:
        facts = {"question": name, **fields, "seconds": round(seconds, 3)}
        if outcome == "answered":
            _log.info("question_answered", **facts, bytes=len(answer.body), age_seconds=0)
        elif outcome == "failed":
            _log.error("question_not_answered", **facts, outcome=outcome, err=answer.body.decode(errors="replace"))
        else:
            _log.info("question_not_answered", **facts, outcome=outcome, reason=answer.body.decode(errors="replace"))

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source`."""
        return [
            Numbers("counter", QUERIES, dict(self._queried)),
            Numbers("counter", SECONDS, dict(self._seconds)),
            Numbers("counter", COPIES, {(): self._copies.forks}),
            Numbers("counter", PAUSES, {(): self._copies.fork_seconds}),
            gauge(WAITING, {(): float(self._copies.waiting)}),
        ]
