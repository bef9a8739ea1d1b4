"""What the scheduler keeps for each profile between two decisions, and what it knows of classes.

All of it follows from the profiles and is worthless under others. So it is one value: made ready beside the one in
use, then exchanged as a whole (`Scheduler.apply`), and what was learned under the profiles before goes with it.
"""

from collections.abc import Mapping

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.failures.infeasible import KnownInfeasible
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.pod_log.lines import MOVES
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.stopwatch import ObservedStopwatch
from kscheduler.state.cache import Cache
from kscheduler.telemetry.logs import verbose


class Evaluators(msgspec.Struct, frozen=True):
    """The profiles, and by profile what judges pods."""

    profiles: Profiles
    stopwatches: Mapping[str, ObservedStopwatch]
    engines: Mapping[str, ClassEngine]
    """What plugins answered for the pods of a class; empty if classes are not kept."""
    samplers: Mapping[str, NodeSampler]
    """Where the next search for nodes starts."""
    infeasible: KnownInfeasible
    """Classes of pods that fit nowhere, as earlier attempts found out; always empty without classes."""
    extenders: Extenders | None = None
    """`None`: the configuration has none."""


def evaluators_of(
    profiles: Profiles,
    infeasible: KnownInfeasible,
    cache: Cache,
    observations: Observations,
    clock: Clock,
    *,
    keeps_classes: bool,
    extenders: Extenders | None = None,
) -> Evaluators:
    """Fresh evaluators, which have kept nothing yet."""
    stopwatches = {
        name: ObservedStopwatch(name, observations, clock.monotonic, profile.listener)
        for name, profile in profiles.items()
    }
    engines = {
        name: ClassEngine(profile, cache, engines=len(profiles), reports_all=verbose(MOVES))
        for name, profile in profiles.items()
        if keeps_classes
    }
    samplers = {name: NodeSampler() for name in profiles}
    return Evaluators(profiles, stopwatches, engines, samplers, infeasible, extenders)
