"""Addresses that an extender must not have, and where calls do not go although kube-scheduler's would.

The problem: whoever may write an extender's address (or answer for it: a redirect, a name that is resolved anew) makes
the scheduler send a request from its own network. No extender lives where clouds hand out credentials of the machine
(`api.addresses` knows these places). They are refused where a socket is opened, so it does not matter whether the
address was written, looked up or spelled as a number; and at the lookup, where the text is clearer.

Proxies of the environment are not used: an extender is a neighbour, and requests name all pods and nodes.
"""

import ipaddress
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from kscheduler.api.addresses import why_never_called
from kscheduler.client.http.transport import open_socket

_NAMES: Final = ("http_proxy", "https_proxy")


class ForbiddenTargetError(OSError):
    """An extender's address is one that is never called."""


def check_address(address: str, host: str = "") -> None:
    """Raises `ForbiddenTargetError` for an address that is never called. `host` is the name that led there."""
    why = why_never_called(address)
    if why:
        looked_up = f"{host} has the address {address}, which" if host and host != address else address
        message = f"{looked_up} {why}: extenders are not called there"
        raise ForbiddenTargetError(message)


def open_checked_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket for an address from `getaddrinfo`. Raises `ForbiddenTargetError`."""
    check_address(str(address[4][0]))
    return open_socket(address)


class CheckingResolver(AbstractResolver):
    """Looks hosts up, and refuses a host of which any address is never called."""

    def __init__(self, resolver: AbstractResolver | None = None) -> None:
        """Must be created inside a running loop, unless a resolver is given."""
        self._resolver = resolver or ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises `ForbiddenTargetError`, and `OSError` as the lookup does."""
        found = await self._resolver.resolve(host, port, family)
        for each in found:
            check_address(each["host"], host)
        return found

    async def close(self) -> None:
        """Release the resolver below."""
        await self._resolver.close()


def unused_proxy(url: str, environ: Mapping[str, str]) -> str:
    """The environment variable whose proxy kube-scheduler would use for this URL, and kscheduler does not; or empty."""
    parts = urlsplit(url)
    wanted = f"{parts.scheme}_proxy".lower()
    host = parts.hostname or ""
    if wanted not in _NAMES or not host or host == "localhost" or _is_loopback(host):
        return ""
    named = next((name for name in environ if name.lower() == wanted and environ[name]), "")
    excluded = next((environ[name] for name in environ if name.lower() == "no_proxy"), "")
    return "" if not named or _is_excluded(host, excluded) else named


def _is_excluded(host: str, excluded: str) -> bool:
    """Whether $NO_PROXY names the host: `*`, or names with or without a leading dot that the host ends with."""
    names = [name.strip().lower().lstrip(".") for name in excluded.split(",")]
    return any(name in ("*", host) or host.endswith(f".{name}") for name in names if name)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
