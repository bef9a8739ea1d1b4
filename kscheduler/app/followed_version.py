"""Which kube-scheduler is followed: that of the API server's version, unless `--emulated-version` names one.

    /version answers --> the newest followed version that is not newer --> the configuration in force, read again under
    that version's gates and defaults (in a thread) --> adopted between two decisions, as a changed file is

The first decision waits for the first answer, for some seconds. A cluster that is upgraded is followed within minutes,
without a restart. While its API servers are of two versions the answer may go back and forth, and so do the rules.

A configuration that the other version does not take (a feature gate that is gone) keeps the rules as they are: the log
and `/readyz?verbose` say why.
"""

import asyncio
from typing import Final

from kscheduler.aio.clock import finishes_within
from kscheduler.app.options import ReadUnder
from kscheduler.app.parts import Parts
from kscheduler.config.errors import ConfigError
from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught
from kscheduler.upstream.versions import followed

_log = get_logger("kscheduler")

FIRST_ANSWER_SECONDS: Final = 10.0
"""How long the first decision waits for the API server's version."""
FIRST_LIST_SECONDS: Final = 30.0
"""How long plugins that are built anew may wait for objects which only they read."""


class FollowedVersion:
    """Keeps the rules equal to those of the API server's version."""

    def __init__(self, parts: Parts, read: ReadUnder | None) -> None:
        """`read` `None`: the version was given, and stays."""
        self._parts = parts
        self._read = read
        self._wanted = ""
        self._refused = ""
        """The version that the configuration does not take."""
        self._asked = asyncio.Event()
        self._settled = asyncio.Event()
        if read is not None:
            parts.server_version.on_answer = self._learn

    @property
    def in_force(self) -> str:
        """The version that is followed."""
        return self._parts.assembly.config.gates.version

    @property
    def why(self) -> str:
        """Why that version is followed, for the log."""
        told = self._parts.server_version.text
        if self._read is None:
            return "it was given: --emulated-version, or a program's own configuration"
        if self._refused:
            return f"the configuration does not fit Kubernetes {self._refused}: see version_not_followed"
        if followed(told) is None:
            return "the API server has not told its version: it is the default"
        if self._wanted == self.in_force:
            return f"the API server is {told}"
        return f"the API server is {told}, and its rules are about to be taken over"

    async def wait_for_first(self) -> bool:
        """Wait until the API server's version is followed; whether it is."""
        if self._read is None:
            return True
        return await finishes_within(self._wait(), FIRST_ANSWER_SECONDS, self._parts.clock)

    async def _wait(self) -> None:
        await self._settled.wait()

    def _learn(self, server_version: str) -> None:
        self._wanted = followed(server_version) or self._wanted
        self._asked.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            if not self._wanted:
                continue
            if self._wanted not in (self.in_force, self._refused):
                await self._follow(self._wanted)
            self._settled.set()

    async def _follow(self, version: str) -> None:
        """Take the version's rules over. Never raises: whatever happens, the service goes on as before."""
        before = self.in_force
        async with self._parts.exchanging:
            try:
                await self._exchange(version)
            except ConfigError as failure:
                self._refuse(version, str(failure))
            except Exception as failure:  # noqa: BLE001  a boundary (`logs.caught`)
                count_caught(Boundary.CONFIG)
                _log.exception("version_not_followed", version=version, decides_as=self.in_force)
                self._parts.server_version.not_followed = f"{version}: a bug of kscheduler: {failure}"
            else:
                self._refused = self._parts.server_version.not_followed = ""
                _log.info("version_followed", decides_as=version, before=before)

    async def _exchange(self, version: str) -> None:
        assert self._read is not None  # noqa: S101  # nobody asks where it was given
        assembly = self._parts.assembly
        configured = await asyncio.to_thread(self._read, version, assembly.config.data)
        ruleset = assembly.draft(configured.config, configured.registry)
        await self._parts.plugin_listers.wait_for_sync(FIRST_LIST_SECONDS)
        self._parts.adopt(ruleset)

    def _refuse(self, version: str, reason: str) -> None:
        self._refused = version
        advice = f"correct the configuration or its feature gates, or give --emulated-version {self.in_force}"
        _log.error("version_not_followed", version=version, decides_as=self.in_force, reason=reason, advice=advice)
        self._parts.server_version.not_followed = f"{version}, decisions are as in {self.in_force}: {reason}; {advice}"
