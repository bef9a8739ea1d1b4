"""Imports without the cyclic garbage collector, for the start of a process.

The problem: an import makes tens of thousands of objects of which none is garbage, and the collector walks over all of
them again and again: a tenth of the CPU of a start. The idea: it pauses until the imports are done.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_pauses() -> Iterator[None]:
    """Pause automatic collections in the body of the `with` statement; nested uses are fine."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
