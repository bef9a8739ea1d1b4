"""Imports without the cyclic garbage collector, for the start of a process.

The problem: an import makes tens of thousands of objects of which none is garbage, and the collector walks over all of
them again and again: a tenth of the CPU of a start. The idea: it pauses until the imports are done. All that was made
meanwhile is then young, so that the first collection of each generation would walk over the whole of it, 25 ms each; it
is frozen instead, as `kscheduler.aio.collector` does later with what a cluster fills the process with.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_pauses() -> Iterator[None]:
    """Pause automatic collections in the body of the `with` statement; then all objects are frozen. May be nested."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()
