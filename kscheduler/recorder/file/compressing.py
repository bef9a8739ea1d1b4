"""The zlib stream of a segment, written by ISA-L where it is installed, in a quarter of zlib's time.

Both write the same format, and whoever reads need not know.
"""

import zlib
from typing import Final, Protocol

_LEVEL: Final = 1
"""Of zlib's, 4 times as fast as the default for a tenth more bytes; of ISA-L's, the first that is smaller than that."""


class Compressor(Protocol):
    """As in `zlib`."""

    def compress(self, data: bytes, /) -> bytes:
        """What is ready of it."""
        ...

    def flush(self, mode: int = ..., /) -> bytes:
        """What is left to be written."""
        ...


def compressor() -> Compressor:
    """The beginning of a stream."""
    try:
        from isal import isal_zlib
    except ImportError:  # for this machine there is no wheel
        return zlib.compressobj(_LEVEL)
    return isal_zlib.compressobj(_LEVEL)
