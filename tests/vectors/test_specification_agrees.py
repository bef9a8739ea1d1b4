"""The executable specification says of every node what kube-scheduler was recorded to say.

Columns are compared with the recordings beside this file, and with the specification on random clusters; this closes
the triangle: a rule that both sides of the random comparison have misread would show here. Compared are the filters, by
the first that rejects a node. Left out are lines where something else decides: PreFilter before any node is looked
at, other sets of plugins, nominated pods, and nodes rejected by plugins without a specification; and lines with
resources of other names than the specification lists.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.core import Node, Pod
from kscheduler.api.workloads import ReplicaSet, ReplicationController, StatefulSet
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.plugin_args import NodeAffinityArgs, NodeResourcesFitArgs, PodTopologySpreadArgs
from kscheduler.config.types import KubeSchedulerProfile
from kscheduler.scenario.scenario import Scenario, read_scenarios
from tests.specification import pod_affinity, rules
from tests.specification.rules import LoggedFailure, Place
from tests.specification.spread import rules as spread_rules
from tests.specification.volumes import binding_rules as volume_binding_rules
from tests.specification.volumes import rules as volume_rules

HERE = Path(__file__).parent
# How many of the 60 lines of each family are compared.
LINES = {
    "csi_limits": 60,
    "edge": 52,
    "host_ports": 60,
    "image_locality": 53,
    "node_affinity": 55,
    "pod_affinity": 60,
    "pod_affinity_scores": 54,
    "preemption": 60,
    "preemption_constraints": 60,
    "preemption_pdb": 60,
    "resources": 57,
    "scheduling_gates": 21,
    "strategies": 28,
    "taints": 54,
    "topology_spread": 60,
    "topology_spread_defaults": 60,
    "topology_spread_scores": 47,
    "unschedulable_nodename": 32,
    "volume_binding": 43,
    "volume_restrictions": 60,
    "volume_zone": 53,
}
# As for the columns: kube-scheduler takes a node with a cpu of 1E to have none until 1.37 (docs/differences.md).
INTENDED = frozenset({"edge-dev-2026a-10", "edge-dev-2026a-30", "edge-dev-2026a-34", "edge-dev-2026a-55"})

# The oldest and the newest rules that the specification knows. It counts resizes as 1.36 does, and they are in
# `resources`.
VERSIONS = {"1.36": HERE, "1.38": HERE / "1.38"}
CASES = [
    (family, version) for version in VERSIONS for family in sorted(LINES) if (family, version) != ("resources", "1.38")
]

JudgeOf = Callable[[Node], LoggedFailure]


class Cluster:
    """The objects of a line as the specification takes them, and the rules in their order."""

    def __init__(self, scenario: Scenario) -> None:
        self.pod = scenario.pod
        self.behaviours = scenario.config.gates.behaviours
        self.objects = scenario.objects
        name = self.pod.spec.scheduler_name or "default-scheduler"
        profiles = scenario.config.configuration.profiles
        self.profile: KubeSchedulerProfile = next(one for one in profiles if one.scheduler_name == name)
        self.nodes = {node.metadata.name: node for node in self.objects.nodes}
        ended = ("Succeeded", "Failed")
        self.pods = [one for one in self.objects.pods if one.spec.node_name and one.status.phase not in ended]

    def place(self, node: Node) -> Place:
        return Place(node, tuple(one for one in self.pods if one.spec.node_name == node.metadata.name))

    def evaluators(self) -> dict[str, JudgeOf]:
        """By plugin, in the order in which they are asked."""
        pod, storage = self.pod, self.storage()
        fit = rules.node_resources_fit(self.profile.args("NodeResourcesFit", NodeResourcesFitArgs))
        affinity = rules.node_affinity(self.profile.args("NodeAffinity", NodeAffinityArgs))
        others = pod_affinity.World(self.nodes, self._by_uid(), self.namespaces())
        spread = self.spread()
        return {
            "NodeUnschedulable": lambda node: rules.node_unschedulable(pod, self.place(node)),
            "NodeName": lambda node: rules.node_name(pod, self.place(node)),
            "TaintToleration": lambda node: rules.taint_toleration(pod, self.place(node)),
            "NodeAffinity": lambda node: affinity(pod, self.place(node)),
            "NodePorts": lambda node: rules.node_ports(pod, self.place(node)),
            "NodeResourcesFit": lambda node: fit(pod, self.place(node)),
            "VolumeRestrictions": lambda node: volume_rules.restrictions(pod, node, storage),
            "NodeVolumeLimits": lambda node: volume_rules.limits(pod, node, storage),
            "VolumeBinding": lambda node: volume_binding_rules.binding(pod, node, storage),
            "VolumeZone": lambda node: volume_rules.zone(pod, node, storage),
            "PodTopologySpread": lambda node: spread.get(node.metadata.name),
            "InterPodAffinity": lambda node: pod_affinity.verdict(pod, node, others),
        }

    def storage(self) -> volume_rules.World:
        objects = {(type(one), one.key): one for one in self.objects.storage()}
        return volume_rules.World(self.nodes, self._by_uid(), objects)

    def namespaces(self) -> dict[str, Any]:
        return {one.metadata.name: one.metadata.labels for one in self.objects.namespaces}

    def spread(self) -> dict[str, LoggedFailure]:
        args = self.profile.args("PodTopologySpread", PodTopologySpreadArgs)
        defaults = args.default_constraints if args.defaulting_type == "List" else spread_rules.SYSTEM
        owners: list[ReplicationController | ReplicaSet | StatefulSet] = [
            *self.objects.replicationcontrollers,
            *self.objects.replicasets,
            *self.objects.statefulsets,
        ]
        workloads = spread_rules.Workloads(list(self.objects.services), owners)
        counts_all = self.behaviours.empty_selectors_count_all_pods
        hard = spread_rules.wanted(self.pod, "DoNotSchedule", defaults, workloads, counts_all=counts_all)
        places = dict(enumerate(map(self.place, self.nodes.values())))
        found = spread_rules.verdicts(self.pod, hard, places, {}) if hard else {}
        return {places[number].node.metadata.name: verdict for number, verdict in found.items()}

    def _by_uid(self) -> dict[str, Pod]:
        return {one.key: one for one in self.pods}


def is_compared(line: dict[str, Any], scenario: Scenario) -> bool:
    """Whether the filters of all nodes decided, with the default set of plugins and no nominated pods."""
    config = line["config"] or {}
    is_default = not any(profile.get("plugins") for profile in config.get("profiles", ()))
    expect = line["expect"]
    is_filtered = not (expect.get("error") or expect["preEnqueue"] or expect["preFilter"])
    is_nominated = any(one.status.nominated_node_name for one in (scenario.pod, *scenario.objects.pods))
    is_known = resources_of(scenario.pod) <= {*rules.RESOURCES}
    return is_default and is_filtered and is_known and not is_nominated and not scenario.pod.spec.node_name


def resources_of(pod: Pod) -> set[str]:
    return {name for one in (*pod.spec.containers, *pod.spec.init_containers) for name in one.resources.requests}


def first_refusal(evaluators: dict[str, JudgeOf], node: Node) -> tuple[str, LoggedFailure]:
    for plugin, judge in evaluators.items():
        verdict = judge(node)
        if verdict is not None:
            return plugin, verdict
    return "", None


def recorded(line: dict[str, Any], name: str) -> tuple[str, LoggedFailure]:
    found = line["expect"]["filter"].get(name)
    if found is None:
        return "", None
    return found["plugin"], (found["code"] == "Unschedulable", frozenset(found["reasons"]))


@pytest.mark.parametrize(("family", "version"), CASES)
def test_says_of_every_node_what_kube_scheduler_said(family: str, version: str) -> None:
    path = VERSIONS[version] / f"{family}.jsonl.gz"
    intended = INTENDED if version == "1.36" else ()
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    compared, differences = 0, []
    for line, scenario in zip(lines, read_scenarios(str(path), FeatureGates(version=version)), strict=True):
        if line["id"] in intended or not is_compared(line, scenario):
            continue
        compared += 1
        cluster = Cluster(scenario)
        evaluators = cluster.evaluators()
        for name, node in cluster.nodes.items():
            expected = recorded(line, name)
            if expected[1] is not None and expected[0] not in evaluators:
                continue
            found = first_refusal(evaluators, node)
            if found != expected:
                differences.append(f"{line['id']} {name}: recorded {expected}, specified {found}")
    assert not differences, "\n".join(differences[:20])
    assert compared == LINES[family] + (len(INTENDED) if (family, version) == ("edge", "1.38") else 0)
