"""Profiles for random decisions, each as a configuration and as the policy that the specification goes by."""

from dataclasses import dataclass
from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.core import TopologySpreadConstraint
from kscheduler.assembly import Ports, profiles_over
from kscheduler.config.loader import from_tree
from kscheduler.config.plugin_args import (
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.cache import Cache
from tests.builders import Tree
from tests.specification.decisions import plugins as own
from tests.specification.decisions.naive_decisions import WEIGHTS, Policy

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_GPU = "example.com/gpu"


@dataclass(frozen=True)
class Reported:
    """A profile in both ways."""

    tree: Tree
    policy: Policy


def _args(**by_plugin: Tree) -> list[Tree]:
    return [{"name": name, "args": args} for name, args in by_plugin.items()]


def _plain() -> Reported:
    return Reported({}, Policy())


def _packing() -> Reported:
    fit = {
        "ignoredResources": ["example.com/fpga"],
        "scoringStrategy": {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 3}, {"name": _GPU, "weight": 1}],
        },
    }
    balanced = {"resources": [{"name": name, "weight": 1} for name in ("cpu", "memory", _GPU)]}
    old = [{"matchExpressions": [{"key": "gen", "operator": "NotIn", "values": ["0"]}]}]
    fast = [{"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]
    added = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": old},
        "preferredDuringSchedulingIgnoredDuringExecution": fast,
    }
    constraints = [
        {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"},
        {"maxSkew": 4, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"},
    ]
    tree: Tree = {
        "plugins": {"multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 4}]}},
        "pluginConfig": _args(
            NodeResourcesFit=fit,
            NodeResourcesBalancedAllocation=balanced,
            NodeAffinity={"addedAffinity": added},
            InterPodAffinity={"hardPodAffinityWeight": 9, "ignorePreferredTermsOfExistingPods": True},
            PodTopologySpread={"defaultingType": "List", "defaultConstraints": constraints},
        ),
    }
    policy = Policy(
        weights={**WEIGHTS, "ImageLocality": 4},
        fit=convert(fit, NodeResourcesFitArgs),
        balanced=convert(balanced, NodeResourcesBalancedAllocationArgs),
        affinity=convert({"addedAffinity": added}, NodeAffinityArgs),
        hard_weight=9,
        ignores_existing=True,
        spread_defaults=tuple(convert(one, TopologySpreadConstraint) for one in constraints),
    )
    return Reported(tree, policy)


_SCORES: dict[str, tuple[int, Any, Any]] = {
    "Rates": (2, own.Rates, own.rates),
    "Generations": (1, own.Generations, own.generations),
    "Fullness": (3, own.Fullness, own.fullness),
    "Pulled": (1, own.Pulled, own.pulled),
    "Everywhere": (1, own.Everywhere, own.everywhere),
    "Indexes": (1, own.Indexes, own.indexes),
}
_FILTERS: dict[str, tuple[Any, Any]] = {"Crowds": (own.Crowds, own.crowds), "Shuns": (own.Shuns, own.shuns)}


def _extended() -> Reported:
    """With a user's plugins, and without preemption."""
    shape = [{"utilization": 0, "score": 2}, {"utilization": 60, "score": 10}, {"utilization": 100, "score": 0}]
    fit = {
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}],
            "requestedToCapacityRatio": {"shape": shape},
        }
    }
    enabled = [{"name": name} for name in _FILTERS] + [
        {"name": name, "weight": weight} for name, (weight, _, _) in _SCORES.items()
    ]
    tree: Tree = {
        "plugins": {"multiPoint": {"enabled": enabled}, "postFilter": {"disabled": [{"name": "*"}]}},
        "pluginConfig": _args(NodeResourcesFit=fit),
    }
    policy = Policy(
        weights={**WEIGHTS, **{name: weight for name, (weight, _, _) in _SCORES.items()}},
        fit=convert(fit, NodeResourcesFitArgs),
        filters={name: rule for name, (_, rule) in _FILTERS.items()},
        scores={name: rule for name, (_, _, rule) in _SCORES.items()},
        preempts=False,
    )
    return Reported(tree, policy)


PROFILES = {"plain": _plain(), "packing": _packing(), "extended": _extended()}
POLICIES = {name: reported.policy for name, reported in PROFILES.items()}


def built(cache: Cache, ports: Ports) -> Profiles:
    """All three, over one cluster."""
    plugins = registry()
    own_plugins = [(name, made) for name, (_, made, _) in _SCORES.items()]
    for name, made in (*own_plugins, *((name, made) for name, (made, _) in _FILTERS.items())):
        plugins.register(name, made)
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": name, **reported.tree} for name, reported in PROFILES.items()],
    }
    return profiles_over(cache, from_tree(tree, "test"), plugins, ports)
