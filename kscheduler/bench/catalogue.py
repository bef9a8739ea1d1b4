"""All scenarios by name: scheduler_perf's at their 5,000-node sizes, and ours.

Upstream's come from Kubernetes 1.36, test/integration/scheduler_perf, with its workload names. Left out are scenarios
for events of single plugins, and for extended resources with a name per node.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kscheduler.api.groups import POD_GROUPS
from kscheduler.bench import devices, objects, own_scenarios
from kscheduler.bench.scenario import (
    BenchmarkScenario,
    Churn,
    CreateNamespaces,
    CreateNodes,
    CreateObjects,
    CreatePods,
    DeletePods,
)
from kscheduler.bench.template import Template, template

_ONE_ZONE: Final = ("zone1",)
_MOONS: Final = ("moon-1", "moon-2", "moon-3")
_SCHED: Final = CreateNamespaces("sched", 2)
_TEAM: Final = (("team", "devops"),)
_VOLUME_NODES: Final = CreateNodes(5000, objects.NODE, companions=(objects.csi_node(),))
_MIGRATED_NODES: Final = CreateNodes(5000, objects.NODE, companions=(objects.csi_node(migrated=True),))


def _nodes(count: int = 5000, zones: tuple[str, ...] = ()) -> CreateNodes:
    return CreateNodes(count, objects.NODE, zones)


def _measured(count: int, template: Template, namespace: str = "") -> CreatePods:
    return CreatePods(count, template, namespace, measured=True)


def _two_namespaces(
    name: str, template: Template, init: int, measured: int, goal: int, *, zones: tuple[str, ...] = ()
) -> BenchmarkScenario:
    """Pods of one kind, some of them in another namespace than the measured pods."""
    source = f"affinity/{name} 5000Nodes_{measured}Pods"
    first = CreatePods(init, template, "sched-0")
    return BenchmarkScenario(
        name, source, (_nodes(zones=zones), _SCHED, first, _measured(measured, template, "sched-1")), goal
    )


def _by_namespace_labels(
    name: str, template: Template, per_namespace: int, measured: int, *, nodes: int = 5000, most_per_node: float = 25.0
) -> BenchmarkScenario:
    """Terms that name namespaces by their labels, and pods in a hundred of them."""
    operations = (
        _nodes(nodes, _ONE_ZONE),
        CreateNamespaces("init-ns", 100, _TEAM),
        CreateNamespaces("measure-ns", 1, _TEAM),
        CreatePods(per_namespace * 100, template, "init-ns-$set", sets=100),
        _measured(measured, template, "measure-ns-0"),
    )
    return BenchmarkScenario(name, f"affinity/{name} 5000Nodes_{measured}Pods", operations, most_per_node=most_per_node)


_MISC: Final = (
    BenchmarkScenario(
        "SchedulingBasic",
        "misc/SchedulingBasic 5000Nodes_10000Pods",
        (_nodes(), CreatePods(1000, objects.DEFAULT_POD), _measured(10000, objects.DEFAULT_POD)),
        goal=10_000,
    ),
    BenchmarkScenario(
        "SchedulingDaemonset",
        "misc/SchedulingDaemonset 15000Nodes",
        (
            CreateNodes(1, objects.NAMED_NODE, is_fixed=True),
            _nodes(15000),
            _measured(30000, objects.DAEMON_POD),
        ),
    ),
    BenchmarkScenario(
        "PreemptionBasic",
        "misc/PreemptionBasic 1000Nodes",
        (_nodes(1000), CreatePods(4000, objects.LOW_PRIORITY_POD), _measured(1000, objects.HIGH_PRIORITY_POD)),
        goal=1_000,
        most_per_node=1.0,
    ),
    BenchmarkScenario(
        "PreemptionAsync",
        "misc/PreemptionAsync 5000Nodes",
        (
            _nodes(),
            CreatePods(20000, objects.LOW_PRIORITY_POD),
            Churn((objects.HIGH_PRIORITY_POD,), interval_seconds=0.2),
            _measured(5000, objects.DEFAULT_POD),
        ),
        pace=160,
        most_per_node=3.0,
    ),
    BenchmarkScenario(
        "Unschedulable",
        "misc/Unschedulable 5kNodes/100Init/10kPods",
        (
            _nodes(),
            CreatePods(100, objects.DEFAULT_POD),
            Churn((objects.HOPELESS_POD,), interval_seconds=0.2),
            _measured(10000, objects.DEFAULT_POD),
        ),
        goal=5_000,
        pace=170,
    ),
    BenchmarkScenario(
        "SchedulingWithMixedChurn",
        "misc/SchedulingWithMixedChurn 5000Nodes_10000Pods",
        (
            _nodes(),
            Churn((objects.CHURN_NODE, objects.HOPELESS_POD, objects.CHURN_SERVICE), 1.0, "recreate"),
            _measured(10000, objects.DEFAULT_POD),
        ),
        pace=265,
    ),
    BenchmarkScenario(
        "SchedulingWhileGated",
        "misc/SchedulingWhileGated 1Node_10000GatedPods",
        (
            CreateNodes(1, objects.NAMED_NODE, is_fixed=True),
            CreatePods(10000, objects.GATED_POD, arrival="parked"),
            CreatePods(20000, objects.LIGHT_POD, "deleted"),
            DeletePods("deleted", per_second=50),
            _measured(20000, objects.LIGHT_POD),
        ),
        pace=130,
        most_per_node=20000,
    ),
    BenchmarkScenario(
        "SchedulingDeletedPodsWithFinalizers",
        "misc/SchedulingDeletedPodsWithFinalizers 5000Node_5000DeletingPods",
        (
            _nodes(),
            CreatePods(5000, objects.FINALIZED_POD, "deleted"),
            DeletePods("deleted", per_second=100, keeps_objects=True),
            _measured(5000, objects.LIGHT_POD),
        ),
    ),
)

_AFFINITY: Final = (
    _two_namespaces("SchedulingPodAffinity", objects.AFFINITY_POD, 5000, 5000, 4_000, zones=_ONE_ZONE),
    BenchmarkScenario(
        "SchedulingPodAntiAffinity",
        "affinity/SchedulingPodAntiAffinity 5000Nodes_2000Pods",
        (
            _nodes(),
            _SCHED,
            CreatePods(1000, objects.ANTI_AFFINITY_POD, "sched-0"),
            _measured(2000, objects.ANTI_AFFINITY_POD, "sched-1"),
        ),
        goal=4_000,
        most_per_node=0.8,
    ),
    BenchmarkScenario(
        "SchedulingPodMatchingAntiAffinity",
        "affinity/SchedulingPodMatchingAntiAffinity 5000Nodes_5000Pods",
        (
            _nodes(),
            _SCHED,
            CreatePods(1000, objects.ANTI_AFFINITY_POD, "sched-0"),
            _measured(5000, objects.GREEN_POD, "sched-1"),
        ),
    ),
    _two_namespaces("SchedulingPreferredPodAffinity", objects.PREFERRED_AFFINITY_POD, 5000, 5000, 3_000),
    _two_namespaces("SchedulingPreferredPodAntiAffinity", objects.PREFERRED_ANTI_AFFINITY_POD, 5000, 5000, 3_000),
    BenchmarkScenario(
        "SchedulingNodeAffinity",
        "affinity/SchedulingNodeAffinity 5000Nodes_10000Pods",
        (
            _nodes(zones=_ONE_ZONE),
            CreatePods(5000, objects.NODE_AFFINITY_POD),
            _measured(10000, objects.NODE_AFFINITY_POD),
        ),
        goal=6_000,
    ),
    BenchmarkScenario(
        "MixedSchedulingBasePod",
        "affinity/MixedSchedulingBasePod 5000Nodes_5000Pods",
        (
            _nodes(zones=_ONE_ZONE),
            CreateNamespaces("sched", 1),
            CreatePods(2000, objects.DEFAULT_POD, "sched-0"),
            CreatePods(2000, objects.AFFINITY_POD, "sched-0"),
            CreatePods(2000, objects.ANTI_AFFINITY_POD, "sched-0"),
            CreatePods(2000, objects.PREFERRED_AFFINITY_POD, "sched-0"),
            CreatePods(2000, objects.PREFERRED_ANTI_AFFINITY_POD, "sched-0"),
            _measured(5000, objects.DEFAULT_POD),
        ),
        goal=3_000,
    ),
    _by_namespace_labels(
        "SchedulingRequiredPodAntiAffinityWithNSSelector",
        objects.NS_ANTI_AFFINITY_POD,
        40,
        2000,
        nodes=6000,
        most_per_node=1 / 3,
    ),
    _by_namespace_labels(
        "SchedulingPreferredAntiAffinityWithNSSelector", objects.NS_PREFERRED_ANTI_AFFINITY_POD, 40, 2000
    ),
    _by_namespace_labels("SchedulingRequiredPodAffinityWithNSSelector", objects.NS_AFFINITY_POD, 50, 2000),
    _by_namespace_labels("SchedulingPreferredAffinityWithNSSelector", objects.NS_PREFERRED_AFFINITY_POD, 50, 5000),
    BenchmarkScenario(
        "SchedulingGatedPodsWithPodAffinityImpactForThroughput",
        "affinity/SchedulingGatedPodsWithPodAffinityImpactForThroughput 1Node_10000GatedPods",
        (
            CreateNodes(1, objects.NAMED_NODE, is_fixed=True),
            CreatePods(10000, objects.GATED_AFFINE_POD, arrival="parked"),
            _measured(20000, objects.LABELLED_POD),
        ),
        most_per_node=20000,
    ),
)

_SPREADING: Final = (
    BenchmarkScenario(
        "TopologySpreading",
        "topology_spreading/TopologySpreading 5000Nodes_5000Pods",
        (_nodes(zones=_MOONS), CreatePods(5000, objects.DEFAULT_POD), _measured(5000, objects.SPREAD_POD)),
        goal=5_000,
    ),
    BenchmarkScenario(
        "PreferredTopologySpreading",
        "topology_spreading/PreferredTopologySpreading 5000Nodes_5000Pods",
        (_nodes(zones=_MOONS), CreatePods(5000, objects.DEFAULT_POD), _measured(5000, objects.PREFERRED_SPREAD_POD)),
        goal=4_000,
    ),
    BenchmarkScenario(
        "DefaultTopologySpreading",
        "topology_spreading/DefaultTopologySpreading 5000Nodes_10000Pods",
        (
            _nodes(zones=_MOONS),
            CreateObjects(objects.SERVICE, namespace="service-ns"),
            CreatePods(5000, objects.DEFAULT_POD),
            _measured(10000, objects.LABELLED_POD, "service-ns"),
        ),
    ),
    BenchmarkScenario(
        "SchedulingWithNodeInclusionPolicy",
        "topology_spreading/SchedulingWithNodeInclusionPolicy 5000Nodes",
        (_nodes(4000), CreateNodes(1000, objects.TAINTED_NODE), _measured(4000, objects.INCLUSION_POLICY_POD)),
    ),
)

_VOLUMES: Final = (
    BenchmarkScenario(
        "SchedulingSecrets",
        "volumes/SchedulingSecrets 5000Nodes_10000Pods",
        (_nodes(), CreatePods(1000, objects.SECRET_POD), _measured(10000, objects.SECRET_POD)),
    ),
    BenchmarkScenario(
        "SchedulingInTreePVs",
        "volumes/SchedulingInTreePVs 5000Nodes_2000Pods",
        (
            _nodes(),
            CreatePods(1000, objects.CLAIM_POD, companions=objects.AWS_VOLUME),
            CreatePods(2000, objects.CLAIM_POD, measured=True, companions=objects.AWS_VOLUME),
        ),
    ),
    BenchmarkScenario(
        "SchedulingMigratedInTreePVs",
        "volumes/SchedulingMigratedInTreePVs 5000Nodes_5000Pods",
        (
            _MIGRATED_NODES,
            CreatePods(5000, objects.CLAIM_POD, companions=objects.AWS_VOLUME),
            CreatePods(5000, objects.CLAIM_POD, measured=True, companions=objects.AWS_VOLUME),
        ),
    ),
    BenchmarkScenario(
        "SchedulingCSIPVs",
        "volumes/SchedulingCSIPVs 5000Nodes_5000Pods",
        (
            _VOLUME_NODES,
            CreatePods(5000, objects.CLAIM_POD, companions=objects.CSI_VOLUME),
            CreatePods(5000, objects.CLAIM_POD, measured=True, companions=objects.CSI_VOLUME),
        ),
    ),
    BenchmarkScenario(
        "PreemptionPVs",
        "volumes/PreemptionPVs 1000Nodes",
        (
            _nodes(1000),
            CreatePods(4000, objects.LOW_PRIORITY_POD),
            CreatePods(1000, objects.HIGH_PRIORITY_CLAIM_POD, measured=True, companions=objects.AWS_VOLUME),
        ),
        most_per_node=1.0,
    ),
)


def _gangs(name: str, size: int, gangs: int) -> BenchmarkScenario:
    """Gangs that arrive one after the other, each complete."""
    pods = objects.pod("pod-", objects.SMALL, schedulingGroup={"podGroupName": "gang-$set"})
    group = template(POD_GROUPS, "gang-$set", {"spec": {"schedulingPolicy": {"gang": {"minCount": 0}}}})
    group = replace(group, text=group.text.replace('"minCount":0', '"minCount":$member'))
    measured = CreatePods(gangs * size, pods, "gang-ns-0", measured=True, per_set=size, of_set=(group,))
    source = f"podgroup/GangScheduling 5000Nodes_{gangs}Gangs_{gangs * size}Pods"
    operations = (_nodes(), CreateNamespaces("gang-ns", 1), measured)
    return BenchmarkScenario(name, source, operations, gates=("GenericWorkload",), version="1.37")


_GANGS: Final = (_gangs("GangScheduling", 3, 2000), _gangs("GangSchedulingLarge", 1000, 6))

SCENARIOS: Final[Mapping[str, BenchmarkScenario]] = MappingProxyType(
    {
        scenario.name: scenario
        for scenario in (
            *_MISC,
            *_AFFINITY,
            *_SPREADING,
            *_VOLUMES,
            *_GANGS,
            *devices.DEVICE_SCENARIOS,
            *own_scenarios.OWN,
        )
    }
)
