"""The workloads of scheduler_perf on a real API server (`make bench-upstream`): each step does what it says there."""

from pathlib import Path

import pytest

from benchmarks.upstream import table
from benchmarks.upstream.__main__ import main
from tests.controlplane.releases import pinned

FILES = {
    "performance-config.yaml": """
- name: Steps
  workloadTemplate:
  - {opcode: createNodes, count: 5, nodeAllocatableStrategy: {csiNodeAllocatable: {d.example.com: {count: 39}}}}
  - {opcode: createNamespaces, prefix: ns, count: 2}
  - {opcode: createPodSets, namespacePrefix: ns, count: 2, createPodsOp: {opcode: createPods, count: 5}}
  - opcode: createPods
    count: 5
    namespace: volumes
    persistentVolumeTemplatePath: volume.yaml
    persistentVolumeClaimTemplatePath: claim.yaml
  - {opcode: churn, mode: recreate, number: 1, templatePaths: [large-pod.yaml, service.yaml], intervalMilliseconds: 100}
  - {opcode: createPods, count: 5, namespace: gated, podTemplatePath: gated-pod.yaml, skipWaitToCompletion: true}
  - {opcode: barrier, namespaces: [gated], stageRequirement: Attempted}
  - opcode: startCollectingMetrics
    namespaces: [gated, steady]
  - {opcode: updateAny, count: 5, namespace: gated, templatePath: ungated-pod.yaml}
  - {opcode: barrier, namespaces: [gated]}
  - {opcode: createPods, count: 5, namespace: steady, steadyState: true, duration: 1s}
  - {opcode: stopCollectingMetrics}
  - {opcode: deletePods, namespace: ns-0, deletePodsPerSecond: 50}
  - {opcode: createPods, count: 120, collectMetrics: true, namespace: ns-1}
  workloads: [{name: all}]
""",
    "large-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: large-}
spec: {priority: 10, containers: [{name: c, image: i, resources: {requests: {cpu: "9"}}}]}
""",
    "gated-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{.Index}}"}
spec: {schedulingGates: [{name: wait}], containers: [{name: c, image: i}]}
""",
    "ungated-pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{.Index}}"}
spec: {schedulingGates: [], containers: [{name: c, image: i}]}
""",
    "service.yaml": """
apiVersion: v1
kind: Service
metadata: {generateName: service-}
spec: {selector: {app: web}, ports: [{port: 80}]}
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
}


@pytest.mark.real
@pytest.mark.usefixtures("only_kscheduler")
def test_a_workload_with_all_kinds_of_steps_is_played_by_all_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(pinned.VARIABLE, str(pinned.chosen()))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    file = tmp_path / "figures.json"
    assert main(["--folder", str(tmp_path), "--json", str(file), "--patience", "30"]) == 0
    found = {one.scheduler: one for one in table.read(file).figures}
    assert set(found) == {"kscheduler", "kube-scheduler", "floor"}
    for one in found.values():
        assert (one.stuck, one.faults, one.refused) == ("", (), "")
        assert one.measured > 125, "the gated pods, some of the steady state, and all of the last operation"
        assert one.pods_per_second > 0
        assert one.cpu_milliseconds > 0
        assert one.latency_p99_milliseconds is not None
    assert main(["--folder", str(tmp_path), "--json", str(file)]) == 0, "nothing is measured again"
    assert len(table.read(file).figures) == 3
