"""Makes copies of this process that cannot write to anything but the descriptors that they are given.

What a copy inherits could do harm, so it is taken away before a question is looked at:

    descriptors      all closed but those given: no request, no TLS goodbye, no byte into the parent's epoll or logs
    new ones         connecting, listening, starting programs and writing files are refused, anyone who's code tries it
    signals          ended by SIGINT and SIGTERM, deaf to what means something to the service; the wakeup descriptor of
                     asyncio, a socket shared with the parent, is let go before any signal is let in
    threads          only this one is left, so a lock that another thread held is never released: the log's, which
                     every line takes, is replaced, and nothing is written; Python renews its own locks
    garbage          not collected: a walk would touch, and so copy, every page of the cache
    memory           bounded by an address space a little larger than it is now; the first to go when a cgroup is full
    time             ended by the parent after its deadline; with the parent, or after so much CPU time, by the kernel

Its event loop is the parent's no more: what needs one begins a new one. The answering copy makes copies of its own,
one per question (`fork_child`), which inherit all of this; they may neither fork nor send signals.
"""

import errno
import fcntl
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

from kscheduler.telemetry.logs.pipeline import mute

# The number of the first descriptor that a copy is given; the others follow.
FIRST: Final = 3
# The scheduler goes first where both want the same CPU.
_NICENESS: Final = 10
_DIES_FIRST: Final = "1000"
# SIGXCPU is how the system ends a copy that has used its time (`_be_bounded`); the service ignores it.
_ENDED_BY: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGXCPU)
_DEAF_TO: Final = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE)
_PR_SET_PDEATHSIG: Final = 1
_REFUSED: Final = frozenset(
    (
        *("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"),
        *("subprocess.Popen", "pty.spawn", "os.remove", "os.rename", "os.rmdir", "os.mkdir"),
        *("os.truncate", "os.link", "os.symlink", "os.chmod", "os.chown"),
    )
)
_REFUSED_FAMILIES: Final = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "shutil.")
# What the answering copy does itself: it makes its children, gives them channels, and ends them.
_REFUSED_TO_CHILDREN: Final = ("os.fork", "os.kill", "socket.sendmsg")


def fork(life: Callable[[int], None], given: int, cpu_seconds: int, growth_bytes: int) -> int:
    """Make a copy that lives `life(free)` with the descriptor `given` as its number 3; returns its process id.

    `free`: from this number on no library remembers a descriptor as its own; see `fork_child`.
    It leads a process group of its own, in which its children are. Raises `OSError` if the system has no room. Called
    on the main thread, outside of any task: the copy's own event loop would find the task still running.
    """
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # Since Python 3.12 a fork beside threads warns of locks that they hold; see above.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _live(life, given, parent, cpu_seconds, growth_bytes)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with suppress(OSError):  # the copy does the same: anyone who comes first
        os.setpgid(pid, pid)
    return pid


def _live(life: Callable[[int], None], given: int, parent: int, cpu_seconds: int, growth_bytes: int) -> NoReturn:
    """The whole life of the copy."""
    code = 1
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        free = 1 + max(_open_ones() or range(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
        _be_alone(given)
        _be_bounded(parent, cpu_seconds, growth_bytes)
        sys.addaudithook(_refuse)  # there is no way to take one away
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        life(free)
        code = 0
    finally:
        os._exit(code)  # no handlers at exit, no flush, no finalizer


def fork_child(life: Callable[[], None], *given: int) -> int:
    """In a copy: make a child that lives `life()` with the descriptors `given`, numbered from 3. Raises `OSError`.

    The numbers of `given` are from `free` on (`numbered_from`). libuv, which knows nothing of what was closed in the
    copy, closes its pipe for signals in each child by its old number, and makes another.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _keep(given)
        _end_with(parent)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody wants the answer any more
        sys.addaudithook(_refuse_to_children)
        life()
        code = 0
    finally:
        os._exit(code)


def _be_alone(given: int) -> None:
    signal.set_wakeup_fd(-1)
    mute()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in range(FIRST):
        os.dup2(nowhere, standard, inheritable=False)
    _keep((given,))
    for number in _ENDED_BY:
        signal.signal(number, signal.SIG_DFL)
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    sys.unraisablehook = lambda _: None
    gc.disable()


def _keep(given: tuple[int, ...]) -> None:
    """Number these descriptors from 3 on, and close all others but the standard ones."""
    # First out of the way: one of them may have a number that another one is to get.
    above = [os.dup(number) for number in given]
    while above and min(above) < FIRST + len(given):
        above = [os.dup(number) for number in above]
    for number, descriptor in enumerate(above, FIRST):
        os.dup2(descriptor, number, inheritable=False)
    _close_from(FIRST + len(given))


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    """Python tells an audit hook of each such call before it is made. Raises `PermissionError`."""
    if event in _REFUSED or event.startswith(_REFUSED_FAMILIES) or (event == "open" and _writes(arguments)):
        raise _refusal(event)


def _refuse_to_children(event: str, arguments: tuple[object, ...]) -> None:
    del arguments
    if event.startswith(_REFUSED_TO_CHILDREN):
        raise _refusal(event)


def _refusal(event: str) -> PermissionError:
    return PermissionError(errno.EPERM, f"an answer to a question must not reach outside its process ({event})")


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[-1]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))


def numbered_from(free: int, descriptor: int) -> int:
    """The descriptor under a number from `free` on, in the place of its old one. Raises `OSError`."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, free)
    finally:
        os.close(descriptor)


def _close_from(first: int) -> None:
    open_ones = _open_ones()
    if not open_ones:
        os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for number in open_ones:
        if number >= first:
            with suppress(OSError):  # the one of the listing itself
                os.close(number)


def _open_ones() -> list[int]:
    """The numbers of all descriptors; empty where the system does not say."""
    try:
        return [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    except OSError:
        return []


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
