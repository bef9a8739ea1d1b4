"""IP addresses that a scheduler never calls on somebody's behalf, and hosts by which it may be asked itself.

Never called is where clouds hand out credentials of the machine.

The problem: anyone who may write an address into a configuration makes this process send a request from its own
network. 169.254.169.254 and its neighbours answer such requests with credentials. They are easy to name and hard to
recognise, because an IPv4 address has many spellings in IPv6: mapped, compatible, translated (NAT64, SIIT), tunnelled
(6to4, Teredo, ISATAP); and a resolver reads `2852039166` and `0xa9.254.43518`, too.

The idea: take every IPv4 address out of an IPv6 one that any of these schemes would find there, and judge each.
Limit: a network may translate other prefixes of its own; nobody outside can know them.
"""

import socket
from collections.abc import Container, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

_LINK_LOCAL: Final = "is link-local"
_METADATA: Final = "is where a cloud hands out credentials of the machine"
_METADATA_ADDRESSES: Final = frozenset(
    map(
        ip_address,
        (
            "fd00:ec2::254",  # AWS
            "fd20:ce::254",  # Google
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure
        ),
    )
)
_LOW_32: Final = 2**32 - 1
_IPV4_IN_THE_LAST_32_BITS: Final = (
    ip_network("::/96"),  # IPv4-compatible
    ip_network("::ffff:0:0/96"),  # IPv4-mapped
    ip_network("::ffff:0:0:0/96"),  # IPv4-translated (SIIT)
    ip_network("64:ff9b::/96"),  # NAT64
    ip_network("64:ff9b:1::/48"),  # NAT64 of one's own, if its prefix has 96 bits
)
_LOCAL_NAT64: Final = ip_network("64:ff9b:1::/48")
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)


def why_never_called(host: str) -> str:
    """Why this address is never called, or an empty text. A name that must be looked up first is no address."""
    address = _address(host)
    if address is None:
        return ""
    candidates = [address, *(_ipv4_inside(address) if isinstance(address, IPv6Address) else ())]
    if any(candidate.is_link_local for candidate in candidates):
        return _LINK_LOCAL
    # A scope (`%eth0`) would make two spellings of one address unequal.
    is_metadata = any(type(candidate)(int(candidate)) in _METADATA_ADDRESSES for candidate in candidates)
    return _METADATA if is_metadata else ""


def is_named_safely(authority: str, accepted: Container[str] = ()) -> bool:
    """Whether a request's Host (or the authority of its Origin) is an address, localhost, an accepted name, or empty.

    Browsers always send one. A page of another site whose own name resolves to this machine (DNS rebinding) sends that
    name.
    """
    try:
        host = (urlsplit(f"//{authority}").hostname or "").removesuffix(".")
        return not authority or host == "localhost" or host in accepted or bool(ip_address(host.partition("%")[0]))
    except ValueError:
        return False


def _address(host: str) -> IPv4Address | IPv6Address | None:
    """What a resolver makes of the text without asking anybody."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


def _ipv4_inside(address: IPv6Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that a translator or a tunnel may take out of an IPv6 address."""
    bits = int(address)
    if any(address in network for network in _IPV4_IN_THE_LAST_32_BITS) or (bits >> 32) & _LOW_32 in _ISATAP:
        yield IPv4Address(bits & _LOW_32)
    if address in _LOCAL_NAT64:  # with a prefix of 48 bits, the address goes around the bits 64 to 71 (RFC 6052)
        yield IPv4Address((bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only. Of names only localhost counts."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    inner = getattr(address, "ipv4_mapped", None)  # how a socket for both families shows IPv4
    return bool((inner or address).is_loopback)
