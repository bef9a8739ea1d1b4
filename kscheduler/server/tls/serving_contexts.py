"""The TLS context for new connections, which follows its files and the authorities of clients.

The problem: certificates are rotated while the service runs, by a mount that changes under it, and a rotation that goes
wrong must not take the metrics away. The idea: the files are looked at every ten seconds; when one has changed, a whole
new context is made of all of them, and takes the old one's place only if it is usable. Connections keep the context
that they began with, so a rotation cuts nobody. A change that is not usable is logged once, counted, shown in
`/readyz?verbose`, and tried again at each look.

Clients may show a certificate. As OpenSSL verifies it during the handshake, unlike Go, the context trusts all
authorities of clients together; `login` finds out afterwards which of them a chain ends at.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import FileStamp, file_stamp
from kscheduler.server.tls.key_pairs import (
    RENEW_DAYS,
    VALID_DAYS,
    KeyPair,
    KeyPairError,
    make_key_pair,
    read_key_pair,
    tls_problem,
)
from kscheduler.server.tls.settings import PAIR_NAME, VERSIONS, NamedPair, TLSSettings, cipher_list
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.samples import Sample, counter, gauge
from kscheduler.telemetry.series import Counter, MetricSeries

if TYPE_CHECKING:
    from cryptography import x509

_log = get_logger("server")

LOOK_EVERY_SECONDS: Final = 10.0
_DAY: Final = 86_400.0
_RELOADS = MetricSeries(
    "kscheduler_serving_certificate_reloads_total",
    "Changes of the serving certificate's files, by whether they were taken over.",
    ("result",),
)
_EXPIRES = MetricSeries(
    "kscheduler_serving_certificate_expiration_timestamp_seconds",
    "When the serving certificate ends, in seconds since 1970.",
)

_Stamp = tuple[FileStamp, ...]


class _Served(msgspec.Struct, frozen=True):
    """What a context is made of."""

    default: KeyPair
    named: tuple[tuple[NamedPair, KeyPair], ...]


class MadePair(msgspec.Struct, frozen=True):
    """A self-signed certificate that is in no file: it lives as long as the process, and clients may have noted it."""

    pair: KeyPair
    at: float
    """When it was made, in seconds since 1970."""


class ServingContexts:
    """Makes the contexts. `current` is the one for the next connection."""

    def __init__(self, settings: TLSSettings, clock: Clock = REAL_CLOCK, made: MadePair | None = None) -> None:
        """`made`: what this process serves already, where there are no files. Raises `KeyPairError` if the files cannot
        be used: at the start there is nothing to keep.
        """
        self._settings = settings
        self._clock = clock
        self._authorities = ""
        self._certificate_file, self._key_file = _files_of(settings, clock)
        self.made: MadePair | None = None if self._certificate_file else made or self._make()
        """What is served where there are no files."""
        self._stamp = self._stamps()
        self._served = self._read()
        self._current = self._build(self._served)
        self._refused: _Stamp | None = None
        self._reloads = Counter(_RELOADS)
        self._reloads["success",] = self._reloads["error",] = 0
        self._expires: float | None = None
        self._end_is_reported = False
        self.problem = ""
        """Why the files' present content is not served; empty when it is."""

    @property
    def current(self) -> ssl.SSLContext:
        """The context for a new connection."""
        return self._current

    def trust_clients(self, authorities: Sequence[str]) -> None:
        """Ask clients for certificates, and accept those of these authorities (PEM). Raises `KeyPairError`."""
        previous, self._authorities = self._authorities, "\n".join(authorities)
        if self._authorities == previous:
            return
        try:
            self._current = self._build(self._served)
        except KeyPairError:
            self._authorities = previous
            raise

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            await self._clock.sleep(LOOK_EVERY_SECONDS)
            await asyncio.to_thread(self._stamps)  # a mount that does not answer holds this thread, and not the loop
            self.look()
            await self.find_end()

    def look(self) -> None:
        """Take a change over, or say why not."""
        if self.made is not None and self._clock.time() - self.made.at > (VALID_DAYS - RENEW_DAYS) * _DAY:
            self.made = self._make()
        elif self._stamps() == self._stamp:
            if self._refused is not None:  # put back as it was
                self._refused, self.problem = None, ""
            return
        self._reload(self._stamps())

    async def find_end(self) -> None:
        """Find out when the certificate ends: in a thread and not at the start, as it is slow."""
        if self._expires is None:
            with suppress(KeyPairError):  # OpenSSL reads it: only the metric is missing
                self._expires = await asyncio.to_thread(_end_of, self._served.default)
        if self._has_ended() and not self._end_is_reported:
            self._end_is_reported = True
            advice = "clients that check it are refused: renew the files; a new pair is taken over within 10 s"
            _log.warning("serving_certificate_ended", file=self._certificate_file, advice=advice)

    def _has_ended(self) -> bool:
        return self._expires is not None and self._expires < self._clock.time()

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source`."""
        return [counter(self._reloads), gauge(_EXPIRES, {} if self._expires is None else {(): self._expires})]

    def notes(self) -> Iterable[str]:
        """For `/readyz?verbose`."""
        if self._has_ended():
            yield "serving certificate: it has ended; clients that check it are refused"
        if self.problem:
            yield f"serving certificate: the changed files are not used: {self.problem}; the previous ones still are"

    def _reload(self, stamp: _Stamp) -> None:
        try:
            served = self._read()
            context = self._build(served)
        except KeyPairError as error:
            self.problem = str(error)
            if stamp != self._refused:  # once per content; in the middle of a rotation the next look finds it whole
                self._refused = stamp
                self._reloads["error",] += 1
                advice = "connections get the previous certificate; it is tried again every 10 s"
                _log.warning("serving_certificate_not_reloaded", err=self.problem, advice=advice)
            return
        self._served, self._current, self._stamp = served, context, stamp
        self._refused, self.problem, self._expires, self._end_is_reported = None, "", None, False
        self._reloads["success",] += 1
        _log.info("serving_certificate_reloaded", file=self._certificate_file or "(in memory)")

    def _read(self) -> _Served:
        made = self.made
        default = made.pair if made is not None else read_key_pair(self._certificate_file, self._key_file)
        named = tuple(
            (pair, read_key_pair(pair.certificate_file, pair.key_file)) for pair in self._settings.named_pairs
        )
        return _Served(default, named)

    def _build(self, served: _Served) -> ssl.SSLContext:
        where = f"{self._certificate_file}, {self._key_file}" if self._certificate_file else "(in memory)"
        context = self._context(served.default, where)
        by_name = _by_name(
            [
                (pair, self._context(content, f"{pair.certificate_file}, {pair.key_file}"), content)
                for pair, content in served.named
            ]
        )
        if by_name:
            context.sni_callback = _chooser(by_name)
        return context

    def _context(self, pair: KeyPair, where: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[self._settings.min_version]
        context.set_ciphers(cipher_list(self._settings.cipher_suites))
        context.set_alpn_protocols(["http/1.1"])
        # A resumed session would bring an identity along that was verified by another context.
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        try:
            pair.load_into(context)
        except KeyPairError as error:
            message = f"{where}: {error}"
            raise KeyPairError(message) from None
        if self._authorities:
            self._ask_for_certificates(context)
        return context

    def _ask_for_certificates(self, context: ssl.SSLContext) -> None:
        context.verify_mode = ssl.CERT_OPTIONAL
        # An authority may be an intermediate one, and lack what Python 3.13 demands: as in Go.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        try:
            context.load_verify_locations(cadata=self._authorities)
        except (ssl.SSLError, ValueError) as error:
            message = f"authorities of clients: {tls_problem(error)}"
            raise KeyPairError(message) from None

    def _make(self) -> MadePair:
        _log.info("self_signed_certificate_made", file="(in memory)")
        return MadePair(_made(self._settings, self._clock), self._clock.time())

    def _stamps(self) -> _Stamp:
        paths = [self._certificate_file, self._key_file]
        for pair in self._settings.named_pairs:
            paths += [pair.certificate_file, pair.key_file]
        return tuple(file_stamp(path) for path in paths if path)


def _files_of(settings: TLSSettings, clock: Clock) -> tuple[str, str]:
    """The files to serve from; empty for a certificate in memory. Makes those of `--cert-dir` if they are missing."""
    if settings.certificate_file or settings.key_file:
        return settings.certificate_file, settings.key_file
    if not settings.folder:
        return "", ""
    certificate, key = (Path(settings.folder) / f"{PAIR_NAME}.{kind}" for kind in ("crt", "key"))
    if not (certificate.exists() and key.exists()):
        _write(_made(settings, clock), certificate, key)
        _log.info("self_signed_certificate_made", file=str(certificate))
    return str(certificate), str(key)


def _made(settings: TLSSettings, clock: Clock) -> KeyPair:
    own = () if settings.bind_address in {"0.0.0.0", "::"} else (settings.bind_address,)
    return make_key_pair(("127.0.0.1", *own), clock.time())


def _write(pair: KeyPair, certificate: Path, key: Path) -> None:
    try:
        certificate.parent.mkdir(parents=True, exist_ok=True)
        key.touch(mode=0o600)
        key.chmod(0o600)
        key.write_bytes(pair.key)
        certificate.write_bytes(pair.certificate)
    except OSError as error:
        message = f"--cert-dir {certificate.parent}: a certificate cannot be kept there: {error.strerror or error}"
        raise KeyPairError(message) from None


def _by_name(pairs: Iterable[tuple[NamedPair, ssl.SSLContext, KeyPair]]) -> dict[str, ssl.SSLContext]:
    """Contexts by the names that they are for. Names that were given win over those of a certificate."""
    given: dict[str, ssl.SSLContext] = {}
    extracted: dict[str, ssl.SSLContext] = {}
    for pair, context, content in pairs:
        names = pair.names or _names_in(content)
        for name in names:
            (given if pair.names else extracted).setdefault(name.lower(), context)
    return {**extracted, **given}


def _chooser(by_name: Mapping[str, ssl.SSLContext]) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    def choose(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if name is None:
            return
        exact = name.lower()
        found = by_name.get(exact) or by_name.get(f"*.{exact.partition('.')[2]}")
        if found is not None:
            connection.context = found

    return choose


def _names_in(pair: KeyPair) -> list[str]:
    """The names that a certificate is for."""
    from cryptography import x509

    certificate = _parsed(pair)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _end_of(pair: KeyPair) -> float:
    """When the certificate ends."""
    return _parsed(pair).not_valid_after_utc.timestamp()


def _parsed(pair: KeyPair) -> "x509.Certificate":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(pair.certificate)
    except ValueError as error:
        raise KeyPairError(str(error)) from None
