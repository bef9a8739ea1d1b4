"""From the configuration to extenders that can be asked; to be imported only if there are any: it brings aiohttp."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.core import Pod
from kscheduler.client.extenders.caller import ExtenderCaller
from kscheduler.config.extenders import extender_name
from kscheduler.config.types import Extender
from kscheduler.scheduling.extenders.addresses import address_of
from kscheduler.scheduling.extenders.bind_outcomes import BindOutcomes, PodPlace
from kscheduler.scheduling.extenders.call_reports import CallReports
from kscheduler.scheduling.extenders.http_extender import (
    HTTPExtender,
    ObjectSource,
)
from kscheduler.scheduling.extenders.http_extenders import HTTPExtenders
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import NO_OBSERVERS, Observers
from kscheduler.telemetry.logs import get_logger

_log = get_logger("extenders")


class ExtenderSet:
    """The extenders of one configuration, with their connections."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        objects: ObjectSource,
        *,
        may_bind: Callable[[], bool],
        place_of: Callable[[Pod], Awaitable[PodPlace]],
        observations: Observations | None = None,
        clock: Clock = REAL_CLOCK,
        observers: Observers = NO_OBSERVERS,
        logs: bool = True,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Opens nothing. `may_bind` and `place_of` are those of `BindOutcomes`. `logs`: whether an outage is logged."""
        self.settings = tuple(extenders)
        self._callers = [ExtenderCaller(address_of(each, index)) for index, each in enumerate(extenders)]
        self._environ = environ
        self._reports = [_reports_of(each, observations, clock.monotonic, logs=logs) for each in extenders]
        self.http_extenders = HTTPExtenders(
            list(map(HTTPExtender, extenders, self._callers, self._reports)),
            objects,
            may_bind=may_bind,
            outcomes=BindOutcomes(place_of, may_bind, clock, observers),
        )

    def notes(self) -> Iterable[str]:
        """A line for each extender that fails."""
        return [note for reports in self._reports for note in reports.notes()]

    def announce(self) -> None:
        """Log where kube-scheduler would use a proxy and kscheduler does not."""
        for caller in self._callers:
            variable = caller.unused_proxy(self._environ)
            if variable:
                reason = "extenders are called directly, never through a proxy of the environment"
                _log.warning("extender_proxy_not_used", extender=caller.address.shown, variable=variable, reason=reason)

    async def close(self) -> None:
        """Close all connections: calls under way fail."""
        for caller in self._callers:
            await caller.close()


def _reports_of(
    extender: Extender, observations: Observations | None, now: Callable[[], float], *, logs: bool
) -> CallReports:
    seconds = observations.extender_seconds if observations is not None else None
    return CallReports(extender_name(extender), now, seconds, is_ignorable=extender.ignorable, logs=logs)
