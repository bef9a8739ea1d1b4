"""Forks this process for one answer, and takes from the child whatever could do harm.

A forked child has everything that its parent has: open connections, the event loop's descriptors, locks that some
other thread held at that moment. So before it looks at the question:

    descriptors      all are closed but the channel of the answer: no request, no TLS goodbye, no byte into the logs
    audit hook       connecting, listening, starting programs, forking, sending signals and writing files are refused,
                     in whatever code they are tried
    signals          SIGINT and SIGTERM end it, those that mean something to the service are ignored; the wakeup
                     descriptor of asyncio, a socket shared with the parent, is closed before any signal is let in
    locks            one that another thread held is never released, since only this thread is left. The log's, which
                     every line takes, is replaced, and nothing is written; Python renews its own
    garbage          is not collected: a walk would touch, and so copy, every page of the cache
    memory           its address space may grow by so much; it is the first to go when a cgroup is full
    time             it has a low priority and so much CPU time, and the kernel kills it when the parent ends

Its event loop is not the parent's: what needs one begins its own (`asyncio.run`).
"""

import ctypes
import errno
import fcntl
import gc
import os
import resource
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from kscheduler.telemetry.logs.pipeline import mute

# Standard input, output and error have lower numbers.
_FIRST: Final = 3
# The scheduler goes first where both want the same CPU.
_NICENESS: Final = 10
_DIES_FIRST: Final = "1000"
# SIGXCPU ends a child that has used its CPU time; the service ignores it.
_ENDED_BY: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU)
_IGNORED: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)
_PR_SET_PDEATHSIG: Final = 1
_REFUSED: Final = frozenset(
    (
        *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"),
        *("subprocess.Popen", "pty.spawn", "os.remove", "os.rename", "os.rmdir", "os.mkdir"),
        *("os.truncate", "os.link", "os.symlink", "os.chmod", "os.chown"),
    )
)
_REFUSED_FAMILIES: Final = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "os.kill", "shutil.")


def fork(life: Callable[[socket.socket], None], channel: socket.socket, cpu_seconds: int, growth_bytes: int) -> int:
    """Fork a child that does `life(channel)` and exits; returns its process id, which is also that of its group.

    Raises `OSError` if the system has no room. Called on the main thread, outside of any task: the child's own event
    loop would find that task still running.
    """
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Since Python 3.12 a fork beside threads warns of locks that they hold; see above.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _live(life, channel, parent, cpu_seconds, growth_bytes)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with suppress(OSError):  # the child does the same, and either of them may come first
        os.setpgid(pid, pid)
    return pid


def _live(
    life: Callable[[socket.socket], None], channel: socket.socket, parent: int, cpu_seconds: int, growth_bytes: int
) -> NoReturn:
    """All that the child does."""
    code = 1
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        mute()
        # Under a number of its own, in case the service was started without standard input, output or error.
        kept = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, _FIRST)
        _close_all_but(kept)
        _set_signals()
        sys.unraisablehook = lambda _: None
        gc.disable()
        _set_bounds(cpu_seconds, growth_bytes)
        _end_with(parent)
        sys.addaudithook(_refuse)  # nothing can remove it
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        life(socket.socket(fileno=kept))
        code = 0
    finally:
        os._exit(code)  # no handlers at exit, no flush, no finalizer


def _close_all_but(kept: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(_FIRST):
        os.dup2(nowhere, standard, inheritable=False)
    try:
        numbers = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    except OSError:  # the system has no such list
        numbers = list(range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for number in numbers:
        if number >= _FIRST and number != kept:
            with suppress(OSError):  # the one of the listing itself
                os.close(number)


def _set_signals() -> None:
    for number in _ENDED_BY:
        signal.signal(number, signal.SIG_DFL)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def _set_bounds(cpu_seconds: int, growth_bytes: int) -> None:
    os.nice(_NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_DIES_FIRST)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:  # the system does not say how large its address space is
        return
    wanted, (_, most) = size + growth_bytes, resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


def _end_with(parent: int) -> None:
    """Be killed as soon as the parent has ended, where the system can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended in between
        os._exit(1)


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Python tells an audit hook of each such call before it is made. Raises `PermissionError`."""
    if event in _REFUSED or event.startswith(_REFUSED_FAMILIES) or (event == "open" and _writes(arguments)):
        text = f"an answer to a question must not reach outside its process ({event})"
        raise PermissionError(errno.EPERM, text)


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[-1]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
