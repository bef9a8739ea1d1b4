"""Sees a copy of the process and its children end: none is left, neither at work nor as a zombie."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress


def reaped(pid: int, on_reaped: Callable[[], None]) -> "asyncio.Future[None]":
    """Done when this child has ended, with the process group that it leads; nobody has to wait for that.

    `on_reaped` is called when the child itself has been reaped: from then on its process id may be another's.
    """
    loop = asyncio.get_running_loop()
    all_gone: asyncio.Future[None] = loop.create_future()

    def set_gone() -> None:
        if not all_gone.done():
            all_gone.set_result(None)

    def reap() -> None:
        with suppress(ProcessLookupError):  # not reaped yet, so the group is still its own
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        on_reaped()
        if _are_ours_left(pid):
            loop.run_in_executor(None, _reap_group, pid).add_done_callback(lambda _: set_gone())
        else:
            set_gone()

    _call_at_end(pid, reap)
    return all_gone


def _call_at_end(pid: int, call: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # an old kernel, or a sandbox that has no such call
        loop.run_in_executor(None, os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT).add_done_callback(
            lambda _: call()
        )
        return

    def on_end() -> None:
        loop.remove_reader(handle)
        os.close(handle)
        call()

    loop.add_reader(handle, on_end)


def _are_ours_left(group: int) -> bool:
    """Whether this process has children in the group that have not ended, without waiting for them.

    Children of a child that is gone are ours only where this process is the init of its container: then nobody else
    reaps them.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
        return True
    return False


def _reap_group(group: int) -> None:
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)
