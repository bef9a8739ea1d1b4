"""The client side of HTTP/1.1, without I/O: a request to bytes, and chunks of bytes to a response.

The problem: a scheduler sends two or three small writes per pod, and a general client spends more on each of them
(headers in multi-dicts, cookies, redirects, tracing, a task and a timer) than the decision cost. The idea: one request
at a time per connection, a complete body, and of the answer only the parts that are used here. CPU of one POST and its
answer, measured with `benchmarks/wire.py`, TLS and sockets included: aiohttp 3.14 72 us, this module 17 us.

llhttp reads the answers, over httptools. Refused: two lengths, folded headers, bare line feeds; and what llhttp itself
lets pass: other protocols and versions, unknown transfer codings, heads and trailers without end, too large bodies.
Bytes beyond an answer end the connection (an empty line is skipped), and so does all that is not understood: the start
of the next one is unknown.
Limits: no upgrades, no decompression (it is never requested), no answers to HEAD. Of answers that follow each other on
one connection (`pipelining`) only the first is checked for another protocol before llhttp reads it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from httptools import HttpParserCallbackError, HttpParserError, HttpParserInvalidStatusError, HttpResponseParser

# Bytes of an answer that are not its body: status line, header fields, sizes of chunks and trailers.
LONGEST_HEAD: Final = 64 * 1024
# Bytes that are kept of an answer with status 400 or above; the rest adds nothing to an error message.
LARGEST_REFUSAL: Final = 1024 * 1024
# Bytes of the body of any other answer. A page of a list may be larger, and says so.
LARGEST_ANSWER: Final = 64 * 1024 * 1024
# What may stand around each chunk without being counted: its size and two line ends.
_BYTES_OF_A_CHUNK: Final = 16
_BEGINNINGS: Final = (b"HTTP/1.1 ", b"HTTP/1.0 ")
# Fields of each answer of an API server that nobody here reads, as it spells them.
UNREAD: Final = frozenset(
    (
        b"Audit-Id",
        b"Cache-Control",
        b"Content-Type",
        b"X-Kubernetes-Pf-Flowschema-Uid",
        b"X-Kubernetes-Pf-Prioritylevel-Uid",
    )
)
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


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
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
    joins: str = ""
    """Requests that are ready in the same turn of the event loop and say the same may leave in one write, one after the
    other on one connection (`pipelining`): one that is answered late delays those behind it. Empty: always alone.
    """


def header_lines(fields: Iterable[tuple[str, str]]) -> str:
    """Header fields sent with each request, checked once. Raises `UnsendableError`, which never shows a value."""
    fields = tuple(fields)
    for name, value in fields:
        if not (value.isascii() and value.isprintable()):
            message = f"the header {name} has characters that cannot be sent"
            raise UnsendableError(message)
    return "".join(f"{name}: {value}\r\n" for name, value in fields)


def request_bytes(request: HttpRequest, lines: str, prefix: str = "") -> bytes:
    """The whole request; `lines` come from `header_lines`, `prefix` from the server's URL. Raises `UnsendableError`."""
    target = prefix + request.target
    if not (target.isascii() and target.isprintable()) or " " in target:
        message = f"a path must be quoted: {target!r}"
        raise UnsendableError(message)
    method, body = request.method, request.body
    kind = f"Content-Type: {request.content_type}\r\n" if request.content_type else ""
    length = f"Content-Length: {len(body)}\r\n" if body or method not in _WITHOUT_LENGTH else ""
    head = f"{method} {target} HTTP/1.1\r\n{lines}Accept: {request.accept}\r\n{kind}{length}\r\n"
    return head.encode() + body


# --- responses ------------------------------------------------------------------------------------------------------


class Response(msgspec.Struct, frozen=True, gc=False):
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; the values of a repeated field are joined with a comma. Those of `UNREAD` may be missing."""
    body: bytes
    keep_alive: bool
    """Whether the connection may carry another request."""


def check_encoding(status: int, headers: Mapping[str, str]) -> None:
    """Raises `EncodedResponseError` for a good answer that is encoded. Of a refusal the beginning may be readable."""
    encoding = headers.get("content-encoding", "")
    if status < 300 and encoding.strip().lower() not in ("", "identity"):
        message = f"the answer is encoded ({encoding[:64]}), which was not requested"
        raise EncodedResponseError(message)


class ResponseParser:
    """Reads one response after another with llhttp: `begin`, then `feed` until it returns one.

    `{HEAD} -> HEAD (1xx) | BODY -> done`; after an error the connection cannot be used any more.
    """

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        # Two things that a client may take: spaces after a chunk's size, which Go's client takes, too; and chunks
        # beside a length, after which the connection is closed.
        self._parser.set_dangerous_leniencies(lenient_chunked_length=True, lenient_spaces_after_chunk_size=True)
        self._behind = 0
        """How many responses are expected after the one that is being read."""
        self._earlier: list[Response] = []
        """Responses that are complete while others are expected behind them."""
        self.begin()

    def begin(self, largest_bytes: int = LARGEST_ANSWER, behind: int = 0) -> None:
        """Expect the next response, and so many behind it; `largest_bytes` of a body are read."""
        self._behind = behind
        self._beginning: bytes | None = b""
        self._status = 0
        self._headers: dict[str, str] = {}
        self._is_head_read = self._is_complete = self._is_http_1_0 = self._keep_alive = False
        self._largest = largest_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._framing = 0

    def close(self) -> None:
        """Nothing more will be read. llhttp's parser and this one hold each other until then."""
        del self._parser

    def feed(self, data: bytes) -> Response | None:
        """Add bytes as they arrive; the response once it is complete. Raises `MalformedResponseError`."""
        if self._beginning is not None:
            if not self._beginning and data.startswith(_BEGINNINGS[0]):
                self._beginning = None
            else:
                data = self._beginning + data
                if not self._begins_well(data):
                    return None
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            if not self._is_complete:  # otherwise it is about what follows the response
                raise _malformed(error) from None
            self._keep_alive = False
        if self._framing > LONGEST_HEAD:
            message = f"the answer has more than {LONGEST_HEAD} bytes of head, chunks' sizes and trailers"
            raise MalformedResponseError(message)
        if self._framing < 0:
            self._framing = 0
        return self._finish() if self._is_complete else None

    def feed_several(self, data: bytes) -> tuple[list[Response], MalformedResponseError | None]:
        """Add bytes as they arrive; the responses that are complete, and what is wrong with the one after them."""
        failure = last = None
        try:
            last = self.feed(data)
        except MalformedResponseError as error:
            failure = error
        found, self._earlier = self._earlier, []
        if last is not None:
            found.append(last)
        return found, failure

    def end(self) -> Response:
        """The server has closed: the response, if the close marks its end. Raises `MalformedResponseError`."""
        has_end = "content-length" in self._headers or "transfer-encoding" in self._headers
        if self._is_head_read and not has_end:
            return self._finish()
        where = "in the middle of an answer" if self._beginning is None or self._beginning else "before it answered"
        message = f"the server closed the connection {where}"
        raise CutResponseError(message)

    def _begins_well(self, data: bytes) -> bool:
        """Whether llhttp may have it; fails at once on data that can never become a response.

        llhttp knows other protocols and versions too, and skips empty lines before a response.
        """
        if not data.startswith(_BEGINNINGS):
            if len(data) >= len(_BEGINNINGS[0]) or not any(each.startswith(data) for each in _BEGINNINGS):
                message = f"the answer is not HTTP/1.1: it begins with {data[:16]!r}"
                raise NotHTTPError(message)
            self._beginning = data
            return False
        self._beginning = None
        self._is_http_1_0 = data.startswith(_BEGINNINGS[1])
        return True

    def _finish(self) -> Response:
        parts, headers = self._parts, self._headers
        self._parts, self._headers = [], {}  # an idle connection should not keep a list of a hundred megabytes
        self._is_head_read = False
        return Response(self._status, headers, parts[0] if len(parts) == 1 else b"".join(parts), self._keep_alive)

    # --- what llhttp calls; what is raised here is the context of the error that `feed_data` raises -----------------

    def on_message_begin(self) -> None:
        """A response begins: the one that is awaited, unless only a 1xx has come before."""
        if self._is_complete:
            message = "there are bytes beyond the end of the answer"
            raise MalformedResponseError(message)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or of the trailers, which are ignored."""
        if self._is_head_read or name in UNREAD:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """The head has been read: what llhttp lets pass and we do not."""
        status = self._status = self._parser.get_status_code()
        if not 100 <= status < 600:
            message = f"the answer has no status of HTTP: {status}"
            raise NotHTTPError(message)
        if status == 101:
            message = "the server wants to speak another protocol (101), which was not requested"
            raise MalformedResponseError(message)
        coding = self._headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            message = f"the answer has a transfer coding that is not understood: {coding[:64]!r}"
            raise MalformedResponseError(message)
        # Both: a proxy in between is confused about where the next response begins.
        is_confused = coding is not None and "content-length" in self._headers
        self._keep_alive = self._parser.should_keep_alive() and not is_confused and not self._is_http_1_0
        self._is_head_read = True

    def on_chunk_header(self) -> None:
        """A chunk's size: a few bytes are due to each, others are counted as the head is."""
        self._framing -= _BYTES_OF_A_CHUNK

    def on_body(self, part: bytes) -> None:
        """Of a refusal the beginning says enough; any other response is useless in part."""
        size = len(part)
        self._framing -= size
        self._size += size
        limit = self._largest if self._status < 400 else LARGEST_REFUSAL
        if self._size <= limit:
            self._parts.append(part)
        elif self._status < 400:
            message = f"the answer has more than {limit} bytes"
            raise MalformedResponseError(message)
        elif self._size - size < limit:
            self._parts.append(part[: limit - self._size])

    def on_message_complete(self) -> None:
        """A response has ended; after a 1xx (100 Continue, 103 Early Hints) the one that is awaited follows."""
        if self._status < 200:
            self._headers.clear()
            self._is_head_read = False
        elif self._behind:
            self._behind -= 1
            self._earlier.append(self._finish())
            self._size = 0
        else:
            self._is_complete = True


def _malformed(error: HttpParserError) -> BaseException:
    """What a callback has raised, or llhttp's own words."""
    if isinstance(error, HttpParserCallbackError) and error.__context__ is not None:
        return error.__context__
    if isinstance(error, HttpParserInvalidStatusError):
        return NotHTTPError(f"the answer has no status line: {error}")
    return MalformedResponseError(f"the answer breaks the rules of HTTP: {error}")
