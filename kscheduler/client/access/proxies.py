"""Which proxy leads to the API server: the kubeconfig's `proxy-url`, or the environment's.

client-go asks its environment as all of Go's programs do (golang.org/x/net/http/httpproxy): HTTPS_PROXY for an https
server, HTTP_PROXY for an http one, each also in small letters, and NO_PROXY for what is reached directly: names (with
all below them), names with a leading dot (only what is below), addresses, networks in CIDR notation, each but the last
with or without a port, and `*`. This machine itself is never reached through a proxy. A `proxy-url` is used whatever
NO_PROXY says.

Limits: http and https proxies only. SOCKS is refused by name, wherever it is configured.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from kscheduler.client.errors import ConfigurationError

_VARIABLES: Final = {"https": ("HTTPS_PROXY", "https_proxy"), "http": ("HTTP_PROXY", "http_proxy")}
_EXCLUDING: Final = ("NO_PROXY", "no_proxy")
_PORTS: Final = {"http": "80", "https": "443"}
_USER_INFO: Final = re.compile(r"//[^/?#]*@")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxy(msgspec.Struct, frozen=True):
    """A proxy, and who names it."""

    url: str
    """With user and password, if it wants them."""
    place: str
    """`$HTTPS_PROXY`, or the field of a kubeconfig; for messages."""

    @property
    def shown(self) -> str:
        """The URL without user and password."""
        return without_user(self.url)


def environment_proxy(server: str, environ: Mapping[str, str]) -> Proxy | None:
    """The environment's proxy for a server's URL; `None`: it is reached directly. Raises `ConfigurationError`."""
    variable = proxy_variable(server, environ)
    if not variable:
        return None
    written = environ[variable]
    # `proxy.example:3128` is a proxy, too
    url = written if urlsplit(written).scheme and urlsplit(written).netloc else f"http://{written}"
    return Proxy(checked_proxy_url(url, f"${variable}"), f"${variable}")


def proxy_variable(server: str, environ: Mapping[str, str]) -> str:
    """The environment variable that holds the proxy for a server's URL; empty: it is reached directly."""
    parts = urlsplit(server)
    variable = _first_set(environ, _VARIABLES.get(parts.scheme, ()))
    excluded = _first_set(environ, _EXCLUDING)
    if not variable or not parts.hostname or _is_reached_directly(parts, environ[excluded] if excluded else ""):
        return ""
    return variable


def checked_proxy_url(url: str, where: str) -> str:
    """The URL, its scheme in small letters. Raises `ConfigurationError`, which shows no password."""
    try:
        parts = urlsplit(url)
        sound = bool(parts.hostname) and all(character.isprintable() and character != " " for character in url)
        _ = parts.port
    except ValueError:
        sound = False
    if sound and parts.scheme.startswith("socks"):
        message = f"{where}: {without_user(url)!r}: SOCKS proxies are not supported, only http and https ones"
        raise ConfigurationError(message)
    if not sound or parts.scheme not in ("http", "https"):
        message = f"{where}: {without_user(url)!r} is not a URL like http://host:3128"
        raise ConfigurationError(message)
    return parts.scheme + url[len(parts.scheme) :]


def without_user(url: str) -> str:
    """The URL for messages: without user and password."""
    return _USER_INFO.sub("//...@", url)


def _first_set(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first variable that has a value."""
    return next((name for name in names if environ.get(name)), "")


def _is_reached_directly(server: SplitResult, excluded: str) -> bool:
    host = server.hostname or ""
    port = str(server.port) if server.port is not None else _PORTS[server.scheme]
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    host = _ascii(host)
    return any(_excludes(entry, host, port, address) for entry in _entries(excluded))


def _entries(excluded: str) -> Iterator[str]:
    for entry in excluded.split(","):
        if trimmed := entry.strip().lower():
            yield trimmed


def _excludes(entry: str, host: str, port: str, address: _Address | None) -> bool:
    """Whether this entry of NO_PROXY is about the host. `address`: the host, where it is an address."""
    if entry == "*":
        return True
    network = _network(entry)
    if network is not None:
        return address is not None and address in network
    name, its_port = _host_and_port(entry)
    if its_port and its_port != port:
        return False
    named = _address(name)
    if named is not None or address is not None:  # an address is never below a name
        return named is not None and named == address
    name = _ascii(name.removeprefix("*"))
    if name.startswith("."):
        return host.endswith(name)
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """A network in CIDR notation; the other notations that Python knows are none in Go."""
    base, slash, bits = entry.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()):
        return None
    try:
        return ipaddress.ip_network(f"{base}/{bits}", strict=False)
    except ValueError:
        return None


def _host_and_port(entry: str) -> tuple[str, str]:
    """`host:port` or `[IPv6]:port` in two; of anything else the whole, without a port."""
    if entry.startswith("["):
        host, end, port = entry[1:].partition("]:")
        return (host, port) if end else (entry, "")
    host, colon, port = entry.partition(":")
    return (host, port) if colon and ":" not in port else (entry, "")


def _address(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _ascii(name: str) -> str:
    """A name as DNS has it; what cannot be written so stays, and matches nothing."""
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return name
