"""The service: started in order, stopped in reverse.

    start   HTTP server -> Events -> informers -> wait for sync -> conditions -> evictions -> workers
    stop    workers (drain the binds that were sent, 10 s at most) -> evictions (what has begun, 5 s at most)
            -> conditions -> informers -> Events -> HTTP server

Probes are answered from the start, and `/readyz` says what is still missing.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from typing import Any, Final

import structlog

from kscheduler import __version__
from kscheduler.aio.collector import LongLived
from kscheduler.aio.services import BackgroundService, running
from kscheduler.app import signals
from kscheduler.app.diary import Diary
from kscheduler.app.options import Options
from kscheduler.app.parts import Parts
from kscheduler.app.reloading import ConfigReloader
from kscheduler.app.surface import Surface, token_of
from kscheduler.client.access.connection import Connection, load_connection
from kscheduler.client.failure_text import failure_text
from kscheduler.config.unhonoured import unhonoured
from kscheduler.logs import configure as configure_logs
from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught
from kscheduler.scheduling.profiles import rules_not_built
from kscheduler.server import (
    GUARDED,
    OPEN,
    TOKEN_ONLY,
    Server,
    is_loopback,
)

_log = get_logger("kscheduler")

DRAIN_SECONDS: Final = 10.0
FLUSH_EVENTS_SECONDS: Final = 2.0
FLUSH_PATCHES_SECONDS: Final = 2.0
SYNC_WARNING_SECONDS: Final = 10.0
"""When the first line about a slow sync is logged; further lines come each minute."""
SYNC_REPEAT_SECONDS: Final = 60.0


class App:
    """A scheduler service."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self._options = options
        self.parts = Parts(options, connection)
        self.reloader = ConfigReloader(options.source, self.parts, options.registry)
        self.surface = Surface(options, connection, self.parts, self.reloader)
        self.diary = Diary(self.parts)

    @property
    def server(self) -> Server:
        """The HTTP server."""
        return self.surface.server

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and schedule until `stop` is set; then end in order."""
        try:
            await self._run(stop)
        except BaseException as failure:  # includes a `sys.exit()` in a plugin's own task: every end is logged
            self.diary.stopped(_failure_reason(failure))
            raise
        self.diary.stopped(_reason(stop))

    async def _run(self, stop: asyncio.Event) -> None:
        self.announce()
        async with AsyncExitStack() as ends:
            ends.callback(self.surface.exposition.close)
            await self.server.start(self._options.bind_address, self._options.port)
            ends.push_async_callback(self.server.aclose)
            await ends.enter_async_context(self.parts.client)
            await ends.enter_async_context(self.parts.event_client)
            services = (
                BackgroundService("long-lived objects", LongLived(self.parts.clock).run),
                BackgroundService("loop-lag", self.surface.loop_lag.run),
                BackgroundService(
                    "events", self.parts.recorder.run, lambda: self.parts.recorder.flush(FLUSH_EVENTS_SECONDS)
                ),
                BackgroundService("api-server", self.parts.api_server_monitor.run),
                BackgroundService("informers", self.parts.informers.run),
                BackgroundService("diary", self.diary.run),
                BackgroundService("configuration", self.reloader.run),
                BackgroundService("server-version", self.diary.ask_for_version),
            )
            async with running(*services):
                if await self._synced(stop):
                    await self._schedule(stop)
                self.surface.is_stopping = True

    def ask_for_dump(self) -> None:
        """Log cache and queue and compare them with the stores, once these are synced."""
        _log.info("dump_requested")
        self.parts.truth.dump.ask()

    async def _schedule(self, stop: asyncio.Event) -> None:
        services = (
            BackgroundService(
                "conditions",
                self.parts.status_writer.run,
                lambda: self.parts.status_writer.flush(FLUSH_PATCHES_SECONDS),
            ),
            BackgroundService("evictions", self.parts.assembly.evictions.run, self.parts.assembly.evictions.stop),
            BackgroundService("back-off", self.parts.workers.keep_flushing),
            *self.parts.truth.services(),
            BackgroundService("workers", self.parts.workers.run, self._drain),
        )
        async with running(*services):
            self.diary.scheduling()
            await stop.wait()
            self.diary.stopping(_reason(stop))
            self.surface.is_stopping = True

    async def _synced(self, stop: asyncio.Event) -> bool:
        """Wait until all handlers have got their first lists; whether that happened before `stop`."""
        stopped = asyncio.ensure_future(stop.wait())
        patience = SYNC_WARNING_SECONDS
        try:
            while not stop.is_set():
                synced = asyncio.ensure_future(self.parts.informers.wait_for_sync(patience))
                patience = SYNC_REPEAT_SECONDS
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

    async def _drain(self) -> None:
        if not await self.parts.workers.stop(DRAIN_SECONDS):
            _log.warning("binds_not_drained", pods=self.parts.workers.binding, seconds=DRAIN_SECONDS)

    def announce(self) -> None:
        """Log what is started, and settings that have no effect."""
        _log.info("starting", version=__version__, pid=os.getpid())
        for warning in unhonoured(self._options.config):
            _log.warning("setting_not_honoured", setting=warning.path, reason=warning.reason)
        self._log_open_paths()
        for profile in self.parts.assembly.profiles.values():
            missing = rules_not_built(profile)
            if missing:
                _log.info("rules_not_built", profile=profile.name, plugins=missing)

    def _log_open_paths(self) -> None:
        """Log who may use which path, if other machines can reach the port."""
        address = self._options.bind_address
        if is_loopback(address):
            return
        has_token = bool(self._options.permit_token_file)
        _log.warning(
            "http_server_open_without_login",
            bind_address=address,
            reason="TLS and authentication are not built yet",
            open_to_everybody=OPEN,
            from_this_machine_or_with_token=GUARDED,
            with_token_only=TOKEN_ONLY,
            waiting_pods="open to a token, which is sent in clear: restrict access to this port"
            if has_token
            else "disabled",
            advice="restrict the port with a NetworkPolicy, or use --bind-address 127.0.0.1 where no kubelet probes it",
        )


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
    # Until `signals.ending` a signal ends the process at once (`cli.interruption`): an exec plugin may take for ever.
    token_of(options)  # a wrong flag is reported before the first request
    connection = await load_connection(
        master=options.master,
        kubeconfig=options.kubeconfig or options.config.configuration.client_connection.kubeconfig,
        context=options.context,
        say_slow=_log_slow_plugin,
    )
    _log.info("connecting", server=connection.description)
    stop = signals.Stop()
    with signals.ending(stop):
        app = App(options, connection)
        asyncio.get_running_loop().set_exception_handler(_on_forgotten_failure)
        with signals.dumping(app.ask_for_dump), signals.reloading(app.reloader, stop):
            await app.run(stop)


def _log_slow_plugin(command: str, seconds: float) -> None:
    advice = "look at what it waits for: a person who logs in, or a network; nothing goes on without credentials"
    _log.warning("exec_plugin_is_slow", command=command, seconds=seconds, advice=advice)


def _on_forgotten_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Count the failure of a task that nothing awaits; asyncio logs it."""
    count_caught(Boundary.TASK)
    loop.default_exception_handler(context)
