"""Bearer tokens: a TokenReview for each, remembered for `--authentication-token-webhook-cache-ttl`.

A token is remembered under a hash with a key of this process, so no token stays in memory longer than its request.
"""

import hashlib
import hmac
import secrets
from typing import Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.server.login.remembered import Remembered
from kscheduler.server.login.reviews import ReviewError, Reviews
from kscheduler.server.login.user import RequestUser

PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
MAX_TOKENS: Final = 1024
_LONGEST_TOKEN: Final = 12 * 1024


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, tuple[str, ...]] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo = msgspec.field(default_factory=_UserInfo)
    error: str = ""


class _TokenReview(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_TokenReview)


class TokenAuthenticator:
    """Finds out whose a token is."""

    def __init__(self, reviews: Reviews, remember_seconds: float, clock: Clock = REAL_CLOCK) -> None:
        """`remember_seconds` 0 means that each request is reviewed."""
        self._reviews = reviews
        self._seconds = remember_seconds
        self._key = secrets.token_bytes(32)
        self.cache: Remembered[bytes, RequestUser | str] = Remembered(MAX_TOKENS, clock)

    async def user_of(self, token: str) -> RequestUser | str:
        """The user, or why the token is worth nothing. Raises `ReviewError` if nobody can tell."""
        if len(token) > _LONGEST_TOKEN:
            return "invalid bearer token"
        content = token.encode(errors="surrogateescape")
        query = hmac.digest(self._key, content, hashlib.sha256)
        return await self.cache.answer(query, lambda: self._review(token))

    async def _review(self, token: str) -> tuple[RequestUser | str, float]:
        if not token.isascii() or not token.isprintable():
            return "invalid bearer token", self._seconds
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        body = await self._reviews.create(review)
        try:
            status = _decoder.decode(body).status
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"the API server's TokenReview cannot be read: {error}"
            raise ReviewError(message) from error
        if status.error:
            return status.error, 0.0  # as kube-scheduler: an error is not remembered
        if not status.authenticated:
            return "invalid bearer token", self._seconds
        info = status.user
        extra = tuple(sorted((info.extra or {}).items()))
        return RequestUser(info.username, info.uid, tuple(info.groups or ()), extra), self._seconds
