"""URLs as Go's `net/url` reads them, refused in its words."""

from typing import Any

from kscheduler.cel.kubernetes.networks import AddressError, parse_literal
from kscheduler.cel.values.go_text import quoted
from kscheduler.cel.values.kinds import Opaque

_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~")
_PATH = _LETTERS | frozenset(b"$&+,/:;=@")
_HOST = _LETTERS | frozenset(b"!$&'()*+,;=:[]<>\"")
_USER = _LETTERS | frozenset(b"$&+,;=")
_ENCODED_PATH = _LETTERS | frozenset(b"!$&'()*+,;=:@[]%/")
_HEX = frozenset(b"0123456789abcdefABCDEF")
_USERINFO = frozenset("-._:~!$&'()*+,;=%@") | frozenset(chr(code) for code in _LETTERS)
_MAX_PARAMETERS = 10_000


class UrlError(ValueError):
    """The text is no URL; the message is Go's."""


class URL(Opaque):
    """A URL in its parts; the path is decoded, `raw_path` is how it was written where that matters."""

    __slots__ = ("force_query", "host", "omit_host", "opaque", "path", "query", "raw_path", "scheme", "user")
    TYPE_NAME = "kubernetes.URL"
    GO_TYPE = "cel.URL"
    SHORT_NAME = "URL"
    GO_VALUE = "*url.URL"

    def __init__(self) -> None:
        self.scheme = self.opaque = self.host = self.query = self.raw_path = ""
        self.path = b""
        self.user: bytes | None = None
        self.force_query = self.omit_host = False

    def equals(self, other: Any) -> bool:
        """Whether both are written the same."""
        return bool(self.text() == other.text())

    def text(self) -> str:
        """As Go writes it."""
        out = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            out += self.opaque
        else:
            out += self._authority()
            path = self.escaped_path()
            out += "/" if path and path[0] != "/" and self.host else ""
            out += "./" if not out and ":" in path.partition("/")[0] else ""
            out += path
        return f"{out}?{self.query}" if self.force_query or self.query else out

    def _authority(self) -> str:
        if not (self.scheme or self.host or self.user is not None):
            return ""
        if self.omit_host and not self.host and self.user is None:
            return ""
        out = "//" if self.host or self.path or self.user is not None else ""
        if self.user is not None:
            out += _escape(self.user, _USER) + "@"
        return out + _escape(self.host.encode("utf-8", "surrogateescape"), _HOST)

    def escaped_path(self) -> str:
        """The path with everything escaped that must be."""
        raw = self.raw_path.encode()
        if self.raw_path and set(raw) <= _ENCODED_PATH and _unescape(raw, "path") == self.path:
            return self.raw_path
        return "*" if self.path == b"*" else _escape(self.path, _PATH)

    def _split_host(self) -> tuple[str, str]:
        host, port = self.host, ""
        head, colon, tail = host.rpartition(":")
        if colon and _is_port(f":{tail}"):
            host, port = head, tail
        return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port

    def hostname(self) -> str:
        """The host without port and brackets."""
        return self._split_host()[0]

    def port(self) -> str:
        """The port, empty without one."""
        return self._split_host()[1]

    def parameters(self) -> dict[str, list[str]]:
        """The parameters of the query; what cannot be decoded is left out."""
        found: dict[str, list[str]] = {}
        if self.query.count("&") + 1 > _MAX_PARAMETERS:
            return found
        for part in self.query.split("&"):
            if not part or ";" in part:
                continue
            key, _, value = part.partition("=")
            try:
                name, text = (_decoded(piece) for piece in (key, value))
            except UrlError:
                continue
            found.setdefault(name, []).append(text)
        return found


def _decoded(text: str) -> str:
    return _unescape(text.encode(), "query").decode("utf-8", "surrogateescape")


def _escape(value: bytes, allowed: frozenset[int]) -> str:
    return "".join(chr(byte) if byte in allowed else f"%{byte:02X}" for byte in value)


def _unescape(value: bytes, mode: str) -> bytes:
    """The bytes without escapes. Raises `UrlError`."""
    out = bytearray()
    at = 0
    while at < len(value):
        byte = value[at]
        if byte == 0x25:
            piece = value[at : at + 3]
            if len(piece) < 3 or not set(piece[1:]) <= _HEX or _forbidden(piece, mode):
                message = f"invalid URL escape {quoted(piece.decode('utf-8', 'replace'))}"
                raise UrlError(message)
            out.append(int(piece[1:], 16))
            at += 3
            continue
        if mode in ("host", "zone") and byte < 0x80 and byte not in _HOST:
            message = f"invalid character {quoted(chr(byte))} in host name"
            raise UrlError(message)
        out.append(0x20 if mode == "query" and byte == 0x2B else byte)
        at += 1
    return bytes(out)


def _forbidden(piece: bytes, mode: str) -> bool:
    """Whether an escape may not stand in a host or zone."""
    if piece == b"%25":
        return False
    code = int(piece[1:], 16)
    if mode == "host":
        return code < 0x80
    return mode == "zone" and code != 0x20 and code not in _HOST


def _is_port(text: str) -> bool:
    return not text or (text[0] == ":" and all(letter in "0123456789" for letter in text[1:]))


def request_uri(text: str) -> URL:
    """An absolute URL or path. Raises `UrlError`."""
    try:
        return _parsed(text, request=True)
    except UrlError as error:
        message = f"parse {quoted(text)}: {error}"
        raise UrlError(message) from None


def parse(text: str) -> URL:
    """A URL, without its fragment. Raises `UrlError`."""
    whole, _, fragment = text.partition("#")
    try:
        url = _parsed(whole, request=False)
    except UrlError as error:
        message = f"parse {quoted(whole)}: {error}"
        raise UrlError(message) from None
    try:
        _unescape(fragment.encode(), "fragment")
    except UrlError as error:
        message = f"parse {quoted(text)}: {error}"
        raise UrlError(message) from None
    return url


def _parsed(text: str, *, request: bool) -> URL:
    if any(letter < " " or letter == "\x7f" for letter in text):
        message = "net/url: invalid control character in URL"
        raise UrlError(message)
    if not text and request:
        message = "empty url"
        raise UrlError(message)
    url = URL()
    if text == "*":
        url.path = b"*"
        return url
    scheme, rest = _scheme(text)
    url.scheme = scheme.lower()
    if rest.endswith("?") and rest.count("?") == 1:
        url.force_query, rest = True, rest[:-1]
    else:
        rest, _, url.query = rest.partition("?")
    if not rest.startswith("/"):
        if url.scheme:
            url.opaque = rest
            return url
        _refuse_relative(rest, request=request)
    if (url.scheme or (not request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
        url.user, url.host = _authority(url.scheme, authority)
    elif url.scheme and rest.startswith("/"):
        url.omit_host = True
    url.path = _unescape(rest.encode(), "path")
    url.raw_path = "" if rest == _escape(url.path, _PATH) else rest
    return url


def _refuse_relative(rest: str, *, request: bool) -> None:
    if request:
        message = "invalid URI for request"
        raise UrlError(message)
    if ":" in rest.partition("/")[0]:
        message = "first path segment in URL cannot contain colon"
        raise UrlError(message)


def _scheme(text: str) -> tuple[str, str]:
    for at, letter in enumerate(text):
        if letter.isascii() and letter.isalpha():
            continue
        if letter in "0123456789+-.":
            if at == 0:
                return "", text
        elif letter == ":":
            if at == 0:
                message = "missing protocol scheme"
                raise UrlError(message)
            return text[:at], text[at + 1 :]
        else:
            return "", text
    return "", text


def _authority(scheme: str, text: str) -> tuple[bytes | None, str]:
    info, at, host = text.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not set(info) <= _USERINFO:
        message = "net/url: invalid userinfo"
        raise UrlError(message)
    parts = [_unescape(part.encode(), "user") for part in info.split(":", 1)]
    return b":".join(parts), host


def _host(scheme: str, host: str) -> str:
    opening = host.rfind("[")
    if opening > 0:
        message = "invalid IP-literal"
        raise UrlError(message)
    if opening == 0:
        return _literal(host)
    first, last = host.find(":"), host.rfind(":")
    if first != -1:
        port = host[first if scheme in ("http", "https") else last :]
        if not _is_port(port):
            message = f"invalid port {quoted(port)} after host"
            raise UrlError(message)
    return _unescape(host.encode(), "host").decode("utf-8", "surrogateescape")


def _literal(host: str) -> str:
    """An IPv6 address in brackets, maybe with a zone and a port."""
    closing = host.rfind("]")
    if closing < 0:
        message = "missing ']' in host"
        raise UrlError(message)
    port, name = host[closing + 1 :], host[1:closing]
    if not _is_port(port):
        message = f"invalid port {quoted(port)} after host"
        raise UrlError(message)
    zone = name.find("%25")
    pieces = [(name, "host")] if zone < 0 else [(name[:zone], "host"), (name[zone:], "zone")]
    text = b"".join(_unescape(piece.encode(), mode) for piece, mode in pieces).decode("utf-8", "surrogateescape")
    try:
        address = parse_literal(text)
    except AddressError as error:
        message = f"invalid host: {error}"
        raise UrlError(message) from None
    if address.version == 4:
        message = "invalid IP-literal"
        raise UrlError(message)
    return f"[{text}]{port}"
