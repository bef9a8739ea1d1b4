"""What differs between the configuration in force and another, and what of that a running process cannot take over.

Profiles, extenders, sampling, backoff and parallelism are read by the scheduler's own parts and can be exchanged
between two decisions. All other fields were used once, at the start: to open connections, to take part in an
election. A file that changes one of these is refused as a whole. Half of a file would be a configuration that nobody
wrote.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kscheduler.config.errors import Problem, shown
from kscheduler.config.loader import LoadedConfig

# Fields that a running process takes over.
EXCHANGEABLE: Final = frozenset(
    {
        "profiles",
        "extenders",
        "pluginSources",
        "parallelism",
        "percentageOfNodesToScore",
        "percentageOfPlacementsToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
        "topologyLevels",
    }
)
# Unset they mean something else than their default value: the client adapts.
_RATE: Final = ("clientConnection.qps", "clientConnection.burst")


def changed_fields(old: LoadedConfig, new: LoadedConfig) -> tuple[str, ...]:
    """Paths of the fields that differ, sorted; profiles and extenders count as one field each."""
    return tuple(sorted(path for path, _, _ in _changes(old, new)))


def restart_problems(old: LoadedConfig, new: LoadedConfig) -> tuple[Problem, ...]:
    """The fields that differ and that only a new start can take over."""
    return tuple(
        Problem(path, f"needs a restart: it is {before} in this process, and {after} in the file")
        for path, before, after in sorted(_changes(old, new))
        if path not in EXCHANGEABLE
    )


def _changes(old: LoadedConfig, new: LoadedConfig) -> Iterator[tuple[str, str, str]]:
    """Path, value before, value after."""
    differing = list(_differing(old.configuration, new.configuration, ""))
    yield from differing
    for path in _RATE:
        if old.is_given(path) is not new.is_given(path) and all(path != other for other, _, _ in differing):
            yield path, _given(old, path), _given(new, path)


def _given(loaded: LoadedConfig, path: str) -> str:
    return "set" if loaded.is_given(path) else "unset"


def _differing(old: msgspec.Struct, new: msgspec.Struct, prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, encoded in zip(old.__struct_fields__, old.__struct_encode_fields__, strict=True):
        before: Any = getattr(old, name)
        after: Any = getattr(new, name)
        if before == after:
            continue
        if isinstance(before, msgspec.Struct) and isinstance(after, msgspec.Struct):
            yield from _differing(before, after, f"{prefix}{encoded}.")
        else:
            yield f"{prefix}{encoded}", shown(before), shown(after)
