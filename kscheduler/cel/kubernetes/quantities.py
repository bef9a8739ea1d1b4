"""Quantities with the arithmetic of Go's `resource.Quantity`: 64-bit integers with a power of ten while they fit.

A quantity that outgrows that becomes a decimal of any size, and some answers differ then: a decimal is never an
integer.
"""

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kscheduler.cel.steps import spend
from kscheduler.cel.values.kinds import ErrorValue, Opaque

_SHAPE = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*")
_FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_WRONG = "unable to parse quantity's suffix"
NUMERIC_WRONG = "unable to parse numeric part of quantity"
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_PARTS = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.DOTALL)
SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
MOST = 2**63 - 1
LEAST = -(2**63)
_DIGITS = 18
NANO = -9
# Texts of quantities whose parts are kept, and the longest of them: the same few are read for each device.
_KEPT, _SHORT = 1024, 24
# Beyond this a power of ten is not computed: the number is as good as zero, or refused.
_LARGEST_EXPONENT = 10_000


class QuantityTextError(ValueError):
    """The text is no quantity; the message is Kubernetes'."""


class Digits(NamedTuple):
    """The text of a quantity in its parts. `zeros` are those before the first digit of `whole`."""

    negative: bool
    zeros: str
    whole: str
    fraction: str
    base: int
    exponent: int
    notation: str


class Decimal:
    """`value * 10^scale`, of any size; 1.36 shares it between quantities that were added, so adding changes all of
    them.
    """

    __slots__ = ("scale", "value")

    def __init__(self, value: int, scale: int) -> None:
        self.value, self.scale = value, scale


class Quantity(Opaque):
    """An amount: `value * 10^scale` while `decimal` is None, else the decimal. `pointer`: what a sum gives, which
    equals no quantity that was read (`a == b.add(c)` is an error in Kubernetes).
    """

    __slots__ = ("decimal", "notation", "pointer", "scale", "value")
    TYPE_NAME = "kubernetes.Quantity"
    SHORT_NAME = "Quantity"
    GO_VALUE = "*resource.Quantity"

    def __init__(self, value: int, scale: int, decimal: Decimal | None = None, *, pointer: bool = False) -> None:
        self.value, self.scale, self.decimal = value, scale, decimal
        self.pointer = pointer
        self.notation = "decimal"

    @property
    def GO_TYPE(self) -> str:  # type: ignore[override]  # noqa: N802 : the name of what it overrides
        """The type in Go."""
        return "*cel.Quantity" if self.pointer else "cel.Quantity"

    def amount(self) -> tuple[int, int]:
        """Digits and power of ten."""
        return (self.value, self.scale) if self.decimal is None else (self.decimal.value, self.decimal.scale)

    def equals(self, other: Opaque) -> bool | ErrorValue:
        """Whether another amount is the same."""
        if not isinstance(other, Quantity) or other.pointer:
            return ErrorValue("no such overload")
        return self.ordered(other) == 0

    def ordered(self, other: "Quantity") -> int:
        """-1, 0 or 1; neither quantity changes. Raises `TooManyStepsError`."""
        if self.scale == other.scale and self.decimal is None and other.decimal is None:
            return (self.value > other.value) - (self.value < other.value)
        return self.order(self.amount(), other.amount())

    @staticmethod
    def order(one: tuple[int, int], other: tuple[int, int]) -> int:
        """-1, 0 or 1 for two amounts. Raises `TooManyStepsError`."""
        return _compared(one, other)

    def fresh(self) -> "Quantity":
        """The same amount, on its own."""
        decimal = None if self.decimal is None else Decimal(self.decimal.value, self.decimal.scale)
        copy = Quantity(self.value, self.scale, decimal)
        copy.notation = self.notation
        return copy

    def text(self) -> str:
        """The canonical form, in the notation in which the quantity was written."""
        value, scale = self.amount()
        if not value:
            return "0"
        while value % 10 == 0 and scale < 0:
            value, scale = value // 10, scale + 1
        if self.notation == "binary" and scale >= 0 and not -1024 < value * 10**scale < 1024:
            whole, power = value * 10**scale, 0
            while whole % 1024 == 0:
                whole, power = whole // 1024, power + 1
            return f"{whole}{('', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei')[min(power, 6)]}"
        while value % 10 == 0:
            value, scale = value // 10, scale + 1
        value, scale = value * 10 ** (scale % 3), scale - scale % 3
        if self.notation == "exponent":
            return f"{value}e{scale}" if scale else str(value)
        return f"{value}{SUFFIXES.get(scale, '')}"

    def to_decimal(self) -> Decimal:
        """The decimal, which the quantity is from now on."""
        if self.decimal is None:
            self.decimal = Decimal(self.value, self.scale)
            self.value = self.scale = 0
        return self.decimal

    def sign(self) -> int:
        """-1, 0 or 1."""
        value = self.amount()[0]
        return (value > 0) - (value < 0)

    def as_integer(self) -> int | None:
        """The amount if it is held as an integer of 64 bits; a fraction or a decimal is None."""
        if self.decimal is not None or self.scale < 0:
            return None
        if self.scale > _DIGITS and self.value:
            return None
        value = self.value * 10**self.scale if self.value else 0
        return value if LEAST < value <= MOST or self.scale == 0 else None

    def as_float(self) -> float:
        """The amount as a double: the digits as a double, times the power of ten as a double."""
        value, scale = self.amount()
        try:
            base = float(value)
        except OverflowError:
            base = float("inf") * (1 if value > 0 else -1)
        if scale == 0:
            return base
        return base * power_of_ten(scale)

    def compare(self, other: "Quantity") -> int:
        """-1, 0 or 1. Beside a decimal the quantity becomes one too."""
        if self.decimal is not None or other.decimal is not None:
            self.to_decimal()
        return self.ordered(other)

    def plus(self, other: "Quantity", *, sign: int, shared: bool) -> "Quantity":
        """The sum or difference. `shared`: the decimal of a quantity is changed in place, as 1.36 does it."""
        result = Quantity(self.value, self.scale, self.decimal, pointer=True)
        result.notation = self.notation if self.amount()[0] else other.notation
        if not shared and self.decimal is not None:
            result.decimal = Decimal(self.decimal.value, self.decimal.scale)
        if self.decimal is None and other.decimal is None:
            summed = added((self.value, self.scale), (sign * other.value, other.scale))
            if summed is not None:
                result.value, result.scale = summed
                return result
        decimal = result.to_decimal()
        decimal.value, decimal.scale = exactly_added((decimal.value, decimal.scale), other.amount(), sign)
        return result


def power_of_ten(scale: int) -> float:
    """Go's math.Pow10, last digit included: two factors of a table; 0 below 1e-323, infinite above 1e308."""
    if scale < -323:
        return 0.0
    if scale > 308:
        return float("inf")
    coarse, fine = divmod(abs(scale), 32)
    if scale >= 0:
        return float(f"1e{32 * coarse}") * float(f"1e{fine}")
    return float(f"1e-{32 * coarse}") / float(f"1e{fine}")


def _compared(one: tuple[int, int], other: tuple[int, int]) -> int:
    mine, theirs = _aligned(one, other)
    return (mine > theirs) - (mine < theirs)


def _aligned(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Both digits at the smaller power of ten (zero has any power)."""
    if not one[0] or not other[0]:
        return one[0], other[0]
    least = min(one[1], other[1])
    return one[0] * power(one[1] - least), other[0] * power(other[1] - least)


def power(exponent: int) -> int:
    """A power of ten, which has as many digits. Raises `TooManyStepsError`."""
    spend(exponent)
    number: int = 10**exponent
    return number


def integer(digits: str) -> int:
    """Of any length: Python reads 4,300 digits in one go."""
    number = 0
    for start in range(0, len(digits), _DIGITS_AT_ONCE):
        part = digits[start : start + _DIGITS_AT_ONCE]
        number = number * power(len(part)) + int(part)
    return number


def added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    """The sum within 64 bits, or None."""
    if other[0] == 0:
        return one
    if one[0] == 0:
        return other
    (mine, least), (theirs, other_scale) = one, other
    if least > other_scale:
        mine, least = mine * 10 ** min(least - other_scale, 40), other_scale
    elif other_scale > least:
        theirs *= 10 ** min(other_scale - least, 40)
    total = mine + theirs
    fits = LEAST <= mine <= MOST and LEAST <= theirs <= MOST and LEAST <= total <= MOST
    return (total, least) if fits else None


def exactly_added(one: tuple[int, int], other: tuple[int, int], sign: int) -> tuple[int, int]:
    least = min(one[1], other[1])
    mine, theirs = (value * power(scale - least) for value, scale in (one, other))
    return mine + sign * theirs, least


_DIGITS_AT_ONCE = 4_000


def parse(text: str) -> Quantity:
    """Read a quantity as Kubernetes does. Raises `QuantityTextError`."""
    if text == "0":
        return Quantity(0, 0)
    digits = split(text)
    value = quick_value(digits, _DIGITS)
    quantity = _slow(digits) if value is None else Quantity(*value)
    quantity.notation = digits.notation
    return quantity


def split(text: str) -> Digits:
    """The parts. Raises `QuantityTextError`."""
    return _split_short(text) if len(text) <= _SHORT else _split(text)


def _split(text: str) -> Digits:
    match = _PARTS.fullmatch(text) if text else None
    if match is None:
        raise QuantityTextError(_FORMAT_WRONG)
    sign, zeros, whole, fraction, suffix = match.groups()
    base, exponent = _suffix(suffix)
    notation = "binary" if base == 2 else "decimal" if suffix in _DECIMAL else "exponent"
    return Digits(sign == "-", zeros, whole, fraction or "", base, exponent, notation)


_split_short = lru_cache(maxsize=_KEPT)(_split)


def _suffix(suffix: str) -> tuple[int, int]:
    """Base (10 or 2) and exponent."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return 2, _BINARY[suffix]
    if suffix[0] in "eE" and re.fullmatch(r"[+-]?[0-9]{1,19}", suffix[1:]):
        exponent = int(suffix[1:])
        if abs(exponent) < 2**63:
            # Go keeps 32 bits of the exponent.
            return 10, (exponent + 2**31) % 2**32 - 2**31
    raise QuantityTextError(SUFFIX_WRONG)


def quick_value(digits: Digits, most: int) -> tuple[int, int] | None:
    """The number as a 64-bit integer and a power of ten, if it has at most so many digits.

    No digits at all count as 0, as long as the number is small enough for this.
    """
    whole, fraction = digits.whole or "0", digits.fraction
    scale, factor = (digits.exponent, 1) if digits.base == 10 else (0, 1 << digits.exponent)
    if digits.base == 10:
        precision = most - len(whole) - len(fraction)
    else:
        precision = 15 - len(whole) - digits.exponent * 3 // 10 - 1 if not fraction else -1
    scale -= len(fraction)
    if precision < 0 or scale < NANO:
        return None
    value = int(whole + fraction) * factor
    if value > MOST and not (digits.negative and value == -LEAST and factor == 1):
        return None
    return -value if digits.negative else value, scale


def _slow(digits: Digits) -> Quantity:
    """The quantity as a decimal of nine places, rounded away from zero; binary ones end at the largest int64.

    Nine places also where fewer would do: `asApproximateFloat` multiplies by their power of ten, and loses a digit.
    """
    if not digits.zeros + digits.whole + digits.fraction:
        raise QuantityTextError(NUMERIC_WRONG)
    value = integer(digits.zeros + digits.whole + digits.fraction)
    scale = -len(digits.fraction)
    if digits.base == 10:
        scale += digits.exponent
    else:
        value <<= digits.exponent
    if value and scale < NANO:
        drop = NANO - scale
        value, scale = (1 if drop > _LARGEST_EXPONENT else -(-value // power(drop))), NANO
    if not value:
        scale = max(scale, NANO)
    if scale > _LARGEST_EXPONENT:
        raise QuantityTextError(NUMERIC_WRONG)
    if value:
        value, scale = value * power(scale - NANO), NANO
    if digits.base == 2 and _compared((value, scale), (MOST, 0)) > 0:
        value, scale = MOST, 0
    return Quantity(0, 0, Decimal(-value if digits.negative else value, scale))


def read(value: Any) -> Quantity:
    """A quantity of an object: its text, or a number."""
    return parse(value if isinstance(value, str) else repr(value))
