"""The client side of HTTP/1.1, without I/O: a request to bytes, and chunks of bytes to a response.

The problem: a scheduler sends two or three small writes per pod, and a general client spends more on each of them
(headers in multi-dicts, cookies, redirects, tracing, a task and a timer) than the decision cost. The idea: one request
at a time per connection, a complete body, and of the answer only the parts that are used here. CPU of one POST and its
answer, measured with `benchmarks/wire.py`, TLS and sockets included: aiohttp 3.14 72 us, this module 18 us. For
writing and parsing alone h11 0.16 takes 55 us, this module 6.

Refused: two different lengths, folded headers, bare line feeds, unknown transfer codings, bytes beyond the end.
Anything that is not understood ends the connection, since the start of the next answer would be unknown.
Limits: no pipelining, no upgrades, no decompression (it is never requested), no answers to HEAD.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

# Bytes of a status line with its header fields, and of trailers.
LONGEST_HEAD: Final = 64 * 1024
LONGEST_CHUNK_LINE: Final = 4096
# Bytes that are kept of an answer with status 400 or above; the rest adds nothing to an error message.
LARGEST_REFUSAL: Final = 1024 * 1024
# Bytes of the body of any other answer. A page of a list may be larger, and says so.
LARGEST_ANSWER: Final = 64 * 1024 * 1024
_MOST_DIGITS: Final = 18
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_WITHOUT_BODY: Final = frozenset({204, 304})
_WITHOUT_LENGTH: Final = frozenset({"GET", "HEAD"})


class MalformedResponseError(Exception):
    """The answer is not an HTTP/1.1 response, or it was cut off. The request may have been carried out."""


class NotHTTPError(MalformedResponseError):
    """What came does not begin as an HTTP response."""


class EncodedResponseError(MalformedResponseError):
    """The answer is compressed or otherwise encoded, which was not requested."""


class CutResponseError(MalformedResponseError):
    """The connection was closed before the answer was whole."""


class UnsendableError(ValueError):
    """A header or path with characters that would change the request."""


# --- requests -------------------------------------------------------------------------------------------------------


class HttpRequest(NamedTuple):
    """A request. `target` is path and query, already quoted."""

    method: str
    target: str
    body: bytes = b""
    content_type: str = ""
    accept: str = "application/json"
    tenant: str = ""
    """The namespace on whose behalf it is made, where the target names none; it is not sent."""
    silence_seconds: float = 0.0
    """The request fails after this long without a byte of the answer; 0: at its deadline only."""
    largest_bytes: int = LARGEST_ANSWER
    """The request fails when the answer's body has more."""
    is_fresh: bool = False
    """Sent over a new connection, to see whether one can be made."""


def header_lines(fields: Iterable[tuple[str, str]]) -> bytes:
    """Header fields sent with each request, encoded once. Raises `UnsendableError`, which never shows a value."""
    fields = tuple(fields)
    for name, value in fields:
        if not (value.isascii() and value.isprintable()):
            message = f"the header {name} has characters that cannot be sent"
            raise UnsendableError(message)
    return "".join(f"{name}: {value}\r\n" for name, value in fields).encode("ascii")


def request_bytes(request: HttpRequest, lines: bytes, prefix: str = "") -> bytes:
    """The whole request; `lines` come from `header_lines`, `prefix` from the server's URL. Raises `UnsendableError`."""
    target = prefix + request.target
    if not (target.isascii() and target.isprintable()) or " " in target:
        message = f"a path must be quoted: {target!r}"
        raise UnsendableError(message)
    body = request.body
    first = f"{request.method} {target} HTTP/1.1\r\n"
    kind = f"Content-Type: {request.content_type}\r\n" if request.content_type else ""
    length = f"Content-Length: {len(body)}\r\n" if body or request.method not in _WITHOUT_LENGTH else ""
    return b"".join((first.encode(), lines, f"Accept: {request.accept}\r\n{kind}{length}\r\n".encode(), body))


# --- responses ------------------------------------------------------------------------------------------------------


class Response(NamedTuple):
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; the values of a repeated field are joined with a comma."""
    body: bytes
    keep_alive: bool
    """Whether the connection may carry another request."""


def check_encoding(status: int, headers: Mapping[str, str]) -> None:
    """Raises `EncodedResponseError` for a good answer that is encoded. Of a refusal the beginning may be readable."""
    encoding = headers.get("content-encoding", "")
    if status < 300 and encoding.strip().lower() not in ("", "identity"):
        message = f"the answer is encoded ({encoding[:64]}), which was not requested"
        raise EncodedResponseError(message)


class _Body(Protocol):
    """A body that is being received."""

    def feed(self, data: bytes) -> bytes | None:
        """Add data; returns the bytes beyond the body's end, or `None` before the end."""
        ...

    def content(self) -> bytes:
        """The body so far."""
        ...


@dataclass(slots=True)
class _Head:
    status: int
    headers: dict[str, str]
    keep_alive: bool


class ResponseParser:
    """Reads one response after another: `begin`, then `feed` until it returns one.

    `{HEAD} -> HEAD (1xx) | BODY -> done`; after an error the connection cannot be used any more.
    """

    def __init__(self) -> None:
        self._pending = b""
        self._head: _Head | None = None
        self._body: _Body | None = None
        self._largest = LARGEST_ANSWER

    def begin(self, largest_bytes: int = LARGEST_ANSWER) -> None:
        """Expect the next response; `largest_bytes` of its body are read."""
        self._pending = b""
        self._head = self._body = None
        self._largest = largest_bytes

    def feed(self, data: bytes) -> Response | None:
        """Add bytes as they arrive; the response once it is complete. Raises `MalformedResponseError`."""
        body = self._body
        if body is None:
            rest = self._feed_head(data)
            if rest is None:
                return None
            body, data = rest
        beyond = body.feed(data)
        return None if beyond is None else self._finish(is_clean=not beyond)

    def end(self) -> Response:
        """The server has closed: the response, if the close marks its end. Raises `MalformedResponseError`."""
        if isinstance(self._body, _UntilClose):
            return self._finish(is_clean=False)
        begun = self._head is not None or self._pending
        where = "in the middle of an answer" if begun else "before it answered"
        message = f"the server closed the connection {where}"
        raise CutResponseError(message)

    def _feed_head(self, data: bytes) -> tuple[_Body, bytes] | None:
        """Read to the end of a final response's head; returns its body, still empty, and the body's first bytes."""
        data = self._pending + data if self._pending else data
        while True:
            end = data.find(b"\r\n\r\n")
            if (len(data) if end < 0 else end) > LONGEST_HEAD:
                message = f"the head of the answer has more than {LONGEST_HEAD} bytes"
                raise MalformedResponseError(message)
            if end < 0:
                _check_beginning(data)
                self._pending = data
                return None
            head = _read_head(data[:end].decode("latin-1"))
            data = data[end + 4 :]
            if head.status >= 200:  # otherwise more follows: 100 Continue, 103 Early Hints
                self._pending = b""
                self._head, self._body = head, _body_of(head, self._largest)
                return self._body, data

    def _finish(self, *, is_clean: bool) -> Response:
        head, body = self._head, self._body
        assert head is not None  # noqa: S101  # tells the type checker: there is no body without a head
        assert body is not None  # noqa: S101
        self._head = self._body = None  # an idle connection should not keep a list of a hundred megabytes
        return Response(head.status, head.headers, body.content(), head.keep_alive and is_clean)


def _check_beginning(data: bytes) -> None:
    """Fail at once on data that can never become a response, instead of waiting for the timeout."""
    if not data.startswith(b"HTTP/1."[: len(data)]):
        message = f"the answer is not HTTP/1.1: it begins with {data[:16]!r}"
        raise NotHTTPError(message)


def _read_head(head: str) -> _Head:
    first, *lines = head.split("\r\n")
    status = _status_of(first)
    if head.count("\n") != len(lines) or head.count("\r") != len(lines):
        message = "the head of the answer has a bare line feed or carriage return"
        raise MalformedResponseError(message)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or " " in name or "\t" in name:
            message = f"the answer has a malformed header: {line[:64]!r}"
            raise MalformedResponseError(message)
        name, value = name.lower(), value.strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    connection = headers.get("connection", "")
    keep_alive = first[5:8] == "1.1" and (not connection or "close" not in _tokens(connection))
    return _Head(status, headers, keep_alive)


def _status_of(line: str) -> int:
    """`HTTP/1.1 201 Created` to 201."""
    code = line[9:12]
    is_sound = line.startswith(("HTTP/1.1 ", "HTTP/1.0 ")) and len(code) == 3 and code.isascii() and code.isdigit()
    if not is_sound or code[0] not in "12345" or line[12:13] not in ("", " "):
        message = f"the answer has no status line: {line[:64]!r}"
        raise NotHTTPError(message)
    if code == "101":
        message = "the server wants to speak another protocol (101), which was not requested"
        raise MalformedResponseError(message)
    return int(code)


def _tokens(value: str) -> list[str]:
    return [token.strip(" \t").lower() for token in value.split(",")]


def _body_of(head: _Head, largest_bytes: int) -> _Body:
    """The kind of body by how its end is found (RFC 9112, 6.3)."""
    # A refusal is cut, as its beginning says enough; any other answer is useless in part.
    limit = _Limit(LARGEST_REFUSAL, cuts=True) if head.status >= 400 else _Limit(largest_bytes, cuts=False)
    if head.status in _WITHOUT_BODY:
        return _Sized(0, limit)
    coding, length = head.headers.get("transfer-encoding"), head.headers.get("content-length")
    if coding is not None:
        if _tokens(coding) != ["chunked"]:
            message = f"the answer has a transfer coding that is not understood: {coding[:64]!r}"
            raise MalformedResponseError(message)
        head.keep_alive = head.keep_alive and length is None  # both: a proxy in between is confused
        return _Chunked(limit)
    if length is not None:
        return _Sized(_length_of(length), limit)
    head.keep_alive = False
    return _UntilClose(limit)


def _length_of(value: str) -> int:
    lengths = set(_tokens(value))
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit()) or len(length) > _MOST_DIGITS:
        message = f"the answer has a malformed Content-Length: {value[:64]!r}"
        raise MalformedResponseError(message)
    return int(length)


class _Limit(NamedTuple):
    """How many bytes of a body are kept."""

    largest: int
    cuts: bool
    """Whether bytes beyond it are dropped; otherwise they are an error."""


@dataclass(slots=True)
class _Collected:
    """Parts of a body, up to a limit."""

    limit: _Limit
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def keep(self, part: bytes) -> None:
        if self.size + len(part) > self.limit.largest:
            if not self.limit.cuts:
                message = f"the answer has more than {self.limit.largest} bytes"
                raise MalformedResponseError(message)
            part = part[: self.limit.largest - self.size]
        if part:
            self.parts.append(part)
            self.size += len(part)

    def content(self) -> bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class _Sized:
    """A body of known length."""

    def __init__(self, length: int, limit: _Limit) -> None:
        self._left = length
        self._collected = _Collected(limit)

    def feed(self, data: bytes) -> bytes | None:
        size = len(data)
        if size > self._left:
            data, beyond = data[: self._left], data[self._left :]
        else:
            beyond = b""
        self._left -= len(data)
        self._collected.keep(data)
        return None if self._left else beyond

    def content(self) -> bytes:
        return self._collected.content()


class _UntilClose:
    """A body that ends with the connection."""

    def __init__(self, limit: _Limit) -> None:
        self._collected = _Collected(limit)

    def feed(self, data: bytes) -> bytes | None:
        self._collected.keep(data)
        return None

    def content(self) -> bytes:
        return self._collected.content()


class _Chunked:
    """`size CRLF data CRLF` until a size of 0, then trailers, which are ignored, and an empty line."""

    def __init__(self, limit: _Limit) -> None:
        self._collected = _Collected(limit)
        self._pending = b""
        self._left = 0
        """Bytes of this chunk that are still to come."""
        self._is_data_over = False
        """A chunk's data is complete; the line end after it is still to come."""
        self._trailer_bytes = -1
        """Not negative once the last chunk has come."""

    def content(self) -> bytes:
        return self._collected.content()

    def feed(self, data: bytes) -> bytes | None:
        data = self._pending + data if self._pending else data
        self._pending = b""
        at = 0
        while at < len(data):
            if self._left:
                at = self._take(data, at)
                continue
            end = data.find(b"\r\n", at)
            if (len(data) if end < 0 else end) - at > LONGEST_CHUNK_LINE:
                message = f"a chunk's first line or a trailer has more than {LONGEST_CHUNK_LINE} bytes"
                raise MalformedResponseError(message)
            if end < 0:
                self._pending = data[at:]
                return None
            if self._line(data[at:end]):
                return data[end + 2 :]
            at = end + 2
        return None

    def _take(self, data: bytes, at: int) -> int:
        part = data[at : at + self._left]
        self._collected.keep(part)
        self._left -= len(part)
        self._is_data_over = not self._left
        return at + len(part)

    def _line(self, line: bytes) -> bool:
        """Handle a line between chunks; whether it was the last line of the body."""
        if self._trailer_bytes >= 0:
            self._trailer_bytes += len(line)
            if self._trailer_bytes > LONGEST_HEAD:
                message = f"the answer has more than {LONGEST_HEAD} bytes of trailers"
                raise MalformedResponseError(message)
            return not line
        if self._is_data_over:
            self._is_data_over = False
            if line:
                message = "a chunk is longer than it said"
                raise MalformedResponseError(message)
        else:
            self._begin(line)
        return False

    def _begin(self, line: bytes) -> None:
        size = line.partition(b";")[0].rstrip(b" \t").decode("latin-1")
        if not size or len(size) > _MOST_DIGITS or not _HEX.issuperset(size):
            message = f"a chunk has a malformed size: {line[:64]!r}"
            raise MalformedResponseError(message)
        self._left = int(size, 16)
        if not self._left:
            self._trailer_bytes = 0
