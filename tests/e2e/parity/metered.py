"""A scheduler whose /metrics is read while it works, and the moment at which reading it says something.

Counts of two schedulers can be compared when each has nothing left to do: no pod is active or backing off, and a second
has passed without a change. Nothing backs off for more than two seconds here (`podMaxBackoffSeconds: 1`, rounded up to
whole seconds of the wall clock), so after a pause of that length the next change of the cluster finds every pod free to
be tried at once, and how fast each scheduler was makes no difference to what it counts.
"""

import http.client
import json
import time
from collections.abc import Callable
from pathlib import Path

from tests.controlplane import kscheduler_process, kube_scheduler
from tests.controlplane.kscheduler_process import any_certificate
from tests.controlplane.process import Process, free_port, wait_until
from tests.e2e.parity.metrics_page import Page, read
from tests.e2e.servers import NAME, RealServer

BACKOFF = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
# Pods that are alike would be judged once for all of them, which is what kube-scheduler does not do.
ONE_BY_ONE = {"KSCHEDULER_CLASSES": "off"}
LONGEST_BACKOFF_SECONDS = 2.1
QUIET_SECONDS = 1.0
QUIET_POLL_SECONDS = 0.1
START_SECONDS = 60.0
SETTLE_SECONDS = 60.0


class Metered:
    """A process of a scheduler and the way to its metrics."""

    def __init__(self, process: Process, port: Callable[[], int | None], *, tls: bool) -> None:
        self.process = process
        self._port = port
        self._tls = tls
        self._changed_at = 0.0

    def page(self) -> Page:
        """The series as they are now."""
        connection = self._connection()
        try:
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            text = response.read().decode()
            if response.status != http.client.OK:
                raise RuntimeError(f"/metrics of {self.process.name}: {response.status} {text[:200]}")
        finally:
            connection.close()
        return read(text, "")

    def _connection(self) -> http.client.HTTPConnection:
        port = self._port()
        if port is None:
            raise ConnectionError(f"{self.process.name} has not said its port yet")
        if not self._tls:
            return http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=any_certificate())

    def wait_started(self, nodes: int) -> None:
        """Returns when it serves metrics and has all the nodes in its cache."""
        self.process.wait_until("its cache holds the nodes", lambda: self._nodes() == nodes, START_SECONDS)

    def _nodes(self) -> float:
        try:
            return self.page().total("scheduler_cache_size", type="nodes")
        except OSError:
            return 0.0

    def settle(self, done: Callable[[], object]) -> Page:
        """The counts once `done` holds and nothing has changed for a second."""
        self.process.wait_until("what the step must bring about", done, SETTLE_SECONDS)
        last = self.page()
        self._changed_at = time.monotonic()

        def quiet() -> bool:
            nonlocal last
            page = self.page()
            if not is_idle(page) or counts(page) != counts(last):
                last, self._changed_at = page, time.monotonic()
            return time.monotonic() - self._changed_at >= QUIET_SECONDS

        wait_until(f"{self.process.name} has nothing left to do", quiet, SETTLE_SECONDS, QUIET_POLL_SECONDS)
        return last

    def outlast_backoff(self) -> None:
        """Returns when no pod that has been tried can still back off."""
        free_at = self._changed_at + LONGEST_BACKOFF_SECONDS
        wait_until("no pod backs off", lambda: time.monotonic() >= free_at, LONGEST_BACKOFF_SECONDS + 1)


def is_idle(page: Page) -> bool:
    return not any(page.total("scheduler_pending_pods", queue=queue) for queue in ("active", "backoff"))


def counts(page: Page) -> tuple[float, float, float]:
    series = ("scheduler_schedule_attempts_total", "scheduler_queue_incoming_pods_total", "scheduler_pending_pods")
    attempts, incoming, pending = (page.total(one) for one in series)
    return attempts, incoming, pending


def start(program: str, server: RealServer, folder: Path) -> Metered:
    """The scheduler with metrics, as a running process. The caller stops it."""
    metered = metered_kube_scheduler(server, folder) if program == "kube-scheduler" else metered_own(server, folder)
    metered.process.start()
    return metered


def metered_kube_scheduler(server: RealServer, folder: Path) -> Metered:
    port, plane = free_port(), server.plane
    kubeconfig = plane.kube_scheduler_kubeconfig
    process = kube_scheduler.process(plane.binaries, kubeconfig, folder, NAME, port=port, settings=BACKOFF)
    return Metered(process, lambda: port, tls=True)


def metered_own(server: RealServer, folder: Path) -> Metered:
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "kscheduler.json"
    kubeconfig = server.kscheduler_kubeconfig()
    whole = kube_scheduler.configuration(kubeconfig, NAME, "application/json") | BACKOFF
    config.write_text(json.dumps(whole, indent=1))
    process = kscheduler_process.process(kubeconfig, folder, "--config", str(config), environment=ONE_BY_ONE)
    return Metered(process, lambda: kscheduler_process.http_port(process), tls=False)
