"""Whether pods that all plugins judge alike share a place in the queue, a verdict and what a cycle works out."""

import os
from dataclasses import dataclass
from typing import Final

from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.nominations.nominator import NominatedPods
from kscheduler.state.queue.gated import HintsAlike, no_hints_alike
from kscheduler.state.queue.scheduling_queue import ClassOf, no_class

CLASSES_VARIABLE: Final = "KSCHEDULER_CLASSES"
"""Environment: `off` judges every pod by itself, and from scratch; for comparisons, and to rule classes out."""


@dataclass(frozen=True, slots=True)
class PodClasses:
    """Which pods are alike."""

    class_of: ClassOf = no_class
    """To the queue, and to what is known of classes that fit nowhere."""
    hints_alike: HintsAlike = no_hints_alike
    """To plugins that are asked whether an event helps a pod."""
    are_kept: bool = False
    """Whether the class engine keeps what a cycle works out."""


def classes_are_on() -> bool:
    """What the environment says."""
    return os.environ.get(CLASSES_VARIABLE, "") != "off"


def pod_classes(profiles: Profiles, nominator: NominatedPods) -> PodClasses:
    """The classes that the signatures of all plugins make."""
    signatures = Signatures(profiles, nominator)
    return PodClasses(signatures.class_of, signatures.hints_alike, are_kept=True)
