"""All that a configuration decides, as one value: made beside the one in force, then taken over in one step.

A configuration is read again while pods wait, hold nodes and are being bound. What could go wrong (a plugin that does
not take its arguments, sort orders that differ) goes wrong while a `CompiledConfiguration` is built, and the one in
force never notices. `Assembly.apply` then only exchanges values: between two decisions, without an await.

    registry   which plugins there are, and how each is built
    profiles   plugins by extension point                        new instances; attempts under way keep theirs
    classes    which pods are alike, by what plugins sign        a class made before counts as none
    policy     the queue's order, gates, hints, backoff          each waiting pod is placed again
    evaluators what is kept by profile and class                 begins empty
"""

import os
from collections.abc import Sequence
from typing import Final

import msgspec

from kscheduler.api.groups import COMPOSITES, DEEPEST_TREE, FARTHEST_LEVEL
from kscheduler.api.kinds import Kind
from kscheduler.api.topologies import TOPOLOGY_KINDS
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.pod_groups import DEFAULT_POLICY
from kscheduler.framework.registry import Registry
from kscheduler.scheduling.attempt.evaluators import Evaluators
from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.failures.infeasible import VerdictClass, class_itself
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.group_apis import OTHER_APIS, GroupAPI, kubernetes_apis
from kscheduler.state.nominator import NominatedPods
from kscheduler.state.queue.gated_pods import HintsAlike, no_hints_alike
from kscheduler.state.queue.scheduling_queue import ClassOf, QueuePolicy, no_class

# Which APIs pod groups may come from: Kubernetes' own by its feature gate, others by the configuration.

GATE = "GenericWorkload"
POLICY_GATE = "PodGroupPreemptionPolicy"
COMPOSITE_GATE = "CompositePodGroup"


def group_apis(config: LoadedConfig) -> tuple[GroupAPI, ...]:
    """The APIs in the order in which a pod's group is looked for; none: every pod is by itself."""
    return (*_own(config), *(OTHER_APIS[name] for name in config.configuration.pod_group_apis))


def topology_kinds(config: LoadedConfig) -> tuple[Kind, ...]:
    """The kinds of objects that name levels of the topology, of the projects that are followed."""
    return tuple(TOPOLOGY_KINDS[name] for name in config.configuration.topology_apis)


def configured_kinds(config: LoadedConfig) -> tuple[Kind, ...]:
    """The kinds that are watched because the configuration asks for them: pod groups, and levels of the topology."""
    return (*(api.kind for api in group_apis(config)), *topology_kinds(config))


def _own(config: LoadedConfig) -> tuple[GroupAPI, ...]:
    if not config.gates.enabled(GATE):
        return ()
    gates = config.gates
    if gates.behaviours.groups_always_have_policies:
        default_policy: str | None = ""  # those that name none leave it to their members
    else:
        default_policy = DEFAULT_POLICY if gates.enabled(POLICY_GATE) else None
    composites = COMPOSITES[gates.behaviours.composite_version] if gates.enabled(COMPOSITE_GATE) else None
    # Trees that are too deep: reported by the check of whole trees, or never whole.
    levels = FARTHEST_LEVEL if gates.behaviours.checks_whole_trees else DEEPEST_TREE
    return kubernetes_apis(default_policy, composites, levels)


# Whether pods that all plugins treat alike share a place in the queue, a verdict and the results of a cycle.

# Environment variable: `off` evaluates every pod by itself, for comparisons and to exclude classes as a cause.
CLASSES_VARIABLE: Final = "KSCHEDULER_CLASSES"


class PodClasses(msgspec.Struct, frozen=True):
    """Which pods are alike, for queue, hints and cycles."""

    class_of: ClassOf = no_class
    """The class of a pod, for the queue and for the record of classes that fit on no node."""
    verdict_class: VerdictClass = class_itself
    """The class of all pods that get the same verdict as a pod of this class, as the cluster stands."""
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
    return PodClasses(signatures.class_of, signatures.verdict_class, signatures.hints_alike, are_kept=True)


class CompiledConfiguration(msgspec.Struct, frozen=True):
    """What follows from a configuration."""

    config: LoadedConfig
    registry: Registry
    profiles: Profiles
    classes: PodClasses
    policy: QueuePolicy
    evaluators: Evaluators


class ApplyResult(msgspec.Struct, frozen=True):
    """What became of pods when a compiled configuration was taken over."""

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
