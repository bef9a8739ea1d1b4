"""What the status page asks about pods, answered by a copy of the process (`app.asking`)."""

import asyncio
import importlib
from collections.abc import Callable, Sequence
from http import HTTPStatus
from types import ModuleType
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.app.asking.live_copy import LiveCopy, NoAnswerError
from kscheduler.app.asking.live_questions import LiveQuestions
from kscheduler.app.parts import Parts
from kscheduler.server.status_page.sources import NodeVerdict, Refused, Tree

_CODE: Final = "kscheduler.app.page.copied_answers"
_VERDICTS = msgspec.json.Decoder(list[NodeVerdict])
_CHANGES = msgspec.json.Decoder(dict[str, dict[str, Any]])


class StatusAnswers:
    """Implements `status_page.sources.LiveAnswers`."""

    def __init__(self, parts: Parts, copy: LiveCopy, questions: LiveQuestions) -> None:
        self._parts = parts
        self._copy = copy
        self._questions = questions
        self._code: ModuleType | None = None

    async def explain(self, pod: Pod) -> Tree | Refused:
        """The explanation of one pod as it would be decided now."""
        found = await self._questions.explain(pod.key, "", as_text=False, with_suggestions=not pod.spec.node_name)
        if found.status != HTTPStatus.OK:
            return Refused(f"No answer now: {found.body.decode(errors='replace')}")
        tree: Tree = msgspec.json.decode(found.body)
        return tree

    async def verdicts_on(self, node_name: str, keys: Sequence[str]) -> list[NodeVerdict] | Refused:
        """What the cycle says of these pending pods on one node."""
        code = await self._imported()
        body = await self._ask(lambda: msgspec.json.encode([*code.verdicts(self._parts, node_name, keys)]))
        return body if isinstance(body, Refused) else _VERDICTS.decode(body)

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> dict[str, Tree] | Refused:
        """For each reason, by the key of its first pod, the change that frees most of its pods."""
        code = await self._imported()
        body = await self._ask(lambda: msgspec.json.encode(code.helping_changes(self._parts, reasons)))
        return body if isinstance(body, Refused) else _CHANGES.decode(body)

    async def _imported(self) -> ModuleType:
        """The code of the answers, in a thread: a service whose page nobody looks at does not need it."""
        if self._code is None:
            self._code = await asyncio.to_thread(importlib.import_module, _CODE)
        return self._code

    async def _ask(self, question: Callable[[], bytes]) -> bytes | Refused:
        try:
            return await self._copy.ask(question)
        except NoAnswerError as failure:
            return Refused(f"No answer now: {failure}. Load the page again in a while.")
