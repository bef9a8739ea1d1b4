"""The series of kube-scheduler's delegated authentication and authorisation, under their names and labels.

No user's name becomes a label: as upstream, names are folded into a few kinds.
"""

from collections.abc import Iterable
from typing import Any, Final

from kscheduler.server.login.remembered import Remembered
from kscheduler.telemetry.samples import Sample, counter, gauge, histograms, untyped
from kscheduler.telemetry.series import Counter, Histograms, MetricSeries, exponential_bounds

_SECONDS: Final = exponential_bounds(0.001, 2, 15)
_REVIEW_SECONDS: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_HOUR, _DAY = 3600.0, 86400.0
_CERTIFICATE_SECONDS: Final = (
    0.0, 0.5 * _HOUR, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 4 * _DAY, 7 * _DAY, 30 * _DAY,
    90 * _DAY, 180 * _DAY, 365 * _DAY,
)  # fmt: skip
_KNOWN_USERS: Final = frozenset(
    {"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}
)


def kind_of_user(name: str) -> str:
    """The value of the `username` label."""
    if name in _KNOWN_USERS:
        return name
    return "email_id" if "@" in name else "other"


def _delegated(kind: str) -> tuple[Counter, Histograms]:
    """The requests of one kind to the API server: `authn` or `authz`."""
    name = f"apiserver_delegated_{kind}_request"
    total = MetricSeries(f"{name}_total", "Reviews requested from the API server, by status.", ("code",))
    seconds = MetricSeries(f"{name}_duration_seconds", "Time of a review, by status.", ("code",))
    return Counter(total), Histograms(seconds, _REVIEW_SECONDS)


class LoginMetrics:
    """All counts of the logins to one server."""

    def __init__(self) -> None:
        self.users = Counter(
            MetricSeries(
                "authenticated_user_requests", "Requests that were authenticated, by kind of user.", ("username",)
            )
        )
        self.attempts = Counter(
            MetricSeries("authentication_attempts", "Attempts to authenticate a request, by result.", ("result",))
        )
        self.authentication_seconds = Histograms(
            MetricSeries("authentication_duration_seconds", "Time to authenticate a request, by result.", ("result",)),
            _SECONDS,
        )
        self.decisions = Counter(
            MetricSeries("authorization_attempts_total", "Authorization decisions, by result.", ("result",))
        )
        self.authorization_seconds = Histograms(
            MetricSeries(
                "authorization_duration_seconds", "Time of an authorization decision, by result.", ("result",)
            ),
            _SECONDS,
        )
        self.token_reviews, self.token_review_seconds = _delegated("authn")
        self.access_reviews, self.access_review_seconds = _delegated("authz")
        self.certificates = Histograms(
            MetricSeries("apiserver_client_certificate_expiration_seconds", "Time until client certificates expire."),
            _CERTIFICATE_SECONDS,
        )
        self.tokens: Remembered[Any, Any] | None = None
        """The cache of token reviews, which counts by itself."""

    def authenticated(self, name: str, seconds: float) -> None:
        """A request has a user, who may be anonymous."""
        self.users[kind_of_user(name),] += 1
        self._attempted("success", seconds)

    def not_authenticated(self, seconds: float) -> None:
        """A request's credentials were wrong, or could not be checked."""
        self._attempted("error", seconds)

    def decided(self, result: str, seconds: float) -> None:
        """A request was `allowed`, `denied`, had `no-opinion` in its favour, or met an `error`."""
        self.decisions[result,] += 1
        self.authorization_seconds[result,].observe(seconds)

    def _attempted(self, result: str, seconds: float) -> None:
        self.attempts[result,] += 1
        self.authentication_seconds[result,].observe(seconds)

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source`."""
        yield untyped(self.users)  # Go's clients let a counter's name end as it likes
        yield untyped(self.attempts)
        yield histograms(self.authentication_seconds)
        yield counter(self.decisions)
        yield histograms(self.authorization_seconds)
        yield counter(self.token_reviews)
        yield histograms(self.token_review_seconds)
        yield counter(self.access_reviews)
        yield histograms(self.access_review_seconds)
        yield histograms(self.certificates)
        if self.tokens is not None:
            yield from _cache_samples(self.tokens)


_CACHE = "authentication_token_cache"
_QUERIED = MetricSeries(f"{_CACHE}_request_total", "Tokens that were looked up in the cache.", ("status",))
_FETCHED = MetricSeries(f"{_CACHE}_fetch_total", "Token reviews that the cache has begun.", ("status",))
_FETCHING = MetricSeries(f"{_CACHE}_active_fetch_count", "Token reviews in progress.", ("status",))


def _cache_samples(cache: Remembered[Any, Any]) -> Iterable[Sample]:
    lookups = Counter(_QUERIED)
    lookups["hit",], lookups["miss",] = cache.hits, cache.misses
    yield counter(lookups)
    fetched = Counter(_FETCHED)
    fetched["ok",], fetched["error",] = cache.fetched, cache.failures
    yield counter(fetched)
    yield gauge(_FETCHING, {("in_flight",): cache.in_flight})
