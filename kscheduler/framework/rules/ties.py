"""Tie-breaking: a choice among equal nodes that looks random and is reproducible."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

TIE_RULE: Final = "highest mix of pod UID and node name"
"""The rule by which one of equal nodes is chosen, as explanations name it."""

_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Mix 64-bit hashes with a seed (the finaliser of splitmix64): uint64, shape of `hashes`, the same everywhere."""
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
