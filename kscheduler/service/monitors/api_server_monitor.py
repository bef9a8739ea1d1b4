"""Logs once a second what is wrong with the API server, and probes it when there are no other requests.

`client.reachability` and `informers.resource_troubles` decide what to log; here are the clock, the log and the probe:
`GET /readyz`, which every identity may send (`system:public-info-viewer`), which checks etcd too, and whose refusal is
an answer as well. It uses the Events' connections, so that hanging binds do not delay it.
"""

from collections.abc import Callable
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import TaskSet
from kscheduler.client.errors import ClientError
from kscheduler.client.reachability import APIServerReachability, LogLine
from kscheduler.client.rest import APIClient
from kscheduler.informers.factory import InformerFactory
from kscheduler.informers.resource_troubles import ResourceTroubles
from kscheduler.telemetry.logs import get_logger

_log = get_logger("api-server")

CHECK_SECONDS: Final = 1.0
PROBE_PATH: Final = "/readyz"
PROBE_SECONDS: Final = 5.0


class APIServerMonitor:
    """The service that monitors the API server."""

    def __init__(
        self,
        reachability: APIServerReachability,
        client: APIClient,
        informers: InformerFactory,
        clock: Clock,
        on_return: Callable[[], None] = lambda: None,
    ) -> None:
        """`client` must report to `reachability`, which needs the probe's outcome. `on_return`: the API server answers
        again after it did not; called once a second at most.
        """
        self._reachability = reachability
        self._client = client
        self._informers = informers
        self._clock = clock
        self._resources = ResourceTroubles()
        self._probes = TaskSet("api-server", clock)
        self._probed_at = float("-inf")
        self._on_return = on_return
        self._returns = reachability.returns

    async def run(self) -> None:
        """Monitor until cancelled."""
        try:
            while True:
                self.check()
                await self._clock.sleep(CHECK_SECONDS)
        finally:
            await self._probes.cancel_all()

    def check(self) -> None:
        """Log what is due, and probe if it is time."""
        now = self._clock.monotonic()
        for line in self._reachability.lines(now):
            _write(line)
        in_trouble, is_outage = self._reachability.is_in_trouble(now), self._reachability.is_outage(now)
        problems, retries = self._informers.problems(), self._informers.retries()
        for line in self._resources.lines(problems, retries, now, is_all_in_trouble=in_trouble, is_outage=is_outage):
            _write(line)
        if self._returns != self._reachability.returns:
            self._returns = self._reachability.returns
            self._on_return()
        interval = self._reachability.probe_interval(now)
        if interval is not None and now - self._probed_at >= interval and not self._probes.statistics().running:
            self._probed_at = now
            self._probes.spawn("probe", self._probe())

    async def _probe(self) -> None:
        try:
            fresh = self._reachability.must_reconnect()
            await self._client.get(PROBE_PATH, retries=0, timeout_seconds=PROBE_SECONDS, accept="*/*", is_fresh=fresh)
        except ClientError:
            return  # the client has reported it to `reachability`


def _write(line: LogLine) -> None:
    write = {"error": _log.error, "warning": _log.warning, "info": _log.info}[line.level]
    write(line.message, **line.fields)
