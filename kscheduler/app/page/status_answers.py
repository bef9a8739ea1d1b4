"""What the status page asks about pods, answered by a copy of the process (`app.asking`)."""

import asyncio
import importlib
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.app.asking.copied_service import CopiedQuestion
from kscheduler.app.asking.live_copy import LiveCopy
from kscheduler.app.asking.live_questions import LiveQuestions
from kscheduler.app.asking.no_answers import NoAnswerError
from kscheduler.server.status_page.sources import NodeVerdict, Refused, Tree

_CODE: Final = "kscheduler.app.page.copied_answers"
_VERDICTS = msgspec.json.Decoder(list[NodeVerdict])
_CHANGES = msgspec.json.Decoder(dict[str, dict[str, Any]])


class StatusAnswers:
    """Implements `status_page.sources.LiveAnswers`."""

    def __init__(self, copy: LiveCopy, questions: LiveQuestions) -> None:
        self._copy = copy
        self._questions = questions
        self._has_code = False

    async def explain(self, pod: Pod) -> Tree | Refused:
        """The explanation of one pod as it would be decided now."""
        found = await self._questions.explain(pod.key, "", as_text=False, with_suggestions=not pod.spec.node_name)
        if found.status != HTTPStatus.OK:
            return Refused(f"No answer now: {found.body.decode(errors='replace')}")
        tree: Tree = msgspec.json.decode(found.body)
        return tree

    async def verdicts_on(self, node_name: str, keys: Sequence[str]) -> list[NodeVerdict] | Refused:
        """What the cycle says of these pending pods on one node."""
        body = await self._ask("verdicts", node_name=node_name, keys=keys)
        return body if isinstance(body, Refused) else _VERDICTS.decode(body)

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> dict[str, Tree] | Refused:
        """For each reason, by the key of its first pod, the change that frees most of its pods."""
        body = await self._ask("helping_changes", reasons=reasons)
        return body if isinstance(body, Refused) else _CHANGES.decode(body)

    async def _ask(self, function: str, **arguments: Any) -> bytes | Refused:
        if not self._has_code:
            # Before the copy is made, which else would import the code in each of its children; in a thread: a service
            # whose page nobody looks at does not need it.
            await asyncio.to_thread(importlib.import_module, _CODE)
            self._has_code = True
        try:
            return (await self._copy.ask(CopiedQuestion(_CODE, function, arguments).encoded())).body
        except NoAnswerError as failure:
            return Refused(f"No answer now: {failure}. Load the page again in a while.")
