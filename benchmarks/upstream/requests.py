"""What a workload of scheduler_perf sends to an API server, and what it waits for, step by step.

Objects are sent as upstream's templates have them; the API server gives defaults and UIDs. A generated name gets the
numbers of its operation and of itself, so each scheduler meets the same names. Controllers that upstream runs beside
its API server do their part here, too (`servers.py`): a claim that is made from a template comes from theirs.

What upstream's test does to objects, beyond their templates, is done before they are sent: the label of a strategy, the
label that makes signatures differ, volumes bound to claims, and the declared features of nodes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.storage import MIGRATED_PLUGINS
from kscheduler.api.well_known import HOSTNAME
from kscheduler.bench.template import TemplateError
from kscheduler.bench.upstream import operations as upstream
from kscheduler.bench.upstream.configuration import UpstreamWorkload
from kscheduler.bench.upstream.manifests import SERVED, read_object, read_text
from kscheduler.bench.upstream.operations import UpstreamOperation, seconds_of
from kscheduler.bench.upstream.text_template import TextTemplateError, execute, is_constant
from kscheduler.bench.upstream.translation import NODE, POD

Object = dict[str, Any]
# Changes an object that is of nobody else: the object and its index.
Finish = Callable[[Object, int], None]

NAMESPACES: Final = "/api/v1/namespaces"
MERGE_PATCH: Final = "application/merge-patch+json"
PERSISTENT_VOLUMES: Final = "/api/v1/persistentvolumes"
CSI_NODES: Final = "/apis/storage.k8s.io/v1/csinodes"
_BOUND: Final = b'{"status":{"phase":"Bound"}}'
_CONFLICTS: Final = frozenset({409})
# An object that is to be changed may be gone, or have become what cannot be changed any more.
_LATE: Final = frozenset({404, 409, 422})


class Request(msgspec.Struct, frozen=True):
    """One request."""

    path: str
    body: bytes
    method: str = "POST"


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that are sent side by side; what follows waits for all of them."""

    requests: tuple[Request, ...]
    may_be_refused: frozenset[int] = frozenset()
    """Statuses that are no fault."""


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Create:
    """Objects that are no pods."""

    batches: tuple[Batch, ...]
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Pods, with their volumes before them."""

    before: tuple[Batch, ...]
    pods: Batch
    keys: tuple[str, ...]
    """`namespace/name` of each."""
    namespaces: frozenset[str]
    labels: Mapping[str, str]
    measured: bool = False
    waits: bool = True
    steady_seconds: float = 0.0
    """So many wait at any time, for so long: who is bound is deleted, and another one created."""
    another: Callable[[int], tuple[str, Request]] | None = None
    """The key and the request of a further one."""


@dataclass(frozen=True, slots=True)
class Churn:
    """Objects of each template that come, and go in the mode `recreate`, until the workload ends."""

    requests: tuple[Request, ...]
    interval_seconds: float
    recreate: bool
    number: int


@dataclass(frozen=True, slots=True)
class DeletePods:
    """The pods that the namespace has then."""

    namespace: str
    labels: Mapping[str, str]
    per_second: int
    """0: all at once."""
    waits: bool


@dataclass(frozen=True, slots=True)
class Update:
    """Objects are replaced by others of the same name, one after the other."""

    requests: tuple[tuple[Request, ...], ...]
    """Of each object, in their order."""
    per_second: int
    may_be_refused: frozenset[int] = _LATE


@dataclass(frozen=True, slots=True)
class AllocateClaims:
    """All claims of the namespace, or of all, get devices on nodes at random."""

    namespace: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """Waits for pods that were not waited for."""

    namespaces: frozenset[str]
    labels: Mapping[str, str]
    is_for_attempts: bool


@dataclass(frozen=True, slots=True)
class Sleep:
    """Time passes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class StartMeasuring:
    """From here on pods of these namespaces with these labels count."""

    namespaces: frozenset[str]
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StopMeasuring:
    """Up to here."""


Step: TypeAlias = (
    AllocateClaims
    | Barrier
    | Churn
    | Create
    | CreatePods
    | DeletePods
    | Sleep
    | StartMeasuring
    | StopMeasuring
    | Update
)
_WITHOUT_SCHEDULER: Final = (Create, AllocateClaims)


@dataclass(frozen=True, slots=True)
class Script:
    """A workload, ready to be played."""

    workload: UpstreamWorkload
    steps: tuple[Step, ...]
    uses_claim_templates: bool = False
    """Whether a controller has to make claims."""

    @property
    def prepared(self) -> tuple[Step, ...]:
        """The steps before the first one that a scheduler has to do with: done once for all schedulers."""
        return self.steps[: self._first]

    @property
    def played(self) -> tuple[Step, ...]:
        """The others."""
        return self.steps[self._first :]

    @property
    def nodes(self) -> int:
        """All that it creates."""
        return sum(step.nodes for step in self.steps if isinstance(step, Create))

    @property
    def pods(self) -> int:
        """All that it creates, without those of churn and of steady states."""
        return sum(len(step.keys) for step in self.steps if isinstance(step, CreatePods))

    @property
    def adds_nodes_later(self) -> bool:
        """Whether nodes come or change while the scheduler runs."""
        return any(isinstance(step, Create) and step.nodes for step in self.played)

    @property
    def _first(self) -> int:
        numbers = (number for number, step in enumerate(self.steps) if not isinstance(step, _WITHOUT_SCHEDULER))
        return next(numbers, len(self.steps))


def script_of(workload: UpstreamWorkload) -> Script:
    """Raises `TemplateError` for a workload that cannot be played, with the reason."""
    if workload.problem:
        raise TemplateError(workload.problem)
    return _Translation(workload).script()


# --- objects ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """The objects of a template."""

    where: str
    text: str
    params: Mapping[str, Any]
    count: int
    number: int
    """Of the operation: generated names differ by it."""

    def make(self, index: int) -> Object:
        """An object of the caller's own, with a name. Raises `TemplateError`."""
        made = deepcopy(self._tree(index))
        metadata = made["metadata"]
        prefix = metadata.pop("generateName", "")
        metadata.setdefault("name", f"{prefix}{self.number}-{index:05}")
        return made

    def as_written(self) -> Object:
        """The first object as the template has it. Raises `TemplateError`."""
        return deepcopy(self._tree(0))

    @property
    def resource(self) -> ServedResource:
        """The kind. Raises `TemplateError` if it is not known."""
        tree = self._tree(0)
        group = str(tree["apiVersion"]).rpartition("/")[0]
        found = SERVED.get((group, str(tree.get("kind"))))
        if found is None:
            raise TemplateError(f"{self.where}: the kind {tree.get('kind')} of {tree['apiVersion']} is not known")
        return found

    def collection(self, namespace: str) -> str:
        """The path of its objects, in the version that the template names. Raises `TemplateError`."""
        version = str(self._tree(0)["apiVersion"])
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resource = self.resource
        return (
            f"{root}/namespaces/{namespace}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
        )

    def _tree(self, index: int) -> Object:
        if is_constant(self.text):
            return _read(self.where, self.text)
        try:
            return _read(self.where, execute(self.text, {**self.params, "Index": index, "Count": self.count}))
        except TextTemplateError as error:
            raise TemplateError(f"{self.where}: {error}") from None


@lru_cache(maxsize=64)
def _read(where: str, text: str) -> Object:
    return read_object(where, text)


def _encoded(tree: Object) -> bytes:
    return msgspec.json.encode(tree)


# --- the translation --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Translation:
    """Of one workload, operation by operation."""

    workload: UpstreamWorkload
    steps: list[Step] = field(default_factory=list)
    _namespaces: set[str] = field(default_factory=lambda: {"default"})
    _templates: bool = False
    _place: str = ""
    _number: int = 0

    def script(self) -> Script:
        for number, operation in enumerate(self.workload.operations):
            self._place, self._number = f"op {number} ({operation.__struct_config__.tag})", number
            self._translate(operation)
        self._place = ""
        has_window = any(isinstance(step, StartMeasuring) for step in self.steps)
        pods = [step for step in self.steps if isinstance(step, CreatePods)]
        if not any(step.measured or has_window for step in pods):
            self._refuse("no pods are measured")
        return Script(self.workload, tuple(self.steps), self._templates)

    def _translate(self, operation: UpstreamOperation) -> None:
        match operation:
            case upstream.CreateNodesOp():
                self._create_nodes(operation)
            case upstream.CreateNamespacesOp():
                self._create_namespaces(operation)
            case upstream.CreatePodsOp():
                namespace = f"namespace-{self._number}" if operation.namespace is None else operation.namespace
                self._create_pods(operation, [namespace])
            case upstream.CreatePodSetsOp():
                names = [f"{operation.namespace_prefix}-{number}" for number in range(operation.count or 0)]
                self._create_pods(operation.create_pods_op, names)
            case upstream.CreateAnyOp() | upstream.CreatePodGroupsOp():
                self._create_objects(operation, operation.template_params)
            case upstream.CreateResourceClaimsOp():
                self._create_objects(operation, {})
            case upstream.CreateCompositePodGroupsOp():
                self._create_trees(operation)
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
                self.steps.append(AllocateClaims(namespace))
            case upstream.DeletePodsOp():
                rate = operation.delete_pods_per_second
                waits = not operation.skip_wait_to_completion
                self.steps.append(DeletePods(operation.namespace, operation.label_selector, rate, waits))
            case upstream.BarrierOp():
                is_for_attempts = operation.stage_requirement == upstream.ATTEMPTED
                namespaces = frozenset(operation.namespaces)
                self.steps.append(Barrier(namespaces, operation.label_selector, is_for_attempts))
            case upstream.SleepOp(duration=duration):
                self.steps.append(Sleep(seconds_of(duration)))
            case upstream.StartCollectingMetricsOp(namespaces=names, label_selector=labels):
                self.steps.append(StartMeasuring(frozenset(names), labels))
            case upstream.StopCollectingMetricsOp():
                self.steps.append(StopMeasuring())
            case upstream.StartCollectingProfileOp() | upstream.StopCollectingProfileOp():
                pass  # of a process that is not played
            case _:
                self._refuse("cannot be sent to an API server")

    def _create_nodes(self, operation: upstream.CreateNodesOp) -> None:
        if not operation.count:
            return
        source = self._source(operation.node_template_path, NODE, operation.template_params, operation.count)
        finish: list[Finish] = [_name_host]
        if (labels := operation.label_node_prepare_strategy) is not None:
            finish.append(partial(_label_in_turn, labels.label_key, tuple(labels.label_values)))
        if (unique := operation.unique_node_label_strategy) is not None:
            finish.append(partial(_label_uniquely, unique.label_key, self._number))
        if (given := operation.node_allocatable_strategy) is not None:
            finish.append(partial(_allocatable, given.node_allocatable))
        if self.workload.declared_features:
            finish.append(partial(_declare_features, self.workload.declared_features))
        nodes = [_finished(source, index, finish) for index in range(operation.count)]
        batches = [_posts(source.collection(""), nodes)]
        if given is not None:
            batches.append(_posts(CSI_NODES, [_csi_node(given, node["metadata"]["name"]) for node in nodes]))
        self.steps.append(Create(tuple(batches), nodes=operation.count))

    def _create_namespaces(self, operation: upstream.CreateNamespacesOp) -> None:
        metadata: Object = {}
        if operation.namespace_template_path:
            metadata = self._source(operation.namespace_template_path, "", {}, 1).as_written()["metadata"]
        for number in range(operation.count or 0):
            self._need(f"{operation.prefix}-{number}", metadata)

    def _need(self, namespace: str, metadata: Mapping[str, Any] | None = None) -> None:
        """The namespace, unless it has been created."""
        if namespace in self._namespaces:
            return
        self._namespaces.add(namespace)
        tree = {"metadata": {**(metadata or {}), "name": namespace}}
        self.steps.append(Create((Batch((Request(NAMESPACES, _encoded(tree)),), _CONFLICTS),)))

    def _create_objects(
        self,
        operation: upstream.CreateAnyOp | upstream.CreatePodGroupsOp | upstream.CreateResourceClaimsOp,
        params: Mapping[str, Any],
    ) -> None:
        if operation.namespace:
            self._need(operation.namespace)
        if not operation.count:
            return
        source = self._source(operation.template_path, "", params, operation.count)
        self._check_scope(source.resource, operation.namespace)
        self._templates |= source.resource.kind == "ResourceClaimTemplate"
        objects = [source.make(index) for index in range(operation.count)]
        self.steps.append(Create((_posts(source.collection(operation.namespace), objects),)))

    def _create_trees(self, operation: upstream.CreateCompositePodGroupsOp) -> None:
        """A level after the other."""
        self._need(operation.namespace)
        children, counts = operation.children_composite_pod_groups_per_cpg, operation.level_counts
        batches = []
        for level, count in enumerate(counts, 1):
            is_last = level == len(counts)
            own = {"Level": level, "ChildrenCount": operation.children_pod_groups_per_cpg if is_last else children}
            objects = []
            for index in range(count):
                if level > 1:
                    own |= {"ParentLevel": level - 1, "ParentIndex": index // children}
                source = self._source(operation.template_path, "", {**operation.template_params, **own}, count)
                objects.append(source.make(index))
            batches.append(_posts(source.collection(operation.namespace), objects))
        self.steps.append(Create(tuple(batches)))

    def _check_scope(self, resource: ServedResource, namespace: str) -> None:
        if resource.namespaced and not namespace:
            self._refuse(f"namespace: must be set, as a {resource.kind} has one")
        if not resource.namespaced and namespace:
            self._refuse(f"namespace: must not be set, as a {resource.kind} has none")

    def _update(self, operation: upstream.UpdateAnyOp) -> None:
        source = self._source(operation.template_path, "", {}, operation.count or 0)
        self._check_scope(source.resource, operation.namespace)
        path = source.collection(operation.namespace)
        requests: list[tuple[Request, ...]] = []
        for index in range(operation.count or 0):
            made = source.make(index)
            body, own = _encoded(made), "/".join((path, made["metadata"]["name"], *operation.subresources))
            status = f"{path}/{made['metadata']['name']}/status"
            requests.append((Request(own, body, "PUT"), Request(status, body, "PUT")))
        self.steps.append(Update(tuple(requests), operation.update_per_second))

    def _churn(self, operation: upstream.ChurnOp) -> None:
        namespace = f"namespace-{self._number}" if operation.namespace is None else operation.namespace
        self._need(namespace)
        sources = [self._source(path, "", {}, 1) for path in operation.template_paths]
        requests = tuple(Request(one.collection(namespace), _encoded(one.as_written())) for one in sources)
        seconds = operation.interval_milliseconds / 1000
        self.steps.append(Churn(requests, seconds, operation.mode == "recreate", operation.number))

    def _create_pods(self, operation: upstream.CreatePodsOp, namespaces: Sequence[str]) -> None:
        for namespace in namespaces:
            self._need(namespace)
        if not operation.count:
            return
        path = operation.pod_template_path or self.workload.default_pod_template
        source = self._source(path, POD, operation.template_params, operation.count)
        if source.resource.kind != "Pod":
            self._refuse(f"podTemplatePath: is a {source.resource.kind}, not a Pod")
        finish: list[Finish] = []
        if path:
            finish.append(partial(_signature, operation.signature_batch_size or 1))
        if operation.persistent_volume_claim_template_path:
            finish.append(_use_claim)
        made: list[tuple[str, Request]] = []
        for namespace in namespaces:
            another = partial(_pod_request, source, finish, namespace)
            made += [another(index) for index in range(operation.count)]
        keys, requests = zip(*made, strict=True)
        is_steady = operation.steady_state
        self.steps.append(
            CreatePods(
                tuple(self._volumes(operation, namespaces)),
                Batch(requests),
                keys,
                frozenset(namespaces),
                source.as_written()["metadata"].get("labels") or {},
                measured=operation.collect_metrics,
                waits=not operation.skip_wait_to_completion,
                steady_seconds=seconds_of(operation.duration) if is_steady else 0.0,
                another=another if is_steady else None,
            )
        )

    def _volumes(self, operation: upstream.CreatePodsOp, namespaces: Sequence[str]) -> Iterator[Batch]:
        """Of each pod a claim that is bound to a volume; the API server takes a status only after the object."""
        of_claim, of_volume = operation.persistent_volume_claim_template_path, operation.persistent_volume_template_path
        if not of_claim:
            return
        if not of_volume:
            self._refuse("persistentVolumeTemplatePath: must be set beside persistentVolumeClaimTemplatePath")
        claims, volumes = (self._source(path, "", {}, 1) for path in (of_claim, of_volume))
        for namespace in namespaces:
            path = claims.collection(namespace)
            numbers = range(operation.count or 0)
            yield _posts(path, [_bound_claim(claims.as_written(), namespace, index) for index in numbers])
            yield _patches(f"{path}/pvc-{index}/status" for index in numbers)
            yield _posts(PERSISTENT_VOLUMES, [_bound_volume(volumes.as_written(), namespace, i) for i in numbers])
            yield _patches(f"{PERSISTENT_VOLUMES}/{_volume(namespace, index)}/status" for index in numbers)

    def _source(self, path: str, default: str, params: Mapping[str, Any], count: int) -> ObjectSource:
        """The objects of a file, or of the default text. Raises `TemplateError`."""
        where = f"{self._place}: {path}" if path else self._place
        if not path and not default:
            self._refuse("templatePath: must be set")
        try:
            text = read_text(self._path(path)) if path else default
        except TemplateError as error:
            self._refuse(str(error))
        return ObjectSource(where, text, params, count, self._number)

    def _path(self, path: str) -> Path:
        return self.workload.path.parent / path

    def _refuse(self, text: str) -> NoReturn:
        raise TemplateError(f"{self._place}: {text}" if self._place else text)


def _posts(path: str, objects: Sequence[Object]) -> Batch:
    return Batch(tuple(Request(path, _encoded(one)) for one in objects))


def _patches(paths: Iterator[str]) -> Batch:
    return Batch(tuple(Request(path, _BOUND, "PATCH") for path in paths))


def _finished(source: ObjectSource, index: int, finish: Sequence[Finish]) -> Object:
    made = source.make(index)
    for each in finish:
        each(made, index)
    return made


def _pod_request(source: ObjectSource, finish: Sequence[Finish], namespace: str, index: int) -> tuple[str, Request]:
    pod = _finished(source, index, finish)
    key = f"{namespace}/{pod['metadata']['name']}"
    return key, Request(source.collection(namespace), _encoded(pod))


# --- what upstream's test does to objects -----------------------------------------------------------------------------


def _label(tree: Object, name: str, value: str) -> None:
    tree["metadata"]["labels"] = {**(tree["metadata"].get("labels") or {}), name: value}


def _name_host(node: Object, _: int) -> None:
    _label(node, HOSTNAME, node["metadata"]["name"])


def _label_in_turn(name: str, values: Sequence[str], node: Object, index: int) -> None:
    _label(node, name, values[index % len(values)])


def _label_uniquely(name: str, number: int, node: Object, index: int) -> None:
    _label(node, name, f"{number}-{index}")


def _allocatable(more: Mapping[str, str], node: Object, _: int) -> None:
    status = node["status"]
    status["allocatable"] = {**(status.get("allocatable") or status.get("capacity") or {}), **more}


def _declare_features(names: Sequence[str], node: Object, _: int) -> None:
    node["status"]["declaredFeatures"] = list(names)


def _csi_node(given: upstream.NodeAllocatable, node: str) -> Object:
    limits = given.csi_node_allocatable
    drivers = [{"name": name, "nodeID": node, "allocatable": allocatable} for name, allocatable in limits.items()]
    annotations = {MIGRATED_PLUGINS: ",".join(given.migrated_plugins)}
    return {"metadata": {"name": node, "annotations": annotations}, "spec": {"drivers": drivers}}


def _signature(batch: int, pod: Object, index: int) -> None:
    """Pods of a batch have a label in common; by default each pod has its own."""
    _label(pod, "signature", f"signature-label-{index // batch}")


def _use_claim(pod: Object, index: int) -> None:
    pod["spec"]["volumes"] = [{"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{index}"}}]


def _volume(namespace: str, index: int) -> str:
    return f"{namespace}-vol-{index}"


def _bound_claim(claim: Object, namespace: str, index: int) -> Object:
    claim["metadata"]["name"] = f"pvc-{index}"
    claim["spec"]["volumeName"] = _volume(namespace, index)
    return claim


def _bound_volume(volume: Object, namespace: str, index: int) -> Object:
    name = _volume(namespace, index)
    volume["metadata"]["name"] = name
    spec = volume["spec"]
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": f"pvc-{index}"}
    spec["claimRef"] = reference
    if "csi" in spec:
        spec["csi"]["volumeHandle"] = name
    if "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"]["volumeID"] = f"vol-{index}"
    return volume
