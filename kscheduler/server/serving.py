"""Where the service answers HTTP, and by which rules: the settings of all its ports."""

from typing import Final, Self

import msgspec

from kscheduler.api.well_known import SCHEDULER_PORT
from kscheduler.server.login.authorities import AuthenticationSettings
from kscheduler.server.login.permissions import AuthorizationSettings
from kscheduler.server.tls.settings import TLSSettings

LOOPBACK: Final = "127.0.0.1"


class HTTPServing(msgspec.Struct, frozen=True):
    """Three ports, of which only HTTPS is on by default."""

    bind_address: str = "0.0.0.0"
    """Of the secure port."""
    secure_port: int | None = SCHEDULER_PORT
    """HTTPS with a login; `None`: off; 0: any free port."""
    shares_port: bool = False
    tls: TLSSettings = msgspec.field(default_factory=TLSSettings)
    authentication: AuthenticationSettings = msgspec.field(default_factory=AuthenticationSettings)
    authorization: AuthorizationSettings = msgspec.field(default_factory=AuthorizationSettings)
    metrics_address: tuple[str, int] | None = None
    """Plain HTTP for health and metrics only (`--metrics-bind-address`)."""
    insecure_port: int | None = None
    """Plain HTTP for all that only reads, on 127.0.0.1, without a login: for development (`--insecure-port`)."""

    status_page: bool = True
    """Whether `/ui/` is served where everything else is: over HTTPS and on the plain port, never beside metrics."""

    @classmethod
    def plain_on_loopback(cls, port: int = 0) -> Self:
        """For development and tests: no TLS, no login, this machine only."""
        return cls(secure_port=None, insecure_port=port)
