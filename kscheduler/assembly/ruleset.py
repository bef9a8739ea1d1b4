"""All that a configuration decides, as one value: made beside the one in force, then taken over in one step.

A configuration is read again while pods wait, hold nodes and are being bound. What could go wrong (a plugin that does
not take its arguments, sort orders that differ) goes wrong while a `Ruleset` is built, and the one in force never
notices. `Assembly.adopt` then only exchanges values: between two decisions, without an await.

    registry   which plugins there are, and how each is built
    profiles   plugins by extension point                        new instances; attempts under way keep theirs
    classes    which pods are alike, by what plugins sign        a class of the ruleset before counts as none
    policy     the queue's order, gates, hints, back-off         each waiting pod is placed anew
    judges     what is kept by profile and class                 begins empty
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.assembly.pod_classes import PodClasses
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.attempt.judges import Judges
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.queue.scheduling_queue import QueuePolicy


@dataclass(frozen=True, slots=True)
class Ruleset:
    """What follows from a configuration."""

    config: LoadedConfig
    registry: Registry
    profiles: Profiles
    classes: PodClasses
    policy: QueuePolicy
    judges: Judges


@dataclass(frozen=True, slots=True)
class Adoption:
    """What became of pods when a ruleset was taken over."""

    placed_anew: int
    """Waiting pods whose profile is still there."""
    let_go: int
    """Pods without a node whose profile is gone."""
    taken_up: int
    """Pods without a node that a new profile wants."""
    called_back: int
    """Pods that waited for a Permit plugin which their profile has no more."""
    profiles_added: Sequence[str]
    profiles_removed: Sequence[str]
