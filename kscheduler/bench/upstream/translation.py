"""Workloads of scheduler_perf as scenarios of the benchmark, or the reason why one cannot be played.

What is different from upstream, in every workload:

    time            is counted in measured pods, at the pace of the workload's threshold: an interval of churn, a rate
                    of deletions, and the duration of a steady state (64 pods/s for 10 s are 640 pods)
    measured pods   are those of `collectMetrics`, or those that `startCollectingMetrics` selects; what is created
                    meanwhile is made before, so that reading templates costs no measured time
    kubelets        a deleted pod is gone at once, unless a finalizer keeps it
    controllers     the claim of a ResourceClaimTemplate comes with its pod, and goes with it in a steady state
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Node, PersistentVolumeClaimSource, Pod, PodResourceClaimStatus, Volume
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.kinds import CSI_NODES, NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kscheduler.api.meta import OwnerReference
from kscheduler.api.storage import (
    MIGRATED_PLUGINS,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
)
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.bench import scenario as played
from kscheduler.bench.scenario import BenchmarkScenario, Operation
from kscheduler.bench.template import Object, ObjectTemplate, TemplateError, template
from kscheduler.bench.upstream import operations as upstream
from kscheduler.bench.upstream.configuration import UpstreamWorkload, read_configuration
from kscheduler.bench.upstream.manifests import VERSION, Finish, Manifest, ManifestSource, read_text
from kscheduler.bench.upstream.operations import UpstreamOperation, seconds_of
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates

# Pods per second where upstream declares no threshold.
DEFAULT_PACE: Final = 250.0
# Upstream fills its clusters as its files say: whether pods have room is seen when they are placed.
_MOST_PER_NODE: Final = 1e9
_CONFIGURATION: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
"""
# What upstream creates where no template is named.
NODE: Final = """\
apiVersion: v1
kind: Node
metadata: {generateName: node-}
status:
  capacity: {pods: "110", cpu: "4", memory: 32Gi}
  conditions: [{type: Ready, status: "True"}]
"""
POD: Final = """\
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  containers:
  - name: pause
    image: registry.k8s.io/pause
    ports: [{containerPort: 80}]
    resources:
      limits: {cpu: 100m, memory: 500Mi}
      requests: {cpu: 100m, memory: 500Mi}
"""
_CLAIM_OF_POD: Final = "resource.kubernetes.io/pod-claim-name"


@dataclass(frozen=True, slots=True)
class TranslatedWorkload:
    """A workload as a scenario, or why it is left out."""

    name: str
    nodes: int
    """0 if it is not known."""
    scenario: BenchmarkScenario | None = None
    problem: str = ""


def read_workloads(path: Path) -> list[TranslatedWorkload]:
    """All workloads of a performance-config.yaml, in its order. Raises `TemplateError` for a file that has none."""
    return [translated(workload) for workload in read_configuration(path)]


def translated(workload: UpstreamWorkload) -> TranslatedWorkload:
    """The workload as a scenario, as far as it can be one."""
    nodes = sum(one.count or 0 for one in workload.operations if isinstance(one, upstream.CreateNodesOp))
    if workload.problem:
        return TranslatedWorkload(workload.name, nodes, problem=workload.problem)
    try:
        return TranslatedWorkload(workload.name, nodes, _Translation(workload).scenario())
    except (TemplateError, ConfigError) as error:
        problem = f"{workload.path}: {workload.name}: {error}"
        return TranslatedWorkload(workload.name, nodes, problem=problem)


@dataclass(slots=True)
class _MeasurablePods:
    """Pods of an operation that a window may measure."""

    place: int
    """In the scenario's operations."""
    namespace: str
    labels: Mapping[str, str]
    waits: bool
    """Whether they have been waited for: by their own operation, or by a barrier since."""


@dataclass(slots=True)
class _Window:
    """From `startCollectingMetrics` to `stopCollectingMetrics`."""

    selects: upstream.StartCollectingMetricsOp
    pending: tuple[_MeasurablePods, ...]
    """Pods of operations before it that are not bound yet."""
    pods_before: int
    """The number of operations of pods before it."""


@dataclass(slots=True)
class _Translation:
    """The translation of one workload, operation by operation."""

    workload: UpstreamWorkload
    operations: list[Operation] = field(default_factory=list)
    _namespaces: set[str] = field(default_factory=set)
    _finalized: set[str] = field(default_factory=set)
    """Namespaces with pods that a finalizer keeps."""
    _claim_templates: dict[tuple[str, str], Object] = field(default_factory=dict)
    """By namespace and name, the specs of the claims that are made from them."""
    _pods: list[_MeasurablePods] = field(default_factory=list)
    _window: _Window | None = None
    """The one that is open."""
    _place: str = ""
    """The operation, as errors name it."""
    _number: int = 0
    """Its number as upstream counts: each of several sets of pods by itself. It is in names."""

    def scenario(self) -> BenchmarkScenario:
        """Raises `TemplateError`, `ConfigError`."""
        workload = self.workload
        gates = tuple(name if is_on else f"{name}=false" for name, is_on in workload.gates.items())
        configuration = self._configuration()
        for number, operation in enumerate(workload.operations):
            self._place = f"op {number} ({operation.__struct_config__.tag})"
            self._translate(operation)
            self._number += (operation.count or 0) if isinstance(operation, upstream.CreatePodSetsOp) else 1
        self._place = ""
        if self._window is not None:
            self._refuse("startCollectingMetrics without stopCollectingMetrics")
        if not any(isinstance(one, played.CreatePods) and one.measured for one in self.operations):
            self._refuse("no pods are measured")
        return BenchmarkScenario(
            name=workload.name,
            source=f"{workload.path.parent.name}/{workload.name}",
            operations=tuple(self.operations),
            goal=round(workload.threshold),
            pace=self._pace,
            most_per_node=_MOST_PER_NODE,
            gates=gates,
            configuration=configuration,
            version=VERSION,
        )

    @property
    def _pace(self) -> float:
        return self.workload.threshold or DEFAULT_PACE

    def _configuration(self) -> str:
        """The KubeSchedulerConfiguration's text. Raises `TemplateError`, `ConfigError`."""
        named = ",".join(f"{name}={str(is_on).lower()}" for name, is_on in self.workload.gates.items())
        gates = parse_feature_gates(named, version=VERSION)
        path = self.workload.scheduler_config
        text = read_text(self._path(path)) if path else _CONFIGURATION
        ConfigurationReader(gates).read_bytes(text.encode(), str(self._path(path)) if path else "configuration")
        return text

    # --- operations ---------------------------------------------------------------------------------------------------

    def _translate(self, operation: UpstreamOperation) -> None:
        match operation:
            case upstream.CreateNodesOp():
                self._create_nodes(operation)
            case upstream.CreateNamespacesOp():
                self._create_namespaces(operation)
            case upstream.CreatePodsOp():
                namespace = f"namespace-{self._number}" if operation.namespace is None else operation.namespace
                self._create_pods(operation, namespace)
            case upstream.CreatePodSetsOp():
                self._create_pod_sets(operation)
            case upstream.CreateAnyOp() | upstream.CreatePodGroupsOp():
                self._create_objects(operation, operation.template_params)
            case upstream.CreateResourceClaimsOp():
                self._create_objects(operation, {})
            case upstream.ChurnOp():
                self._churn(operation)
            case upstream.UpdateAnyOp():
                self._update(operation)
            case _:
                self._control(operation)

    def _control(self, operation: UpstreamOperation) -> None:
        """Operations that wait, delete or measure."""
        match operation:
            case upstream.AllocateResourceClaimsOp(namespace=namespace):
                self.operations.append(played.AllocateClaims(namespace))
            case upstream.DeletePodsOp():
                self._delete_pods(operation)
            case upstream.BarrierOp():
                self._wait(operation)
            case upstream.SleepOp(duration=duration):
                self.operations.append(played.Sleep(seconds_of(duration)))
            case upstream.StartCollectingMetricsOp():
                self._start_measuring(operation)
            case upstream.StopCollectingMetricsOp():
                self._stop_measuring()
            case upstream.StartCollectingProfileOp() | upstream.StopCollectingProfileOp():
                pass  # of a process that is not played
            case upstream.CreateCompositePodGroupsOp():
                self._refuse(f"composite pod groups are not of {VERSION}, which is followed here")
            case _:
                self._refuse("cannot be played in process")

    def _create_nodes(self, operation: upstream.CreateNodesOp) -> None:
        if not operation.count:
            return
        finish: list[Finish] = []
        companions: list[ObjectTemplate] = []
        if (labels := operation.label_node_prepare_strategy) is not None:
            finish.append(partial(_label_in_turn, labels.label_key, tuple(labels.label_values)))
        if (unique := operation.unique_node_label_strategy) is not None:
            finish.append(partial(_label_uniquely, unique.label_key, self._number))
        if (given := operation.node_allocatable_strategy) is not None:
            finish.append(partial(_allocatable, given.node_allocatable))
            companions.append(_csi_node(given))
        if self.workload.declared_features:
            finish.append(partial(_declare_features, self.workload.declared_features))
        path = operation.node_template_path
        params = operation.template_params
        source = self._source(path, NODE, params, operation.count, finish=tuple(finish))
        self._must_be(source.manifest(0), "Node", "nodeTemplatePath")
        self.operations.append(played.CreateNodes(operation.count, source, companions=tuple(companions)))

    def _create_namespaces(self, operation: upstream.CreateNamespacesOp) -> None:
        labels: Mapping[str, str] = {}
        if operation.namespace_template_path:
            manifest = self._source(operation.namespace_template_path, "", {}, 1).manifest(0)
            self._must_be(manifest, "Namespace", "namespaceTemplatePath")
            labels = manifest.labels
        for number in range(operation.count or 0):
            self._need(f"{operation.prefix}-{number}", labels)

    def _need(self, namespace: str, labels: Mapping[str, str] | None = None) -> None:
        """The namespace, unless it has been created."""
        if namespace in self._namespaces:
            return
        self._namespaces.add(namespace)
        own = {"kubernetes.io/metadata.name": namespace}
        made = template(NAMESPACES, namespace, {"metadata": {"labels": {**(labels or {}), **own}}})
        self.operations.append(played.CreateObjects(made, namespace=""))

    def _must_be_known(self, namespace: str) -> None:
        if namespace not in self._namespaces:
            self._refuse(f"namespace: no operation before has created {namespace!r}")

    def _create_objects(
        self,
        operation: upstream.CreateAnyOp | upstream.CreatePodGroupsOp | upstream.CreateResourceClaimsOp,
        params: Mapping[str, Any],
    ) -> None:
        if not operation.count:
            return
        source = self._source(operation.template_path, "", params, operation.count)
        manifest = source.manifest(0)
        self._check_scope(manifest, operation.namespace)
        if operation.namespace:
            self._need(operation.namespace)
        if manifest.kind == "ResourceClaimTemplate":
            for index in range(operation.count):
                made = source.manifest(index)
                spec = msgspec.json.decode(made.text)["spec"]
                self._claim_templates[operation.namespace, made.name] = spec.get("spec") or {}
        elif manifest.watched is not None:
            self.operations.append(played.CreateObjects(source, operation.count, operation.namespace))

    def _check_scope(self, manifest: Manifest, namespace: str) -> None:
        if manifest.is_namespaced and not namespace:
            self._refuse(f"namespace: must be set, as a {manifest.kind} has one")
        if not manifest.is_namespaced and namespace:
            self._refuse(f"namespace: must not be set, as a {manifest.kind} has none")

    def _update(self, operation: upstream.UpdateAnyOp) -> None:
        if not operation.count:
            return
        source = self._source(operation.template_path, "", {}, operation.count)
        manifest = source.manifest(0)
        self._check_scope(manifest, operation.namespace)
        if not manifest.name:
            self._refuse(f"templatePath: {operation.template_path}: metadata.name must be set")
        if manifest.watched is not None:
            rate = operation.update_per_second
            self.operations.append(played.UpdateObjects(source, operation.count, operation.namespace, rate))

    def _churn(self, operation: upstream.ChurnOp) -> None:
        namespace = f"namespace-{self._number}" if operation.namespace is None else operation.namespace
        self._need(namespace)
        sources = tuple(self._source(path, "", {}, 1) for path in operation.template_paths)
        watched = tuple(source for source in sources if source.manifest(0).watched is not None)
        if not watched:
            return
        mode: Any = operation.mode
        seconds = operation.interval_milliseconds / 1000
        self.operations.append(played.Churn(watched, seconds, mode, operation.number, namespace))

    def _delete_pods(self, operation: upstream.DeletePodsOp) -> None:
        self._must_be_known(operation.namespace)
        rate = operation.delete_pods_per_second
        self.operations.append(
            played.DeletePods(
                operation.namespace,
                rate,
                keeps_objects=operation.namespace in self._finalized,
                labels=tuple(operation.label_selector.items()),
                waits=not operation.skip_wait_to_completion or not rate,
            )
        )

    def _wait(self, operation: upstream.BarrierOp) -> None:
        for namespace in operation.namespaces:
            self._must_be_known(namespace)
        is_for_attempts = operation.stage_requirement == upstream.ATTEMPTED
        labels = tuple(operation.label_selector.items())
        until = played.Barrier(tuple(operation.namespaces), labels, "attempted" if is_for_attempts else "bound")
        self.operations.append(until)
        for pods in self._pods:
            is_named = not operation.namespaces or pods.namespace in operation.namespaces
            if not is_for_attempts and is_named and dict(labels).items() <= pods.labels.items():
                pods.waits = True

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _create_pods(self, operation: upstream.CreatePodsOp, namespace: str, sets: int = 0) -> None:
        """`sets`: so many namespaces `NAMESPACE-0` ... get these pods each; 0: the namespace itself does."""
        if not sets:
            self._need(namespace)
        if not operation.count:
            return
        if operation.collect_metrics and self._window is not None:
            self._refuse("collectMetrics: metrics are being collected already")
        path = operation.pod_template_path or self.workload.default_pod_template
        finish: list[Finish] = []
        if path:
            finish.append(partial(_signature, operation.signature_batch_size or 1))
        source = self._source(path, POD, operation.template_params, operation.count, counts_in_set=sets > 0)
        manifest = source.manifest(0)
        self._must_be(manifest, "Pod", "podTemplatePath")
        companions = [*self._volumes(operation), *self._claims(manifest, namespace, finish)]
        if operation.persistent_volume_claim_template_path:
            finish.append(_use_claim)
        source = changed(source, finish=tuple(finish))
        if manifest.has_finalizers:
            self._finalized.add(namespace)
        waits = not operation.skip_wait_to_completion
        self._pods.append(_MeasurablePods(len(self.operations), namespace, manifest.labels, waits))
        count, at_once = operation.count, 0
        if operation.steady_state:
            # So many wait at any time; the duration is counted in pods.
            count, at_once = max(1, round(seconds_of(operation.duration) * self._pace)), operation.count
        self.operations.append(
            played.CreatePods(
                count * max(sets, 1),
                source,
                f"{namespace}-$set" if sets else namespace,
                measured=operation.collect_metrics,
                per_set=count if sets else 0,
                companions=tuple(companions),
                at_once=at_once,
                waits=waits,
                leaves=operation.steady_state,
            )
        )

    def _create_pod_sets(self, operation: upstream.CreatePodSetsOp) -> None:
        sets, inner = operation.count or 0, operation.create_pods_op
        if inner.collect_metrics:
            self._refuse("createPodsOp: collectMetrics measures each set by itself")
        if inner.steady_state:
            self._refuse("createPodsOp: steadyState cannot be played in sets")
        names = [f"{operation.namespace_prefix}-{number}" for number in range(sets)]
        for name in names:
            self._need(name)
        if sets:
            self._create_pods(inner, operation.namespace_prefix, sets)

    def _volumes(self, operation: upstream.CreatePodsOp) -> Iterator[ManifestSource]:
        """Of each pod a claim that is bound to a volume."""
        of_claim, of_volume = operation.persistent_volume_claim_template_path, operation.persistent_volume_template_path
        if not of_claim:
            return
        if not of_volume:
            self._refuse("persistentVolumeTemplatePath: must be set beside persistentVolumeClaimTemplatePath")
        volume, name = "{namespace}-vol-{index}", "pvc-{index}"
        claims = self._source(of_claim, "", {}, 1, name_as=name, finish=(partial(_bound_claim, volume),))
        volumes = self._source(of_volume, "", {}, 1, name_as=volume, finish=(partial(_bound_volume, name),))
        self._must_be(claims.manifest(0), PERSISTENT_VOLUME_CLAIMS.name, "persistentVolumeClaimTemplatePath")
        self._must_be(volumes.manifest(0), PERSISTENT_VOLUMES.name, "persistentVolumeTemplatePath")
        yield claims
        yield volumes

    def _claims(self, pod: Manifest, namespace: str, finish: list[Finish]) -> Iterator[ManifestSource]:
        """Of each pod the claims that are made from templates; `finish` lets its status name them."""
        names = []
        for entry in msgspec.json.decode(pod.text)["spec"].get("resourceClaims") or ():
            wanted = entry.get("resourceClaimTemplateName")
            if not wanted:
                continue
            spec = self._claim_templates.get((namespace, wanted))
            if spec is None:
                self._refuse(f"podTemplatePath: no operation before has created ResourceClaimTemplate {wanted!r}")
            names.append(entry["name"])
            claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": spec}
            yield ManifestSource(
                f"ResourceClaimTemplate {wanted}",
                msgspec.json.encode(claim).decode(),
                name_as=f"{{pod}}-{entry['name']}",
                finish=(partial(_owned_claim, entry["name"]),),
            )
        if names:
            finish.append(partial(_name_claims, tuple(names)))

    # --- measuring ----------------------------------------------------------------------------------------------------

    def _start_measuring(self, operation: upstream.StartCollectingMetricsOp) -> None:
        if self._window is not None:
            self._refuse("metrics are being collected already")
        pending = tuple(pods for pods in self._pods if not pods.waits)
        self._window = _Window(operation, pending, len(self._pods))
        self.operations.append(played.StartMeasuring())

    def _stop_measuring(self) -> None:
        window = self._window
        if window is None:
            self._refuse("startCollectingMetrics is missing before it")
        self._window = None
        self.operations.append(played.StopMeasuring())
        for pods in (*window.pending, *self._pods[window.pods_before :]):
            selects = window.selects
            if not pods.waits:  # they may never be bound, and need not be
                continue
            if pods.namespace in selects.namespaces and selects.label_selector.items() <= pods.labels.items():
                operation = self.operations[pods.place]
                if isinstance(operation, played.CreatePods):
                    self.operations[pods.place] = changed(operation, measured=True)

    # --- files --------------------------------------------------------------------------------------------------------

    def _path(self, path: str) -> Path:
        """A path of the configuration: relative to its own folder."""
        return self.workload.path.parent / path

    def _source(self, path: str, default: str, params: Mapping[str, Any], count: int, **more: Any) -> ManifestSource:
        """The objects of a file, or of the default text; the first of them has been read. Raises `TemplateError`."""
        where = f"{self._place}: {path}" if path else self._place
        if not path and not default:
            self._refuse("templatePath: must be set")
        try:
            text = read_text(self._path(path)) if path else default
        except TemplateError as error:
            self._refuse(str(error))
        source = ManifestSource(where, text, params, count, self._number, **more)
        source.manifest(0)
        return source

    def _must_be(self, manifest: Manifest, kind: str, name: str) -> None:
        if manifest.kind != kind:
            self._refuse(f"{name}: is a {manifest.kind}, not a {kind}")

    def _refuse(self, text: str) -> NoReturn:
        raise TemplateError(f"{self._place}: {text}" if self._place else text)


# --- what makes an object one of many ---------------------------------------------------------------------------------


def _label(obj: Node | Pod, name: str, value: str) -> None:
    obj.metadata = replace(obj.metadata, labels={**obj.metadata.labels, name: value})


def _label_in_turn(name: str, values: Sequence[str], node: Node, index: int, _: Mapping[str, str]) -> None:
    _label(node, name, values[index % len(values)])


def _label_uniquely(name: str, number: int, node: Node, index: int, _: Mapping[str, str]) -> None:
    _label(node, name, f"{number}-{index}")


def _allocatable(more: Mapping[str, str], node: Node, _: int, __: Mapping[str, str]) -> None:
    node.status = replace(node.status, allocatable={**node.status.allocatable, **more})


def _declare_features(names: tuple[str, ...], node: Node, _: int, __: Mapping[str, str]) -> None:
    node.status = replace(node.status, declared_features=names)


def _csi_node(given: upstream.NodeAllocatable) -> ObjectTemplate:
    drivers = [
        {"name": name, "nodeID": "$node", "allocatable": limits} for name, limits in given.csi_node_allocatable.items()
    ]
    annotations = {MIGRATED_PLUGINS: ",".join(given.migrated_plugins)}
    return template(CSI_NODES, "$node", {"metadata": {"annotations": annotations}, "spec": {"drivers": drivers}})


def _signature(batch: int, pod: Pod, index: int, _: Mapping[str, str]) -> None:
    """Pods of a batch have a label in common; by default each pod has its own."""
    _label(pod, "signature", f"signature-label-{index // batch}")


def _use_claim(pod: Pod, index: int, _: Mapping[str, str]) -> None:
    source = PersistentVolumeClaimSource(claim_name=f"pvc-{index}")
    pod.spec = replace(pod.spec, volumes=(Volume("vol", persistent_volume_claim=source),))


def _bound_claim(volume: str, claim: PersistentVolumeClaim, index: int, values: Mapping[str, str]) -> None:
    claim.spec = replace(claim.spec, volume_name=volume.format(index=index, namespace=values["namespace"]))
    claim.status = PersistentVolumeClaimStatus(phase="Bound")


def _bound_volume(claim: str, volume: PersistentVolume, index: int, values: Mapping[str, str]) -> None:
    owner = ObjectReference("PersistentVolumeClaim", values["namespace"], claim.format(index=index), "", "v1")
    spec, name = volume.spec, volume.metadata.name
    if spec.csi is not None:
        spec = replace(spec, csi=replace(spec.csi, volume_handle=name))
    if spec.aws_elastic_block_store is not None:
        spec = replace(spec, aws_elastic_block_store=replace(spec.aws_elastic_block_store, volume_id=f"vol-{index}"))
    volume.spec = replace(spec, claim_ref=owner)
    volume.status = PersistentVolumeStatus(phase="Bound")


def _owned_claim(entry: str, claim: ResourceClaim, _: int, values: Mapping[str, str]) -> None:
    owner = OwnerReference("Pod", values["pod"], values["poduid"], "v1", controller=True)
    annotations = {**claim.metadata.annotations, _CLAIM_OF_POD: entry}
    claim.metadata = replace(claim.metadata, owner_references=(owner,), annotations=annotations)


def _name_claims(entries: Sequence[str], pod: Pod, _: int, __: Mapping[str, str]) -> None:
    named = tuple(PodResourceClaimStatus(entry, f"{pod.metadata.name}-{entry}") for entry in entries)
    pod.status = replace(pod.status, resource_claim_statuses=named)
