"""Quantities as of Kubernetes 1.38: 19 digits stay an integer, of a decimal 29 count, and no exponent takes long.

Nothing changes a quantity: before, one that was compared with a decimal became one. So it may be shared.
"""

from typing import Any, Final

from kscheduler.cel.kubernetes.quantities import (
    MOST,
    NANO,
    NUMERIC_WRONG,
    SUFFIX_WRONG,
    SUFFIXES,
    Decimal,
    Digits,
    Quantity,
    QuantityTextError,
    added,
    exactly_added,
    power,
    quick_value,
    split,
)

# Digits of an integer, of a decimal, and of a decimal with a binary suffix. What is smaller by more than the second is
# rounded before it is added.
_QUICK_DIGITS, _DIGITS, _BINARY_DIGITS = 19, 29, 70
_MAX_SCALE: Final = 2**31 - 1
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class WideQuantity(Quantity):
    """A quantity of 1.38."""

    __slots__ = ()

    def as_float(self) -> float:
        """The amount as a double."""
        return super().as_float() if self.amount()[0] else 0.0

    @staticmethod
    def order(one: tuple[int, int], other: tuple[int, int]) -> int:
        """-1, 0 or 1 for two amounts, whose magnitudes decide if they can."""
        signs = [(value > 0) - (value < 0) for value, _ in (one, other)]
        if signs[0] != signs[1] or not signs[0]:
            return (signs[0] > signs[1]) - (signs[0] < signs[1])
        (least, most), (other_least, other_most) = _bounds(*one), _bounds(*other)
        if least > other_most or most < other_least:
            return signs[0] if least > other_most else -signs[0]
        return Quantity.order(one, other)

    def compare(self, other: Quantity) -> int:
        """-1, 0 or 1."""
        return self.ordered(other)

    def plus(self, other: Quantity, *, sign: int, shared: bool) -> Quantity:
        """The sum or difference. If they are more than 29 powers of ten apart, the finer one is rounded up before."""
        del shared
        result = WideQuantity(self.value, self.scale, pointer=True)
        result.notation = self.notation if self.amount()[0] else other.notation
        theirs = (sign * other.amount()[0], other.amount()[1])
        if self.decimal is None and other.decimal is None and theirs[0] <= MOST:
            summed = added((self.value, self.scale), theirs)
            if summed is not None:
                result.value, result.scale = summed
                return result
        result.value = result.scale = 0
        result.decimal = Decimal(*_rounded_sum(self.amount(), theirs))
        return result

    def text(self) -> str:
        """The canonical form; what no suffix reaches has an exponent."""
        value, scale = self.amount()
        if not value:
            return "0"
        while value % 10 == 0:
            value, scale = value // 10, scale + 1
        if self.notation == "binary" and scale >= 0:
            whole, thousands = value * power(scale), 0
            while whole % 1024 == 0:
                whole, thousands = whole // 1024, thousands + 1
            if not -1024 < value * power(scale) < 1024 and thousands < len(_BINARY_SUFFIXES):
                return f"{whole}{_BINARY_SUFFIXES[thousands]}"
        value, scale = value * 10 ** (scale % 3), scale - scale % 3
        if self.notation != "exponent" and scale in SUFFIXES:
            return f"{value}{SUFFIXES[scale]}"
        return f"{value}e{scale}" if scale else str(value)


def _bounds(value: int, scale: int) -> tuple[int, int]:
    """Powers of ten between which a number is."""
    bits = value.bit_length()
    return bits // 4 + scale, bits // 3 + 1 + scale


def _rounded(value: int, drop: int) -> int:
    """Without so many digits, rounded away from zero."""
    if _bounds(value, 0)[1] <= drop:
        return (value > 0) - (value < 0)
    kept = -(-abs(value) // power(drop))
    return kept if value > 0 else -kept


def _rounded_sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    if not one[0] or not other[0]:
        return one if one[0] or not other[0] else other
    (mine, scale), (theirs, other_scale) = one, other
    gap = scale - other_scale
    if gap > _DIGITS:
        theirs, other_scale = _rounded(theirs, gap - _DIGITS), scale - _DIGITS
    elif -gap > _DIGITS:
        mine, scale = _rounded(mine, -gap - _DIGITS), other_scale - _DIGITS
    return exactly_added((mine, scale), (theirs, other_scale), 1)


def parse(text: str) -> WideQuantity:
    """Read a quantity as Kubernetes 1.38 does. Raises `QuantityTextError`."""
    if text == "0":
        return WideQuantity(0, 0)
    digits = split(text)
    value = quick_value(digits, _QUICK_DIGITS)
    quantity = WideQuantity(0, 0, _decimal(digits)) if value is None else WideQuantity(*value)
    below_one = value is None and quantity.order((0, 0), quantity.amount()) < 0 < quantity.order(
        (1, 0), quantity.amount()
    )
    quantity.notation = "decimal" if digits.notation == "binary" and below_one else digits.notation
    return quantity


def _decimal(digits: Digits) -> Decimal:
    """What does not fit an integer: nothing finer than nano, rounded away from zero."""
    if not digits.zeros + digits.whole + digits.fraction:
        raise QuantityTextError(NUMERIC_WRONG)
    if digits.base == 10 and digits.exponent == -_MAX_SCALE - 1:
        raise QuantityTextError(SUFFIX_WRONG)
    significant = (digits.whole + digits.fraction).lstrip("0") or "0"
    most = _DIGITS if digits.base == 10 else _BINARY_DIGITS
    kept, dropped = significant[:most], significant[most:]
    value = int(kept) + (dropped.strip("0") != "")
    scale = len(dropped) - len(digits.fraction)
    if digits.base == 10:
        scale = max(min(scale + digits.exponent, _MAX_SCALE), -_MAX_SCALE)
    else:
        value <<= digits.exponent
    if value and scale < NANO:
        value, scale = _rounded(value, NANO - scale), NANO
    if digits.base == 2 and WideQuantity.order((value, scale), (MOST, 0)) > 0:
        value, scale = MOST, 0
    return Decimal(-value if digits.negative else value, scale)


def read(value: Any) -> WideQuantity:
    """A quantity of an object: its text, or a number."""
    return parse(value if isinstance(value, str) else repr(value))
