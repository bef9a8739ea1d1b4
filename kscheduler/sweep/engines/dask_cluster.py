"""Workers of a Dask cluster: one on this machine, or an existing one by its scheduler's address.

Dask itself repeats the runs of a worker that died, `allowed-failures` times; a run that kills each of its workers is a
row with an error. Each worker process executes one run at a time: plugins' time is counted per process.

The workers need the same kscheduler, and the data of traces and recordings under the same paths; the run checks both.
A worker's death is not reported if its run was repeated: Dask does not report it.
"""

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Any, Final

from kscheduler.sweep.engines.engine import ATTEMPTS, EngineError, Report, interrupts_blocked, silence_output
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec

# `--dask local`: a cluster on this machine, which ends with the sweep.
LOCAL: Final = "local"
_LOOPBACK: Final = "127.0.0.1"
_CONNECT_SECONDS: Final = 30
# Any free port, and for this machine only: several sweeps may be at work.
_DASHBOARD: Final = f"{_LOOPBACK}:0"
_PREFIX: Final = "kscheduler-sweep-"


class DaskEngine:
    """A Dask cluster. Implements `SweepEngine`. Needs the extra `dask`."""

    def __init__(self, address: str, workers: int) -> None:
        """`address`: as of a Dask scheduler, `tcp://host:8786`, or `LOCAL`; `workers`: of a local cluster.

        Raises `ModuleNotFoundError`.
        """
        import distributed

        self._distributed: Any = distributed
        self._address, self._workers = address, workers

    def rows(self, specs: Sequence[RunSpec], report: Report) -> Generator[SweepRow, None, None]:
        """Raises `EngineError`."""
        import dask

        settings = {
            "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
            "distributed.worker.daemon": True,
            # A run occupies its worker's thread for a minute and more.
            "distributed.admin.tick.limit": "1h",
        }
        with dask.config.set(settings), ExitStack() as stack:
            client = self._client(stack)
            report(f"Dask at {client.scheduler.address}, {len(client.nthreads())} workers")
            yield from self._collect(client, specs)

    def _client(self, stack: ExitStack) -> Any:
        distributed, address = self._distributed, self._address
        try:
            # Only this thread handles an interrupt, none of the threads and processes that Dask starts.
            with interrupts_blocked():
                if address == LOCAL:
                    cluster = distributed.LocalCluster(
                        n_workers=self._workers,
                        threads_per_worker=1,
                        host=_LOOPBACK,
                        dashboard_address=_DASHBOARD,
                        worker_dashboard_address=_DASHBOARD,
                        silence_logs="CRITICAL",
                    )
                    address = stack.enter_context(cluster)
                return stack.enter_context(distributed.Client(address, timeout=_CONNECT_SECONDS))
        except (OSError, ValueError, RuntimeError) as problem:
            why = str(problem) or type(problem).__name__
            raise EngineError(f"--dask {self._address}: {why}") from None

    def _collect(self, client: Any, specs: Sequence[RunSpec]) -> Generator[SweepRow, None, None]:
        from kscheduler.sweep.running import empty_row

        waiting = list(reversed(specs))
        sent = dict[str, RunSpec]()
        futures = self._distributed.as_completed()

        def send() -> None:
            # One run for each worker: when a worker dies, Dask counts a failure for each run that it was sent.
            while waiting and futures.count() < max(1, len(client.nthreads())):
                spec = waiting.pop()
                key = f"{_PREFIX}{spec.key}"
                sent[key] = spec
                futures.add(client.submit(_run, spec, key=key, pure=False))

        send()
        for future in futures:
            spec = sent[future.key]
            failure = future.exception() if future.status != "finished" else None
            if future.status == "finished":
                row: SweepRow = future.result()
                yield row
            else:
                why = f"its workers died, {ATTEMPTS} times" if _is_killed(failure) else f"{failure}"
                yield empty_row(spec, why)
            future.release()
            send()


def _is_killed(failure: BaseException | None) -> bool:
    return type(failure).__name__ == "KilledWorker"


def _run(spec: RunSpec) -> SweepRow:
    """In a worker."""
    from kscheduler.sweep.running import run

    silence_output()
    return run(spec)
