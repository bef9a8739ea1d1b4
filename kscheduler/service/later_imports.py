"""Imports that the first decisions do not need, in a quiet moment of the running service.

The problem: what only some pods need made every start longer; imported for the first such pod, it would hold up that
pod and all behind it. The idea: it is imported some time after the start, in pieces of a few milliseconds, between
which the event loop runs. Who needs it earlier imports the rest at once. On the loop and not in a thread: a copy of the
process that is forked meanwhile (`service.asking`) would wait forever for the lock of a half-imported module.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from kscheduler.aio import Clock

# When the cluster that the process found has been decided about.
AFTER_SECONDS: Final = 30.0
BETWEEN_SECONDS: Final = 0.1
# The language of devices' selectors, for the first claim: 20 ms. A module stands behind those that it imports.
LATER: Final = (
    "kscheduler.api.device_values",
    "kscheduler.cel.syntax.parser",
    "kscheduler.cel.checking.checker",
    "kscheduler.cel.checking.validators",
    "kscheduler.cel.kubernetes.library",
    "kscheduler.cel.environment",
    "kscheduler.api.device_selectors",
)


class LaterImports:
    """Imports modules while `run` is running, in their order."""

    def __init__(self, clock: Clock, modules: Sequence[str] = LATER) -> None:
        self._clock, self._modules = clock, modules

    async def run(self) -> None:
        """Import them, and then wait until cancelled."""
        await self._clock.sleep(AFTER_SECONDS)
        for module in self._modules:
            with suppress(ImportError):  # whoever needs it meets the error
                import_module(module)
            await self._clock.sleep(BETWEEN_SECONDS)
        await asyncio.Event().wait()
