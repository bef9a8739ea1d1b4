"""Sums over nodes, exact where an int64 wraps.

Two nodes on which `9E` of a resource are requested come to more than an int64 holds. Halves of 32 bits do not: their
sums are exact for up to 2**31 rows, in two numpy operations each, and Python puts them together.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_HALF_BITS: Final = 32
_LOW_HALF: Final = 2**_HALF_BITS - 1


def exact_sum(amounts: NDArray[np.int64]) -> int:
    """The sum of int64 amounts, which may be negative, as a Python integer of any size."""
    high, low = amounts >> _HALF_BITS, amounts & _LOW_HALF
    return (int(high.sum()) << _HALF_BITS) + int(low.sum())
