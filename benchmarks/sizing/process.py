"""A replica of the service as users run it, and what the kernel says that it used."""

import asyncio
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from kscheduler.aio import BackgroundService, running
from kscheduler.embedded.demo.processes import ChildProcess

READY_SECONDS: Final = 180.0
# Of a core: a replica that uses less has no backlog.
QUIET_SHARE: Final = 0.3
CALM_SECONDS: Final = 5
POLL_SECONDS: Final = 0.05


class MeasuredReplica:
    """A process, its port and its figures."""

    def __init__(self, process: ChildProcess, port: int) -> None:
        self.process, self.port = process, port
        self._pid = 0

    async def ready(self) -> float:
        """CPU seconds that it took until `/readyz` answered 200. Raises `SystemExit` if it does not."""
        deadline = time.monotonic() + READY_SECONDS
        while not await self._answers():
            if time.monotonic() > deadline:
                raise SystemExit(f"/readyz does not answer 200; {self.process.tail()}")
            await asyncio.sleep(POLL_SECONDS)
        self._pid = _listener(self.port)
        return self.cpu_seconds()

    def cpu_seconds(self) -> float:
        """So far, all threads: the clock id is the complemented pid, and 2 for "all that ran", as in libc."""
        return time.clock_gettime((~self._pid << 3) | 2)

    def resident(self) -> float:
        """MiB now."""
        return self._memory("VmRSS:")

    def peak(self) -> float:
        """MiB, the most so far."""
        return self._memory("VmHWM:")

    async def quiet(self) -> None:
        """Until it has worked off what came, or a minute has gone. One idle second may be a wait for the API server."""
        calm = 0
        for _ in range(60):
            before = self.cpu_seconds()
            await asyncio.sleep(1.0)
            calm = calm + 1 if self.cpu_seconds() - before < QUIET_SHARE else 0
            if calm == CALM_SECONDS:
                return

    async def _answers(self) -> bool:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.transport.abort()
        except (OSError, ssl.SSLError):
            return False
        return b" 200 " in answer.partition(b"\r\n")[0]

    def _memory(self, field: str) -> float:
        for line in Path(f"/proc/{self._pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        raise SystemExit(f"the kernel does not tell {field}")


@asynccontextmanager
async def replica(name: str, url: str, folder: Path) -> AsyncIterator[MeasuredReplica]:
    """`kscheduler run` until the end of the block: HTTPS and leader election are on by default."""
    port = _free_port()
    command = [sys.executable, "-m", "kscheduler", "run", "--master", url, "--log-format", "json"]
    command += ["--bind-address", "127.0.0.1", "--secure-port", str(port)]
    # The embedded API server stands still while it writes out all pods of a large cluster: a default lease could end.
    command += ["--leader-elect-lease-duration", "120s", "--leader-elect-renew-deadline", "100s"]
    process = ChildProcess(name, command, folder / f"{name}.log")
    async with running(BackgroundService(name, process.run, process.stop)):
        yield MeasuredReplica(process, port)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _listener(port: int) -> int:
    """The child of this process whose command line names the port."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    for pid in children:
        if str(port).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            return int(pid)
    raise SystemExit(f"no process serves port {port}")
