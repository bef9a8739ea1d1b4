"""What a process of ours does at signals that nothing in it handles: what a Go program without handlers does.

The problem: Linux ends a process at most signals without a handler, and says nothing; a SIGUSR1 that was meant for
another program ends a leader. The idea: Go's table (`runtime/sigtab_linux_generic.go`), so that who operates
kube-scheduler finds nothing new:

    no effect               SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGXCPU, SIGXFSZ, the
                            real-time signals; SIGCHLD, SIGURG and SIGWINCH have none by themselves
    stacks, then the end    SIGQUIT, SIGTRAP, SIGSYS, SIGSTKFLT; SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL
    as the system has it    SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT (a shell's job control), SIGKILL, SIGSTOP

A part that uses one of them (SIGUSR2 dumps the cache, SIGALRM ends a plugin's call) installs its handler in place of
these, and calls `ignore_unused` again after it has taken it away. SIGPIPE is the one difference: Go ends at a
write to a standard stream that nobody reads, and Python ignores it; a closed log is no reason to stop scheduling.

This is called before anything else is imported, so it imports nothing that takes time.
"""

import faulthandler
import signal
import sys
from types import FrameType
from typing import Final

_FOR_CHILDREN: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)
# The signals that must not end a process for which they mean nothing.
UNUSED: Final = (
    *_FOR_CHILDREN,
    *(
        getattr(signal, name)
        for name in ("SIGVTALRM", "SIGPROF", "SIGIO", "SIGPWR", "SIGXCPU", "SIGXFSZ")
        if hasattr(signal, name)  # macOS has no SIGPWR
    ),
    *(range(signal.SIGRTMIN, signal.SIGRTMAX + 1) if hasattr(signal, "SIGRTMIN") else ()),
)
# Those that end it with the stacks of all threads, besides the faults that `faulthandler.enable` knows.
_STACKS: Final = tuple(
    getattr(signal, name) for name in ("SIGQUIT", "SIGTRAP", "SIGSYS", "SIGSTKFLT") if hasattr(signal, name)
)


def no_effect(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. Programs that we start (exec plugins) inherit SIG_IGN, and not this: they may wait for an alarm."""


def ignore_unused() -> None:
    """Let no unused signal end the process; a handler that somebody has set stays. Main thread only.

    SIG_IGN where nobody minds its inheritance. Handlers of signals that come at the same time are stacked on the few
    kilobytes that `faulthandler` reserves for them: forty at once would end the process by a fault.
    """
    for number in UNUSED:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, no_effect if number in _FOR_CHILDREN else signal.SIG_IGN)


def is_free(number: int) -> bool:
    """Whether nobody in this process handles the signal."""
    return signal.getsignal(number) in (signal.SIG_DFL, signal.SIG_IGN, no_effect)


def show_stacks() -> None:
    """Print the stacks of all threads on standard error before an end by a fault or by SIGQUIT.

    Without effect where standard error is closed or is no file; may be called again once it is one.
    """
    try:
        if not faulthandler.is_enabled():
            faulthandler.enable(file=sys.stderr, all_threads=True)
        for number in _STACKS:
            faulthandler.register(number, file=sys.stderr, all_threads=True, chain=True)
    except (AttributeError, OSError, RuntimeError, ValueError):
        return
