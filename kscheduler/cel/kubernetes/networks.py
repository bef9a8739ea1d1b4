"""Addresses and networks, read as strictly as Go's `net/netip` does and refused in its words."""

import ipaddress
from typing import Any

from kscheduler.cel.values.go_text import quoted
from kscheduler.cel.values.kinds import Opaque

_HEX = frozenset("0123456789abcdefABCDEF")
_GROUP_DIGITS = 4


class AddressError(ValueError):
    """The text is no address or network; the message is Go's or Kubernetes'."""


class IP(Opaque):
    """An address without a zone."""

    __slots__ = ("address",)
    TYPE_NAME = "net.IP"
    GO_TYPE = "cel.IP"
    SHORT_NAME = "IP"
    GO_VALUE = "netip.Addr"

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
        self.address = address

    def text(self) -> str:
        """In its shortest form."""
        return str(self.address)

    def key(self) -> Any:
        """Equal addresses are one key."""
        return (IP, self.address)

    def equals(self, other: Any) -> bool:
        """Whether it is the same address."""
        return bool(self.address == other.address)

    def size(self) -> int:
        """Bytes: 4 or 16."""
        return self.address.max_prefixlen // 8


class CIDR(Opaque):
    """A network: an address, whose host part is kept, and the length of its prefix."""

    __slots__ = ("address", "bits")
    TYPE_NAME = "net.CIDR"
    GO_TYPE = "cel.CIDR"
    SHORT_NAME = "CIDR"
    GO_VALUE = "netip.Prefix"

    def __init__(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, bits: int) -> None:
        self.address, self.bits = address, bits

    def text(self) -> str:
        """As it is written."""
        return f"{self.address}/{self.bits}"

    def key(self) -> Any:
        """Equal networks are one key."""
        return (CIDR, self.address, self.bits)

    def equals(self, other: Any) -> bool:
        """Whether address and length are the same."""
        return bool(self.address == other.address and self.bits == other.bits)

    def size(self) -> int:
        """Bytes of the prefix, rounded up."""
        return -(-self.bits // 8)

    def masked(self) -> "CIDR":
        """The network without its host part."""
        rest = self.address.max_prefixlen - self.bits
        return CIDR(type(self.address)(int(self.address) >> rest << rest), self.bits)

    def contains(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        """Whether an address of the same family is in it."""
        return self._common(address, self.bits)

    def contains_network(self, other: "CIDR") -> bool:
        """Whether a network is the same or a part."""
        return self.bits <= other.bits and self._common(other.address, self.bits)

    def _common(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address, bits: int) -> bool:
        rest = self.address.max_prefixlen - bits
        return type(address) is type(self.address) and int(address) >> rest == int(self.address) >> rest


def parse_address(text: str) -> IP:
    """An address without zone that is no IPv4 address in IPv6. Raises `AddressError`."""
    try:
        address, zone = _parsed(text)
    except AddressError as error:
        message = f"IP Address {quoted(text)} parse error during conversion from string: {error}"
        raise AddressError(message) from None
    if zone:
        message = f"IP address {quoted(text)} with zone value is not allowed"
        raise AddressError(message)
    _refuse_mapped(text, address)
    return IP(address)


def _refuse_mapped(text: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        message = f"IPv4-mapped IPv6 address {quoted(text)} is not allowed"
        raise AddressError(message)


def parse_network(text: str) -> CIDR:
    """Raises `AddressError`."""
    try:
        network = _network(text)
    except AddressError as error:
        wrong = f"netip.ParsePrefix({quoted(text)}): {error}"
        message = f"network address parse error during conversion from string: {wrong}"
        raise AddressError(message) from None
    _refuse_mapped(text, network.address)
    return network


def _network(text: str) -> CIDR:
    head, slash, bits = text.rpartition("/")
    if not slash:
        message = "no '/'"
        raise AddressError(message)
    address, zone = _parsed(head)
    if zone:
        message = "IPv6 zones cannot be present in a prefix"
        raise AddressError(message)
    digits = bits.isascii() and bits.isdigit()
    if not digits or (len(bits) > 1 and bits[0] == "0") or len(bits) > 18:
        signed = len(bits) > 1 and bits[0] not in "123456789"
        if not digits or signed or len(bits) > 18:
            message = f"bad bits after slash: {quoted(bits)}"
            raise AddressError(message)
    if int(bits) > address.max_prefixlen:
        message = "prefix length out of range"
        raise AddressError(message)
    return CIDR(address, int(bits))


def parse_literal(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address that may have a zone, which is left out. Raises `AddressError`."""
    return _parsed(text)[0]


def _wrong(text: str, message: str, at: str = "") -> AddressError:
    place = f" (at {quoted(at)})" if at else ""
    return AddressError(f"ParseAddr({quoted(text)}): {message}{place}")


def _parsed(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, str]:
    for letter in text:
        if letter == ".":
            return ipaddress.IPv4Address(bytes(_octets(text, text))), ""
        if letter == ":":
            return _sixteen(text)
        if letter == "%":
            raise _wrong(text, "missing IPv6 address")
    raise _wrong(text, "unable to parse IP")


def _octets(whole: str, text: str) -> list[int]:
    octets: list[int] = []
    value, digits = 0, 0
    for at, letter in enumerate(text):
        if letter in "0123456789":
            if digits == 1 and value == 0:
                raise _wrong(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(letter), digits + 1
            if value > 255:
                raise _wrong(whole, "IPv4 field has value >255")
        elif letter == ".":
            if at in (0, len(text) - 1) or text[at - 1] == ".":
                raise _wrong(whole, "IPv4 field must have at least one digit", text[at:])
            if len(octets) == 3:
                raise _wrong(whole, "IPv4 address too long")
            octets.append(value)
            value = digits = 0
        else:
            raise _wrong(whole, "unexpected character", text[at:])
    if len(octets) < 3:
        raise _wrong(whole, "IPv4 address too short")
    return [*octets, value]


def _sixteen(whole: str) -> tuple[ipaddress.IPv6Address, str]:
    text, percent, zone = whole.partition("%")
    if percent and not zone:
        raise _wrong(whole, "zone must be a non-empty string")
    reader = _Groups(whole)
    return ipaddress.IPv6Address(reader.read(text)), zone


class _Groups:
    """Reads the groups of an IPv6 address; `gap` is where `::` stands."""

    def __init__(self, whole: str) -> None:
        self._whole = whole
        self._out = bytearray()
        self._gap: int | None = None

    def read(self, text: str) -> bytes:
        if text.startswith("::"):
            self._gap, text = 0, text[2:]
            if not text:
                return bytes(16)
        while len(self._out) < 16:
            text, more = self._group(text)
            if not more:
                break
        if text:
            raise _wrong(self._whole, "trailing garbage after address", text)
        return self._filled()

    def _filled(self) -> bytes:
        missing = 16 - len(self._out)
        if missing and self._gap is None:
            raise _wrong(self._whole, "address string too short")
        if not missing and self._gap is not None:
            raise _wrong(self._whole, "the :: must expand to at least one field of zeros")
        gap = self._gap or 0
        return bytes(self._out[:gap]) + bytes(missing) + bytes(self._out[gap:])

    def _group(self, text: str) -> tuple[str, bool]:
        """Read one group; what is left, and whether another may follow."""
        end = 0
        while end < len(text) and text[end] in _HEX:
            if end >= _GROUP_DIGITS:
                raise _wrong(self._whole, "each group must have 4 or less digits", text)
            end += 1
        if end == 0:
            raise _wrong(self._whole, "each colon-separated field must have at least one digit", text)
        if text[end : end + 1] == ".":
            self._embedded(text)
            return "", False
        self._out += int(text[:end], 16).to_bytes(2, "big")
        rest = text[end:]
        if not rest:
            return "", False
        if rest[0] != ":":
            raise _wrong(self._whole, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _wrong(self._whole, "colon must be followed by more characters", rest)
        return self._after_colon(rest[1:])

    def _after_colon(self, rest: str) -> tuple[str, bool]:
        if rest[0] != ":":
            return rest, True
        if self._gap is not None:
            raise _wrong(self._whole, "multiple :: in address", rest)
        self._gap = len(self._out)
        return rest[1:], len(rest) > 1

    def _embedded(self, text: str) -> None:
        if self._gap is None and len(self._out) != 12:
            wanted = "embedded IPv4 address must replace the final 2 fields of the address"
            raise _wrong(self._whole, wanted, text)
        if len(self._out) + 4 > 16:
            wanted = "too many hex fields to fit an embedded IPv4 at the end of the address"
            raise _wrong(self._whole, wanted, text)
        self._out += bytes(_octets(self._whole, text))
