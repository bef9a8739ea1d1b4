"""`/debug/...`: what a Python service can tell about itself while it runs. Where `enableProfiling` is on.

    /debug/cache, /debug/queue        what SIGUSR2 logs, as lines of JSON
    /debug/stacks                     where each thread and each asyncio task is
    /debug/profile?seconds=10         samples of the main thread's stack, a line per distinct stack with its count:
                                      the format of flame graphs (speedscope, flamegraph.pl)
    PUT /debug/flags/v                the verbosity of the log, as in kube-scheduler

Go's `/debug/pprof/*` answers 404: its formats are Go's. A sampling profile rather than cProfile, which would make each
decision twice as slow: a sample costs 20 us, and 100 are taken a second, in a thread.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable
from types import FrameType
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from kscheduler.server.handlers import Handler
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.verbosity import set_verbosity

_log = get_logger("server")

LONGEST_PROFILE_SECONDS: Final = 60.0
_DEFAULT_PROFILE_SECONDS: Final = 10.0
_SAMPLES_PER_SECOND: Final = 100
_MAX_TASKS: Final = 1000
_DEEPEST: Final = 100
_LARGEST_VERBOSITY: Final = 2**31 - 1

# A dump: messages with their fields.
Entries = Callable[[], AsyncIterator[tuple[str, dict[str, Any]]]]


def dump_page(entries: Entries) -> Handler:
    """A dump as lines of JSON, written as fast as the client reads."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/x-ndjson"})
        await response.prepare(request)
        async for message, fields in entries():
            await response.write(msgspec.json.encode({"msg": message, **fields}, enc_hook=str) + b"\n")
        return response

    return handle


async def stacks_page(_request: web.Request) -> web.StreamResponse:
    """All threads and tasks."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(number, '?')}\n{''.join(traceback.format_stack(frame, _DEEPEST))}"
        for number, frame in sys._current_frames().items()
    ]
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[:_MAX_TASKS]:
        frames = task.get_stack(limit=_DEEPEST)
        where = "".join(f'  File "{one.f_code.co_filename}", line {one.f_lineno}\n' for one in frames)
        parts.append(f"task {task.get_name()}\n{where}")
    if len(tasks) > _MAX_TASKS:
        parts.append(f"... and {len(tasks) - _MAX_TASKS} tasks more\n")
    return web.Response(text="\n".join(parts))


class ProfilePage:
    """Samples the thread of the event loop; one profile at a time."""

    def __init__(self) -> None:
        self._is_running = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Take a profile of `?seconds=`."""
        try:
            seconds = float(request.query.get("seconds", _DEFAULT_PROFILE_SECONDS))
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= LONGEST_PROFILE_SECONDS:
            raise web.HTTPBadRequest(text=f"400: seconds must be a number up to {LONGEST_PROFILE_SECONDS:g}")
        if self._is_running:
            raise web.HTTPTooManyRequests(text="429: a profile is being taken already")
        self._is_running = True
        try:
            found = await asyncio.to_thread(sample, threading.get_ident(), seconds)
        finally:
            self._is_running = False
        return web.Response(text="".join(f"{stack} {count}\n" for stack, count in found.most_common()))


def sample(thread: int, seconds: float) -> Counter[str]:
    """How often each stack was met in `thread`, outermost function first. Called in another thread."""
    stacks: Counter[str] = Counter()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        frame = sys._current_frames().get(thread)
        if frame is None:
            break
        stacks[_folded(frame)] += 1
        del frame  # it would keep all its locals alive
        time.sleep(1 / _SAMPLES_PER_SECOND)
    return stacks


def _folded(frame: FrameType) -> str:
    names: list[str] = []
    inner: FrameType | None = frame
    while inner is not None and len(names) < _DEEPEST:
        names.append(f"{inner.f_globals.get('__name__', '?')}.{inner.f_code.co_name}")
        inner = inner.f_back
    return ";".join(reversed(names))


async def set_verbosity_page(request: web.Request) -> web.StreamResponse:
    """PUT a number."""
    text = (await request.read()).decode(errors="replace").strip()
    if not (text.isascii() and text.isdecimal()) or int(text) > _LARGEST_VERBOSITY:
        raise web.HTTPBadRequest(text=f"400: the verbosity must be a whole number from 0 to {_LARGEST_VERBOSITY}")
    set_verbosity(int(text))
    _log.info("verbosity_set", v=int(text), peer=request.remote)
    return web.Response(text=f"successfully set klog.logging.verbosity to {int(text)}")
