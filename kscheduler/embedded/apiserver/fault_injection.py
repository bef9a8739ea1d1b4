"""Applies faults to HTTP requests: delays, refusals and cut connections."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from kscheduler.embedded.apiserver.faults import Faults
from kscheduler.embedded.apiserver.handlers import respond_error

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class FaultGate:
    """Passes requests on to `handler` as far as the active faults allow."""

    def __init__(self, faults: Faults, handler: Handler) -> None:
        self._faults = faults
        self._handler = handler

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer the request, subject to the active faults."""
        reset_afterwards = False
        for fault in self._faults.for_request(request.method, request.path):
            match fault.action:
                case "delay":
                    await asyncio.sleep(fault.seconds)
                case "answer":
                    await request.read()
                    return respond_error(fault.error())
                case "reset":
                    return _cut(request)
                case _:
                    reset_afterwards = True
        response = await self._handler(request)
        return _cut(request) if reset_afterwards else response


def _cut(request: web.BaseRequest) -> web.Response:
    """Abort the connection; the response object is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
