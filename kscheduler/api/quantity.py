"""Resource quantities (`500m`, `1.5Gi`, `80e-1`) as exact integers.

A quantity is read as kube-scheduler reads it: CPU in thousandths, everything else in units, both rounded *up*.
What is larger than an int64 holds becomes 2^63 - 1, as in Kubernetes 1.38. Before, Go kept the low 64 bits of a huge
decimal (`1e30`): then this is an intended difference (docs/differences.md), so that an absurd number can never make
room on a node.
"""

import re
from functools import lru_cache

# Every quantity saturates here; columns are int64.
MAX_INT64 = 2**63 - 1

# A quantity as it may stand in JSON or YAML; the API server always sends strings.
Quantity = str | int | float

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE][+-]?[0-9]{1,64})|([KMGTPE]i|[numkMGTPE]?))")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Beyond 10^64 a number saturates (or vanishes) whatever its digits are, so no huge power is ever computed.
_LARGEST_EXPONENT = 64


# Cached texts per function (three functions): a hundred bytes each, which save two microseconds.
KEPT = 8192

_PLAIN_DIGITS = 18
# Digits after the point that are read; the API server keeps nine.
_LONGEST_FRACTION = 256


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity; the message shows it."""


@lru_cache(maxsize=KEPT)
def milli_value(quantity: Quantity) -> int:
    """Thousandths, the unit of CPU, rounded up and saturated. Raises `QuantityError`."""
    return _scaled(quantity, 3)


@lru_cache(maxsize=KEPT)
def value(quantity: Quantity) -> int:
    """Whole units, rounded up and saturated: bytes, pods, devices. Raises `QuantityError`."""
    return _scaled(quantity, 0)


@lru_cache(maxsize=KEPT)
def nano_value(quantity: Quantity) -> int:
    """Billionths, the finest that the API keeps, rounded up and *not* saturated at int64: for exact sums."""
    return _scaled(quantity, 9, limit=MAX_INT64 * 10**9)


@lru_cache(maxsize=KEPT)
def exact_value(quantity: Quantity) -> int:
    """Billionths, also beyond int64, for comparisons: Go's Quantity caps only those with a binary suffix."""
    return _scaled(quantity, 9, limit=10 ** (_LARGEST_EXPONENT + 9))


def _scaled(quantity: Quantity, shift: int, limit: int = MAX_INT64) -> int:
    text = quantity if isinstance(quantity, str) else repr(quantity)
    if text.isdecimal() and text.isascii() and len(text) <= _PLAIN_DIGITS:
        plain: int = int(text) * 10**shift
        return min(plain, limit)  # a pod may have tens of thousands of amounts, each another one
    match = _SHAPE.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise _refused(text)
    sign, whole, fraction, exponent, suffix = match.groups()
    fraction = (fraction or "").rstrip("0")[:_LONGEST_FRACTION]
    digits = int(whole.lstrip("0")[: _LARGEST_EXPONENT + 1] + fraction or "0")
    ten = shift - len(fraction) + (_narrowed(exponent, text) if exponent else _DECIMAL.get(suffix, 0))
    if suffix in _BINARY:
        limit = min(limit, MAX_INT64 * 10**shift)
    magnitude = _ceil(digits << _BINARY.get(suffix, 0), ten, limit, negative=sign == "-")
    return -magnitude if sign == "-" else magnitude


def _refused(text: str) -> QuantityError:
    return QuantityError(f"quantity {text!r} is not a number with an optional suffix such as m, k, Mi or e3")


def _narrowed(exponent: str, text: str) -> int:
    """The exponent as Go reads it: of an int64 the low 32 bits, and not the least of these."""
    number = int(exponent[1:])
    low = (number + 2**31) % 2**32 - 2**31
    if not -(2**63) <= number < 2**63 or low == -(2**31):
        raise _refused(text)
    return low


def _ceil(digits: int, ten: int, limit: int, *, negative: bool) -> int:
    """`digits * 10^ten` rounded up (towards zero for a negative number's magnitude) and saturated."""
    if digits == 0:
        return 0
    if ten >= 0:
        return limit if ten > _LARGEST_EXPONENT else min(digits * 10**ten, limit)
    if -ten > _LARGEST_EXPONENT * 8:
        return 0 if negative else 1
    divisor: int = 10**-ten
    return min(digits // divisor if negative else -(-digits // divisor), limit)
