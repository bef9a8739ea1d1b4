"""A shadow's life: HTTP server -> informers -> first lists -> comparisons, until a signal; then the report.

SIGUSR1 shows the report at once; SIGTERM, SIGINT and SIGHUP end it in order. Its configuration stays as it was read.
"""

import asyncio
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, Final

import structlog

from kscheduler import __version__
from kscheduler.aio.clock import finishes_within
from kscheduler.aio.tasks import BackgroundService, running, while_running
from kscheduler.api.kinds import PODS
from kscheduler.client.access.connection import Connection
from kscheduler.scheduling.background.refreshed_plugins import FIRST_DATA_SECONDS
from kscheduler.scheduling.pod_log.lines import OUTCOMES
from kscheduler.server import Server
from kscheduler.service import signals
from kscheduler.service.shadowing.connected import ConnectedShadow
from kscheduler.service.shadowing.http_app import ShadowHTTPApp
from kscheduler.service.shadowing.options import ShadowOptions
from kscheduler.shadow.comparison import Comparison
from kscheduler.shadow.report import ShadowReport, shadow_report
from kscheduler.shadow.sums import Sums
from kscheduler.telemetry.logs import get_logger, verbose
from kscheduler.telemetry.logs.pipeline import configure as configure_logs

_log = get_logger("shadow")

# How long the first lists may take until a line names what is missing; then again each time.
SYNC_SECONDS: Final = 10.0
# Scheduler names that are told where nobody is followed, those of most pods.
_MAX_NAMES: Final = 5
# Between two lines with the sums, while anything is compared.
SUMMARY_SECONDS: Final = 60.0


class ShadowApp:
    """A shadow of a cluster."""

    def __init__(self, options: ShadowOptions, connection: Connection) -> None:
        """Raises `ConfigError`."""
        self._options = options
        self.parts = ConnectedShadow(options, connection)
        self.parts.follower.on_comparison = self._log_verdict
        self._began = self.parts.clock.monotonic()
        self.answers = ShadowHTTPApp(options, connection, self.parts, self.report)
        self._summed_up = 0

    @property
    def server(self) -> Server:
        """The first HTTP server. Raises `IndexError` where both ports are off."""
        return self.answers.servers[0]

    def report(self) -> ShadowReport:
        """What was compared so far."""
        return shadow_report(self.parts.follower, self.parts.clock.monotonic() - self._began)

    def show_report(self) -> None:
        """Give the report to the client that asked for it."""
        if self._options.report is not None:
            self._options.report(self.report())

    async def run(self, stop: asyncio.Event) -> bool:
        """Follow until `stop` is set, or the time is over; then show the report.

        False: the time is over, and the cluster could not be read.
        """
        parts = self.parts
        _log.info("shadow_starting", version=__version__, pid=os.getpid(), follows=sorted(self._options.names))
        async with AsyncExitStack() as ends:
            ends.callback(self.answers.exposition.close)
            for server in self.answers.servers:
                await server.start()
                ends.push_async_callback(server.aclose)
            if url := self.answers.report_url():
                self._options.say(f"the report so far: {url}")
            await ends.enter_async_context(parts.client)
            await ends.enter_async_context(parts.plugin_client)
            async with running(
                BackgroundService("loop-lag", self.answers.loop_lag.run),
                BackgroundService("api-server", parts.monitor.run),
                BackgroundService("informers", parts.informers.run),
                BackgroundService("plugins' kinds", parts.plugin_listers.run),
                BackgroundService("plugins' data", parts.refreshed.run),
            ):
                await self._until(self._follow(), stop)
                self.answers.is_stopping = True
        self._log_sums("shadow_stopped")
        self.show_report()
        return parts.follower.begun.is_set() or stop.is_set()

    async def _until(self, following: Any, stop: asyncio.Event) -> None:
        """Follow until `stop`, or until the time is over, whether the API server answers or not."""
        tasks = [
            asyncio.create_task(following, name="shadow"),
            asyncio.create_task(stop.wait(), name="stop"),
            asyncio.create_task(self._the_time(), name="duration"),
        ]
        async with while_running(tasks):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _follow(self) -> None:
        while missing := await self.parts.wait_for_sync(SYNC_SECONDS):
            _log.warning("waiting_for_sync", missing=list(missing))
        without = await self.parts.refreshed.wait_for_first(FIRST_DATA_SECONDS)
        if without:
            _log.warning("plugins_without_data", plugins=without, advice="they decide as they do without data")
        follower = self.parts.follower
        follower.begin()
        self._began = self.parts.clock.monotonic()
        _log.info(
            "shadow_following",
            follows=sorted(self._options.names),
            program=self._options.followed.name,
            decides_as=follower.assembly.config.gates.version,
            nodes=len(follower.assembly.cache.nodes),
        )
        self._warn_if_none_followed()
        async with running(
            BackgroundService("comparisons", follower.run), BackgroundService("sums", self._sum_up_regularly)
        ):
            await asyncio.get_running_loop().create_future()

    def _warn_if_none_followed(self) -> None:
        """A misspelt scheduler name follows nobody, and the report would stay empty without a word."""
        pods = self.parts.informers.informer(PODS).store.list()
        found = Counter(pod.spec.scheduler_name for pod in pods)
        if not found or found.keys() & self._options.names:
            return
        names = [name for name, _ in found.most_common(_MAX_NAMES)]
        follows = ", ".join(sorted(self._options.names))
        _log.warning("shadow_follows_nobody", follows=sorted(self._options.names), pods_name=names)
        known = ", ".join(names)
        self._options.say(
            f"no pod names scheduler {follows}; pods name {known} (--follow-scheduler NAME follows one of these)"
        )

    async def _the_time(self) -> None:
        """As long as was asked for, from the first comparison on; without that, forever.

        A silent API server does not make it longer: the first lists have as much time, and `SYNC_SECONDS` at least.
        """
        seconds, follower = self._options.seconds, self.parts.follower
        if seconds is None:
            await asyncio.get_running_loop().create_future()
            return
        await finishes_within(follower.begun.wait(), max(seconds, SYNC_SECONDS), self.parts.clock)
        if follower.begun.is_set():
            await self.parts.clock.sleep(seconds)
        else:
            _log.warning(
                "shadow_saw_nothing",
                advice="the first lists have not arrived: waiting_for_sync names them; can the API server be reached, "
                "and may this account list them?",
            )

    async def _sum_up_regularly(self) -> None:
        while True:
            await self.parts.clock.sleep(SUMMARY_SECONDS)
            if self.parts.follower.sums.judged != self._summed_up:
                self._log_sums("shadow_sums")

    def _log_sums(self, event: str) -> None:
        sums: Sums = self.parts.follower.sums
        self._summed_up = sums.judged
        kinds = {kind.value: count for kind, count in sums.by_kind().items() if count}
        behind = round(self.parts.follower.behind_seconds(), 3)
        _log.info(event, compared=sums.judged, differences=sums.real_differences, kinds=kinds, behind_seconds=behind)

    def _log_verdict(self, verdict: Comparison) -> None:
        if not verbose(OUTCOMES):
            return
        fields: dict[str, Any] = {
            "pod": verdict.pod,
            "uid": verdict.uid,
            "kind": verdict.kind.value,
            "theirs": verdict.theirs,
            "ours": verdict.ours,
            "reason": verdict.reason,
            "message": verdict.message,
            "order": verdict.order.text if verdict.order is not None else "",
            "tries": verdict.order.tries if verdict.order is not None else "",
        }
        _log.info("pod_compared", **{name: value for name, value in fields.items() if value != ""})


async def run_shadow(options: ShadowOptions, connection: Connection) -> bool:
    """Run a shadow until a signal ends it, or its time is over. Sets up logs, unless that is already done.

    False: the time is over, and the cluster could not be read.
    """
    if not structlog.is_configured():
        configure_logs()
    _log.info("connecting", server=connection.description)
    for reason in connection.warnings:
        _log.warning("connection_not_secure", server=connection.description, reason=reason)
    stop = signals.Stop()
    with signals.ending(stop):
        app = ShadowApp(options, connection)
        with signals.calling(app.show_report, signal.SIGUSR1):
            return await app.run(stop)
