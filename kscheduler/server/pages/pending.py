"""`/pending`: the pods that wait, by reason, as JSON; with `?suggestions=true` the change that helps most of each."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web

from kscheduler.answers.pending_in_queue import PendingInQueue, ReasonInQueue
from kscheduler.answers.suggestions import HelpingChange
from kscheduler.server.handlers import WORDS, Handler, unknown_parameter
from kscheduler.server.login.user import status_answer

# Reasons for which a change is looked for, those of most pods first.
MAX_HELPED: Final = 12

# Of reasons, each its pods (`namespace/name`), the change of each by its first pod; or why there is no answer now.
Changes = Callable[[web.Request, Sequence[Sequence[str]]], Awaitable[Mapping[str, HelpingChange] | web.Response]]


def pending_page(pending: Callable[[str], Awaitable[PendingInQueue]], changes: Changes | None = None) -> Handler:
    """The answer, of `?namespace=` if that is given, made again for each request.

    One at a time, so that many askers cost as much as one. `changes`: who looks for changes, if anybody does.
    """
    is_busy = False
    parameters = ("namespace",) if changes is None else ("namespace", "suggestions")

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal is_busy
        unknown = unknown_parameter(request, parameters)
        if unknown is not None:
            return unknown
        with_suggestions = WORDS.get(request.query.get("suggestions", "false"))
        if with_suggestions is None:
            return status_answer(request, 400, "suggestions: true or false was expected")
        if is_busy:
            raise web.HTTPTooManyRequests(text="429: the answer to another request is being made")
        is_busy = True
        try:
            found = await pending(request.query.get("namespace", ""))
        finally:
            is_busy = False
        if with_suggestions and changes is not None:
            helping = await _helping(found, changes, request)
            if isinstance(helping, web.Response):
                return helping
            reasons = tuple(_with_change(reason, helping) for reason in found.reasons)
            found = msgspec.structs.replace(found, reasons=reasons)
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    return handle


async def _helping(
    pending: PendingInQueue, changes: Changes, request: web.Request
) -> Mapping[str, HelpingChange] | web.Response:
    """The changes by the key of each reason's first pod; the refusal, if nobody can look for them now."""
    # A pod group is asked about as a whole.
    asked = [each.keys for each in pending.reasons if each.is_rejected and each.pods and not each.pod_group]
    return await changes(request, asked[:MAX_HELPED]) if asked else {}


def _with_change(reason: ReasonInQueue, helping: Mapping[str, HelpingChange]) -> ReasonInQueue:
    found = helping.get(reason.pods[0].key) if reason.pods else None
    return msgspec.structs.replace(
        reason,
        suggestion=None if found is None else found.change,
        left_off=None if found is None else found.left_off,
    )
