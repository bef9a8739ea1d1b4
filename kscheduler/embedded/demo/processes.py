"""Child processes of the demo: output goes to a file, an unexpected end is an error that shows it."""

import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kscheduler.aio import BackgroundService, running
from kscheduler.api.well_known import SCHEDULER_PORT
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.rest import APIClient
from kscheduler.framework.plugin_time import PLUGIN_TIME

# Ctrl-C and SIGTERM as an orderly end.
#
# Within `StopSignals` a signal cancels the task that entered it, so that every `async with` ends what it started. While
# that task is in `wait`, a signal ends the wait instead.

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Turns signals into the end of a task; must be entered in that task."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._handled: list[signal.Signals] = []

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        # A SIGHUP that nohup ignores stays ignored.
        self._handled = [number for number in _SIGNALS if not _is_hangup_ignored(number)]
        for number in self._handled:
            asyncio.get_running_loop().add_signal_handler(number, self._stop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._handled:
            asyncio.get_running_loop().remove_signal_handler(number)

    async def wait(self) -> None:
        """Return when a signal comes."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _stop(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self._task is not None:
            self._task.cancel()


def _is_hangup_ignored(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


T = TypeVar("T")

# Becomes the command, which the kernel ends (PR_SET_PDEATHSIG, 1) with its parent: a demo that is killed leaves none.
#
# In a process of its own rather than between fork and exec, where locks of other threads could be held.
_TIED: Final = """\
import ctypes, os, signal, sys
try:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
except (ImportError, OSError, AttributeError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
# The time limit after SIGTERM; the scheduler may take 10 s to finish binds in flight.
_STOP_SECONDS = 12.0
_POLL_SECONDS = 0.02
_TAIL_LINES = 12
# The time limit for a program's start.
START_SECONDS = 30.0


def command_of(name: str) -> str:
    """A program of this installation, as a shell in this directory finds it: on the PATH it may be another one's."""
    beside = Path(sys.executable).with_name(name)
    if not beside.exists():
        return f"{shlex.quote(sys.executable)} -m kscheduler" if name == "kscheduler" else name
    if beside.is_relative_to(Path.cwd()):
        return shlex.quote(os.path.relpath(beside))
    found = shutil.which(name)
    return name if found is not None and Path(found).samefile(beside) else shlex.quote(str(beside))


class DemoFailedError(Exception):
    """The demo cannot go on; the message says why and shows the end of the log."""


class ChildProcess:
    """A child process, with `run` and `stop` for use as a service."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, on_terminal: bool = False) -> None:
        """`on_terminal`: standard input and output are this process's, and only standard error goes to `log`."""
        self.name = name
        self.log = log
        self._command = command
        self._on_terminal = on_terminal
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    async def run(self) -> None:
        """Start the process and wait until cancelled. Raises `DemoFailedError` if it ends by itself."""
        with self.log.open("wb") as output:
            # A session of its own: Ctrl-C reaches only the demo, which ends its programs in order.
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *self._command),
                stdin=None if self._on_terminal else asyncio.subprocess.DEVNULL,
                stdout=None if self._on_terminal else output,
                stderr=output,
                start_new_session=True,
            )
        try:
            code = await process.wait()
            if self._stopping:
                await asyncio.get_running_loop().create_future()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        raise DemoFailedError(f"{self.name} ended by itself with exit code {code}; {self.tail()}")

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if that does not help."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def lines(self) -> list[str]:
        """The lines of its output so far."""
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []

    def tail(self) -> str:
        """The end of its output, for messages."""
        last = deque(self.lines(), maxlen=_TAIL_LINES)
        return "the end of its log:\n" + "\n".join(f"  | {line}" for line in last) if last else "its log is empty"

    async def wait_for(self, event: str, probe: Callable[[], T | None], seconds: float) -> T:
        """Call `probe` until it returns a value; returns the value. Raises `DemoFailedError` after `seconds`."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        while (found := probe()) is None:
            if clock() > deadline:
                raise DemoFailedError(f"{self.name}: not within {seconds:.0f} s: {event}; {self.tail()}")
            await asyncio.sleep(_POLL_SECONDS)
        return found


def first_cause(group: ExceptionGroup[Exception]) -> BaseException:
    """The failure to show: the death of a process explains the requests that failed with it."""
    leaves = list(_leaves(group))
    expected = [error for error in leaves if isinstance(error, DemoFailedError)]
    failed = [DemoFailedError(str(error)) for error in leaves if isinstance(error, ClientError)]
    return next(iter([*expected, *failed]), leaves[0] if len(leaves) == 1 else group)


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        yield from _leaves(error) if isinstance(error, BaseExceptionGroup) else (error,)


# The scheduler as a process, for an embedded cluster.

NAMESPACE: Final = "kscheduler-system"
_LISTENING = "http_server_listening"
_READY_POLL_SECONDS = 0.05


@asynccontextmanager
async def scheduler_process(
    url: str, log: Path, flags: Sequence[str] = (), *, on_terminal: bool = False
) -> AsyncIterator[str]:
    """Run the scheduler; yields its URL once it is ready. Raises `DemoFailedError`.

    Args:
        url: the API server's URL.
        log: the file for its output.
        flags: further flags of `kscheduler run`.
        on_terminal: whether standard input and output stay this process's, so that only its log goes to the file.
    """
    # -P: a file of the working directory, such as a policy in random.py, hides no module.
    command = [sys.executable, "-P", "-m", "kscheduler", "run", "--master", url, *flags]
    command += ["--secure-port", "0", "--insecure-port", "0", "--log-format", "json"]
    seconds = PLUGIN_TIME.at_most(START_SECONDS)
    child = ChildProcess("the scheduler", command, log, on_terminal=on_terminal)
    async with running(BackgroundService(child.name, child.run, child.stop)):
        port = await child.wait_for("its HTTP server", lambda: _port_of(child.lines()), seconds)
        own_url = f"http://127.0.0.1:{port}"
        await _until_ready(own_url, child, seconds)
        await _behind_a_service(url, port)
        yield own_url


async def _behind_a_service(url: str, port: int) -> None:
    """The Service of the chart, with the process behind it: `kubectl kscheduler` asks it as in a real cluster."""
    https = {"name": "https"}
    named = {"apiVersion": "v1", "metadata": {"name": "kscheduler"}}
    place = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{**https, "port": port, "appProtocol": "http"}]}
    inside = f"/api/v1/namespaces/{NAMESPACE}"
    bodies = {
        "/api/v1/namespaces": {**named, "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        f"{inside}/services": {
            **named,
            "kind": "Service",
            "spec": {"ports": [{"name": "https", "port": SCHEDULER_PORT}]},
        },
        f"{inside}/endpoints": {**named, "kind": "Endpoints", "subsets": [place]},
    }
    async with APIClient(plain_connection(url)) as client:
        for path, body in bodies.items():
            await client.post(path, json.dumps(body).encode())


def _port_of(lines: Iterable[str]) -> int | None:
    """The port from the log line that has it."""
    for line in lines:
        if _LISTENING in line:
            try:
                return int(json.loads(line)["port"])
            except (ValueError, KeyError, TypeError):
                continue
    return None


async def _until_ready(url: str, child: ChildProcess, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    async with APIClient(plain_connection(url)) as client:
        while True:
            try:
                await client.get("/readyz", retries=0)
            except (APIError, ClientError) as error:
                if time.monotonic() > deadline:
                    message = f"{child.name} is not ready after {seconds:.0f} s: {error}; {child.tail()}"
                    raise DemoFailedError(message) from None
                await asyncio.sleep(_READY_POLL_SECONDS)
            else:
                return
