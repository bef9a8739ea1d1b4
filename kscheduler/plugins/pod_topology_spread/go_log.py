"""Go's natural logarithm, to the last bit.

A spread score is rounded from a sum of counts times logarithms. Go on amd64 computes them with the reduction and the
polynomial of fdlibm (e_log.c), whose last bit differs from the C library's for about one size in a hundred. So this
module does the same operations in the same order.

    x = 2^k (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2);  s = f / (2 + f);  log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2))
"""

import math
from functools import lru_cache
from typing import Final

_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_ODD: Final = (1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01, 6.666666666666735130e-01)
_EVEN: Final = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)
"""Coefficients of R, highest power first."""


@lru_cache(maxsize=4096)
def go_log(number: int) -> float:
    """The natural logarithm of a positive integer, as Go's `math.Log(float64(number))`."""
    fraction, exponent = math.frexp(float(number))
    if fraction < math.sqrt(2.0) / 2.0:
        fraction, exponent = fraction * 2.0, exponent - 1
    f = fraction - 1.0
    s = f / (2.0 + f)
    s2 = s * s
    s4 = s2 * s2
    remainder = s2 * _polynomial(_ODD, s4) + s4 * _polynomial(_EVEN, s4)
    half_square = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half_square - (s * (half_square + remainder) + exponent * _LN2_LOW)) - f)


def _polynomial(coefficients: tuple[float, ...], variable: float) -> float:
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = coefficient + variable * value
    return value
