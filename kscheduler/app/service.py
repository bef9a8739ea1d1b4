"""The service: started in order, stopped in reverse.

    start   HTTP server -> Events -> informers -> wait for sync -> conditions -> evictions -> workers
    stop    workers (drain the binds that were sent, 10 s at most) -> evictions (what has begun, 5 s at most)
            -> conditions -> informers -> Events -> HTTP server

Probes are answered from the first moment, and `/readyz` tells what is still missing.
"""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from typing import Final

from kscheduler import __version__
from kscheduler.aio.collector import LongLived
from kscheduler.aio.services import Service, running
from kscheduler.app.diary import Diary
from kscheduler.app.options import Options
from kscheduler.app.parts import Parts
from kscheduler.app.surface import Surface
from kscheduler.client.connection import Connection, load_connection
from kscheduler.config.unhonoured import unhonoured
from kscheduler.logs import get_logger
from kscheduler.scheduling.profiles import rules_not_built
from kscheduler.server import (
    Server,
    is_loopback,
)

_log = get_logger("kscheduler")

DRAIN_SECONDS: Final = 10.0
FLUSH_EVENTS_SECONDS: Final = 2.0
FLUSH_PATCHES_SECONDS: Final = 2.0
SYNC_WARNING_SECONDS: Final = 10.0


class Stop(asyncio.Event):
    """The request to stop, and whose it is."""

    reason = "it was asked to"


class App:
    """One scheduler."""

    def __init__(self, options: Options, connection: Connection) -> None:
        self._options = options
        self.parts = Parts(options, connection)
        self.surface = Surface(options, connection, self.parts)
        self.diary = Diary(self.parts)

    @property
    def server(self) -> Server:
        """Where it answers."""
        return self.surface.server

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and schedule until `stop` is set; then end in order."""
        try:
            await self._run(stop)
        except Exception as failure:
            self.diary.stopped(f"{type(failure).__name__}: {failure}")
            raise
        self.diary.stopped(_reason(stop))

    async def _run(self, stop: asyncio.Event) -> None:
        self._announce()
        async with AsyncExitStack() as ends:
            ends.callback(self.surface.exposition.close)
            await self.server.start(self._options.bind_address, self._options.port)
            ends.push_async_callback(self.server.aclose)
            await ends.enter_async_context(self.parts.client)
            await ends.enter_async_context(self.parts.event_client)
            services = (
                Service("long-lived objects", LongLived(self.parts.clock).run),
                Service("loop-lag", self.surface.loop_lag.run),
                Service("events", self.parts.recorder.run, lambda: self.parts.recorder.flush(FLUSH_EVENTS_SECONDS)),
                Service("informers", self.parts.informers.run),
                Service("diary", self.diary.run),
                Service("server-version", self.diary.ask_for_version),
            )
            async with running(*services):
                if await self._synced(stop):
                    await self._schedule(stop)
                self.surface.is_stopping = True

    def ask_for_dump(self) -> None:
        """Write cache and queue to the log and compare them with the stores, once they are synced."""
        _log.info("dump_requested")
        self.parts.truth.dump.ask()

    async def _schedule(self, stop: asyncio.Event) -> None:
        services = (
            Service(
                "conditions",
                self.parts.status_writer.run,
                lambda: self.parts.status_writer.flush(FLUSH_PATCHES_SECONDS),
            ),
            Service("evictions", self.parts.evictions.run, self.parts.evictions.stop),
            Service("back-off", self.parts.workers.keep_flushing),
            *self.parts.truth.services(),
            Service("workers", self.parts.workers.run, self._drain),
        )
        async with running(*services):
            self.diary.scheduling()
            await stop.wait()
            self.diary.stopping(_reason(stop))
            self.surface.is_stopping = True

    async def _synced(self, stop: asyncio.Event) -> bool:
        """Wait until all handlers have had their first lists; whether that happened before the stop."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                synced = asyncio.ensure_future(self.parts.informers.wait_for_sync(SYNC_WARNING_SECONDS))
                await asyncio.wait({synced, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if not synced.done():
                    synced.cancel()
                    await asyncio.wait({synced})
                elif not synced.result():
                    return True
                else:
                    _log.warning("waiting_for_sync", missing=list(synced.result()))
            return False
        finally:
            stopped.cancel()

    async def _drain(self) -> None:
        if not await self.parts.workers.stop(DRAIN_SECONDS):
            _log.warning("binds_not_drained", pods=self.parts.workers.binding, seconds=DRAIN_SECONDS)

    def _announce(self) -> None:
        _log.info("starting", version=__version__, pid=os.getpid())
        for warning in unhonoured(self._options.config):
            _log.warning("setting_not_honoured", setting=warning.path, reason=warning.reason)
        if self._options.permit_token_file and not is_loopback(self._options.bind_address):
            _log.warning(
                "permit_token_in_clear", bind_address=self._options.bind_address, reason="the server has no TLS"
            )
        for profile in self.parts.profiles.values():
            missing = rules_not_built(profile)
            if missing:
                _log.info("rules_not_built", profile=profile.name, plugins=missing)


def _reason(stop: asyncio.Event) -> str:
    return stop.reason if isinstance(stop, Stop) else Stop.reason


async def run(options: Options) -> None:
    """Run the service until SIGTERM or SIGINT; a second signal ends it at once."""
    connection = await load_connection(
        master=options.master,
        kubeconfig=options.kubeconfig or options.config.configuration.client_connection.kubeconfig,
    )
    _log.info("connecting", server=connection.description)
    stop = Stop()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop, number)
    app = App(options, connection)
    loop.add_signal_handler(signal.SIGUSR2, app.ask_for_dump)
    try:
        await app.run(stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            loop.remove_signal_handler(number)


def _on_signal(stop: Stop, number: int) -> None:
    if stop.is_set():
        _log.warning("ending_at_once", signal=signal.Signals(number).name)
        os._exit(1)
    stop.reason = signal.Signals(number).name
    _log.info("requested_to_terminate", signal=stop.reason)
    stop.set()
