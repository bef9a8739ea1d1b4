"""Single settings that override a complete configuration: the values of command-line flags."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.validation.configuration import validate

S = TypeVar("S", bound=msgspec.Struct)


def with_settings(loaded: LoadedConfig, settings: Mapping[str, Any], where: str) -> LoadedConfig:
    """The configuration with these values, by path (`leaderElection.leaseDuration`); they count as given by the user.

    Zero and empty are taken literally, because defaults have been filled in before. Raises `ConfigError`, whose text
    begins with `where`, with all problems of the result, and `KeyError` for an unknown path, which is a bug.
    """
    if not settings:
        return loaded
    configuration, as_given = loaded.configuration, loaded.as_given
    for path, value in settings.items():
        configuration = _replaced(configuration, path, value)
        as_given = _replaced(as_given, path, value)
    problems = validate(configuration, loaded.gates)
    if problems:
        raise ConfigError(problems, where)
    given = loaded.given | settings.keys()
    return dataclasses.replace(loaded, configuration=configuration, as_given=as_given, given=given)


def _replaced(settings: S, path: str, value: Any) -> S:
    name, _, rest = path.partition(".")
    field = dict(zip(settings.__struct_encode_fields__, settings.__struct_fields__, strict=True))[name]
    inner = _replaced(getattr(settings, field), rest, value) if rest else value
    return msgspec.structs.replace(settings, **{field: inner})
