"""Workers of a Dask cluster: one on this machine, or an existing one by its scheduler's address.

Dask makes the runs of a worker that died again by itself. `allowed-failures` is how often: what dies with each worker
that gets it, is a row with an error. Each worker process makes one run at a time: plugins' time is counted per process.

The workers need the same kscheduler, and the data of traces and recordings under the same paths; both are checked by
the run. A worker's death is not reported where the run was made again: Dask does not report it.
"""

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from typing import Any, Final

from kscheduler.sweep.engines.engine import ATTEMPTS, EngineError, Tell, interrupts_blocked, quiet
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

    def rows(self, specs: Sequence[RunSpec], tell: Tell) -> Generator[SweepRow, None, None]:
        """Raises `EngineError`."""
        import dask

        settings = {
            "distributed.scheduler.allowed-failures": ATTEMPTS - 1,
            "distributed.worker.daemon": True,
            # A run holds its worker's thread for a minute and more.
            "distributed.admin.tick.limit": "1h",
        }
        with dask.config.set(settings), ExitStack() as ends:
            client = self._client(ends)
            tell(f"Dask at {client.scheduler.address}, {len(client.nthreads())} workers")
            yield from self._made(client, specs)

    def _client(self, ends: ExitStack) -> Any:
        distributed, address = self._distributed, self._address
        try:
            # Its threads and processes are started so that an interrupt is this thread's to answer.
            with interrupts_blocked():
                if address == LOCAL:
                    own = distributed.LocalCluster(
                        n_workers=self._workers,
                        threads_per_worker=1,
                        host=_LOOPBACK,
                        dashboard_address=_DASHBOARD,
                        worker_dashboard_address=_DASHBOARD,
                        silence_logs="CRITICAL",
                    )
                    address = ends.enter_context(own)
                return ends.enter_context(distributed.Client(address, timeout=_CONNECT_SECONDS))
        except (OSError, ValueError, RuntimeError) as problem:
            why = str(problem) or type(problem).__name__
            raise EngineError(f"--dask {self._address}: {why}") from None

    def _made(self, client: Any, specs: Sequence[RunSpec]) -> Generator[SweepRow, None, None]:
        from kscheduler.sweep.running import unrun

        waiting = list(reversed(specs))
        asked = dict[str, RunSpec]()
        futures = self._distributed.as_completed()

        def send() -> None:
            # One for each worker: when a worker dies, all that it was sent is suspected of it.
            while waiting and futures.count() < max(1, len(client.nthreads())):
                spec = waiting.pop()
                key = f"{_PREFIX}{spec.key}"
                asked[key] = spec
                futures.add(client.submit(_run, spec, key=key, pure=False))

        send()
        for future in futures:
            spec = asked[future.key]
            failure = future.exception() if future.status != "finished" else None
            if future.status == "finished":
                row: SweepRow = future.result()
                yield row
            else:
                why = f"its workers died, {ATTEMPTS} times" if _is_killed(failure) else f"{failure}"
                yield unrun(spec, why)
            future.release()
            send()


def _is_killed(failure: BaseException | None) -> bool:
    return type(failure).__name__ == "KilledWorker"


def _run(spec: RunSpec) -> SweepRow:
    """In a worker."""
    from kscheduler.sweep.running import run

    quiet()
    return run(spec)
