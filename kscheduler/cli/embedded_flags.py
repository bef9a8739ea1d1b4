"""Checks flags of the embedded cluster (ports, counts, files) before anything starts."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path


def taken_port(host: str, port: int) -> Iterator[str]:
    """A line if the port is taken. It may still be taken later; then starting the server fails."""
    if port == 0:
        return
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        yield _why_not_listening(error, host, port)


def _why_not_listening(failure: OSError, host: str, port: int) -> str:
    from kscheduler.server.listener import Address, CannotListenError  # only where it fails: it takes a while

    likely = "kubectl proxy, or another `kscheduler cluster`"
    advice = CannotListenError(failure, Address(host, port), "https", likely).advice
    free = ", or --port 0 takes any that is free" if failure.errno == errno.EADDRINUSE else ""
    return f"--port {port} on {host}: {failure.strerror or failure}; {advice}{free}"


def wrong_count(flag: str, count: int, least: int) -> Iterator[str]:
    """A line if there are fewer than `least`."""
    if count < least:
        yield f"{flag} {count}: must be at least {least}"


def wrong_place(flag: str, path: str | None) -> Iterator[str]:
    """A line if no file can be written there; `None` means that the flag was not given."""
    if path is None:
        return
    place = Path(path)
    if place.is_dir():
        yield f"{flag} {path}: is a directory"
    elif not place.parent.is_dir():
        yield f"{flag} {path}: there is no directory {place.parent}"
    elif not os.access(place if place.exists() else place.parent, os.W_OK):
        yield f"{flag} {path}: cannot be written"
