"""Among equals: a choice that looks like chance and can be made again."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

TIE_RULE: Final = "highest mix of pod UID and node name"
"""How an explanation names the rule by which one of equal nodes wins."""

_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Spread 64-bit hashes under a seed (the finaliser of splitmix64): equal inputs mix equally everywhere."""
    mixed = hashes ^ np.uint64(seed)
    shifted = mixed >> _30
    mixed ^= shifted
    mixed *= _FIRST
    np.right_shift(mixed, _27, out=shifted)
    mixed ^= shifted
    mixed *= _SECOND
    np.right_shift(mixed, _31, out=shifted)
    mixed ^= shifted
    return mixed
