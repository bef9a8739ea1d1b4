"""The service: started in order, stopped in reverse.

    start   HTTP server -> Events -> informers -> wait for sync -> checks of the cache
            -> wait for the lease -> catch up with what the last leader has written
            -> conditions -> evictions -> claims -> workers
    stop    workers (drain the binds that were sent, 10 s at most) -> claims -> evictions (what has begun, 5 s
            at most each) -> conditions -> release of the lease -> informers -> Events -> HTTP server

Probes are answered from the start, and `/readyz` says what is still missing. A follower is ready: its informers fill
cache and queue, nothing is popped and nothing is written. With `delayCacheUntilActive` the informers start after the
lease was acquired. A term whose lease was lost ends without draining, since no write of it would leave any more; then
the process follows (`service.terms`).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final

import structlog

from kscheduler import __version__
from kscheduler.aio.collector import LongLived
from kscheduler.aio.tasks import BackgroundService, running
from kscheduler.api.addresses import is_loopback
from kscheduler.assembly.configured import Configured
from kscheduler.client.access.connection import Connection, load_connection
from kscheduler.client.events.scheduled import SummedPods
from kscheduler.client.failure_text import failure_text
from kscheduler.client.outage_cause import Cause, cause_of_failure
from kscheduler.client.reachability import LINE_SECONDS
from kscheduler.config.errors import ConfigError
from kscheduler.config.reading.lines import with_lines
from kscheduler.config.unsupported_settings import unhonoured
from kscheduler.election import LeaseLostError
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.scheduling.attempt_events import SchedulingBegan
from kscheduler.scheduling.background.refreshed_plugins import FIRST_DATA_SECONDS
from kscheduler.scheduling.background.volume_counts import VolumeCounts
from kscheduler.scheduling.extenders.addresses import unusable_extenders
from kscheduler.server import Server
from kscheduler.server.serving import LOOPBACK
from kscheduler.service import signals
from kscheduler.service.followed_version import FollowedVersion, under_the_servers_version
from kscheduler.service.http_app import HTTPApp, token_of
from kscheduler.service.later_imports import LaterImports
from kscheduler.service.leadership import EarlierTerm
from kscheduler.service.login import LoginConnections, login_connections
from kscheduler.service.monitors.ongoing_problems import OngoingProblems
from kscheduler.service.options import Options
from kscheduler.service.parts import Parts
from kscheduler.service.reloading import ConfigReloader, log_not_for_groups, log_plugins, not_for_groups
from kscheduler.service.service_log import ServiceLog
from kscheduler.service.terms import run_in_terms
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught
from kscheduler.telemetry.logs.pipeline import configure as configure_logs
from kscheduler.telemetry.logs.storms import Throttle

_log = get_logger("kscheduler")

# A part of the service's life; it ends when the event is set.
_Phase = Callable[[asyncio.Event], Awaitable[None]]

DRAIN_SECONDS: Final = 10.0
FLUSH_EVENTS_SECONDS: Final = 2.0
FLUSH_PATCHES_SECONDS: Final = 2.0
# When the first line about a slow sync is logged; further lines come each minute.
SYNC_WARNING_SECONDS: Final = 10.0
SYNC_REPEAT_SECONDS: Final = 60.0


class App:
    """A scheduler service."""

    def __init__(
        self,
        options: Options,
        connection: Connection,
        of_login: LoginConnections | None = None,
        earlier: EarlierTerm | None = None,
    ) -> None:
        """`of_login`: what the login of the HTTP server asks; by default the same API server. `earlier`: what this
        process has seen before it lost its lease.
        """
        self._options = options
        self.parts = Parts(options, connection, earlier)
        self.reloader = ConfigReloader(options.source, self.parts, options.origins, options.read_under)
        self.followed_version = FollowedVersion(self.parts, self.reloader, is_given=options.read_under is None)
        self._is_first_term = earlier is None
        certificate = earlier.certificate if earlier is not None else None
        self.http_app = HTTPApp(
            options, connection, self.parts, self.reloader, self.followed_version.statistics, of_login, certificate
        )
        self.service_log = ServiceLog(self.parts, earlier.bound if earlier is not None else 0)

    @property
    def server(self) -> Server:
        """The first HTTP server."""
        return self.http_app.server

    def end_of_term(self) -> EarlierTerm:
        """What the next term of this process begins with; after `run` has lost the lease."""
        login = self.http_app.login
        certificate = login.contexts.made if login is not None else None
        return self.parts.end_of_term(self.service_log.bound, certificate)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and schedule until `stop` is set; then end in order. Raises `LeaseLostError` after a lost election.

        A lease that is lost during an end that was asked for is no failure: it was to be given up.
        """
        try:
            await self._run_or_lose(stop)
        except LeaseLostError as lost:
            if stop.is_set():
                not_done = f"{lost}; so it was not released, and writes that were sent were not waited for"
                self.service_log.stopped(_reason(stop), not_done=not_done)
                return
            if lost.may_follow:
                self.service_log.term_ended(str(lost))  # no end of the process: `terms` begins another term
            else:
                self.service_log.stopped(str(lost), has_failed=True)
            raise
        except BaseException as failure:  # includes a `sys.exit()` in a plugin's own task: every end is logged
            is_requested = isinstance(failure, asyncio.CancelledError | KeyboardInterrupt)
            self.service_log.stopped(_failure_reason(failure), has_failed=not is_requested)
            raise
        self.service_log.stopped(_reason(stop))

    async def _run_or_lose(self, stop: asyncio.Event) -> None:
        """Run; of the failures that follow from a lost lease, only the loss is raised."""
        try:
            await self._run(stop)
        except BaseExceptionGroup as failures:
            lost, others = failures.split(LeaseLostError)
            if lost is None or others is not None:
                raise
            raise _first(lost) from None

    async def _run(self, stop: asyncio.Event) -> None:
        if self._is_first_term:  # the process starts once; a later term has `following_again`
            self.announce()
        async with AsyncExitStack() as ends:
            ends.callback(self.http_app.exposition.close)
            ends.push_async_callback(self.http_app.copies.aclose)
            for server in self.http_app.servers:
                await server.start()
                ends.push_async_callback(server.aclose)
            await ends.enter_async_context(self.parts.client)
            await ends.enter_async_context(self.parts.event_client)
            await ends.enter_async_context(self.parts.plugin_client)
            if self.parts.leadership is not None:
                await ends.enter_async_context(self.parts.leadership.client)
            ends.push_async_callback(self.parts.extenders.aclose)
            login = self.http_app.login
            if login is not None:
                await login.open(ends)
            services = (
                BackgroundService("long-lived objects", LongLived(self.parts.clock).run),
                BackgroundService("later imports", LaterImports(self.parts.clock).run),
                BackgroundService("loop-lag", self.http_app.loop_lag.run),
                BackgroundService("memory", self.parts.memory.run),
                *self.http_app.free_room.services(),
                BackgroundService("hanging-writes", self.parts.hanging_writes.run),
                BackgroundService(
                    "events", self.parts.recorder.run, lambda: self.parts.recorder.flush(FLUSH_EVENTS_SECONDS)
                ),
                *self._sums_of_events(),
                *self._flight_recorder(),
                BackgroundService("api-server", self.parts.api_server_monitor.run),
                BackgroundService("service log", self.service_log.run),
                BackgroundService(
                    "lasting troubles", OngoingProblems(self.http_app.ongoing_problems, self.parts.clock).run
                ),
                BackgroundService("plugins", self.parts.retired.run, self.parts.retired.stop),
                BackgroundService("plugins' data", self.parts.refreshed.run),
                BackgroundService("configuration", self.reloader.run),
                BackgroundService("server-version", self.parts.server_version.run),
                BackgroundService("followed version", self.followed_version.run),
                *(login.services() if login is not None else ()),
                *(self.http_app.status_page.services() if self.http_app.status_page is not None else ()),
            )
            async with running(*services):
                if self.parts.election is None:
                    await self._keep_cache(stop, self._schedule)
                elif self._options.config.configuration.delay_cache_until_active:
                    await self._lead(stop, lambda stop: self._keep_cache(stop, self._schedule))
                else:
                    await self._keep_cache(stop, lambda stop: self._lead(stop, self._catch_up_and_schedule))
                self.http_app.begin_stopping()

    async def _keep_cache(self, stop: asyncio.Event, then: _Phase) -> None:
        """Keep informers and cache up to date; `then` runs once they have synced."""
        async with running(
            BackgroundService("informers", self.parts.informers.run),
            BackgroundService("plugins' kinds", self.parts.plugin_listers.run),
        ):
            if await self._synced(stop):
                self.http_app.has_begun = True
                volumes = self.parts.assembly.cache.volumes
                async with running(
                    BackgroundService("volume counts", VolumeCounts(volumes, self.parts.clock).run),
                    *self.parts.drift_detection.services(),
                    *self.parts.overcommit.services_with_cache(),
                ):
                    await then(stop)

    async def _lead(self, stop: asyncio.Event, then: _Phase) -> None:
        """Wait for the lease and keep it while `then` runs; release it after the last write."""
        election = self.parts.election
        assert election is not None  # noqa: S101  # tells the type checker what the caller has tested
        try:
            if not await self._finished(election.lead(), stop):
                return
            async with running(BackgroundService("election", election.keep, election.release)):
                await then(stop)
        finally:
            await election.release()  # the stop came in the instant in which the lease was acquired

    async def _catch_up_and_schedule(self, stop: asyncio.Event) -> None:
        if await self._finished(self.parts.catch_up.run(), stop):
            await self._schedule(stop)

    async def _finished(self, work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
        """Run `work` until it ends or `stop` is set; returns whether it came to its end."""
        working = asyncio.create_task(work, name="phase")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return False
            working.result()
            return not stop.is_set()
        finally:
            for task in (working, stopped):
                task.cancel()
            await asyncio.wait({working, stopped})

    @property
    def may_reload(self) -> bool:
        """Whether there is a configuration file that may be read again."""
        return self.reloader.is_on

    def ask_again(self) -> None:
        """Read the configuration again, if it may be, and ask for the API server's version."""
        self.reloader.ask()
        self.parts.server_version.ask(is_reported=True)

    def ask_for_dump(self) -> None:
        """Log cache and queue and compare them with the stores, once these are synced."""
        _log.info("dump_requested")
        self.parts.drift_detection.dump.ask()

    async def _schedule(self, stop: asyncio.Event) -> None:
        if not await self._finished(self._wait_for_version(), stop):
            return
        if not await self._finished(self._wait_for_plugins_data(), stop):
            return
        services = (
            BackgroundService(
                "conditions",
                self.parts.status_writer.run,
                self._unless_lost(lambda: self.parts.status_writer.flush(FLUSH_PATCHES_SECONDS)),
            ),
            BackgroundService(
                "conditions of groups",
                self.parts.group_status_writer.run,
                self._unless_lost(lambda: self.parts.group_status_writer.flush(FLUSH_PATCHES_SECONDS)),
            ),
            BackgroundService(
                "evictions", self.parts.assembly.evictions.run, self._unless_lost(self.parts.assembly.evictions.stop)
            ),
            *self._claims_service(),
            *self.parts.overcommit.services_with_workers(),
            BackgroundService("backoff", self.parts.workers.keep_flushing),
            BackgroundService("workers", self.parts.workers.run, self._unless_lost(self._drain)),
        )
        self.parts.overcommit.begin_scheduling()
        self.parts.assembly.queue.begin_scheduling()
        self.parts.assembly.observers.tell(SchedulingBegan())
        async with running(*services):
            self.service_log.scheduling(self.followed_version.in_force, self.followed_version.why)
            self.http_app.is_scheduling = True
            await stop.wait()
            self.service_log.stopping(_reason(stop))
            self.http_app.begin_stopping()

    def _flight_recorder(self) -> tuple[BackgroundService, ...]:
        """Stops after everything that is recorded."""
        recorder = self.parts.flight_recorder
        if recorder is None:
            return ()
        recorder.start(self.parts.recorded_state())
        return (BackgroundService("flight recorder", recorder.run, recorder.stop),)

    def _sums_of_events(self) -> tuple[BackgroundService, ...]:
        """Ends before the Events are flushed: all sums are sent then."""
        sums = self.parts.successes
        return (BackgroundService("sums of Events", sums.run, sums.flush),) if isinstance(sums, SummedPods) else ()

    def _claims_service(self) -> tuple[BackgroundService, ...]:
        """Beside the workers, and to the end of what they have begun."""
        claims = self.parts.assembly.claims
        return () if claims is None else (BackgroundService("claims", claims.run, self._unless_lost(claims.stop)),)

    async def _wait_for_version(self) -> None:
        """Decide by the API server's version from the first pod on, if it tells it in time."""
        if not await self.followed_version.wait_for_first():
            _log.warning(
                "server_version_unknown",
                decides_as=self.followed_version.in_force,
                advice="its rules are taken over as soon as it answers /version; or give --emulated-version",
            )

    async def _wait_for_plugins_data(self) -> None:
        """Give plugins the time to fetch once: the first pods are judged by data, too, if there are any."""
        missing = await self.parts.refreshed.wait_for_first(PLUGIN_TIME.at_most(FIRST_DATA_SECONDS))
        if missing:
            advice = "they decide as they do without data; see plugin_not_refreshed"
            _log.warning("plugins_without_data", plugins=missing, advice=advice)

    async def _synced(self, stop: asyncio.Event) -> bool:
        """Wait until all handlers have got their first lists; whether that happened before `stop`."""
        stopped = asyncio.ensure_future(stop.wait())
        wait_seconds = SYNC_WARNING_SECONDS
        try:
            while not stop.is_set():
                synced = asyncio.ensure_future(self.parts.wait_for_sync(wait_seconds))
                wait_seconds = SYNC_REPEAT_SECONDS
                await asyncio.wait({synced, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not synced.done():
                    synced.cancel()
                    await asyncio.wait({synced})
                elif not synced.result():
                    return True
                elif not self.parts.reachability.is_in_trouble(self.parts.clock.monotonic()):  # that has its own line
                    _log.warning("waiting_for_sync", missing=list(synced.result()))
            return False
        finally:
            stopped.cancel()

    def _unless_lost(self, stop: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
        """An orderly end, except for a process that has lost its lease: nothing that it waits for would be written."""

        async def end() -> None:
            if not self.parts.has_lost:
                await stop()

        return end

    async def _drain(self) -> None:
        if not await self.parts.workers.stop(DRAIN_SECONDS):
            _log.warning("binds_not_drained", pods=self.parts.workers.binding, seconds=DRAIN_SECONDS)

    def announce(self) -> None:
        """Log what is started, and settings that have no effect."""
        _log.info("starting", version=__version__, pid=os.getpid())
        for warning in unhonoured(self._options.config, plugins=self._options.registry.names()):
            _log.warning("setting_not_honoured", setting=warning.path, reason=warning.reason)
        configured = Configured(self._options.config, self._options.registry, self._options.origins)
        log_plugins(configured, self.parts.assembly.profiles)
        log_not_for_groups(not_for_groups(self._options.config, self.parts.assembly.profiles))
        self._log_open_paths()

    def _log_open_paths(self) -> None:
        """Log what is served without a login, besides health checks."""
        serving = self._options.serving
        if serving.insecure_port is not None:
            _log.info(  # no warning: it was asked for by that name, and other machines cannot reach it
                "http_server_open_without_login",
                bind_address=LOOPBACK,
                reason="--insecure-port: for development; anyone on this machine can read everything",
                waiting_pods="for the token of --permit-token-file" if self._options.permit_token_file else "disabled",
            )
        if serving.metrics_address is not None and not is_loopback(serving.metrics_address[0]):
            advice = "restrict the port with a NetworkPolicy"
            _log.info("metrics_open_without_login", bind_address=serving.metrics_address[0], advice=advice)
        if not self.http_app.servers:
            _log.warning("http_server_off", reason="--secure-port=0: neither probes nor metrics are answered")


def _first(failures: BaseException) -> BaseException:
    """The first failure in a group."""
    while isinstance(failures, BaseExceptionGroup):
        failures = failures.exceptions[0]
    return failures


def _failure_reason(failure: BaseException) -> str:
    """Why the service ended; the system's errors in words, without numbers."""
    is_plain = isinstance(failure, OSError) and failure.errno is not None
    return failure_text(failure) if is_plain else f"{type(failure).__name__}: {failure}".removesuffix(": ")


def _reason(stop: asyncio.Event) -> str:
    return stop.reason if isinstance(stop, signals.Stop) else signals.Stop.reason


async def run(options: Options) -> None:
    """Run the service until a signal ends it (`signals`). Sets up logs, unless that is already done."""
    if not structlog.is_configured():
        configure_logs()
    # Until `signals.ending` a signal ends the process at once (`cli.interruption`): an exec plugin may take forever.
    token_of(options)  # a wrong flag is reported before the first request
    loaded = options.config
    unusable = await asyncio.to_thread(unusable_extenders, loaded.configuration.extenders)  # opens certificates
    if unusable:
        raise ConfigError(with_lines(unusable, loaded.data), loaded.where)
    connection = await load_connection(
        master=options.master,
        kubeconfig=options.kubeconfig or options.config.configuration.client_connection.kubeconfig,
        context=options.context,
        named_by=options.kubeconfig_named_by,
        say_slow=_log_slow_plugin,
    )
    _log.info("connecting", server=connection.description)
    stop = signals.Stop()
    of_login = await login_connections(options.serving, connection)
    for reason in dict.fromkeys((*connection.warnings, *of_login.warnings)):
        _log.warning("connection_not_secure", server=connection.description, reason=reason)
    with signals.ending(stop):
        asyncio.get_running_loop().set_exception_handler(_on_forgotten_failure)
        options = await under_the_servers_version(options, connection)
        await run_in_terms(lambda options, earlier: App(options, connection, of_login, earlier), options, stop)


def _log_slow_plugin(command: str, seconds: float) -> None:
    advice = "look at what it waits for: a person who logs in, or a network; nothing goes on without credentials"
    _log.warning("exec_plugin_is_slow", command=command, seconds=seconds, advice=advice)


_accept_lines: Final = Throttle(LINE_SECONDS)


def _on_forgotten_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count the failure of a task that nothing awaits; asyncio logs it.

    Without file descriptors or memory asyncio fails to accept connections each second. That is no bug of a task, and is
    worth a line a minute with its right name.
    """
    failure = context.get("exception")
    if isinstance(failure, OSError):
        diagnosed = cause_of_failure(failure, failure_text(failure))
        if diagnosed.cause in (Cause.DESCRIPTORS, Cause.MEMORY):
            if _accept_lines.admits(loop.time()):
                _log.error("out_of_resources", cause=diagnosed.cause, err=diagnosed.text, advice=diagnosed.advice)
            return
    count_caught(Boundary.TASK)
    loop.default_exception_handler(context)
