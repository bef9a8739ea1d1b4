"""The values of literals: numbers within 64 bits, strings and bytes with their escapes."""

import re

from kscheduler.cel.syntax.nodes import Token

# Splits an expression into words, as CEL's lexer does.

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"
_STRING = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
    r'|[rR]"""[\s\S]*?"""'
    r"|[rR]'''[\s\S]*?'''"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*'"
)
_WORD = re.compile(
    r"(?P<skip>(?:[\t \r\n\x0c]+|//[^\n]*)+)"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<ident>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<escaped>`[A-Za-z0-9_./ -]+`)"
    r"|(?P<op>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,!?:+*/%-])"
)
_KEYWORDS = frozenset(("in", "true", "false", "null"))


_DOUBLED = frozenset("=&|")


class SyntaxProblemError(ValueError):
    """The expression does not follow the grammar: the text says why, `offset` where (in code points)."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def split(text: str) -> tuple[list[str], list[Token]]:
    """The kinds of the words (an operator or keyword is its own kind) and the words; the last kind is `end`.

    Raises `SyntaxProblemError`.
    """
    kinds: list[str] = []
    words: list[Token] = []
    at = 0
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            raise SyntaxProblemError(at, _problem(text[at]))
        kind = match.lastgroup or ""
        if kind != "skip":
            word = match.group()
            kinds.append(word if kind == "op" or (kind == "ident" and word in _KEYWORDS) else kind)
            words.append(Token(word, at))
        at = match.end()
    kinds.append("end")
    words.append(Token("<EOF>", len(text)))
    return kinds, words


def _problem(letter: str) -> str:
    """What is wrong where no word begins."""
    if letter in "'\"":
        return "a string that does not end, or has an unknown escape"
    hint = f", expected '{letter * 2}'" if letter in _DOUBLED else ""
    return f"unexpected '{letter}'{hint}"


_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_HEX_DIGITS = {"x": 2, "X": 2, "u": 4, "U": 8}
_BAD = "unable to unescape string"
# Of a number within 64 bits, zeros before it aside.
_MAX_DIGITS = 20
_LARGEST_CODE_POINT = 0x10FFFF


class LiteralError(ValueError):
    """The text is no literal; the message is CEL's."""


def integer(text: str, *, signed: bool) -> int:
    """An int or uint, in decimal or with `0x`. Raises `LiteralError`."""
    negative = text.startswith("-")
    digits = text.removeprefix("-")
    base = 16 if digits.startswith("0x") else 10
    digits = digits.lstrip("0x") or "0"
    if len(digits) > _MAX_DIGITS:
        raise LiteralError  # Python reads no more than 4,300 in one go
    value = int(digits, base)
    value = -value if negative else value
    least, beyond = (-(2**63), 2**63) if signed else (0, 2**64)
    if not least <= value < beyond:
        raise LiteralError
    return value


def double(text: str) -> float:
    """Raises `LiteralError` if the number is beyond a double."""
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise LiteralError
    return value


def unquote(text: str, *, as_bytes: bool) -> str | bytes:
    """The string or bytes of a literal with its quotes (and an `r` before them). Raises `LiteralError`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[:1] in ("r", "R")
    text = text[1:] if raw else text
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        raise LiteralError(_BAD)
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    inner = text[quotes:-quotes]
    if raw or "\\" not in inner:
        return inner.encode() if as_bytes else inner
    return _escaped_bytes(inner) if as_bytes else "".join(_pieces(inner))


def _pieces(inner: str) -> list[str]:
    pieces: list[str] = []
    at = 0
    while at < len(inner):
        if inner[at] != "\\":
            pieces.append(inner[at])
            at += 1
            continue
        code, at = _escape(inner, at)
        if code > _LARGEST_CODE_POINT or 0xD800 <= code <= 0xDFFF:
            message = "invalid unicode code point"
            raise LiteralError(message)
        pieces.append(chr(code))
    return pieces


def _escaped_bytes(inner: str) -> bytes:
    out = bytearray()
    at = 0
    while at < len(inner):
        if inner[at] != "\\":
            out += inner[at].encode("utf-8", "surrogatepass")
            at += 1
            continue
        if inner[at + 1 : at + 2] in ("u", "U"):
            raise LiteralError(_BAD)
        code, at = _escape(inner, at)
        out.append(code & 0xFF)
    return bytes(out)


def _escape(inner: str, at: int) -> tuple[int, int]:
    """The number behind the backslash at `at`, and where the text goes on."""
    letter = inner[at + 1 : at + 2]
    if not letter:
        message = "unable to unescape string, found '\\' as last character"
        raise LiteralError(message)
    if letter in _SIMPLE:
        return ord(_SIMPLE[letter]), at + 2
    if letter in _HEX_DIGITS:
        end = at + 2 + _HEX_DIGITS[letter]
        try:
            return int(inner[at + 2 : end], 16), end
        except ValueError:
            raise LiteralError(_BAD) from None
    if letter in "0123":
        return int(inner[at + 1 : at + 4], 8), at + 4
    raise LiteralError(_BAD)
