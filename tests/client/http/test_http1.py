"""Requests to bytes and bytes to responses: however they are cut, and whatever a server sends."""

import gc
import http.client
import io
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.client.http.http1 import (
    LARGEST_REFUSAL,
    LONGEST_HEAD,
    HttpRequest,
    MalformedResponseError,
    Response,
    ResponseParser,
    UnsendableError,
    header_lines,
    request_bytes,
)

HEAD = b"HTTP/1.1 200 OK\r\n"


def read(data: bytes, *, cuts: Iterable[int] = (), is_closed: bool = False) -> Response | None:
    """Feed the data in pieces; what is fed after a response would belong to nobody, so nothing may be left."""
    parser = ResponseParser()
    parser.begin()
    at = 0
    for cut in (*sorted(cuts), len(data)):
        response = parser.feed(data[at:cut])
        at = cut
        if response is not None:
            assert at == len(data)
            return response
    return parser.end() if is_closed else None


def byte_by_byte(data: bytes) -> range:
    return range(1, len(data))


# --- requests -------------------------------------------------------------------------------------------------------


def test_a_request_is_one_piece_of_bytes() -> None:
    lines = header_lines([("Host", "h:6443"), ("Authorization", "Bearer t")])
    assert request_bytes(HttpRequest("POST", "/x?a=b", b"{}", "application/json"), lines, "/prefix") == (
        b"POST /prefix/x?a=b HTTP/1.1\r\nHost: h:6443\r\nAuthorization: Bearer t\r\nAccept: application/json\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )


@pytest.mark.parametrize(
    ("method", "has_length"),
    [pytest.param("GET", False, id="get"), pytest.param("POST", True, id="post"), pytest.param("DELETE", True, id="d")],
)
def test_a_write_without_a_body_says_so(method: str, has_length: bool) -> None:
    assert (b"Content-Length: 0\r\n" in request_bytes(HttpRequest(method, "/x"), "")) == has_length


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "/ä", "/a\x00", "/a\tb"])
def test_a_path_that_is_not_quoted_is_not_sent(target: str) -> None:
    with pytest.raises(UnsendableError):
        request_bytes(HttpRequest("GET", target), "")


@pytest.mark.parametrize("value", ["secret\r\nX: y", "secret\n", "sécret", "secret\x00"])
def test_a_header_that_would_be_two_is_not_sent_and_its_value_not_reported(value: str) -> None:
    with pytest.raises(UnsendableError, match="Authorization") as caught:
        header_lines([("Authorization", value)])
    assert "cret" not in str(caught.value)


# --- responses ------------------------------------------------------------------------------------------------------

SOUND = [
    pytest.param(HEAD + b"Content-Length: 2\r\n\r\nok", (200, b"ok", True), id="length"),
    pytest.param(HEAD + b"content-length:2 \r\n\r\nok", (200, b"ok", True), id="length in another spelling"),
    pytest.param(b"HTTP/1.1 201\r\nContent-Length: 0\r\n\r\n", (201, b"", True), id="no reason"),
    pytest.param(HEAD + b"Content-Length: 0\r\nConnection: close\r\n\r\n", (200, b"", False), id="last on this"),
    pytest.param(
        HEAD + b"Content-Length: 0\r\nConnection: x, Close\r\n\r\n", (200, b"", False), id="close among others"
    ),
    pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", (200, b"ok", False), id="HTTP/1.0"),
    pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"", True), id="no content"),
    pytest.param(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", (304, b"", True), id="not modified"),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        + HEAD
        + b"Content-Length: 2\r\n\r\nok",
        (200, b"ok", True),
        id="after 1xx",
    ),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", (200, b"ok", True), id="chunked"),
    pytest.param(
        HEAD + b"Transfer-Encoding: Chunked\r\n\r\n00A;x=y\r\n0123456789\r\n1 \r\n!\r\n0\r\nTrailer: t\r\nT: u\r\n\r\n",
        (200, b"0123456789!", True),
        id="chunked with extension and trailers",
    ),
    pytest.param(
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        (200, b"ok", False),
        id="chunked and a length",
    ),
    pytest.param(HEAD + b"Content-Length: 2\r\n\r\nok\r\n", (200, b"ok", True), id="an empty line after it"),
    pytest.param(HEAD + b"Content-Length: 2\r\n\r\nokHTTP", (200, b"ok", False), id="more than was said"),
]


@pytest.mark.parametrize(("data", "expected"), SOUND)
def test_a_response_is_read_however_it_comes(data: bytes, expected: tuple[int, bytes, bool]) -> None:
    whole = read(data)
    assert whole is not None
    assert (whole.status, whole.body, whole.keep_alive) == expected


@pytest.mark.parametrize(("data", "expected"), SOUND[:-2])
def test_a_response_is_read_byte_by_byte(data: bytes, expected: tuple[int, bytes, bool]) -> None:
    bytewise = read(data, cuts=byte_by_byte(data))
    assert bytewise is not None
    assert (bytewise.status, bytewise.body, bytewise.keep_alive) == expected


def test_names_of_headers_are_lower_case_and_values_of_one_name_are_joined() -> None:
    response = read(HEAD + b"Retry-After:  7 \r\nWarning: a\r\nwarning: b\r\nContent-Length: 0\r\n\r\n")
    assert response is not None
    assert response.headers == {"retry-after": "7", "warning": "a, b", "content-length": "0"}


def test_a_body_without_length_ends_with_the_connection() -> None:
    response = read(HEAD + b"\r\nabc", cuts=[20], is_closed=True)
    assert response is not None
    assert (response.body, response.keep_alive) == (b"abc", False)


MALFORMED = [
    pytest.param(b"\x15\x03\x01\x00\x02\x02\x46", id="TLS where http was expected"),
    pytest.param(b"SSH-2.0-OpenSSH\r\n", id="another service"),
    pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
    pytest.param(b"HTTP/1.1 2000 OK\r\n\r\n", id="a code of four digits"),
    pytest.param(b"HTTP/1.1 999 OK\r\n\r\n", id="a code of no class"),
    pytest.param(b"HTTP/1.1  200 OK\r\n\r\n", id="two spaces"),
    pytest.param(b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n", id="digits of another kind"),
    pytest.param(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", id="another protocol"),
    pytest.param(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", id="two lengths"),
    pytest.param(HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", id="the same length twice"),
    pytest.param(HEAD + b"Content-Length: 2, 2\r\n\r\nok", id="two lengths in one field"),
    pytest.param(b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", id="HTTP/2.0"),
    pytest.param(b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok", id="HTTP/1.2"),
    pytest.param(b"RTSP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", id="another protocol of this shape"),
    pytest.param(b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", id="an empty line before it"),
    pytest.param(b"HTTP/1.1 000 OK\r\nContent-Length: 2\r\n\r\nok", id="a code of zeros"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", id="chunked twice"),
    pytest.param(
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", id="two codings"
    ),
    pytest.param(HEAD + b"A: \x00\r\nContent-Length: 2\r\n\r\nok", id="a zero byte in a header"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\nok\r\n", id="bare line feed after a size"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;a\nb\r\nok\r\n", id="bare line feed in an extension"),
    pytest.param(HEAD + b"Content-Length: -2\r\n\r\nok", id="negative length"),
    pytest.param(HEAD + b"Content-Length: \r\n\r\nok", id="empty length"),
    pytest.param(HEAD + b"Content-Length: 1" + b"0" * 40 + b"\r\n\r\nok", id="astronomic length"),
    pytest.param(HEAD + b"Content-Length : 2\r\n\r\nok", id="space before the colon"),
    pytest.param(HEAD + b"A: b\r\n c\r\nContent-Length: 2\r\n\r\nok", id="fold"),
    pytest.param(HEAD + b"no header\r\n\r\n", id="no colon"),
    pytest.param(HEAD + b": x\r\n\r\n", id="no name"),
    pytest.param(HEAD + b"A: b\nContent-Length: 2\r\n\r\nok", id="bare line feed"),
    pytest.param(HEAD + b"A: b\rContent-Length: 2\r\n\r\nok", id="bare carriage return"),
    pytest.param(HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n", id="unknown coding"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", id="size that is none"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", id="negative size"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x2\r\nok", id="size with a prefix"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\n", id="no size"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n", id="chunk longer than it said"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1" * 4096, id="a size without end"),
    pytest.param(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * LONGEST_HEAD, id="an extension of a size without end"
    ),
    pytest.param(
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + (b"T: " + b"t" * 1000 + b"\r\n") * 70,
        id="trailers without end",
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\nA: " + b"a" * (LONGEST_HEAD + 1), id="a head without end"),
    pytest.param(HEAD + b"A: " + b"a" * LONGEST_HEAD + b"\r\nContent-Length: 0\r\n\r\n", id="a head too long"),
]


@pytest.mark.parametrize("data", MALFORMED)
def test_what_is_no_response_is_reported(data: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        read(data)


@pytest.mark.parametrize("data", MALFORMED[:-4])
def test_what_is_no_response_is_reported_byte_by_byte(data: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        read(data, cuts=byte_by_byte(data))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "before it answered", id="nothing"),
        pytest.param(b"HTTP/1.1 20", "in the middle", id="in the head"),
        pytest.param(HEAD + b"Content-Length: 3\r\n\r\nok", "in the middle", id="in the body"),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "in the middle", id="before the last chunk"
        ),
    ],
)
def test_a_connection_that_closes_too_early_is_no_answer(data: bytes, words: str) -> None:
    with pytest.raises(MalformedResponseError, match=words):
        read(data, is_closed=True)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_of_a_large_refusal_the_beginning_is_kept_and_the_rest_is_read_and_dropped(framing: str) -> None:
    size = LARGEST_REFUSAL + 5
    if framing == "length":
        data = b"HTTP/1.1 422 Invalid\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    else:
        chunks = b"%x\r\n%b\r\n3\r\nyyy\r\n0\r\n\r\n" % (size, b"x" * size)
        data = b"HTTP/1.1 422 Invalid\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    response = read(data, cuts=range(1000, len(data), 60_000))
    assert response is not None
    assert response.body == b"x" * LARGEST_REFUSAL
    assert response.keep_alive


def test_a_parser_begins_anew_for_each_response() -> None:
    parser = ResponseParser()
    for number in range(3):
        parser.begin()
        response = parser.feed(HEAD + b"Content-Length: 1\r\n\r\n%d" % number)
        assert response is not None
        assert response.body == b"%d" % number


def test_a_parser_that_is_closed_is_freed_without_the_collector() -> None:
    """Connections come and go by the thousand where a server closes each."""
    parser = ResponseParser()
    parser.begin()
    parser.feed(HEAD + b"Content-Length: 1\r\n\r\n1")
    freed = weakref.ref(parser)
    gc.disable()
    try:
        parser.close()
        del parser
        assert freed() is None
    finally:
        gc.enable()


# --- properties -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sent:
    """What a server wanted to say, and how it put it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    data: bytes
    ends_with_connection: bool


_names = st.text("abcdefghijklmnopqrstuvwxyzABC-", min_size=1, max_size=12).filter(
    lambda name: name.lower() not in ("content-length", "transfer-encoding", "connection")
)
_values = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)


@st.composite
def responses(draw: st.DrawFn) -> Sent:
    status = draw(st.sampled_from([200, 201, 400, 404, 409, 429, 500, 503]))
    headers = draw(st.lists(st.tuples(_names, _values), max_size=5, unique_by=lambda pair: pair[0].lower()))
    parts = draw(st.lists(st.binary(min_size=1, max_size=50), max_size=5))
    body, framing = b"".join(parts), draw(st.sampled_from(["length", "chunked", "close"]))
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers)
    before = b"HTTP/1.1 100 Continue\r\n\r\n" * draw(st.integers(0, 2))
    head = before + f"HTTP/1.1 {status} Some Reason\r\n{fields}".encode()
    match framing:
        case "length":
            data = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        case "chunked":
            chunks = b"".join(b"%X\r\n%b\r\n" % (len(part), part) for part in parts)
            data = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        case _:
            data = head + b"\r\n" + body
    return Sent(status, headers, body, data, framing == "close")


@given(responses(), st.data())
def test_what_was_said_is_what_is_read_however_it_is_cut(sent: Sent, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(sent.data))))
    response = read(sent.data, cuts=cuts, is_closed=sent.ends_with_connection)
    assert response is not None
    assert (response.status, response.body) == (sent.status, sent.body)
    assert response.keep_alive is not sent.ends_with_connection
    assert {name.lower(): value for name, value in sent.headers}.items() <= response.headers.items()


class _Bytes:
    """What `http.client` reads from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@given(responses())
def test_it_is_read_as_the_standard_library_reads_it(sent: Sent) -> None:
    judge = http.client.HTTPResponse(_Bytes(sent.data))  # type: ignore[arg-type]  # as much of a socket as it needs
    judge.begin()
    response = read(sent.data, is_closed=sent.ends_with_connection)
    assert response is not None
    assert (response.status, response.body) == (judge.status, judge.read())


@given(responses(), st.data())
def test_a_response_that_was_damaged_is_read_or_refused_and_never_breaks_the_reader(
    sent: Sent, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(sent.data)))
    length = data.draw(st.integers(0, 5))
    damaged = sent.data[:at] + data.draw(st.binary(max_size=5)) + sent.data[at + length :]
    parser = ResponseParser()
    parser.begin()
    try:
        response = parser.feed(damaged)
        if response is None:
            response = parser.end()
    except MalformedResponseError:
        return
    assert 200 <= response.status < 600


@given(st.binary(max_size=200))
def test_noise_is_never_a_response(noise: bytes) -> None:
    parser = ResponseParser()
    parser.begin()
    try:
        assert noise.startswith(b"HTTP/1.") or parser.feed(noise) is None
    except MalformedResponseError:
        return
