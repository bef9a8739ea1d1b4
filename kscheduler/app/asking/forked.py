"""A copy of this process that answers one question and ends. It cannot write to anything but its pipe.

What a copy inherits could do harm, so it is taken away before the question is looked at:

    descriptors      all closed but the pipe: no request, no TLS goodbye, no byte into the parent's epoll or logs
    new ones         connecting, listening, starting programs and writing files are refused, whoever's code tries it
    signals          ended by SIGINT and SIGTERM, deaf to what means something to the service; the wakeup descriptor of
                     asyncio, a socket shared with the parent, is let go before any signal is let in
    threads          only this one is left, so a lock that another thread held is never released: the log's, which
                     every line takes, is replaced, and nothing is written; Python renews its own locks
    garbage          not collected: a walk would touch, and so copy, every page of the cache
    memory           bounded by an address space a little larger than it is now; the first to go when a cgroup is full
    time             ended by the parent after its deadline; with the parent, or after so much CPU time, by the kernel

Its event loop is the parent's no more: what needs one begins a new one.
"""

import errno
import gc
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from kscheduler.logs import mute

ANSWER, PROBLEM, NO_MEMORY = b"A", b"P", b"M"
"""The first byte of what a copy writes; then the length in eight bytes, then so many bytes."""
HEAD_BYTES: Final = 9
_PIPE: Final = 3
_NICENESS: Final = 10
"""The scheduler goes first where both want the same CPU."""
_DIES_FIRST: Final = "1000"
_ENDED_BY: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
_DEAF_TO: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_PR_SET_PDEATHSIG: Final = 1
_REFUSED: Final = frozenset(
    (
        *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"),
        *("subprocess.Popen", "pty.spawn", "os.kill", "os.killpg", "os.remove", "os.rename", "os.rmdir", "os.mkdir"),
        *("os.truncate", "os.link", "os.symlink", "os.chmod", "os.chown"),
    )
)
_REFUSED_FAMILIES: Final = ("os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "shutil.")

Question = Callable[[], bytes]


def fork(question: Question, pipe: int, cpu_seconds: int, growth_bytes: int) -> int:
    """Make a copy that answers into `pipe`; returns its process id. Raises `OSError` if the system has no room.

    Called on the main thread, outside of any task: the copy's own event loop would find the task still running.
    """
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Since Python 3.12 a fork beside threads warns of locks that they hold; see above.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _answer(question, pipe, parent, cpu_seconds, growth_bytes)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _answer(question: Question, pipe: int, parent: int, cpu_seconds: int, growth_bytes: int) -> NoReturn:
    """The whole life of the copy."""
    code = 1
    try:
        _be_alone(pipe)
        _be_bounded(parent, cpu_seconds, growth_bytes)
        sys.addaudithook(_refuse)  # there is no way to take one away
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        kind, body = _outcome(question)
        _write(kind, body)
        code = 0
    finally:
        os._exit(code)  # no handlers at exit, no flush, no finalizer


def _outcome(question: Question) -> tuple[bytes, bytes]:
    try:
        return ANSWER, question()
    except MemoryError:
        return NO_MEMORY, b""
    except BaseException as failure:  # noqa: BLE001  the parent tells it, whatever it is
        return PROBLEM, f"{type(failure).__name__}: {failure}".encode(errors="backslashreplace")


def _write(kind: bytes, body: bytes) -> None:
    left = memoryview(kind + len(body).to_bytes(HEAD_BYTES - 1) + body)
    while left:
        left = left[os.write(_PIPE, left) :]


def _be_alone(pipe: int) -> None:
    signal.set_wakeup_fd(-1)
    mute()
    nowhere = os.open(os.devnull, os.O_RDWR)
    if pipe != _PIPE:
        os.dup2(pipe, _PIPE, inheritable=False)
    for standard in range(_PIPE):
        os.dup2(nowhere, standard, inheritable=False)
    _close_from(_PIPE + 1)
    for number in _ENDED_BY:
        signal.signal(number, signal.SIG_DFL)
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    sys.unraisablehook = lambda _: None
    gc.disable()


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Python tells an audit hook of each such call before it is made. Raises `PermissionError`."""
    if event in _REFUSED or event.startswith(_REFUSED_FAMILIES) or (event == "open" and _writes(arguments)):
        raise PermissionError(errno.EPERM, f"an answer to a question must not reach outside its process ({event})")


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[-1]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def _close_from(first: int) -> None:
    try:
        open_ones = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    except OSError:
        os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        return
    for number in open_ones:
        if number >= first:
            with suppress(OSError):  # the one of the listing itself
                os.close(number)


def _be_bounded(parent: int, cpu_seconds: int, growth_bytes: int) -> None:
    os.nice(_NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_DIES_FIRST)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = address_space()
    if size:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        wanted = size + growth_bytes
        resource.setrlimit(resource.RLIMIT_AS, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))
    _end_with(parent)


def _end_with(parent: int) -> None:
    """Be killed as soon as the parent has ended, where the system can do that."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:  # it has ended in between
        os._exit(1)


def address_space() -> int:
    """The bytes of virtual memory of this process; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0
