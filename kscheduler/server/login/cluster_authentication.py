"""Reads the cluster's own authorities: ConfigMap `extension-apiserver-authentication` in kube-system.

It is read once a minute rather than watched: an authority changes once a year, and a watch would cost the API server a
connection per scheduler. While it cannot be read, every ten seconds; what was read last stays in force. Files of
authorities are looked at on the same occasion.
"""

from typing import Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.outage_cause import advice_about_failure
from kscheduler.client.rest import APIClient
from kscheduler.server.login.authorities import ClientAuthorities
from kscheduler.server.login.client_certificates import AuthorityBundle, AuthorityBundleError, RequestHeaderRules
from kscheduler.server.tls.key_pairs import KeyPairError
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.storms import RecurringTrouble

_log = get_logger("server")

PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
READ_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 10.0
_LINE_SECONDS: Final = 600.0
# An API server that has just started refuses what it allows a second later: told is what the next try shows, too.
_QUIET_SECONDS: Final = 5.0
_MEANWHILE: Final = "client certificates of the cluster's authorities are not accepted until then"
_FORBIDDEN: Final = (
    "a RoleBinding to the Role extension-apiserver-authentication-reader in kube-system gives the right, or "
    "--client-ca-file names a file"
)
_UNUSABLE: Final = "look at what the ConfigMap says; --client-ca-file may name a file instead"


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class LookupFailedError(Exception):
    """The ConfigMap cannot be read, or what it says is not usable."""


class ClusterAuthentication:
    """Keeps the authorities up to date."""

    def __init__(self, client: APIClient, authorities: ClientAuthorities, clock: Clock = REAL_CLOCK) -> None:
        self._client = client
        self._authorities = authorities
        self._clock = clock
        self._unread = RecurringTrouble(_LINE_SECONDS, _QUIET_SECONDS)
        self._read_at = float("-inf")
        self._file_problem = ""

    async def run(self) -> None:
        """Follow ConfigMap and files until cancelled."""
        while True:
            if self._authorities.asks_cluster and self._clock.monotonic() - self._read_at >= READ_SECONDS:
                await self._read()
            await self._clock.sleep(LOOK_SECONDS)
            await self._look_at_files()

    async def look_up(self) -> None:
        """Read the ConfigMap now. Raises `LookupFailedError`; that there is none is no failure, as upstream."""
        if not self._authorities.asks_cluster:
            return
        try:
            body = await self._client.get(PATH, retries=0, timeout_seconds=_ANSWER_SECONDS)
            data = msgspec.json.decode(body, type=_ConfigMap).data
            self._authorities.take_from_cluster(_clients_in(data), _front_proxies_in(data))
        except APIError as error:
            if not error.is_not_found:
                raise LookupFailedError(str(error)) from error
        except (ClientError, KeyPairError, AuthorityBundleError, ValueError) as error:
            raise LookupFailedError(str(error)) from error
        self._read_at = self._clock.monotonic()
        if self._unread.is_there:
            self._unread.ends()

    async def _read(self) -> None:
        try:
            await self.look_up()
        except LookupFailedError as error:
            if self._unread.is_due(self._clock.monotonic()):
                advice = f"{_MEANWHILE}; {_advice(error.__cause__)}"
                _log.warning("cluster_authorities_not_read", path=PATH, err=str(error), advice=advice)

    async def _look_at_files(self) -> None:
        try:
            await self._authorities.follow()
        except KeyPairError as error:
            if str(error) != self._file_problem:
                self._file_problem = str(error)
                _log.warning("client_authorities_not_reloaded", err=str(error), advice="the previous ones still count")
        else:
            self._file_problem = ""


def _advice(cause: BaseException | None) -> str:
    """What an operator can do, by what made the reading fail."""
    about_request = advice_about_failure(cause) if isinstance(cause, ClientError) else None
    is_forbidden = isinstance(cause, APIError) and cause.is_forbidden
    return about_request or (_FORBIDDEN if is_forbidden else _UNUSABLE)


def _clients_in(data: dict[str, str]) -> AuthorityBundle | None:
    pem = data.get("client-ca-file", "")
    return AuthorityBundle.parse(pem) if pem.strip() else None


def _front_proxies_in(data: dict[str, str]) -> RequestHeaderRules | None:
    """The rules; `None` where the API server has no front proxies. Raises `AuthorityBundleError`, `ValueError`."""
    pem = data.get("requestheader-client-ca-file", "")
    if not pem.strip():
        return None
    return RequestHeaderRules(
        AuthorityBundle.parse(pem),
        _strings(data, "requestheader-username-headers"),
        _strings(data, "requestheader-uid-headers"),
        _strings(data, "requestheader-group-headers"),
        _strings(data, "requestheader-extra-headers-prefix"),
        _strings(data, "requestheader-allowed-names"),
    )


def _strings(data: dict[str, str], key: str) -> tuple[str, ...]:
    """A list as JSON; msgspec's errors are `ValueError`s."""
    text = data.get(key, "")
    return tuple(msgspec.json.decode(text, type=list[str])) if text else ()
