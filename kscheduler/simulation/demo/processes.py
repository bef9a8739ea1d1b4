"""Child processes of the demo: output goes to a file, an unexpected end is an error that shows it."""

import asyncio
import os
import shlex
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from kscheduler.client import ClientError

T = TypeVar("T")

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
"""Becomes the command, which the kernel ends (PR_SET_PDEATHSIG, 1) with its parent: a demo that is killed leaves none.

In a process of its own rather than between fork and exec, where locks of other threads could be held.
"""
_STOP_SECONDS = 12.0
"""The time limit after SIGTERM; the scheduler may take 10 s to finish binds in flight."""
_POLL_SECONDS = 0.02
_TAIL_LINES = 12
START_SECONDS = 30.0
"""The time limit for a program's start."""


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
