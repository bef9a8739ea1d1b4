"""The errors of what is asked: a file, a flag, a request or an object that cannot be used."""

from collections.abc import Iterable
from typing import Final

# Problems of new objects that are reported, a line each.
MAX_PROBLEMS: Final = 20


class ScenarioError(ValueError):
    """A scenario cannot be read. The text is a line, `FILE:LINE: field: what is wrong`; of new objects one for each."""


class ClusterError(ValueError):
    """What was given cannot be used: a file, a field, an object, a configuration; or a cluster could not be read.

    The text has a line for each mistake, which begins with its place: `pods[3]`, `dump.yaml: document 2`,
    `configuration: profiles[0].plugins`.
    """


def refuse(problems: Iterable[str]) -> None:
    """Raises `ScenarioError` with the problems, if there are any: each once, a bounded number."""
    lines = list(dict.fromkeys(problems))
    if lines:
        left_off = len(lines) - MAX_PROBLEMS
        more = [f"and {left_off} more"] if left_off > 0 else []
        raise ScenarioError("\n".join([*lines[:MAX_PROBLEMS], *more]))
