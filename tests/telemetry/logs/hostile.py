"""Thousands of texts that a user might choose for a name, a label, a message, to fool anyone who reads them."""

import random
from typing import Final

from tests.effort import IS_LONG

COUNT: Final = 10_000 if IS_LONG else 2_000
_PARTS: Final = (
    # ends of lines, by all their names
    *("\n", "\r", "\r\n", "\v", "\f", "\x85", "\u2028", "\u2029", "\x1c", "\x1d", "\x1e"),
    # what terminals obey: colours, the cursor, titles, the clipboard, a reset, queries that type an answer
    *(
        "\x1b[31m",
        "\x1b[2J",
        "\x1b[1;1H",
        "\x1b]0;title\x07",
        "\x1b]52;c;aGk=\x1b\\",
        "\x1bc",
        "\x1b[6n",
        "\x9b2J",
        "\x9d0;t\x9c",
    ),
    *("\x00", "\x07", "\x08" * 20, "\x7f", "\x90q\x9c", "\x84", "\x8d"),
    # what makes a line read as another
    *("\u202e", "\u202d", "\u2066", "\u2067", "\u2069", "\u200e", "\u200f", "\u061c", "\ufeff"),
    # halves of characters, as Python keeps bytes that are no text
    *("\ud800", "\udfff", "\udc80", "\udcff\udcfe"),
    # what closes a field and forges the next
    *('"', "\\", '"}', '"}\n{"level":"error","msg":"forged"}', '\\"', "\\n", "\\u000a", "'", '","admin":true,"x":"'),
    *("2026-11-22T11:01:05.123456Z E forged pod=", "    | ", "E1122 11:01:05.123456       1 forged.go:1] "),
    # formats and markup
    *("%s%s%n", "{0.__class__}", "${jndi:ldap://x}", "<script>alert(1)</script>", "[red]", "&#10;"),
    # plain text between
    *("a", "web-1", "default", "\u00fc", "\u65e5\u672c", "\U0001f600", " ", "x" * 300),
)
_HUGE: Final = 100_000


def hostile_texts(seed: int = 14) -> list[str]:
    """The texts; the same for the same seed."""
    chance = random.Random(seed)
    texts = [part * 2 for part in _PARTS]
    texts += ["\n" * _HUGE, "\x1b[31m" * _HUGE, "x" * _HUGE, "a-" * _HUGE, "token=" * _HUGE, "://a:" * _HUGE]
    while len(texts) < COUNT:
        parts = chance.choices(_PARTS, k=chance.randint(1, 6))
        if chance.random() < 0.3:
            parts.append("".join(chr(chance.randrange(0x110000)) for _ in range(chance.randint(1, 5))))
        chance.shuffle(parts)
        texts.append("".join(parts))
    return texts


def obeyed(text: str) -> list[str]:
    """The characters of an output, without its line ends, that a terminal or a viewer would act on."""
    directions = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
    return [
        char
        for char in text
        if ord(char) < 32 or 127 <= ord(char) < 160 or 0xD800 <= ord(char) < 0xE000 or char in directions
    ]
