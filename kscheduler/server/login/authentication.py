"""Authenticates a request: front proxy, client certificate, token, in kube-scheduler's order.

The first that knows the user decides. If none does, but one has found wrong credentials, or could not check them, the
request is refused (401); a request without credentials is anonymous, and what it may see is for `permissions` to say.

A request that comes through the API server's proxy of pods and services has lost its Authorization header there, and
with it the user. `BEHIND_PROXY` takes a token past it: one that the user has got for this purpose, since anyone who
answers could keep it. It is reviewed like any other.
"""

import time
from typing import Final

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.server.login.authorities import ClientAuthorities
from kscheduler.server.login.client_certificates import ClientCertificate, Headers
from kscheduler.server.login.login_metrics import LoginMetrics
from kscheduler.server.login.reviews import ReviewError
from kscheduler.server.login.tokens import TokenAuthenticator
from kscheduler.server.login.user import ANONYMOUS, RequestUser

# In the place of Authorization, which has precedence.
BEHIND_PROXY: Final = "Kscheduler-Authorization"


class UnauthenticatedError(Exception):
    """Credentials that are wrong or cannot be checked. The text is for the log; the client learns 401 only."""


class Authenticator:
    """Finds out who sends a request."""

    def __init__(
        self,
        authorities: ClientAuthorities,
        tokens: TokenAuthenticator,
        metrics: LoginMetrics,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self._authorities = authorities
        self._tokens = tokens
        self._metrics = metrics
        self._clock = clock

    async def authenticate(self, headers: Headers, certificate: ClientCertificate | None) -> RequestUser:
        """The user, who may be anonymous. Raises `UnauthenticatedError`."""
        began = time.perf_counter()
        try:
            user = await self._user(headers, certificate)
        except UnauthenticatedError:
            self._metrics.not_authenticated(time.perf_counter() - began)
            raise
        self._metrics.authenticated(user.name, time.perf_counter() - began)
        return user

    async def _user(self, headers: Headers, certificate: ClientCertificate | None) -> RequestUser:
        wrong: list[str] = []
        user = None
        if certificate is not None:
            user = self._behind_proxy(headers, certificate, wrong) or self._of_certificate(certificate, wrong)
        authorization = headers.get("Authorization", "") or headers.get(BEHIND_PROXY, "")
        user = user or await self._of_token(authorization, wrong)
        if user is not None:
            return user.authenticated()
        if wrong:
            raise UnauthenticatedError("; ".join(wrong))
        return ANONYMOUS

    def _behind_proxy(self, headers: Headers, certificate: ClientCertificate, wrong: list[str]) -> RequestUser | None:
        rules = self._authorities.front_proxies
        if rules is None:
            return None
        if not certificate.is_of(rules.authority, self._clock.time()):
            wrong.append("the certificate is of no authority of front proxies")
            return None
        if rules.allowed_names and certificate.common_name not in rules.allowed_names:
            wrong.append(f"x509: subject with cn={certificate.common_name} is not in the allowed list")
            return None
        return rules.user_in(headers)

    def _of_certificate(self, certificate: ClientCertificate, wrong: list[str]) -> RequestUser | None:
        if self._authorities.clients is None:
            return None
        self._metrics.certificates[()].observe(certificate.ends - self._clock.time())
        if not certificate.is_of(self._authorities.clients, self._clock.time()):
            wrong.append("the certificate is of no authority of clients, or has ended")
            return None
        try:
            return certificate.user()
        except ValueError as error:
            wrong.append(str(error))
            return None

    async def _of_token(self, authorization: str, wrong: list[str]) -> RequestUser | None:
        token = bearer_token(authorization)
        if not token:
            return None
        try:
            found = await self._tokens.user_of(token)
        except ReviewError as error:
            wrong.append(str(error))
            return None
        if isinstance(found, RequestUser):
            return found
        wrong.append(found)
        return None


def bearer_token(authorization: str) -> str:
    """The token in an Authorization header; empty if there is none. Further words are ignored, as upstream."""
    words = authorization.strip().split(" ", 2)
    return words[1] if len(words) > 1 and words[0].lower() == "bearer" else ""
