"""Splits an expression into words, as CEL's lexer does. Whatever it does not know is left to
`kscheduler.cel.syntax.antlr`.
"""

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


class UnknownWordError(ValueError):
    """There is something in the text that is no word of CEL."""


def split(text: str) -> tuple[list[str], list[Token]]:
    """The kinds of the words (an operator or keyword is its own kind) and the words; the last kind is `end`."""
    kinds: list[str] = []
    words: list[Token] = []
    at = 0
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None:
            raise UnknownWordError(text[at])
        kind = match.lastgroup or ""
        if kind != "skip":
            word = match.group()
            kinds.append(word if kind == "op" or (kind == "ident" and word in _KEYWORDS) else kind)
            words.append(Token(word, at))
        at = match.end()
    kinds.append("end")
    words.append(Token("<EOF>", len(text)))
    return kinds, words
