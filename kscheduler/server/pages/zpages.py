"""`/statusz` and `/flagz`, as Kubernetes' components have them (gates ComponentStatusz and ComponentFlagz)."""

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.meta import rfc3339
from kscheduler.server.handlers import Handler
from kscheduler.server.pages.structured import answer

COMPONENT: Final = "kscheduler"

_HEAD: Final = (
    f"\n{COMPONENT} %s\n"
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only.\n"
)


def statusz(
    version: str, kubernetes: Callable[[], str], paths: Callable[[], Sequence[str]], clock: Clock = REAL_CLOCK
) -> Handler:
    """Since when what runs. `kubernetes`: the minor version whose rules are followed now. The process starts now."""
    started = clock.time()

    async def handle(request: web.Request) -> web.StreamResponse:
        seconds = max(0, int(clock.time() - started))
        begins = datetime.fromtimestamp(started, UTC)
        folders = _folders(paths())
        lines = [
            "",
            f"Started: {begins.strftime('%a %b %e %H:%M:%S UTC %Y')}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {version}",
            f"Emulation version: {kubernetes()}",
            f"Paths: {' '.join(folders)}",
        ]
        fields: dict[str, Any] = {
            "startTime": rfc3339(started),
            "uptimeSeconds": seconds,
            "binaryVersion": version,
            "emulationVersion": kubernetes(),
            "paths": folders,
        }
        return answer(request, "Statusz", _HEAD % "statusz" + "\n".join(lines) + "\n", fields, COMPONENT)

    return handle


def _folders(paths: Sequence[str]) -> list[str]:
    """The first part of each path, once."""
    return sorted({f"/{first}" for first in (path.split("/")[1] for path in paths if "/" in path) if first})


def flagz(flags: Mapping[str, str]) -> Handler:
    """All flags with the values in force. No flag holds a secret: tokens and keys are files, whose names are shown."""
    text = "".join(f"{name}={value}\n" for name, value in sorted(flags.items()))

    async def handle(request: web.Request) -> web.StreamResponse:
        return answer(request, "Flagz", _HEAD % "flagz" + text, {"flags": dict(flags)}, COMPONENT)

    return handle
