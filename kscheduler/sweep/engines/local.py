"""Processes on this machine.

Not `concurrent.futures`: there a dead worker breaks the whole pool. Here each worker has a pipe of its own, over which
it gets one spec at a time; the end of the pipe shows that it died.

Workers start with SIGINT blocked and never unblock it: Ctrl-C reaches all processes of a terminal, and only the parent
handles it. If the parent is killed, the pipes close, and its workers end after their current run.
"""

import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final

from kscheduler.sweep.engines.engine import ATTEMPTS, EngineError, Report, interrupts_blocked, silence_output
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec

# After this a worker is killed.
_ENDING_SECONDS: Final = 5.0


class LocalEngine:
    """Worker processes. Implements `SweepEngine`."""

    def __init__(self, workers: int) -> None:
        """`workers`: at least 1."""
        self._workers = workers

    def rows(self, specs: Sequence[RunSpec], report: Report) -> Generator[SweepRow, None, None]:
        """Raises `EngineError` if no process can be started."""
        from kscheduler.sweep.running import empty_row

        waiting, deaths = deque(specs), Counter[str]()
        pool: list[_Worker] = []
        try:
            for _ in range(min(self._workers, len(specs))):
                pool.append(_Worker())
                pool[-1].send_next(waiting)
            while any(worker.spec is not None for worker in pool):
                for worker in _ready(pool):
                    spec = worker.spec
                    row = worker.receive()
                    if row is not None:
                        worker.send_next(waiting)  # before the caller stores the row, which takes a while
                        yield row
                    elif spec is not None:
                        deaths[spec.key] += 1
                        why = f"worker {worker.pid} ended {worker.exit_text()} in {_name_of(spec)}"
                        worker.stop()
                        replacement = pool[pool.index(worker)] = _Worker()
                        if deaths[spec.key] < ATTEMPTS:
                            report(f"{why}; the run is repeated")
                            waiting.appendleft(spec)
                        else:
                            report(why)
                            yield empty_row(spec, f"{why}, {ATTEMPTS} times")
                        replacement.send_next(waiting)
        finally:
            for worker in pool:
                worker.stop()


def _name_of(spec: RunSpec) -> str:
    return f"{spec.policy.name} on {spec.workload.name}, seed {spec.seed}"


def _ready(pool: "list[_Worker]") -> "list[_Worker]":
    busy = {worker.pipe: worker for worker in pool if worker.spec is not None}
    return [busy[pipe] for pipe in wait(list(busy)) if isinstance(pipe, Connection)]


class _Worker:
    """A process with its pipe."""

    def __init__(self) -> None:
        self.pipe, worker_end = multiprocessing.Pipe()
        self.spec: RunSpec | None = None
        self._process: SpawnProcess = multiprocessing.get_context("spawn").Process(
            target=_worker_main, args=(worker_end,), daemon=True
        )
        with interrupts_blocked():
            try:
                self._process.start()
            except OSError as problem:
                raise EngineError(f"no worker process can be started: {problem.strerror or problem}") from None
        worker_end.close()  # so that the pipe ends with the worker

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def send_next(self, waiting: deque[RunSpec]) -> None:
        """The next spec, if there is one."""
        self.spec = waiting.popleft() if waiting else None
        if self.spec is not None:
            with suppress(BrokenPipeError):  # it is dead: `receive` finds the pipe closed
                self.pipe.send(self.spec)

    def receive(self) -> SweepRow | None:
        """Its row; `None`: it died."""
        try:
            row: SweepRow = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            return None
        return row

    def exit_text(self) -> str:
        code = self._process.exitcode or 0
        return f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def stop(self) -> None:
        """At once: the current run is lost."""
        self.pipe.close()
        self._process.terminate()
        self._process.join(_ENDING_SECONDS)
        self._process.kill()
        self._process.join()


def _worker_main(pipe: Connection) -> None:
    """In the worker: a row for each spec, until the pipe ends."""
    from kscheduler.sweep.running import run

    os.dup2(2, 1)
    silence_output()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            pipe.send(run(pipe.recv()))
