"""How much is logged about pods: klog's `-v`, or what `--vmodule` says of the module `pods`.

`verbose` is called before a line is put together, thousands of times a second, so it is a single comparison. All other
loggers log little, and the pipeline looks at their names (`modules`).
"""

from typing import Final

# Warnings and errors only: for programs that print something else.
WARNINGS: Final = -1
# What the service itself does, warnings and errors: always.
SERVICE: Final = 0
# From this level on libraries log more than warnings.
LIBRARIES: Final = 2
# klog's debugging verbosity.
DEBUG: Final = 4

_verbosity = SERVICE


def verbose(level: int) -> bool:
    """Whether lines of this level about pods are written; guards whatever such a line costs to put together."""
    return _verbosity >= level


def set_verbosity(level: int) -> None:
    """Set the process's verbosity for lines about pods."""
    global _verbosity  # noqa: PLW0603  # a process has one verbosity
    _verbosity = level
