"""Words for hostile objects, at the API server's limits: names, keys, values, amounts, expressions.

The style says how the words of one object are alike. The same seed and style always give the same words; another seed
gives others, so that what is kept of one object is of no use for the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Style(StrEnum):
    """How the words of an object are alike."""

    UNIQUE = "unique"
    """Short, and no two are equal: the most entries in an object."""
    LONG = "long"
    """As long as is allowed, no two are equal, and they differ in their last characters only."""
    EQUAL = "equal"
    """All are equal, where the API server allows it."""
    FULL = "full"
    """As UNIQUE; all fields of an entry are filled, with odd numbers and texts."""


class Form(StrEnum):
    """What a text must look like."""

    IDENTITY = "identity"  # a DNS label that must be unique in its list
    LABEL = "label"  # a DNS label
    NAME = "name"  # a DNS subdomain
    KEY = "key"  # of a label: a name, or a domain and a name
    UNIQUE_KEY = "unique key"  # a key that must be unique in its list
    VALUE = "value"  # of a label
    FREE = "free"  # anything, in any script
    RESOURCE = "resource"  # an extended resource
    NATIVE = "native resource"
    ATTRIBUTE = "attribute"  # a domain and an identifier
    DRIVER = "driver"
    QUANTITY = "quantity"
    EXPRESSION = "expression"  # in CEL
    TIME = "time"
    UID = "uid"
    VERSION = "version"  # semantic
    INTEGER = "integer"  # as a text
    SHORT = "short"  # at most 64 bytes


LONGEST_LABEL: Final = 63
LONGEST_NAME: Final = 253
LONGEST_IDENTIFIER: Final = 32
LONGEST_EXPRESSION: Final = 10 * 1024
LONGEST_FREE: Final = 20_000

# Amounts that the API server takes: tiny, huge, beyond 64 bits, of many digits.
ODD_QUANTITIES: Final = (
    "0",
    "1",
    "1m",
    "0.001",
    "9223372036854775807",
    "9E",
    "8Ei",
    "1e18",
    "123456789012345678",
    "1.000000001",
    "1n",
    "999999999999999999n",
    "100e-9",
    "12345678901234567890123456789012345678",
)
ODD_NUMBERS: Final = (0, 1, 2, 1000, 2**31 - 1)
_LONG_DOMAIN: Final = ".".join(["x" * LONGEST_LABEL] * (LONGEST_NAME // (LONGEST_LABEL + 1)))
# Forms that are a letter and a number, with the longest that is allowed (of a name's parts, each).
_LETTERS: Final[Mapping[Form, tuple[str, int]]] = {
    Form.IDENTITY: ("n", LONGEST_LABEL),
    Form.LABEL: ("n", LONGEST_LABEL),
    Form.NAME: ("n", LONGEST_LABEL),
    Form.VALUE: ("v", LONGEST_LABEL),
    Form.SHORT: ("s", LONGEST_LABEL),
    Form.DRIVER: ("d", LONGEST_LABEL),
}
_SCRIPTS: Final = "a\u0308\u05e9\u6f22\u5b57\U0001f642\u202e\ufdfa\u200b\t'\"<&"


@dataclass(slots=True)
class Words:
    """Hands out words. `variant` chooses among the values of an enumeration."""

    seed: int
    style: Style
    variant: int = 0
    given: int = field(default=0, init=False)

    @property
    def is_full(self) -> bool:
        """Whether optional fields are filled, too."""
        return self.style == Style.FULL

    def one_of(self, choices: Sequence[str]) -> str:
        """A value of an enumeration, the same in the whole object."""
        return choices[self.variant % len(choices)]

    def number(self) -> int:
        """A number that no other word of the object has."""
        self.given += 1
        return self.given

    def odd_number(self) -> int:
        """A number at an end of 32 bits, but never negative."""
        return ODD_NUMBERS[self.number() % len(ODD_NUMBERS)]

    def text(self, form: Form, *, must_differ: bool = False) -> str:
        """A text of the form. `must_differ`: in every style, as the keys of a map do."""
        number = self.number() if must_differ else self._number_of(form)
        if form in _LETTERS:
            return self._padded(*_LETTERS[form], number)
        match form:
            case Form.KEY | Form.UNIQUE_KEY:
                name = self._padded("k", LONGEST_LABEL, number)
                return f"{_LONG_DOMAIN}/{name}" if self.style == Style.LONG else name
            case Form.RESOURCE:
                return f"x.io/{self._padded('k', LONGEST_LABEL - len('requests.'), number)}"
            case Form.ATTRIBUTE:
                return f"x.io/{self._padded('a', LONGEST_IDENTIFIER, number).replace('-', '_')}"
            case Form.FREE:
                return self._free(number)
            case Form.EXPRESSION:
                return self._expression(number)
            case _:
                return self._number_as(form, number)

    def _number_as(self, form: Form, number: int) -> str:
        """Forms in which nothing but a number can differ."""
        match form:
            case Form.NATIVE:
                return "storage"
            case Form.QUANTITY if self.is_full:
                return ODD_QUANTITIES[number % len(ODD_QUANTITIES)]
            case Form.QUANTITY:
                return str(self.seed % 1000 * 100_000 + number + 1)
            case Form.TIME:
                return f"2026-11-{1 + number % 28:02}T{number % 24:02}:00:00Z"
            case Form.UID:
                return f"{self.seed % 2**32:08x}-0000-4000-8000-{number:012x}"
            case Form.VERSION:
                return f"{self.seed}.{number}.0"
            case _:
                return str(number)

    def _number_of(self, form: Form) -> int:
        must_differ = form in (Form.IDENTITY, Form.UNIQUE_KEY, Form.RESOURCE, Form.UID)
        return 0 if self.style == Style.EQUAL and not must_differ else self.number()

    def _padded(self, letter: str, longest: int, number: int) -> str:
        tail = f"{self.seed}-{number}"
        if self.style != Style.LONG:
            return f"{letter}{tail}"
        return f"{letter * (longest - len(tail))}{tail}"

    def _free(self, number: int) -> str:
        text = f"{self.seed}-{number}{_SCRIPTS if self.is_full else ''}"
        return text if self.style != Style.LONG else text.rjust(LONGEST_FREE, "y")

    def _expression(self, number: int) -> str:
        one = f'device.driver != "d{self.seed}-{number}"'
        if self.style != Style.LONG:
            return one
        return " || ".join([one.replace("!=", "==")] * (LONGEST_EXPRESSION // (len(one) + 4)))
