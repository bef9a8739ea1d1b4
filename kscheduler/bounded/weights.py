"""What an entry weighs, estimated from the length of its encoding: a C function, a microsecond for a plain pod.

A walk through the objects would be exact and a hundred times as slow. Short words weigh most: a key of ten characters
takes seventy bytes as a string, and its requirement a few hundred once it is parsed. Limits: a list of empty structs,
as terms of a node selector may be, takes up to nine times its estimate.
"""

from typing import Any, Final

import msgspec

BYTES_PER_ENCODED_BYTE: Final = 16
"""Between what `tracemalloc` finds for pods of 100 kB: 1.4 to 2.3 of the longest words; of short ones 4 to 13 as
they are decoded, and 6 to 25 with what is parsed from them; of empty node selector terms, a byte each, 40 and 143."""

_encode: Final = msgspec.msgpack.Encoder(enc_hook=str).encode


def weight_of(value: Any) -> int:
    """Bytes that a value takes in memory, about: structs, tuples, mappings and texts."""
    return BYTES_PER_ENCODED_BYTE * len(_encode(value))
