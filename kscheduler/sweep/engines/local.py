"""Processes on this machine.

Not `concurrent.futures`: there a dead worker breaks the whole pool. Here each worker has a pipe of its own, over which
it gets one spec at a time; the pipe's end tells of its death.

Workers are started with SIGINT blocked, and keep it so: Ctrl-C reaches all processes of a terminal, and is the parent's
to answer. A parent that is killed closes the pipes, at which its workers end after the run that they have begun.
"""

import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final

from kscheduler.sweep.engines.engine import ATTEMPTS, EngineError, Tell, interrupts_blocked, quiet
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec

# For a worker to end by itself.
_ENDING_SECONDS: Final = 5.0


class LocalEngine:
    """So many worker processes. Implements `SweepEngine`."""

    def __init__(self, workers: int) -> None:
        """`workers`: at least 1."""
        self._workers = workers

    def rows(self, specs: Sequence[RunSpec], tell: Tell) -> Generator[SweepRow, None, None]:
        """Raises `EngineError` where no process can be started."""
        from kscheduler.sweep.running import unrun

        waiting, died = deque(specs), Counter[str]()
        pool: list[_Worker] = []
        try:
            for _ in range(min(self._workers, len(specs))):
                pool.append(_Worker())
                pool[-1].give(waiting)
            while any(worker.spec is not None for worker in pool):
                for worker in _ready(pool):
                    spec = worker.spec
                    row = worker.take()
                    if row is not None:
                        worker.give(waiting)  # before the row is kept, which takes a while
                        yield row
                    elif spec is not None:
                        died[spec.key] += 1
                        why = f"worker {worker.pid} ended {worker.ending()} in {_called(spec)}"
                        worker.end()
                        fresh = pool[pool.index(worker)] = _Worker()
                        if died[spec.key] < ATTEMPTS:
                            tell(f"{why}; the run is made again")
                            waiting.appendleft(spec)
                        else:
                            tell(why)
                            yield unrun(spec, f"{why}, {ATTEMPTS} times")
                        fresh.give(waiting)
        finally:
            for worker in pool:
                worker.end()


def _called(spec: RunSpec) -> str:
    return f"{spec.policy.name} on {spec.workload.name}, seed {spec.seed}"


def _ready(pool: "list[_Worker]") -> "list[_Worker]":
    busy = {worker.pipe: worker for worker in pool if worker.spec is not None}
    return [busy[pipe] for pipe in wait(list(busy)) if isinstance(pipe, Connection)]


class _Worker:
    """A process with its pipe."""

    def __init__(self) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.spec: RunSpec | None = None
        self._process: SpawnProcess = multiprocessing.get_context("spawn").Process(
            target=_work, args=(theirs,), daemon=True
        )
        with interrupts_blocked():
            try:
                self._process.start()
            except OSError as problem:
                raise EngineError(f"no worker process can be started: {problem.strerror or problem}") from None
        theirs.close()  # so that the pipe ends with the worker

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def give(self, waiting: deque[RunSpec]) -> None:
        """The next spec, if there is one."""
        self.spec = waiting.popleft() if waiting else None
        if self.spec is not None:
            with suppress(BrokenPipeError):  # it is dead, which the pipe tells
                self.pipe.send(self.spec)

    def take(self) -> SweepRow | None:
        """Its row; `None`: it has died."""
        try:
            row: SweepRow = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return None
        return row

    def ending(self) -> str:
        code = self._process.exitcode or 0
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def end(self) -> None:
        """At once: what is under way is lost."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(_ENDING_SECONDS)
        self._process.kill()
        self._process.join()


def _work(pipe: Connection) -> None:
    """In the worker: a row for each spec, until the pipe ends."""
    from kscheduler.sweep.running import run

    os.dup2(2, 1)
    quiet()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            pipe.send(run(pipe.recv()))
