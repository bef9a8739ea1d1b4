"""Which kube-scheduler is followed: that of the API server's version, unless `--emulated-version` names one.

    /version answers --> the newest followed version that is not newer --> the configuration in force, read again under
    that version's gates and defaults --> applied between two decisions, as a changed file is (`reloading`)

The first decision waits for the first answer, for some seconds. A cluster that is upgraded is followed within minutes,
without a restart. While its API servers are of two versions the answer may go back and forth, and so do the rules.

Which kinds are watched is decided before that, when the service is built. Composite groups have another API version in
1.38 (`group_apis`): where they are followed, the API server is asked for its version first.

A configuration that the other version does not take (a feature gate that is gone) keeps the rules as they are, or those
of the newest version in between that takes it: the log, `/readyz?verbose` and a metric say so. It is tried again with
each answer, whenever a file has changed, and at SIGHUP.
"""

import asyncio
from typing import Final

from msgspec.structs import replace

from kscheduler.aio.clock import finishes_within
from kscheduler.api.releases import followed, minor_of, to_try
from kscheduler.assembly.compiled_configuration import group_apis
from kscheduler.client.access.connection import Connection
from kscheduler.client.rest import APIClient, server_version_of
from kscheduler.config.errors import ConfigError
from kscheduler.service.metrics.followed_version import FollowedVersionStatistics
from kscheduler.service.options import Options
from kscheduler.service.parts import Parts
from kscheduler.service.reloading import ConfigReloader, NotFollowedError
from kscheduler.state.group_apis import COMPOSITE
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger("kscheduler")

# How long the first decision waits for the API server's version.
FIRST_ANSWER_SECONDS: Final = 10.0


async def under_the_servers_version(options: Options, connection: Connection) -> Options:
    """The options as the API server's version has them, where the kinds that are watched depend on it.

    They stay as they are where a version was given, where the API server does not answer, and where the configuration
    does not fit its version: `FollowedVersion` says so, and tries again.
    """
    if options.read_under is None or not any(api.name == COMPOSITE for api in group_apis(options.config)):
        return options
    async with APIClient(connection) as client:
        version = followed(await server_version_of(client))
    if version is None or version == options.config.gates.version:
        return options
    try:
        configured = await asyncio.to_thread(options.read_under, version, options.config.data)
    except ConfigError:
        return options
    if options.source is not None:
        options.source.follow(configured.config.gates)
    return replace(options, config=configured.config, registry=configured.registry, origins=configured.origins)


class FollowedVersion:
    """Keeps the rules equal to those of the API server's version."""

    def __init__(self, parts: Parts, reloader: ConfigReloader, *, is_given: bool) -> None:
        """`is_given`: the version was given, and stays."""
        self._parts = parts
        self._reloader = reloader
        self._is_given = is_given
        self._to_follow = parts.server_version.to_follow
        self._logged = ("", "")
        """The version that is not followed, and why, as the log has it; empty: all is well."""
        self._before_refusal = ""
        """The version that was kept."""
        self._settled = asyncio.Event()

    @property
    def in_force(self) -> str:
        """The version that is followed."""
        return self._parts.assembly.config.gates.version

    @property
    def why(self) -> str:
        """Why that version is followed, for the log."""
        reported = self._parts.server_version.text
        if self._is_given:
            return "it was given: --emulated-version, or a program's own configuration"
        if self._to_follow.refused:
            return f"Kubernetes {self._to_follow.refused} cannot be followed: see version_not_followed"
        if followed(reported) is None:
            return "the API server has not reported its version: this is the default"
        if self._to_follow.wanted == self.in_force:
            return f"the API server is {reported}"
        return f"the API server is {reported}, and its rules are about to be taken over"

    def statistics(self) -> FollowedVersionStatistics:
        minor = minor_of(self._parts.server_version.text)
        return FollowedVersionStatistics(
            server="" if minor is None else ".".join(map(str, minor)),
            decides_as=self.in_force,
            is_followed=not self._parts.server_version.not_followed,
        )

    async def wait_for_first(self) -> bool:
        """Wait until the API server's version is followed; whether it is."""
        if self._is_given:
            return True
        return await finishes_within(self._settled.wait(), FIRST_ANSWER_SECONDS, self._parts.clock)

    async def run(self) -> None:
        """Follow until cancelled."""
        if self._is_given:
            await asyncio.get_running_loop().create_future()
        while True:
            wanted = await self._to_follow.until_due()
            if not wanted:
                continue
            if wanted != self.in_force:
                await self._follow(wanted)
            elif any(self._logged):
                self._followed(wanted, self._before_refusal)
            self._settled.set()

    async def _follow(self, version: str) -> None:
        """Take the version's rules over, or those of the newest one before it that the configuration fits.

        Never raises: whatever happens, the service goes on as before.
        """
        before, refusal = self.in_force, None
        try:
            for candidate in to_try(version, before):
                try:
                    await self._reloader.follow(candidate)
                except ConfigError as failure:
                    refusal = refusal or failure
                    continue
                if candidate == version:
                    self._followed(version, before)
                    return
                _log.info("version_followed", decides_as=candidate, before=before)
                break
            if refusal is not None:
                self._refuse(version, refusal)
        except Exception as failure:  # noqa: BLE001  a boundary (`logs.caught`)
            count_caught(Boundary.CONFIG)
            # Files are still read under the version in force only: that they are refused by this one is not known.
            reason = f"a bug of kscheduler: {type(failure).__name__}: {failure}"
            self._not_followed(version, reason, "report it with the traceback", has_traceback=True)

    def _followed(self, version: str, before: str) -> None:
        self._to_follow.refused = self._parts.server_version.not_followed = ""
        self._logged = ("", "")
        _log.info("version_followed", decides_as=version, before=before)

    def _refuse(self, version: str, refusal: ConfigError) -> None:
        self._to_follow.refused = version
        mend = "correct the configuration or its feature gates"
        advice = refusal.advice if isinstance(refusal, NotFollowedError) else mend
        self._not_followed(version, str(refusal), advice)

    def _not_followed(self, version: str, reason: str, advice: str, *, has_traceback: bool = False) -> None:
        """Log why, once per version and cause, and note it for readiness."""
        if self._logged == (version, reason):
            return
        self._logged, self._before_refusal = (version, reason), self.in_force
        advice = f"{advice}, or give --emulated-version {self.in_force}"
        fields = {"version": version, "decides_as": self.in_force, "reason": reason, "advice": advice}
        _log.error("version_not_followed", **fields, exc_info=has_traceback)
        self._parts.server_version.not_followed = f"{version}, but {self.in_force}'s rules apply: {reason}; {advice}"
