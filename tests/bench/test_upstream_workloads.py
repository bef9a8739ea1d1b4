"""scheduler_perf's workloads in process: each kind of operation does what upstream's does, on a tiny cluster."""

import os
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.kinds import CSI_NODES, NAMESPACES, NODES, PERSISTENT_VOLUMES, PODS, RESOURCE_CLAIMS, Kind
from kscheduler.bench.figures import Figures
from kscheduler.bench.player import Player
from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream.selection import selected
from kscheduler.bench.upstream.translation import TranslatedWorkload, read_workloads

FILES = {
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-, labels: {app: web}}
spec:
  containers: [{name: c, image: i, resources: {limits: {cpu: 100m, memory: 10Mi}}}]
""",
    "numbered-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "pod-{{.Index}}", labels: {number: "{{Mod .Index 2}}", size: "{{.size}}-{{.Count}}"}}
spec:
  containers: [{name: c, image: i}]
""",
    "large-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: large-, labels: {app: large}}
spec:
  containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]
""",
    "gated-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{.Index}}"}
spec:
  schedulingGates: [{name: wait}]
  containers: [{name: c, image: i}]
""",
    "ungated-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{.Index}}"}
spec:
  containers: [{name: c, image: i}]
""",
    "finalized-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: kept-, finalizers: [example.com/keep]}
spec:
  containers: [{name: c, image: i}]
""",
    "node.yaml": """
apiVersion: v1
kind: Node
metadata: {generateName: dra-, labels: {index: "{{.Index}}"}}
status:
  capacity: {pods: "110", cpu: "4", memory: 32Gi}
""",
    "named-node.yaml": """
apiVersion: v1
kind: Node
metadata: {name: "node-{{.Index}}"}
status:
  capacity: {pods: "110", cpu: "4", memory: 32Gi}
""",
    "namespace.yaml": "{apiVersion: v1, kind: Namespace, metadata: {labels: {team: a}}}",
    "service.yaml": """
apiVersion: v1
kind: Service
metadata: {generateName: service-}
spec: {selector: {app: web}}
""",
    "claim.yaml": """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {annotations: {pv.kubernetes.io/bind-completed: "true"}}
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
""",
    "volume.yaml": """
apiVersion: v1
kind: PersistentVolume
spec: {accessModes: [ReadOnlyMany], capacity: {storage: 1Gi}, csi: {driver: d.example.com}}
""",
    "slice.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: "slice-{{.Index}}"}
spec:
  driver: d.example.com
  nodeName: node-{{.Index}}
  pool: {name: "pool-{{.Index}}", generation: 1, resourceSliceCount: 1}
  devices:{{range 4}}
  - name: device-{{.}}{{end}}
""",
    "class.yaml": """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: class}
spec: {selectors: [{cel: {expression: 'device.driver == "d.example.com"'}}]}
""",
    "device-claim.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: class}}]}}
""",
    "plain-device-claim.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {generateName: plain-}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: class}}]}}
""",
    "claim-template.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: template}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: class}}]}}}
""",
    "claiming-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: claiming-}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: device}]}}]
  resourceClaims: [{name: device, resourceClaimTemplateName: template}]
""",
    "group.yaml": """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: "group-{{.Index}}"}
spec: {schedulingPolicy: {gang: {minCount: {{.size}}}}}
""",
    "member.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: member-}
spec:
  schedulingGroup: {podGroupName: "group-{{DivideInt .Index .size}}"}
  containers: [{name: c, image: i}]
""",
    "no-spread.yaml": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {disabled: [{name: PodTopologySpread}]}}
""",
}
PODS_OF_TWO = "{opcode: createPods, count: 2, collectMetrics: true, podTemplatePath: pod.yaml}"


def case(*operations: str, more: str = "", workload: str = "") -> str:
    listed = "\n".join(f"  - {operation}" for operation in operations)
    return f"- name: Case\n{more}  workloadTemplate:\n{listed}\n  workloads:\n  - name: tiny\n{workload}"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def workload(folder: Path, text: str) -> TranslatedWorkload:
    file = folder / "config.yaml"
    file.write_text(text)
    (found,) = read_workloads(file)
    return found


async def played(folder: Path, *operations: str, more: str = "") -> tuple[Player, Figures]:
    found = workload(folder, case(*operations, more=more))
    assert found.problem == ""
    assert found.scenario is not None
    player = Player(found.scenario)
    return player, await player.play()


def stored(player: Player, kind: Kind) -> list[Any]:
    return sorted(player.cluster.stores[kind].list(), key=lambda obj: obj.key)


def pods_of(player: Player, namespace: str) -> list[Pod]:
    return [pod for pod in stored(player, PODS) if pod.metadata.namespace == namespace]


def keys(player: Player, kind: Kind) -> list[str]:
    return [obj.key for obj in stored(player, kind)]


NODES_3 = "{opcode: createNodes, count: 3}"


async def test_nodes_and_pods_are_upstream_s_where_no_template_is_named(files: Path) -> None:
    player, figures = await played(files, NODES_3, "{opcode: createPods, count: 4, collectMetrics: true}")
    assert (figures.nodes, figures.pods, figures.bound) == (3, 4, 4)
    (node, *_), (pod, *_) = stored(player, NODES), pods_of(player, "namespace-1")
    assert dict(node.status.allocatable) == {"pods": "110", "cpu": "4", "memory": "32Gi"}
    assert node.metadata.labels == {"kubernetes.io/hostname": node.metadata.name}
    assert pod.spec.node_name
    assert pod.metadata.labels == {}
    assert "namespace-1" in keys(player, NAMESPACES)


async def test_templates_have_their_index_count_and_parameters_and_pods_a_signature(files: Path) -> None:
    operation = "{opcode: createPods, count: 4, collectMetrics: true, podTemplatePath: numbered-pod.yaml, "
    operation += "namespace: a, signatureBatchSize: 2, templateParams: {size: 7}}"
    player, _ = await played(files, NODES_3, operation)
    assert [(pod.metadata.name, pod.metadata.labels) for pod in pods_of(player, "a")] == [
        (f"pod-{index}", {"number": str(index % 2), "size": "7-4", "signature": f"signature-label-{index // 2}"})
        for index in range(4)
    ]


async def test_pods_have_the_defaults_of_the_api_server(files: Path) -> None:
    player, _ = await played(files, NODES_3, PODS_OF_TWO)
    (pod, _) = pods_of(player, "namespace-1")
    assert dict(pod.spec.containers[0].resources.requests) == {"cpu": "100m", "memory": "10Mi"}
    assert {toleration.key for toleration in pod.spec.tolerations} >= {"node.kubernetes.io/not-ready"}


async def test_nodes_are_labelled_in_turn_uniquely_and_with_volume_limits(files: Path) -> None:
    player, _ = await played(
        files,
        "{opcode: createNodes, count: 3, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}}",
        "{opcode: createNodes, count: 2, nodeTemplatePath: node.yaml, uniqueNodeLabelStrategy: {labelKey: own}}",
        "{opcode: createNodes, count: 1, nodeAllocatableStrategy: {nodeAllocatable: {x: '9'}, "
        "csiNodeAllocatable: {d.example.com: {count: 5}}, migratedPlugins: [m]}}",
        PODS_OF_TWO,
    )
    nodes = stored(player, NODES)
    assert [node.metadata.labels["zone"] for node in nodes if "zone" in node.metadata.labels] == ["a", "b", "a"]
    assert len({node.metadata.labels["own"] for node in nodes if "own" in node.metadata.labels}) == 2
    assert [node.metadata.labels["index"] for node in nodes if "index" in node.metadata.labels] == ["0", "1"]
    (limited,) = [node for node in nodes if "x" in node.status.allocatable]
    (csi_node,) = stored(player, CSI_NODES)
    assert csi_node.metadata.name == limited.metadata.name
    assert csi_node.spec.drivers[0].allocatable.count == 5


async def test_nodes_declare_the_features_that_upstream_s_test_gives_them(files: Path) -> None:
    own = "    featureGates: {NodeDeclaredFeatures: true}\n    params: {numNodeDeclaredFeatures: 11}\n"
    found = workload(files, case(NODES_3, PODS_OF_TWO, workload=own))
    assert found.scenario is not None, found.problem
    player = Player(found.scenario)
    await player.play()
    (features,) = {node.status.declared_features for node in stored(player, NODES)}
    assert features == tuple(sorted(f"Feature{number}" for number in range(1, 12)))


async def test_namespaces_sets_of_pods_and_other_objects_are_created(files: Path) -> None:
    player, figures = await played(
        files,
        NODES_3,
        "{opcode: createNamespaces, prefix: ns, count: 2, namespaceTemplatePath: namespace.yaml}",
        "{opcode: createPodSets, count: 2, namespacePrefix: ns, createPodsOp: "
        "{opcode: createPods, count: 2, podTemplatePath: numbered-pod.yaml, templateParams: {size: 1}}}",
        "{opcode: createAny, count: 2, namespace: other, templatePath: service.yaml}",
        PODS_OF_TWO,
    )
    assert figures.is_complete
    # Each set counts as an operation of its own.
    assert keys(player, NAMESPACES) == ["namespace-5", "ns-0", "ns-1", "other"]
    second = player.cluster.stores[NAMESPACES].get("ns-1")
    assert second is not None
    assert second.metadata.labels["team"] == "a"
    assert [pod.key for pod in stored(player, PODS)][2:] == ["ns-0/pod-0", "ns-0/pod-1", "ns-1/pod-0", "ns-1/pod-1"]


async def test_each_pod_has_a_claim_that_is_bound_to_its_volume(files: Path) -> None:
    operation = "{opcode: createPods, count: 2, collectMetrics: true, podTemplatePath: pod.yaml, namespace: a, "
    operation += "persistentVolumeTemplatePath: volume.yaml, persistentVolumeClaimTemplatePath: claim.yaml}"
    player, figures = await played(files, NODES_3, operation)
    assert figures.is_complete
    assert keys(player, PERSISTENT_VOLUMES) == ["a-vol-0", "a-vol-1"]
    volume = stored(player, PERSISTENT_VOLUMES)[1]
    assert (volume.spec.claim_ref.name, volume.spec.csi.volume_handle) == ("pvc-1", "a-vol-1")
    claims = [pod.spec.volumes[0].persistent_volume_claim for pod in pods_of(player, "a")]
    assert [claim.claim_name for claim in claims if claim is not None] == [
        "pvc-0",
        "pvc-1",
    ]


async def test_pods_that_are_not_waited_for_are_bound_at_a_barrier(files: Path) -> None:
    player, figures = await played(
        files,
        NODES_3,
        "{opcode: createPods, count: 2, namespace: a, podTemplatePath: pod.yaml, skipWaitToCompletion: true}",
        "{opcode: barrier, namespaces: [a], labelSelector: {app: web}}",
        "{opcode: sleep, duration: 1ms}",
        PODS_OF_TWO,
    )
    assert figures.pods == 2
    assert all(pod.spec.node_name for pod in pods_of(player, "a"))


async def test_a_barrier_for_pods_that_fit_nowhere_fails(files: Path) -> None:
    with pytest.raises(TemplateError, match="1 pods found no node"):
        await played(
            files,
            "{opcode: createNodes, count: 1}",
            "{opcode: createPods, count: 2, podTemplatePath: large-pod.yaml, skipWaitToCompletion: true}",
            "{opcode: barrier}",
            PODS_OF_TWO,
        )


async def test_a_window_measures_the_pods_that_it_selects(files: Path) -> None:
    """Large pods wait for the deletion of others, which goes on while nothing else can be done."""
    player, figures = await played(
        files,
        "{opcode: createNodes, count: 2}",
        "{opcode: createPods, count: 2, namespace: a, podTemplatePath: large-pod.yaml}",
        "{opcode: startCollectingMetrics, name: x, namespaces: [b], labelSelector: {app: large}}",
        "{opcode: createPods, count: 2, namespace: b, podTemplatePath: large-pod.yaml, skipWaitToCompletion: true}",
        "{opcode: createPods, count: 3, namespace: b, podTemplatePath: pod.yaml}",
        "{opcode: barrier, stageRequirement: Attempted}",
        "{opcode: deletePods, namespace: a, deletePodsPerSecond: 10, labelSelector: {app: large}, "
        "skipWaitToCompletion: true}",
        "{opcode: barrier, labelSelector: {app: large}}",
        "{opcode: stopCollectingMetrics}",
    )
    assert (figures.pods, figures.bound) == (2, 2)
    assert figures.rejected >= 2
    assert pods_of(player, "a") == []


async def test_pods_are_deleted_at_once_or_one_by_one_and_a_finalizer_keeps_them(files: Path) -> None:
    player, _ = await played(
        files,
        NODES_3,
        *(
            f"{{opcode: createPods, count: 2, namespace: {name}, podTemplatePath: {name}.yaml}}"
            for name in ("pod", "finalized-pod", "large-pod")
        ),
        "{opcode: deletePods, namespace: pod}",
        "{opcode: deletePods, namespace: finalized-pod, deletePodsPerSecond: 1000}",
        "{opcode: deletePods, namespace: large-pod, labelSelector: {app: none}}",
        PODS_OF_TWO,
    )
    assert pods_of(player, "pod") == []
    assert [bool(pod.metadata.deletion_timestamp) for pod in pods_of(player, "finalized-pod")] == [True, True]
    assert len(pods_of(player, "large-pod")) == 2


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("mode: create", 10, id="create"),
        pytest.param("mode: create, number: 3", 3, id="at most three"),
        pytest.param("mode: recreate, number: 2", 2, id="two, then none"),
    ],
)
async def test_churn_goes_on_while_pods_are_measured(mode: str, expected: int, files: Path) -> None:
    player, _ = await played(
        files,
        NODES_3,
        # At 250 pods/s, every 5 pods.
        f"{{opcode: churn, {mode}, intervalMilliseconds: 20, templatePaths: [service.yaml], namespace: c}}",
        "{opcode: createPods, count: 50, collectMetrics: true, podTemplatePath: pod.yaml}",
    )
    (services,) = [kind for kind in player.cluster.stores if kind.name == "Service"]
    assert len(stored(player, services)) == expected


async def test_updates_replace_objects_and_keep_what_they_are(files: Path) -> None:
    player, figures = await played(
        files,
        "{opcode: startCollectingMetrics, namespaces: [a]}",
        "{opcode: createNodes, count: 1, nodeTemplatePath: named-node.yaml}",
        "{opcode: createPods, count: 2, namespace: a, podTemplatePath: gated-pod.yaml, skipWaitToCompletion: true}",
        "{opcode: barrier, stageRequirement: Attempted}",
        "{opcode: updateAny, count: 2, namespace: a, templatePath: ungated-pod.yaml, updatePerSecond: 1000}",
        "{opcode: updateAny, count: 1, templatePath: named-node.yaml}",
        "{opcode: barrier}",
        "{opcode: stopCollectingMetrics}",
    )
    assert (figures.pods, figures.bound) == (2, 2)
    assert len({pod.metadata.uid for pod in pods_of(player, "a")}) == 2


async def test_an_update_of_what_is_not_there_fails(files: Path) -> None:
    with pytest.raises(TemplateError, match="Pod namespace/gated-0 is to be updated, and is not there"):
        await played(
            files, NODES_3, "{opcode: updateAny, namespace: namespace, templatePath: ungated-pod.yaml}", PODS_OF_TWO
        )


DEVICES = (
    "{opcode: createNodes, count: 2, nodeTemplatePath: named-node.yaml}",
    "{opcode: createAny, count: 2, templatePath: slice.yaml}",
    "{opcode: createAny, templatePath: class.yaml}",
    "{opcode: createAny, count: 3, namespace: init, templatePath: device-claim.yaml}",
    "{opcode: createResourceClaims, count: 1, namespace: init, templatePath: plain-device-claim.yaml}",
    "{opcode: allocResourceClaims, namespace: init}",
    "{opcode: createAny, namespace: test, templatePath: claim-template.yaml}",
)


async def test_claims_are_allocated_before_and_made_from_templates_for_pods(files: Path) -> None:
    pods = "{opcode: createPods, count: 4, namespace: test, podTemplatePath: claiming-pod.yaml, collectMetrics: true}"
    player, figures = await played(files, *DEVICES, pods)
    assert figures.is_complete
    claims = stored(player, RESOURCE_CLAIMS)
    assert [claim.metadata.namespace for claim in claims] == ["init"] * 4 + ["test"] * 4
    assert all(claim.status.allocation is not None for claim in claims)
    used = {(result.pool, result.device) for claim in claims for result in claim.status.allocation.devices.results}
    assert len(used) == 8


async def test_in_a_steady_state_a_pod_that_is_bound_makes_room_for_the_next(files: Path) -> None:
    """At 250 pods/s, 100 ms are 25 pods: more than there are devices for at a time."""
    pods = "{opcode: createPods, count: 3, namespace: test, podTemplatePath: claiming-pod.yaml, collectMetrics: true, "
    player, figures = await played(files, *DEVICES, pods + "steadyState: true, duration: 100ms}")
    assert (figures.pods, figures.bound) == (25, 25)
    assert len(pods_of(player, "test")) <= 3


async def test_gangs_are_scheduled_with_their_groups(files: Path) -> None:
    player, figures = await played(
        files,
        NODES_3,
        "{opcode: createPodGroups, count: 2, namespace: gangs, templatePath: group.yaml, templateParams: {size: 3}}",
        "{opcode: createPods, count: 6, namespace: gangs, podTemplatePath: member.yaml, collectMetrics: true, "
        "templateParams: {size: 3}}",
        more="  featureGates: {GenericWorkload: true}\n",
    )
    assert figures.is_complete
    assert len(pods_of(player, "gangs")) == 6


async def test_the_configuration_of_the_scheduler_is_the_test_case_s(files: Path) -> None:
    player, figures = await played(files, NODES_3, PODS_OF_TWO, more="  schedulerConfigPath: no-spread.yaml\n")
    (profile,) = player.service.profiles.values()
    assert figures.is_complete
    assert "NodeResourcesFit" in profile.enabled
    assert "PodTopologySpread" not in profile.enabled


def test_the_threshold_is_the_pace_and_the_goal(files: Path) -> None:
    found = workload(files, case(NODES_3, PODS_OF_TWO, workload="    threshold: 70\n"))
    assert found.scenario is not None
    assert (found.scenario.goal, found.scenario.pace) == (70, 70.0)


TREES = (
    "{opcode: createCompositePodGroups, namespace: a, templatePath: b, depth: 2, "
    "rootCount: 1, childrenPodGroupsPerCPG: 1}"
)
MEASURED_SETS = (
    "{opcode: createPodSets, count: 1, namespacePrefix: a, createPodsOp: "
    "{opcode: createPods, count: 1, collectMetrics: true}}"
)


@pytest.mark.parametrize(
    ("operations", "more", "message"),
    [
        pytest.param((NODES_3,), "", "no pods are measured", id="nothing measured"),
        pytest.param((PODS_OF_TWO,), "", "needs nodes", id="no nodes"),
        pytest.param((NODES_3, PODS_OF_TWO, PODS_OF_TWO), "", "one operation of measured pods", id="two measured"),
        pytest.param((NODES_3, "{opcode: createPods, podTemplatePath: none.yaml, count: 1}"), "",
                     "op 1 (createPods): ", id="no file"),
        pytest.param((NODES_3, "{opcode: createPods, podTemplatePath: node.yaml, count: 1}"), "",
                     "op 1 (createPods): podTemplatePath: is a Node, not a Pod", id="kind of pods"),
        pytest.param(("{opcode: createNodes, nodeTemplatePath: pod.yaml, count: 1}",), "",
                     "op 0 (createNodes): nodeTemplatePath: is a Pod, not a Node", id="kind of nodes"),
        pytest.param((NODES_3, "{opcode: createAny, templatePath: service.yaml}"), "",
                     "op 1 (createAny): namespace: must be set, as a Service has one", id="namespace missing"),
        pytest.param((NODES_3, "{opcode: createAny, namespace: a, templatePath: class.yaml}"), "",
                     "op 1 (createAny): namespace: must not be set, as a DeviceClass has none", id="namespace"),
        pytest.param((NODES_3, "{opcode: createAny, namespace: a, templatePath: group.yaml}"), "",
                     "op 1 (createAny): group.yaml: line 5: .size is not set", id="template"),
        pytest.param((NODES_3, "{opcode: deletePods, namespace: a}"), "",
                     "op 1 (deletePods): namespace: no operation before has created 'a'", id="deletions"),
        pytest.param((NODES_3, "{opcode: barrier, namespaces: [a]}"), "",
                     "op 1 (barrier): namespace: no operation before has created 'a'", id="barrier"),
        pytest.param((NODES_3, "{opcode: updateAny, namespace: a, templatePath: service.yaml}"), "",
                     "op 1 (updateAny): templatePath: service.yaml: metadata.name must be set", id="update"),
        pytest.param((NODES_3, "{opcode: createPods, count: 1, podTemplatePath: claiming-pod.yaml}"), "",
                     "no operation before has created ResourceClaimTemplate 'template'", id="claim template"),
        pytest.param((NODES_3, "{opcode: createPods, count: 1, persistentVolumeClaimTemplatePath: claim.yaml}"), "",
                     "persistentVolumeTemplatePath: must be set", id="volume"),
        pytest.param((NODES_3, TREES), "",
                     "composite pod groups are not of 1.37, which is followed here", id="trees"),
        pytest.param((NODES_3, "{opcode: stopCollectingMetrics}"), "", "startCollectingMetrics is missing", id="stop"),
        pytest.param((NODES_3, *["{opcode: startCollectingMetrics, namespaces: [a]}"] * 2), "",
                     "metrics are being collected already", id="two starts"),
        pytest.param((NODES_3, "{opcode: startCollectingMetrics, namespaces: [a]}", PODS_OF_TWO), "",
                     "collectMetrics: metrics are being collected already", id="within"),
        pytest.param((NODES_3, "{opcode: startCollectingMetrics, namespaces: [a]}"), "",
                     "startCollectingMetrics without stopCollectingMetrics", id="no stop"),
        pytest.param((NODES_3, MEASURED_SETS), "", "measures each set", id="sets"),
        pytest.param((NODES_3, PODS_OF_TWO), "  featureGates: {NoSuchGate: true}\n", "NoSuchGate", id="gate"),
        pytest.param((NODES_3, PODS_OF_TWO), "  schedulerConfigPath: pod.yaml\n", "pod.yaml", id="configuration"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_left_out_with_the_reason(
    operations: tuple[str, ...], more: str, message: str, files: Path
) -> None:
    found = workload(files, case(*operations, more=more))
    assert found.scenario is None
    assert found.problem.startswith(f"{files / 'config.yaml'}: Case/tiny: ")
    assert message in found.problem


def test_a_selection_names_what_it_leaves_out(files: Path) -> None:
    text = case(NODES_3, PODS_OF_TWO) + "\n" + case(NODES_3).replace("Case", "Other")
    (files / "config.yaml").write_text(text)
    chosen = selected(files / "config.yaml", (), nodes_at_most=2)
    assert chosen.scenarios == []
    assert [(name, reason.rpartition(": ")[2]) for name, reason in chosen.left_out()] == [
        ("Case/tiny", "3 nodes are more than --nodes-at-most 2"),
        ("Other/tiny", "no pods are measured"),
    ]
    assert [scenario.name for scenario in selected(files / "config.yaml", ["Case"]).scenarios] == ["Case/tiny"]
    assert [line.split()[-1] for line in selected(files / "config.yaml", ()).listed()][1:] == ["yes", "measured"]
    with pytest.raises(TemplateError, match="no pods are measured"):
        selected(files / "config.yaml", ["Other/tiny"])
    with pytest.raises(TemplateError, match=r"has no workload 'Cas'; did you mean Case/tiny\?"):
        selected(files / "config.yaml", ["Cas"])


# --- upstream's own files ---------------------------------------------------------------------------------------------

# Why workloads of 1.37 cannot be played.
KNOWN_REASONS = (
    "no pods are measured",
    "the workload has no parameter 'measurePods'",
    "DRAWorkloadResourceClaims cannot be switched on",
    "cannot set feature gate NodeDeclaredFeatures to false",
)


def upstream_files() -> list[Path]:
    """The configurations of 1.37 in Go's module cache."""
    cache = Path(os.environ.get("GOMODCACHE") or Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg" / "mod")
    return sorted(cache.glob("k8s.io/kubernetes@v1.37.*/test/integration/scheduler_perf/**/performance-config.yaml"))


@pytest.mark.slow("reads all of upstream's files, where Go's module cache has them")
def test_upstream_s_workloads_are_read_and_none_is_left_out_without_a_known_reason() -> None:
    files = upstream_files()
    if not files:
        pytest.skip("Go's module cache has no k8s.io/kubernetes 1.37")
    found = [workload for file in files for workload in read_workloads(file)]
    assert all((workload.scenario is None) == bool(workload.problem) for workload in found)
    unknown = [one.problem for one in found if one.problem and not any(text in one.problem for text in KNOWN_REASONS)]
    assert unknown == []
    assert sum(one.scenario is not None for one in found) > 0.9 * len(found)
