"""Answers questions of HTTP with a copy of the service; counts them, and says each in the log."""

import asyncio
import importlib
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.app.asking.live_copy import CopyBusyError, LiveCopy, NoAnswerError
from kscheduler.app.parts import Parts
from kscheduler.counts.series import LabelValues, MetricSeries
from kscheduler.logs import get_logger
from kscheduler.metrics.samples import Numbers, Sample, gauge
from kscheduler.server.pages.questions import QuestionAnswer

_log = get_logger("kscheduler")

QUESTIONS: Final = MetricSeries(
    "kscheduler_questions_total",
    "Questions of /explain, /nodes, /pending and /simulate by outcome: answered, wrong (a mistake in the question), "
    "busy, refused (no memory), timeout, too_large, failed.",
    ("question", "outcome"),
)
SECONDS: Final = MetricSeries(
    "kscheduler_question_seconds_total", "Time from a question to its answer, waiting included.", ("question",)
)
PAUSES: Final = MetricSeries(
    "kscheduler_question_pause_seconds_total", "How long the event loop has stood still to copy the process."
)
WAITING: Final = MetricSeries("kscheduler_questions_waiting", "Questions that wait for their turn or their answer.")
_CODE: Final = "kscheduler.app.asking.questions"
_NOT_YET: Final = "the service has not read the cluster yet"


class LiveQuestions:
    """Implements `server.pages.questions.Questions`."""

    def __init__(
        self, live_copy: LiveCopy, parts: Parts, has_synced: Callable[[], bool], leads: Callable[[], bool]
    ) -> None:
        self._live_copy, self._parts = live_copy, parts
        self._has_synced, self._leads = has_synced, leads
        self._clock: Clock = parts.clock
        self._code: ModuleType | None = None
        self._asked: dict[LabelValues, float] = {}
        self._seconds: dict[LabelValues, float] = {}

    async def explain(
        self, pod_key: str, against_node: str, *, as_text: bool, with_suggestions: bool
    ) -> QuestionAnswer:
        """Where a pod goes and why."""

        def question(code: ModuleType) -> bytes:
            text: bytes = code.explain(
                self._parts,
                pod_key,
                against_node,
                leads=self._leads(),
                as_text=as_text,
                with_suggestions=with_suggestions,
            )
            return text

        return await self._answered("explain", question, pod=pod_key)

    async def simulate(self, body: bytes) -> QuestionAnswer:
        """What would happen if."""

        def question(code: ModuleType) -> bytes:
            text: bytes = code.simulate(self._parts, body)
            return text

        return await self._answered("simulate", question, request_bytes=len(body))

    async def nodes(self) -> QuestionAnswer:
        """How full each node is, and whom it has turned away."""

        def question(code: ModuleType) -> bytes:
            text: bytes = code.nodes(self._parts)
            return text

        return await self._answered("nodes", question)

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> QuestionAnswer:
        """What would help most of the pods of each reason."""

        def question(code: ModuleType) -> bytes:
            text: bytes = code.helping_changes(self._parts, reasons)
            return text

        return await self._answered("pending", question, reasons=len(reasons))

    async def _answered(self, name: str, question: Callable[[ModuleType], bytes], **fields: object) -> QuestionAnswer:
        if not self._has_synced():
            return QuestionAnswer(503, _NOT_YET.encode(), 5)
        began = self._clock.monotonic()
        try:
            code = await self._imported()
            answer = _unpacked(await self._live_copy.ask(lambda: question(code)))
            outcome = "answered" if answer.status == 200 else "wrong"
        except NoAnswerError as problem:
            status = 429 if isinstance(problem, CopyBusyError) else 503
            answer = QuestionAnswer(status, str(problem).encode(), problem.retry_after_seconds)
            outcome = problem.outcome
        seconds = self._clock.monotonic() - began
        self._asked[name, outcome] = self._asked.get((name, outcome), 0) + 1
        self._seconds[name,] = self._seconds.get((name,), 0.0) + seconds
        self._say(name, outcome, answer, seconds, fields)
        return answer

    def _say(self, name: str, outcome: str, answer: QuestionAnswer, seconds: float, fields: dict[str, object]) -> None:
        facts = {"question": name, **fields, "seconds": round(seconds, 3)}
        if outcome == "answered":
            _log.info("question_answered", **facts, bytes=len(answer.body))
        elif outcome == "failed":
            _log.error("question_not_answered", **facts, outcome=outcome, err=answer.body.decode(errors="replace"))
        else:
            _log.info("question_not_answered", **facts, outcome=outcome, reason=answer.body.decode(errors="replace"))

    async def _imported(self) -> ModuleType:
        """The code of the questions, which a service that nobody asks does not need. In a thread: it takes a while."""
        if self._code is None:
            self._code = await asyncio.to_thread(importlib.import_module, _CODE)
        return self._code

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source`."""
        return [
            Numbers("counter", QUESTIONS, dict(self._asked)),
            Numbers("counter", SECONDS, dict(self._seconds)),
            Numbers("counter", PAUSES, {(): self._live_copy.fork_seconds}),
            gauge(WAITING, {(): float(self._live_copy.waiting)}),
        ]


def _unpacked(text: bytes) -> QuestionAnswer:
    status, _, body = text.partition(b"\n")
    return QuestionAnswer(int(status), body)
