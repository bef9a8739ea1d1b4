"""Which scheduler names a configuration serves, against those that the recorded pods have.

If OTHER serves none of them, the comparison would be one with a scheduler that decides nothing, while the recorded
Bindings fill the nodes. A single profile is meant for all pods, as in a sweep; of several, it is not known which.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec

from kscheduler.assembly.configured import Configured
from kscheduler.recorder.replaying.replay import RecordingError


def served_names(configured: Configured) -> set[str]:
    """The scheduler names of its profiles."""
    return {profile.scheduler_name for profile in configured.config.configuration.profiles}


def serving_recorded(own: Configured, other: Configured, came: Mapping[str, int]) -> tuple[Configured, list[str]]:
    """OTHER, with its only profile under each recorded name if it serves none of the pods; and a note of that.

    `came`: by scheduler name how many pods came to be decided. Raises `RecordingError` if several profiles serve none.
    """
    recorded, names = served_names(own), served_names(other)
    wanted = sorted(name for name in recorded if came.get(name))
    if not wanted or not names.isdisjoint(wanted):
        return other, []
    if len(names) > 1:
        raise RecordingError(
            f"OTHER has the profiles {', '.join(sorted(names))}; the recorded pods name {', '.join(wanted)}, which "
            f"none of them serves: set schedulerName: {wanted[0]} in the profile that shall decide, or leave it alone"
        )
    configuration = other.config.configuration
    (profile,) = configuration.profiles
    profiles = tuple(msgspec.structs.replace(profile, scheduler_name=name) for name in sorted(recorded))
    config = replace(other.config, configuration=msgspec.structs.replace(configuration, profiles=profiles))
    note = f"OTHER's only profile, {profile.scheduler_name}, decides for the pods of {', '.join(sorted(recorded))}"
    return replace(other, config=config), [note]


def unserved(own: Configured, other: Configured, came: Mapping[str, int]) -> Iterator[str]:
    """Notes on the pods that only one of the two serves. `came`: by scheduler name how many pods came to be decided."""
    recorded, names = served_names(own), served_names(other)
    for name in sorted(recorded - names):
        count = came.get(name, 0)
        if count:
            pods, whose = ("1 pod", "its") if count == 1 else (f"{count:,} pods", "their")
            yield f"{pods} of {name}: no profile of OTHER has this name; {whose} room is taken as recorded"
    if missing := sorted(names - recorded):
        yield f"no recorded profile has the name {', '.join(missing)}: its pods were another scheduler's"
