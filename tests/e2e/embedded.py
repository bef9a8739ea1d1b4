"""The embedded API server for the suite, on an event loop in a thread: scenarios can stop and start it."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from kscheduler.api.machinery.resources import USUAL, ServedKinds
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.embedded.controllers import catalogue
from kscheduler.embedded.controllers.engine.loop import running_controllers
from tests.controlplane import binaries, kscheduler_process, kube_scheduler, kubeconfig
from tests.controlplane.process import Process
from tests.controlplane.rest import Api
from tests.e2e.servers import NAME, Server

CALL_SECONDS = 30.0
# As on the real one: nobody sends heartbeats, and the suite has a provisioner of its own.
CONTROLLERS = "*,-node-lifecycle-controller,-hollow-provisioner"


class EmbeddedServer(Server):
    """`EmbeddedAPIServer` at one address for the whole session."""

    def __init__(self, folder: Path, kinds: ServedKinds = USUAL) -> None:
        self.kubectl = binaries.find_kubectl()
        self.admin_kubeconfig = folder / "kubeconfig.json"
        self._server = EmbeddedAPIServer(kinds=kinds)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded-apiserver", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start())
        self.api = Api(self._server.url)
        kubeconfig.write(self.admin_kubeconfig, server=self._server.url)
        return self

    def __exit__(self, *error: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_SECONDS)
        self._loop.close()
        self.api.close()

    def stop_serving(self) -> None:
        self._call(self._crash())
        self.api.close()

    def serve_again(self) -> None:
        self._call(self._start_again())

    def forget_history(self) -> None:
        self._loop.call_soon_threadsafe(self._server.faults.expire_history)

    def identity(self, program: str) -> Path:
        del program  # nobody is asked who they are
        return self.admin_kubeconfig

    def scheduler(self, program: str, folder: Path) -> Process:
        if program == "kube-scheduler":
            return kube_scheduler.process(binaries.find(), self.admin_kubeconfig, folder, NAME, "application/json")
        return kscheduler_process.process(self.admin_kubeconfig, folder, scheduler_name=NAME)

    async def _start(self) -> None:
        await self._server.start()
        self._ending = asyncio.Event()
        self._control = asyncio.create_task(self._run_controllers(), name="controllers of the suite")

    async def _run_controllers(self) -> None:
        """As a process beside the API server: it works on while that one is away, because its view is the store."""
        async with running_controllers(self._server.registry, catalogue.make(CONTROLLERS)):
            await self._ending.wait()

    async def _stop(self) -> None:
        self._ending.set()
        await self._control
        await self._server.aclose()

    async def _crash(self) -> None:
        # As a process that dies: what it does at that moment is done, but nobody is told.
        self._server.faults.add(InjectedFault("apply_then_reset", method="POST"))
        await self._server.aclose()

    async def _start_again(self) -> None:
        self._server.faults.clear()
        address = urlsplit(self._server.url)
        await self._server.start(address.hostname or "127.0.0.1", address.port or 0)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine on the server's loop and waits for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS)
