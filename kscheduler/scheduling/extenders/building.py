"""From the configuration to extenders that can be asked. Import it only where there are any: it brings the HTTP client.

TLS is as in kube-scheduler: `enableHTTPS` without an authority checks no certificate, inline data wins over files, and
a client certificate counts only with its key. Whether TLS is spoken at all is decided by the address: `https://`.
"""

import os
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.core import Pod
from kscheduler.client.access.tls import TLSFiles, TLSPlaces
from kscheduler.client.extenders.caller import ExtenderAddress, ExtenderCaller
from kscheduler.config.extenders import extender_name
from kscheduler.config.types import Extender, ExtenderTLSConfig
from kscheduler.logs import get_logger
from kscheduler.scheduling.extenders.asking import Asking
from kscheduler.scheduling.extenders.bind_outcomes import BindOutcomes, PodPlace
from kscheduler.scheduling.extenders.call_reports import CallReports
from kscheduler.scheduling.extenders.http_extender import Documents, HTTPExtender
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.pod_log import PodLog

_log = get_logger("extenders")
_NO_TLS = ExtenderTLSConfig()


class ExtenderSet:
    """The extenders of one configuration, with their connections."""

    def __init__(
        self,
        extenders: Sequence[Extender],
        documents: Documents,
        *,
        may_bind: Callable[[], bool],
        place_of: Callable[[Pod], Awaitable[PodPlace]],
        observations: Observations | None = None,
        clock: Clock = REAL_CLOCK,
        log: PodLog | None = None,
        logs: bool = True,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Opens nothing. `may_bind` and `place_of` are those of `BindOutcomes`. `logs`: whether an outage is logged."""
        self.settings = tuple(extenders)
        self._callers = [ExtenderCaller(address_of(each, index)) for index, each in enumerate(extenders)]
        self._environ = environ
        self._reports = [_reports_of(each, observations, clock.monotonic, logs=logs) for each in extenders]
        self.asking = Asking(
            list(map(HTTPExtender, extenders, self._callers, self._reports)),
            documents,
            may_bind=may_bind,
            outcomes=BindOutcomes(place_of, may_bind, clock, log),
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


def address_of(extender: Extender, index: int) -> ExtenderAddress:
    """Where the extender is and what TLS checks. `index`: its place in the configuration, for messages."""
    tls = extender.tls_config or _NO_TLS
    has_authority = bool(tls.ca_file or tls.ca_data)
    has_certificate = bool((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data))
    files = TLSFiles(
        authority="" if tls.ca_data else tls.ca_file,
        authority_pem=_text(tls.ca_data),
        certificate=tls.cert_file if has_certificate and not tls.cert_data else "",
        certificate_pem=_text(tls.cert_data) if has_certificate else "",
        key=tls.key_file if has_certificate and not tls.key_data else "",
        key_pem=_text(tls.key_data) if has_certificate else "",
        verify=not (tls.insecure or (extender.enable_https and not has_authority)),
        server_name=tls.server_name,
    )
    return ExtenderAddress(
        extender_name(extender),
        extender.url_prefix,
        extender.http_timeout.seconds,
        files,
        TLSPlaces(_place(index, "ca", tls.ca_data, tls.ca_file), _place(index, "cert", tls.cert_data, tls.cert_file)),
    )


def _text(data: str) -> str:
    """Inline data, which has been checked when the configuration was read."""
    return b64decode(data).decode(errors="replace")


def _place(index: int, field: str, data: str, file: str) -> str:
    where = f"extenders[{index}].tlsConfig.{field}"
    return f"{where}Data" if data else f"{where}File: {file}"
