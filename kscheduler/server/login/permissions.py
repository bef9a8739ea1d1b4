"""Decides whether a user may do what a request asks for: a SubjectAccessReview on the path and the verb.

Paths that are always allowed and members of system:masters need no review. Answers are remembered for
`--authorization-webhook-cache-authorized-ttl` and `--authorization-webhook-cache-unauthorized-ttl`; anyone who is let
in because of a role that is taken away stays in for that long.
"""

import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.server.login.login_metrics import LoginMetrics
from kscheduler.server.login.remembered import Remembered
from kscheduler.server.login.reviews import ReviewError, Reviews
from kscheduler.server.login.user import MASTERS, RequestUser

PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
MAX_ANSWERS: Final = 1024
# Characters of path and verb; longer ones are reviewed each time, as upstream, so that nobody fills the memory.
_LONGEST_QUERY: Final = 10_000


class AuthorizationSettings(msgspec.Struct, frozen=True):
    """How it is decided what clients may do."""

    kubeconfig: str = ""
    """For SubjectAccessReviews; empty: as the scheduler itself is connected."""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorized_seconds: float = 10.0
    unauthorized_seconds: float = 10.0


class AccessDecision(msgspec.Struct, frozen=True):
    """Whether a request is allowed; `reason` may be empty."""

    is_allowed: bool
    reason: str = ""


class _Status(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _AccessReview(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_AccessReview)


class OpenPaths:
    """`--authorization-always-allow-paths`: whole paths, or prefixes that end in `*`; the leading `/` is optional."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `ValueError` for a `*` that is not at the end."""
        stripped = [path.removeprefix("/") for path in paths]
        for path in stripped:
            if "*" in path[:-1]:
                message = f'only trailing * allowed in "{path}"'
                raise ValueError(message)
        self._whole = frozenset(path for path in stripped if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in stripped if path.endswith("*"))

    def has(self, path: str) -> bool:
        """Whether a request's path is open to everybody."""
        stripped = path.removeprefix("/")
        return stripped in self._whole or (bool(self._prefixes) and stripped.startswith(self._prefixes))


class Permissions:
    """Asks the API server what a user may do."""

    def __init__(
        self, reviews: Reviews, settings: AuthorizationSettings, metrics: LoginMetrics, clock: Clock = REAL_CLOCK
    ) -> None:
        self._reviews = reviews
        self._settings = settings
        self._metrics = metrics
        self.cache: Remembered[tuple[RequestUser, str, str], _Status] = Remembered(MAX_ANSWERS, clock)

    async def decide(self, user: RequestUser, verb: str, path: str) -> AccessDecision:
        """Whether the user may. Raises `ReviewError` if nobody can tell."""
        began = time.perf_counter()
        result = "error"
        try:
            status = await self._status(user, verb, path)
            if status.allowed and not status.denied:
                result = "allowed"
            elif not status.allowed:
                result = "denied" if status.denied else "no-opinion"
        finally:
            self._metrics.decided(result, time.perf_counter() - began)
        if status.allowed and status.denied:
            message = "webhook subject access review returned both allow and deny response"
            raise ReviewError(message)
        return AccessDecision(status.allowed, status.reason)

    async def _status(self, user: RequestUser, verb: str, path: str) -> _Status:
        if MASTERS in user.groups:
            return _Status(allowed=True)
        if len(path) + len(verb) > _LONGEST_QUERY:
            return (await self._review(user, verb, path))[0]
        return await self.cache.answer((user, verb, path), lambda: self._review(user, verb, path))

    async def _review(self, user: RequestUser, verb: str, path: str) -> tuple[_Status, float]:
        spec: dict[str, Any] = {"nonResourceAttributes": {"path": path, "verb": verb}, "user": user.name}
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = user.groups
        if user.extra:
            spec["extra"] = dict(user.extra)
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        body = await self._reviews.create(review)
        try:
            status = _decoder.decode(body).status
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"the API server's SubjectAccessReview cannot be read: {error}"
            raise ReviewError(message) from error
        seconds = self._settings.authorized_seconds if status.allowed else self._settings.unauthorized_seconds
        return status, seconds
