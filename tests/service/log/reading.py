"""The log as an operator reads it: line by line, and waiting for the next one."""

import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kscheduler.telemetry.logs.pipeline import configure
from tests.service.running import SECONDS
from tests.telemetry.logs.logging_left_alone import logging_left_alone

Line = dict[str, Any]


class LogText(io.StringIO):
    """JSON lines, as they are written."""

    def lines(self) -> list[Line]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    def named(self, name: str, **fields: Any) -> list[Line]:
        """Lines with this message and these values."""
        return [line for line in self.lines() if line["msg"] == name and fields.items() <= line.items()]

    def story(self, pod: str) -> list[str]:
        """Messages about one pod: what `grep '"pod":"default/web"'` shows."""
        return [line["msg"] for line in self.lines() if line.get("pod") == pod]

    async def until(self, name: str, **fields: Any) -> Line:
        """The first such line, now or soon."""
        async with asyncio.timeout(SECONDS):
            while not (found := self.named(name, **fields)):  # noqa: ASYNC110  # nothing tells of a line
                await asyncio.sleep(0)
        return found[0]


@contextmanager
def log_at(verbosity: int) -> Iterator[LogText]:
    """Everything that is logged meanwhile, at this verbosity."""
    text = LogText()
    with logging_left_alone():
        configure(verbosity=verbosity, json=True, stream=text)
        yield text
