"""Series about the version of Kubernetes whose rules are followed, beside that of the API server."""

from collections.abc import Callable, Iterable

import msgspec

from kscheduler.telemetry.samples import Sample, Source, gauge
from kscheduler.telemetry.series import MetricSeries

INFO = MetricSeries(
    "kscheduler_kubernetes_version_info",
    "1; the API server's minor version, empty until it is known, and the version whose rules are followed.",
    ("server", "decides_as"),
)
FOLLOWED = MetricSeries(
    "kscheduler_kubernetes_version_followed",
    "0 while the rules of the API server's version cannot be taken over and other rules apply, else 1.",
)


class FollowedVersionStatistics(msgspec.Struct, frozen=True):
    """A snapshot."""

    server: str
    """The minor version, such as `1.38`: what a server tells besides has no bound. Empty: not known."""
    decides_as: str
    is_followed: bool
    """Whether that is the version that should decide."""


def followed_version_source(statistics: Callable[[], FollowedVersionStatistics]) -> Source:
    """The series."""

    def copy() -> Iterable[Sample]:
        now = statistics()
        return [
            gauge(INFO, {(now.server, now.decides_as): 1.0}),
            gauge(FOLLOWED, {(): float(now.is_followed)}),
        ]

    return copy
