"""Terms of a process: after a lost lease it goes on as a follower, with nothing of what it had begun as the leader.

The problem: an API server that is away for longer than `renewDeadline` takes the lease from its leader. A process that
ends then reads the whole cluster again, from a server that has just come back. The idea: what a process has *seen* is
still true as of a version, and what it has *begun* is not worth keeping. So everything that was built for the term ends
(workers, waiting pods, evictions, patches, queue, cache, nominations, plugins), and all is built again, as in a new
process, but for three things: the stores, from which the watches go on; the identity, with the time before which it may
not lead (`Elector.next_term`); and the configuration in force.

    lease lost -> the fence is closed, for good -> all services are cancelled, connections are reset
               -> tasks that plugins have left are cancelled -> stores and elector are carried over
               -> a new `App`: handlers get each stored object, watches resume, it follows, it may lead again

What is in flight at the loss needs no rules of its own:

    a Binding, eviction, claim or patch that was not sent    its term's fence keeps it in; it is forgotten
    one that was sent                                        the watch shows whether it was applied. Nobody decides
                                                             before leaseDuration after the last renewal, nor before the
                                                             store has caught up: as any other replica
    assumed pods, reserved volumes and devices, nominations  the new cache and queue know what the API server has told
    a pod at Permit or PreBind, or waiting for victims       is pending in the new queue

Where this cannot be known for certain, the process ends, as it always has: it was stopped or blocked past its right
(`LeaseLostError.may_follow`); its end takes longer than ten seconds (`Watchdog`); a task does not end; something else
has failed at the same time. Counters of metrics begin at 0, as after a restart.
"""

import asyncio
import gc
import signal
from collections.abc import Callable
from typing import Final, Protocol

from kscheduler.aio.tasks import end_others
from kscheduler.election import LeaseLostError
from kscheduler.service import signals
from kscheduler.service.leadership import EarlierTerm
from kscheduler.service.options import Options
from kscheduler.telemetry.logs import get_logger

_log = get_logger("kscheduler")

# How long tasks that the services have left behind may take to end.
END_SECONDS: Final = 2.0


class Term(Protocol):
    """A scheduler service from its start to its end: `service.App`."""

    @property
    def may_reload(self) -> bool:
        """Whether there is a configuration file that may be read again."""
        ...

    def ask_again(self) -> None:
        """Read the configuration again, and ask for the API server's version."""
        ...

    async def run(self, stop: asyncio.Event) -> None:
        """Serve and schedule. Raises `LeaseLostError`."""
        ...

    def ask_for_dump(self) -> None:
        """Log cache and queue."""
        ...

    def end_of_term(self) -> EarlierTerm:
        """What the next term begins with; after `run` has lost the lease."""
        ...


Begin = Callable[[Options, EarlierTerm | None], Term]


class Terms:
    """Runs one term after the other; a signal concerns the one that runs. Implements `signals.Reloads`."""

    def __init__(self, begin: Begin, options: Options) -> None:
        """Raises `ConfigError` where the first term cannot be built."""
        self._begin = begin
        self._term: Term | None = begin(options, None)
        """`None` between two terms: nothing may keep the parts of the one before."""
        self.is_on = self._term.may_reload

    def ask(self) -> None:
        """Read and ask again. Between two terms there is nothing to do: the next one begins with that."""
        if self._term is not None:
            self._term.ask_again()

    def ask_for_dump(self) -> None:
        """Log cache and queue."""
        if self._term is not None:
            self._term.ask_for_dump()

    async def run(self, stop: signals.Stop) -> None:
        """Run until `stop` is set. Raises what a term fails with that no other may follow."""
        while (earlier := await self._run_term(stop)) is not None:
            self._term = None
            gc.collect()  # the parts of a term refer to each other, and are as large as the cluster
            _log.info("following_again", identity=earlier.elector.identity, kept=sorted(earlier.views))
            self._term = self._begin(earlier.options, earlier)

    async def _run_term(self, stop: signals.Stop) -> EarlierTerm | None:
        """Run a term; what the next one begins with, or `None` at the end of all."""
        term, own = self._term, asyncio.all_tasks()  # also those of a program that runs a scheduler beside other things
        assert term is not None  # noqa: S101  # tells the type checker what `run` sees to
        try:
            await term.run(stop)
        except LeaseLostError as lost:
            if stop.is_set() or not lost.may_follow:
                raise
            if left := await end_others(END_SECONDS, own):
                _log.warning("tasks_not_ended", tasks=left, seconds=END_SECONDS, exit_code=1)
                raise
            return term.end_of_term()
        return None


async def run_in_terms(begin: Begin, options: Options, stop: signals.Stop) -> None:
    """Run terms until `stop` is set, and handle signals that are about the term that runs; inside of `ending`."""
    terms = Terms(begin, options)
    with signals.calling(terms.ask_for_dump, signal.SIGUSR2), signals.reloading(terms, stop):
        await terms.run(stop)
