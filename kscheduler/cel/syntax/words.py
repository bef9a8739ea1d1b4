"""Splits an expression into words, as CEL's lexer does."""

import re

from kscheduler.cel.syntax.tree import Token

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
