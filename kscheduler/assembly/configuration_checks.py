"""Whether profiles can be built: some mistakes show only when the plugins are built, which needs no cluster."""

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from kscheduler.assembly.profiles_over import profiles_over
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.expansion import with_entry
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.reading.lines import with_lines
from kscheduler.framework.registry import Registry
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.extenders.addresses import unusable_extenders
from kscheduler.state.cache import Cache

_FIELD: Final = re.compile(r"((?:plugins|pluginConfig)[\w.\[\]]*): ")


def unusable(loaded: LoadedConfig, plugins: Registry | None = None, *, runs_here: bool = True) -> ConfigError | None:
    """What is wrong with a configuration that could be read: plugins or extenders that cannot be used.

    `runs_here`: whether the files of extenders must be on this machine.
    """
    of_extenders = unusable_extenders(loaded.configuration.extenders, runs_here=runs_here)
    problems = (*profile_problems(loaded, plugins), *of_extenders)
    return ConfigError(with_lines(problems, loaded.data), loaded.where) if problems else None


def profile_problems(loaded: LoadedConfig, plugins: Registry | None = None) -> tuple[Problem, ...]:
    """The problems of each profile separately, or else of all together; empty means that they can be built."""
    known = registry() if plugins is None else plugins
    profiles = loaded.configuration.profiles
    of_each = [problem for profile in profiles for problem in _problems(loaded, known, profile.scheduler_name)]
    return tuple(of_each or _problems(loaded, known))


def _problems(loaded: LoadedConfig, plugins: Registry, only: str = "") -> Iterator[Problem]:
    configuration = loaded.configuration
    if only:
        profiles = tuple(profile for profile in configuration.profiles if profile.scheduler_name == only)
        configuration = msgspec.structs.replace(configuration, profiles=profiles)
    try:
        profiles_over(Cache(), dataclasses.replace(loaded, configuration=configuration), plugins)
    except ConfigError as error:
        for problem in error.problems:
            where = f"{error.where}: " if error.where else ""
            yield placed(Problem("", f"{where}{problem}"), loaded)


def placed(problem: Problem, loaded: LoadedConfig) -> Problem:
    """The problem with the path that its text begins with: `profile NAME: plugins.score: ...`."""
    for index, profile in enumerate(loaded.configuration.profiles):
        start = f"profile {profile.scheduler_name}: "
        if problem.message.startswith(start):
            rest = problem.message.removeprefix(start)
            field = _FIELD.match(rest)
            if field is None:
                return dataclasses.replace(problem, path=f"profiles[{index}]", message=rest)
            of_file = loaded.as_given.profiles  # none where the file has none
            found = Problem(field[1], rest[field.end() :])
            found = with_entry(found, of_file[index].plugins) if index < len(of_file) else found
            return dataclasses.replace(found, path=f"profiles[{index}].{found.path}")
    return problem
