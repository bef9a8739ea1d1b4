"""What a workload of scheduler_perf sends to an API server: objects as upstream's test makes them, in its order."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.upstream import requests as steps
from benchmarks.upstream.requests import Script, script_of
from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream.configuration import read_configuration

FILES = {
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-, labels: {app: web}}
spec:
  containers: [{name: c, image: i}]
  topologySpreadConstraints: [{MaxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
""",
    "numbered-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "pod-{{.Index}}", labels: {size: "{{.size}}-{{.Count}}"}}
spec: {containers: [{name: c, image: i}]}
""",
    "node.yaml": """
apiVersion: v1
kind: Node
metadata: {name: "node-{{.Index}}"}
status: {capacity: {pods: "110", cpu: "4"}}
""",
    "namespace.yaml": "{apiVersion: v1, kind: Namespace, metadata: {labels: {team: a}}}",
    "claim.yaml": "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadOnlyMany]}}",
    "volume.yaml": "{apiVersion: v1, kind: PersistentVolume, spec: {csi: {driver: d.example.com}}}",
    "template.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: claims}
spec: {spec: {devices: {requests: []}}}
""",
    "tree.yaml": """
apiVersion: scheduling.k8s.io/v1beta1
kind: CompositePodGroup
metadata: {name: "l{{.Level}}-{{.Index}}"}
spec:
  schedulingPolicy: {gang: {minGroupCount: {{.ChildrenCount}}}}
  {{- if gt .Level 1 }}
  parentCompositePodGroupName: "l{{.ParentLevel}}-{{.ParentIndex}}"
  {{- end }}
""",
    "leaf.yaml": """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: "leaf-{{.Index}}"}
spec: {parentCompositePodGroupName: "l{{.parentLevel}}-{{DivideInt .Index 3}}"}
""",
    "unknown.yaml": "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}",
}
CREATE_NODES = "{opcode: createNodes, count: 2}"
MEASURED = "{opcode: createPods, count: 2, collectMetrics: true}"


def script(folder: Path, *operations: str, workload: str = "") -> Script:
    """Of one workload with these operations."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    template = "\n".join(f"  - {one}" for one in operations)
    values = workload or "params: {}"
    file = folder / "performance-config.yaml"
    file.write_text(f"- name: Case\n  workloadTemplate:\n{template}\n  workloads:\n  - name: One\n    {values}")
    (found,) = read_configuration(file)
    return script_of(found)


def objects(batch: steps.Batch) -> list[Any]:
    return [json.loads(one.body) for one in batch.requests]


def paths(batch: steps.Batch) -> list[str]:
    return [one.path for one in batch.requests]


def all_of(made: Script, kind: type[Any]) -> list[Any]:
    return [step for step in made.steps if isinstance(step, kind)]


def test_nodes_are_upstream_s_and_know_their_host_where_no_template_is_named(tmp_path: Path) -> None:
    made = script(tmp_path, CREATE_NODES, MEASURED)
    (batch,) = made.steps[0].batches  # type: ignore[union-attr]
    first, second = objects(batch)
    assert set(paths(batch)) == {"/api/v1/nodes"}
    assert first["metadata"] == {"name": "node-0-00000", "labels": {"kubernetes.io/hostname": "node-0-00000"}}
    assert second["status"]["capacity"] == {"pods": "110", "cpu": "4", "memory": "32Gi"}


def test_a_strategy_labels_nodes_in_turn_or_gives_them_volume_limits(tmp_path: Path) -> None:
    labels = "{opcode: createNodes, count: 3, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}}"
    limits = (
        "{opcode: createNodes, count: 1, nodeTemplatePath: node.yaml, nodeAllocatableStrategy: "
        "{nodeAllocatable: {gpu: '1'}, csiNodeAllocatable: {d: {count: 39}}, migratedPlugins: [m]}}"
    )
    in_turn, limited = all_of(script(tmp_path, labels, limits, MEASURED), steps.Create)[:2]
    assert [node["metadata"]["labels"]["zone"] for node in objects(in_turn.batches[0])] == ["a", "b", "a"]
    (node,), (csi_node,) = (objects(batch) for batch in limited.batches)
    assert node["status"]["allocatable"] == {"pods": "110", "cpu": "4", "gpu": "1"}
    assert csi_node["metadata"]["name"] == node["metadata"]["name"] == "node-0"
    assert csi_node["spec"]["drivers"] == [{"name": "d", "nodeID": "node-0", "allocatable": {"count": 39}}]


def test_nodes_declare_the_features_that_upstream_s_test_gives_them(tmp_path: Path) -> None:
    workload = "params: {numNodeDeclaredFeatures: 11}\n    featureGates: {NodeDeclaredFeatures: true}"
    created = script(tmp_path, CREATE_NODES, MEASURED, workload=workload).steps[0]
    assert isinstance(created, steps.Create)
    names = objects(created.batches[0])[0]["status"]["declaredFeatures"]
    assert names == sorted(f"Feature{number}" for number in range(1, 12)), "the API server wants them as text sorts"


def test_templates_have_index_count_and_parameters_and_pods_a_signature(tmp_path: Path) -> None:
    numbered = (
        "{opcode: createPods, count: 4, namespace: ns, podTemplatePath: numbered-pod.yaml, "
        "collectMetrics: true, templateParams: {size: $size}, signatureBatchSize: 2}"
    )
    made = script(tmp_path, CREATE_NODES, numbered, workload="params: {size: l}")
    (step,) = all_of(made, steps.CreatePods)
    assert step.keys == ("ns/pod-0", "ns/pod-1", "ns/pod-2", "ns/pod-3")
    assert set(paths(step.pods)) == {"/api/v1/namespaces/ns/pods"}
    labels = [pod["metadata"]["labels"] for pod in objects(step.pods)]
    assert labels[3] == {"size": "l-4", "signature": "signature-label-1"}
    assert labels[1]["signature"] == "signature-label-0"


def test_generated_names_differ_by_operation_and_pod(tmp_path: Path) -> None:
    pods = "{opcode: createPods, count: 2, namespace: ns, podTemplatePath: pod.yaml}"
    made = script(tmp_path, CREATE_NODES, pods, pods, MEASURED)
    keys = [key for step in all_of(made, steps.CreatePods) for key in step.keys]
    assert len(set(keys)) == 6
    assert keys[0] == "ns/pod-1-00000"


def test_fields_are_read_without_regard_to_the_case_of_their_first_letter(tmp_path: Path) -> None:
    pods = "{opcode: createPods, count: 1, podTemplatePath: pod.yaml, collectMetrics: true}"
    (step,) = all_of(script(tmp_path, CREATE_NODES, pods), steps.CreatePods)
    (pod,) = objects(step.pods)
    assert pod["spec"]["topologySpreadConstraints"][0]["maxSkew"] == 1


def test_each_pod_has_a_claim_that_is_bound_to_its_volume(tmp_path: Path) -> None:
    pods = (
        "{opcode: createPods, count: 2, namespace: ns, collectMetrics: true, "
        "persistentVolumeTemplatePath: volume.yaml, persistentVolumeClaimTemplatePath: claim.yaml}"
    )
    (step,) = all_of(script(tmp_path, CREATE_NODES, pods), steps.CreatePods)
    claims, claim_statuses, volumes, volume_statuses = step.before
    assert objects(claims)[1]["spec"]["volumeName"] == "ns-vol-1"
    assert paths(claim_statuses) == [f"/api/v1/namespaces/ns/persistentvolumeclaims/pvc-{n}/status" for n in (0, 1)]
    volume = objects(volumes)[1]
    assert volume["spec"]["claimRef"]["name"] == "pvc-1"
    assert volume["spec"]["csi"]["volumeHandle"] == volume["metadata"]["name"] == "ns-vol-1"
    assert {one.method for one in volume_statuses.requests} == {"PATCH"}
    assert objects(volume_statuses)[0] == {"status": {"phase": "Bound"}}
    assert objects(step.pods)[1]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "pvc-1"}


def test_sets_of_pods_come_to_each_namespace_and_a_namespace_is_created_once(tmp_path: Path) -> None:
    namespaces = "{opcode: createNamespaces, prefix: ns, count: 2, namespaceTemplatePath: namespace.yaml}"
    sets = "{opcode: createPodSets, namespacePrefix: ns, count: 2, createPodsOp: {opcode: createPods, count: 3}}"
    made = script(tmp_path, CREATE_NODES, namespaces, sets, MEASURED)
    created = [one for step in all_of(made, steps.Create) for batch in step.batches for one in objects(batch)]
    labelled = [one["metadata"] for one in created if one["metadata"]["name"].startswith("ns-")]
    assert labelled == [{"labels": {"team": "a"}, "name": f"ns-{number}"} for number in (0, 1)]
    in_sets = all_of(made, steps.CreatePods)[0]
    assert in_sets.namespaces == {"ns-0", "ns-1"}
    assert len(in_sets.keys) == 6


def test_what_comes_before_a_scheduler_is_needed_is_prepared_once(tmp_path: Path) -> None:
    made = script(tmp_path, CREATE_NODES, "{opcode: createNamespaces, prefix: ns, count: 1}", MEASURED, CREATE_NODES)
    assert [type(step) for step in made.prepared] == [steps.Create] * 3
    assert isinstance(made.played[0], steps.CreatePods)
    assert made.adds_nodes_later
    assert (made.nodes, made.pods) == (4, 2)


def test_updates_replace_the_object_then_its_status(tmp_path: Path) -> None:
    update = "{opcode: updateAny, count: 1, templatePath: node.yaml, updatePerSecond: 7}"
    resize = "{opcode: updateAny, count: 1, namespace: ns, templatePath: numbered-pod.yaml, subresources: [resize]}"
    made = script(tmp_path, CREATE_NODES, MEASURED, update, resize.replace("numbered-pod", "pod"))
    nodes, pods = all_of(made, steps.Update)
    assert nodes.per_second == 7
    assert [one.path for one in nodes.requests[0]] == ["/api/v1/nodes/node-0", "/api/v1/nodes/node-0/status"]
    assert {one.method for one in nodes.requests[0]} == {"PUT"}
    assert pods.requests[0][0].path == "/api/v1/namespaces/ns/pods/pod-3-00000/resize"


def test_waits_windows_deletions_and_churn_keep_what_they_select(tmp_path: Path) -> None:
    made = script(
        tmp_path,
        CREATE_NODES,
        "{opcode: startCollectingMetrics, namespaces: [ns], labelSelector: {a: b}}",
        "{opcode: createPods, count: 1, namespace: ns, skipWaitToCompletion: true}",
        "{opcode: churn, mode: recreate, number: 2, templatePaths: [pod.yaml], intervalMilliseconds: 200}",
        "{opcode: barrier, stageRequirement: Attempted, namespaces: [ns]}",
        "{opcode: deletePods, namespace: ns, labelSelector: {a: c}, deletePodsPerSecond: 9, skipWaitToCompletion: on}",
        "{opcode: sleep, duration: 1500ms}",
        "{opcode: stopCollectingMetrics}",
    )
    window, pods, churn, barrier, deletion, sleep, _ = (
        step for step in made.played if not isinstance(step, steps.Create)
    )
    assert window == steps.StartMeasuring(frozenset({"ns"}), {"a": "b"})
    assert isinstance(pods, steps.CreatePods)
    assert not pods.waits
    assert isinstance(churn, steps.Churn)
    assert (churn.recreate, churn.number, churn.interval_seconds) == (True, 2, 0.2)
    assert "name" not in json.loads(churn.requests[0].body)["metadata"], "the API server gives another name each time"
    assert barrier == steps.Barrier(frozenset({"ns"}), {}, is_for_attempts=True)
    assert deletion == steps.DeletePods("ns", {"a": "c"}, 9, waits=False)
    assert sleep == steps.Sleep(1.5)


def test_a_steady_state_has_another_pod_for_each_that_is_bound(tmp_path: Path) -> None:
    steady = "{opcode: createPods, count: 2, namespace: ns, steadyState: true, duration: 3s, collectMetrics: true}"
    (step,) = all_of(script(tmp_path, CREATE_NODES, steady), steps.CreatePods)
    assert step.steady_seconds == 3
    key, request = step.another(17)
    assert key == "ns/pod-1-00017"
    assert json.loads(request.body)["metadata"]["name"] == "pod-1-00017"


def test_trees_of_groups_are_created_level_by_level_and_their_leaves_are_counted(tmp_path: Path) -> None:
    trees = (
        "{opcode: createCompositePodGroups, namespace: ns, templatePath: tree.yaml, rootCountParam: $trees, depth: 3, "
        "childrenCompositePodGroupsPerCPG: 2, childrenPodGroupsPerCPG: 3}"
    )
    leaves = (
        "{opcode: createPodGroups, namespace: ns, templatePath: leaf.yaml, countParam: $podGroupsCount, "
        "templateParams: {parentLevel: $parentLevel}}"
    )
    made = script(tmp_path, CREATE_NODES, trees, leaves, MEASURED, workload="params: {trees: 2}")
    of_trees, of_leaves = (step for step in all_of(made, steps.Create) if "groups" in step.batches[0].requests[0].path)
    roots, children = (objects(batch) for batch in of_trees.batches)
    assert [root["metadata"]["name"] for root in roots] == ["l1-0", "l1-1"]
    assert roots[0]["spec"] == {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    parents = [child["spec"]["parentCompositePodGroupName"] for child in children]
    assert parents == ["l1-0", "l1-0", "l1-1", "l1-1"]
    assert children[0]["spec"]["schedulingPolicy"]["gang"]["minGroupCount"] == 3
    found = objects(of_leaves.batches[0])
    assert (len(found), found[-1]["spec"]["parentCompositePodGroupName"]) == (12, "l2-3")


def test_templates_of_claims_need_a_controller(tmp_path: Path) -> None:
    template = "{opcode: createAny, templatePath: template.yaml, namespace: ns}"
    assert script(tmp_path, CREATE_NODES, template, MEASURED).uses_claim_templates
    assert not script(tmp_path, CREATE_NODES, MEASURED).uses_claim_templates


@pytest.mark.parametrize(
    ("operations", "reason"),
    [
        pytest.param((CREATE_NODES,), "no pods are measured", id="nothing measured"),
        pytest.param(
            (CREATE_NODES, "{opcode: createAny, templatePath: unknown.yaml}", MEASURED),
            r"op 1 \(createAny\): unknown.yaml: the kind Widget of example.com/v1 is not known",
            id="unknown kind",
        ),
        pytest.param(
            (CREATE_NODES, "{opcode: createAny, templatePath: template.yaml}", MEASURED),
            "namespace: must be set, as a ResourceClaimTemplate has one",
            id="no namespace",
        ),
        pytest.param(
            (CREATE_NODES, "{opcode: createPods, count: 1, podTemplatePath: node.yaml}", MEASURED),
            "podTemplatePath: is a Node, not a Pod",
            id="no pods",
        ),
        pytest.param(
            (CREATE_NODES, "{opcode: createPods, countParam: $many, collectMetrics: true}"),
            "the workload has no parameter 'many'",
            id="no parameter",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused_with_the_reason(
    operations: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(TemplateError, match=reason):
        script(tmp_path, *operations)
