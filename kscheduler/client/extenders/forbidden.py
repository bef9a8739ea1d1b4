"""Addresses that an extender must not have.

The problem: anyone who may write an extender's address (or answer for it: a redirect, a name that is resolved again)
makes the scheduler send a request from its own network. No extender lives where clouds hand out credentials of the
machine (`api.addresses` knows these places). They are refused where a socket is opened, so it does not matter whether
the address was written, looked up or spelled as a number; and at the lookup, where the text is clearer.
"""

import socket
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from kscheduler.api.addresses import why_never_called
from kscheduler.client.http.transport import open_socket


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
