"""Whether pods that all plugins treat alike share a place in the queue, a verdict and the results of a cycle."""

import os
from dataclasses import dataclass
from typing import Final

from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.nominations.nominator import NominatedPods
from kscheduler.state.queue.gates.gated_pods import HintsAlike, no_hints_alike
from kscheduler.state.queue.scheduling_queue import ClassOf, no_class

CLASSES_VARIABLE: Final = "KSCHEDULER_CLASSES"
"""Environment variable: `off` evaluates every pod by itself, for comparisons and to exclude classes as a cause."""


@dataclass(frozen=True, slots=True)
class PodClasses:
    """Which pods are alike, for queue, hints and cycles."""

    class_of: ClassOf = no_class
    """The class of a pod, for the queue and for the record of classes that fit on no node."""
    hints_alike: HintsAlike = no_hints_alike
    """The class of a pod as far as hints are concerned."""
    are_kept: bool = False
    """Whether the class engine keeps the results of a cycle."""


def classes_are_on() -> bool:
    """Whether the environment leaves classes on."""
    return os.environ.get(CLASSES_VARIABLE, "") != "off"


def pod_classes(profiles: Profiles, nominator: NominatedPods) -> PodClasses:
    """The classes that result from the signatures of all plugins."""
    signatures = Signatures(profiles, nominator)
    return PodClasses(signatures.class_of, signatures.hints_alike, are_kept=True)
