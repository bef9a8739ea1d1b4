"""One program run by a test: its output goes to a file, and it stops on SIGTERM or else SIGKILL.

Anyone who starts a process stops it, in a `finally` or a fixture: nothing here outlives a run that ends or is
interrupted. Only a SIGKILL of the run itself leaves its processes behind.
"""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 15.0
POLL_SECONDS = 0.05


class NotReadyError(RuntimeError):
    """What was waited for did not happen in time."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now; the kernel does not hand it out again at once."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until(what: str, condition: Callable[[], object], seconds: float, poll_seconds: float = POLL_SECONDS) -> None:
    """Returns once `condition` holds; raises NotReadyError that names `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise NotReadyError(f"not within {seconds:.0f} s: {what}")
        time.sleep(poll_seconds)


class Process:
    """A child process with its log file. `start` may be called again after `stop` or `kill`."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._environment = environment
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise NotReadyError(f"{self.name} is not running")
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self.command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                # Ctrl-C goes to the run alone, which then stops its processes in order.
                process_group=0,
            )

    def send(self, number: signal.Signals) -> None:
        if self._child is not None:
            self._child.send_signal(number)

    def wait(self, seconds: float) -> int:
        """The exit code; raises NotReadyError if the process still runs after `seconds`."""
        if self._child is None:
            raise NotReadyError(f"{self.name} was not started")
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise NotReadyError(f"{self.name} did not end within {seconds:.0f} s; {self.tail()}") from error

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """SIGTERM, then SIGKILL after `seconds`. Returns the exit code; None if it was not running."""
        if not self.running:
            return None
        self.send(signal.SIGTERM)
        try:
            return self.wait(seconds)
        except NotReadyError:
            return self.kill()

    def kill(self) -> int | None:
        """SIGKILL, as a machine that loses power: no goodbye."""
        if not self.running:
            return None
        self.send(signal.SIGKILL)
        return self.wait(STOP_SECONDS)

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = 8) -> str:
        """The end of the log, for messages."""
        return f"end of {self.log}:\n" + "\n".join(self.text().splitlines()[-lines:])

    def wait_until(self, what: str, condition: Callable[[], object], seconds: float) -> None:
        """As the function; also gives up as soon as the process has ended."""

        def holds_or_ended() -> bool:
            return bool(condition()) or not self.running

        try:
            wait_until(what, holds_or_ended, seconds)
        except NotReadyError as error:
            raise NotReadyError(f"{error}; {self.tail()}") from error
        if not self.running:
            raise NotReadyError(f"{self.name} ended before: {what}; {self.tail()}")

    def cpu_seconds(self) -> float:
        """User and system time so far, from /proc/<pid>/stat (fields 14 and 15, in ticks of 1/100 s)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100.0

    def peak_mebibytes(self) -> float:
        """The largest resident size so far, VmHWM."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024.0
