"""The profiles that are compared: those of a configuration, or the ready ones of `kscheduler config policies`."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib.resources import files
from typing import Final

from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.serving import Serving

# kube-scheduler's default plugins, and the ready profiles for packing.
READY: Final = (OWN_SCHEDULER_NAME, "best-fit", "fragmentation-aware", "dominant-most-allocated")


def ready_profiles() -> str:
    """The configuration file of `kscheduler config policies`, which has them."""
    return str(files("kscheduler.config").joinpath("policies.yaml"))


def profiles_of(served: Serving, chosen: Sequence[str], parameter: str) -> tuple[str, ...]:
    """The scheduler names of the profiles that are played, each once; none chosen: all of the configuration.

    Profiles that only follow a scheduler name of a pod are like the first one, and left out. `parameter`: what stands
    before a name in a refusal. Raises `ScenarioError`.
    """
    names = [name for name in served.names if name not in served.followed]
    for name in chosen:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            suggestion = f"; did you mean {near[0]}?" if near else ""
            raise ScenarioError(f"{parameter}{name}: there is no such profile among {', '.join(names)}{suggestion}")
    return tuple(dict.fromkeys(chosen or names))
