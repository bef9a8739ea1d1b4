"""From the settings of an extender to its address, and what is wrong with an address that could never be called.

TLS is as in kube-scheduler: `enableHTTPS` without an authority checks no certificate, inline data wins over files,
and a client certificate counts only with its key. Whether TLS is spoken at all is decided by the address: `https://`.

An address that cannot be called is refused at the start, in a changed file and by `kscheduler config check`, instead
of failing each pod. So is a certificate that is not there, where the service runs: kube-scheduler does not start
either. Who checks a file elsewhere is told that the certificates are not there (`files_away`), and who only explains
a configuration does not look.
"""

import errno
from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kscheduler.api.addresses import why_never_called
from kscheduler.client.access.tls import TLSContexts, TLSFieldNames, TLSFiles
from kscheduler.client.errors import ConfigurationError
from kscheduler.client.extenders import ExtenderAddress
from kscheduler.config.errors import ConfigError, Problem, invalid
from kscheduler.config.extenders import decides, extender_name
from kscheduler.config.loader import UnusableConfigError
from kscheduler.config.types import Extender, ExtenderTLSConfig

_NO_TLS: Final = ExtenderTLSConfig()
# Why a file of another machine, or of another user, cannot be read here.
_AWAY: Final = frozenset((errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM))


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
        TLSFieldNames(
            _place(index, "ca", tls.ca_data, tls.ca_file), _place(index, "cert", tls.cert_data, tls.cert_file)
        ),
    )


def _text(data: str) -> str:
    """Inline data, which has been checked when the configuration was read."""
    return b64decode(data).decode(errors="replace")


def _place(index: int, field: str, data: str, file: str) -> str:
    where = f"extenders[{index}].tlsConfig.{field}"
    return f"{where}Data" if data else f"{where}File: {file}"


# --- what cannot be called --------------------------------------------------------------------------------------------


def unusable_extenders(extenders: Sequence[Extender], *, runs_here: bool = True) -> list[Problem]:
    """A problem for each address that cannot be called, and for each file that cannot be used. Opens files.

    `runs_here`: whether the service runs on this machine, so that the files must be there.
    """
    problems: list[Problem] = []
    for index, extender in enumerate(extenders):
        if decides(extender) or extender.bind_verb:  # otherwise it is never called, and a warning says so
            problems += _url_problems(f"extenders[{index}].urlPrefix", extender)
        problems += _file_problems(index, extender, runs_here=runs_here)
    return problems


def files_away(extenders: Sequence[Extender]) -> list[Problem]:
    """Each file that cannot be read on this machine, and may be there where the service runs."""
    return [
        Problem(f"extenders[{index}].tlsConfig.{name}", why)
        for index, extender in enumerate(extenders)
        for name, file in _files(extender)
        for why, is_away in (_why_unreadable(file),)
        if is_away
    ]


def with_unusable_extenders(failure: ConfigError, *, runs_here: bool = True) -> ConfigError:
    """The mistakes of a file, with those of its extenders' addresses and files, as far as they could be read."""
    if not isinstance(failure, UnusableConfigError):
        return failure
    wrong_tls = {
        problem.path.partition(".tlsConfig")[0] for problem in failure.problems if ".tlsConfig" in problem.path
    }
    problems: list[Problem] = []
    for index, extender in enumerate(failure.readable.configuration.extenders):
        if decides(extender) or extender.bind_verb:
            problems += _url_problems(f"extenders[{index}].urlPrefix", extender)
        if f"extenders[{index}]" not in wrong_tls:  # what is no base64 makes no certificate
            problems += _file_problems(index, extender, runs_here=runs_here)
    return failure.with_further(problems)


def _url_problems(path: str, extender: Extender) -> Iterator[Problem]:
    name = extender_name(extender)  # without user name and password
    try:
        parts = urlsplit(extender.url_prefix)
        host, port = parts.hostname or "", parts.port
    except ValueError as mistake:
        yield invalid(path, name, str(mistake).partition(":")[0])
        return
    if parts.scheme not in ("http", "https") or not host:
        yield invalid(path, name, "must be http://HOST or https://HOST, with a port and a path where needed")
    elif port == 0:
        yield invalid(path, name, "nothing can listen on port 0")
    elif why := why_never_called(host):
        yield invalid(path, name, f"{host} {why}: extenders are not called there")


def _files(extender: Extender) -> list[tuple[str, str]]:
    """The files that are read, with their fields."""
    tls = extender.tls_config or _NO_TLS
    given = (("caFile", tls.ca_file, tls.ca_data), ("certFile", tls.cert_file, tls.cert_data))
    return [(name, file) for name, file, data in (*given, ("keyFile", tls.key_file, tls.key_data)) if file and not data]


def _file_problems(index: int, extender: Extender, *, runs_here: bool) -> Iterator[Problem]:
    unreadable = [(name, *_why_unreadable(file)) for name, file in _files(extender)]
    for name, problem, is_away in unreadable:
        if problem and (runs_here or not is_away):
            yield Problem(f"extenders[{index}].tlsConfig.{name}", problem)
    if any(problem for _, problem, _ in unreadable):
        return
    address = address_of(extender, index)
    try:
        TLSContexts(address.tls, places=address.places)
    except ConfigurationError as failure:  # its text begins with the field (`_place`)
        field, _, problem = str(failure).partition(": ")
        yield Problem(field, problem)


def _why_unreadable(file: str) -> tuple[str, bool]:
    """Why nothing can be read from it, or an empty text; and whether it may only be away."""
    try:
        with Path(file).open("rb") as opened:
            opened.read(1)
    except OSError as failure:
        return f"{file}: {failure.strerror or failure}", failure.errno in _AWAY
    return "", False
