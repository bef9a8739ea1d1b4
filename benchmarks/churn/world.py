"""What controllers, kubelets and the autoscaler do to a cluster in which everything changes: see `week`.

A `step` is about a second of a busy cluster at 60 pods/s: seven releases and jobs, six taints that change, a node that
is removed with its pods and a new node, and in turn a rarer event. The number of live objects stays the same, so
whatever grows was not freed. Everything is drawn from a seed: two runs of the same number of steps see the same objects
in the same order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import msgspec

from benchmarks.churn import objects
from benchmarks.churn.objects import CANDIDATE, NOT_READY, TO_BE_DELETED, NodeState, PodTemplate
from kscheduler.api.core import ContainerStatus, Pod, PodStatus
from kscheduler.api.kinds import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STORAGE_CLASSES,
    Kind,
)
from kscheduler.bench.cluster import StandIn

_REPLICAS: Final = 8
_JOB_PODS: Final = 4
_JOBS_PER_NAMESPACE: Final = 20
_RELEASES_A_STEP, _JOBS_A_STEP, _TAINTS_A_STEP, _IMAGES_A_STEP = 6, 3, 6, 2
_STATEFUL_SETS, _MEMBERS = 5, 3
_NODES_PER_GPU_NODE: Final = 20
_GPUS: Final = 4
_SPARE_GPU_PODS: Final = 2
_URGENT: Final = 1000
_replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class Size:
    """How many objects are alive at a time."""

    nodes: int = 200
    pods: int = 1500

    @property
    def deployments(self) -> int:
        """Deployments: they own four fifths of the pods."""
        return max(6, self.pods * 4 // 5 // _REPLICAS)

    @property
    def jobs(self) -> int:
        """Jobs: they own nearly all other pods."""
        return max(3, self.pods // 6 // _JOB_PODS)

    @property
    def hopeless(self) -> int:
        """Additional pods that fit nowhere."""
        return max(2, self.pods // 75)

    @property
    def urgent(self) -> int:
        """Additional GPU pods of high priority."""
        return max(2, self.pods // 200)


@dataclass(slots=True)
class _Group:
    """The pods that an owner should have, by key."""

    template: PodTemplate
    keys: list[str] = field(default_factory=list)


class World:
    """All actors of the cluster but the scheduler."""

    def __init__(self, cluster: StandIn, size: Size, seed: int = 1) -> None:
        self.cluster = cluster
        self.size = size
        self.created = 0
        """How many pods have been created."""
        self._random = Random(seed)
        self._serial = 0
        self._steps = 0
        self._nodes: dict[str, NodeState] = {}
        self._names: list[str] = []
        self._deployments: list[_Group] = []
        self._jobs: deque[_Group] = deque()
        self._stateful: list[_Group] = []
        self._training: deque[str] = deque()
        self._urgent: deque[str] = deque()
        self._hopeless: deque[str] = deque()
        self._ci_namespaces: deque[str] = deque()
        self._bound: deque[str] = deque()
        self._rare: tuple[Callable[[], None], ...] = (
            self._roll_stateful_set,
            self._lose_pods,
            self._train,
            self._change_budget,
        )
        cluster.on_bound = self._bound.append

    # --- the beginning ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Create all objects of the start; pods are pending. The order matters: claims need the storage class."""
        create = self.cluster.create
        create(STORAGE_CLASSES, objects.storage_class())
        for name in ("data", "gpu", *(f"team-{team}" for team in range(10))):
            create(NAMESPACES, objects.namespace(name))
        for number in range(self.size.nodes):
            self._join(has_gpu=number % _NODES_PER_GPU_NODE == 0, taints={})
        for app in range(self.size.deployments):
            create(SERVICES, objects.service(app))
            self._deployments.append(self._released(app))
        for _ in range(self.size.jobs):
            self._run_job()
        for app in range(_STATEFUL_SETS):
            self._stateful.append(_Group(objects.member(app, 0)))
            self._roll(app)
        self._change_budget()
        for _ in range(self.size.hopeless):
            self._lose_pods()
        for _ in range(self.size.urgent):
            self._train()

    # --- a second -----------------------------------------------------------------------------------------------------

    def step(self) -> Iterator[None]:
        """Play a second; yields after each event in it."""
        self._steps += 1
        happening: list[Callable[[], None]] = [
            self._report_running,
            *[self._release_one] * _RELEASES_A_STEP,
            *[self._run_job] * _JOBS_A_STEP,
            *[self._change_taint] * _TAINTS_A_STEP,
            *[self._pull_images] * _IMAGES_A_STEP,
            self._exchange_node,
            self._rare[self._steps % len(self._rare)],
        ]
        for apply_external in happening:
            apply_external()
            yield

    def _release_one(self) -> None:
        app = self._random.randrange(len(self._deployments))
        self._deployments[app] = self._released(app, self._deployments[app])

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _create_pod(self, template: PodTemplate, **spec: Any) -> str:
        pod = template.pod(self._next(), **spec)
        self.cluster.create(PODS, pod)
        self.created += 1
        key: str = pod.key
        return key

    def _delete_pod(self, key: str) -> None:
        pod = self.cluster.pod_of(key)
        if pod is not None:
            self.cluster.delete(PODS, pod)

    def _delete(self, kind: Kind, key: str) -> None:
        found = self.cluster.informers[kind].store.get(key)
        if found is not None:
            self.cluster.delete(kind, found)

    def _released(self, app: int, before: _Group | None = None) -> _Group:
        """A Deployment's next release: its pods are created, and those of the release before are deleted."""
        group = _Group(objects.release(app, self._next()))
        self.cluster.create(REPLICA_SETS, objects.replica_set(group.template))
        if before is not None:
            for key in before.keys:
                self._delete_pod(key)
            self._delete(REPLICA_SETS, f"{before.template.namespace}/{before.template.owner['name']}")
        group.keys = [self._create_pod(group.template) for _ in range(_REPLICAS)]
        return group

    def _run_job(self) -> None:
        """A Job begins, and the oldest ends if there are too many."""
        number = self._next()
        if not self._jobs or len(self._ci_namespaces) * _JOBS_PER_NAMESPACE <= self._steps * _JOBS_A_STEP % 40:
            self._open_namespace(number)
        group = _Group(objects.job(number, self._ci_namespaces[-1]))
        group.keys = [self._create_pod(group.template) for _ in range(_JOB_PODS)]
        self._jobs.append(group)
        while len(self._jobs) > self.size.jobs:
            over = self._jobs.popleft()
            for key in over.keys:
                self._delete_pod(key)
            self._close_namespaces()

    def _open_namespace(self, number: int) -> None:
        name = f"ci-{number}"
        self.cluster.create(NAMESPACES, objects.namespace(name, purpose="ci", run=str(number)))
        self._ci_namespaces.append(name)

    def _close_namespaces(self) -> None:
        """Delete the namespaces in which no Job runs any more."""
        used = {group.template.namespace for group in self._jobs}
        while len(self._ci_namespaces) > 1 and self._ci_namespaces[0] not in used:
            self._delete(NAMESPACES, self._ci_namespaces.popleft())

    def _report_running(self) -> None:
        """Kubelets report that pods run."""
        while self._bound:
            pod = self.cluster.pod_of(self._bound.popleft().removeprefix(objects.UID_PREFIX))
            if pod is None or pod.status.phase == "Running":
                continue
            containers = tuple(
                ContainerStatus(each.name, each.resources, each.resources.requests) for each in pod.spec.containers
            )
            status: PodStatus = _replace(
                pod.status, phase="Running", start_time=_time(self._steps), container_statuses=containers
            )
            self.cluster.write(PODS, pod, _replace(pod, status=status))

    # --- what is rarer ------------------------------------------------------------------------------------------------

    def _roll_stateful_set(self) -> None:
        self._roll(self._random.randrange(_STATEFUL_SETS))

    def _roll(self, app: int) -> None:
        """New members with new claims; the old members are deleted with their claims and volumes."""
        before, number = self._stateful[app], self._next()
        group = self._stateful[app] = _Group(objects.member(app, number))
        for key in before.keys:
            self._delete_with_claim(key)
        for ordinal in range(_MEMBERS):
            name, serial = f"data-db-{app}-{number}-{ordinal}", self._next()
            self.cluster.create(PERSISTENT_VOLUME_CLAIMS, objects.claim(name, serial))
            group.keys.append(self._create_pod(group.template, volumes=objects.volume_of(name)))

    def _delete_with_claim(self, key: str) -> None:
        pod = self.cluster.pod_of(key)
        if pod is None:
            return
        self.cluster.delete(PODS, pod)
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            claim_key = f"{pod.metadata.namespace}/{source.claim_name}" if source is not None else ""
            claim = self.cluster.informers[PERSISTENT_VOLUME_CLAIMS].store.get(claim_key)
            if claim is not None:
                self._delete(PERSISTENT_VOLUMES, claim.spec.volume_name)
                self.cluster.delete(PERSISTENT_VOLUME_CLAIMS, claim)

    def _lose_pods(self) -> None:
        """Create pods that fit nowhere, and delete the oldest such pods."""
        for _ in range(2):
            self._hopeless.append(self._create_pod(objects.hopeless(self._next())))
        while len(self._hopeless) > self.size.hopeless:
            self._delete_pod(self._hopeless.popleft())

    def _train(self) -> None:
        """Slightly more pods want a GPU than there are GPUs; an urgent pod preempts one of them."""
        gpus = _GPUS * max(1, self.size.nodes // _NODES_PER_GPU_NODE)
        alive = (key for key in self._training if self.cluster.pod_of(key) is not None)
        self._training = deque(alive)
        while len(self._training) < gpus + _SPARE_GPU_PODS:
            self._training.append(self._create_pod(objects.training(self._next(), 0)))
        self._delete_pod(self._training.popleft())
        self._urgent.append(self._create_pod(objects.training(self._next(), _URGENT)))
        while len(self._urgent) > self.size.urgent:
            self._delete_pod(self._urgent.popleft())

    def _change_budget(self) -> None:
        before = self.cluster.informers[POD_DISRUPTION_BUDGETS].store.keys()
        self.cluster.create(POD_DISRUPTION_BUDGETS, objects.budget(self._next()))
        for key in before:
            self._delete(POD_DISRUPTION_BUDGETS, key)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _join(self, *, has_gpu: bool, taints: dict[str, tuple[str, str]]) -> str:
        node = NodeState(self._next(), has_gpu, taints, [f"base-{number}:1" for number in range(4)])
        self._nodes[node.name] = node
        self._names.append(node.name)
        self.cluster.create(NODES, node.shown())
        self.cluster.create(CSI_NODES, node.csi_node())
        return node.name

    def _show(self, node: NodeState) -> None:
        self.cluster.show(NODES, node.shown())

    def _change_taint(self) -> None:
        """The autoscaler marks a node as a candidate for removal, with the time; or removes the mark."""
        node = self._nodes[self._random.choice(self._names)]
        if node.taints.pop(CANDIDATE, None) is None:
            node.taints[CANDIDATE] = objects.stamp(self._next()), "PreferNoSchedule"
        self._show(node)

    def _pull_images(self) -> None:
        """The kubelet reports the images that it has pulled for the last releases."""
        node = self._nodes[self._random.choice(self._names)]
        node.images.append(self._random.choice(self._deployments).template.image)
        del node.images[:-12]
        self._show(node)

    def _exchange_node(self) -> None:
        """A node is drained and removed; a node with a new name replaces it, and becomes ready a little later."""
        place = self._random.randrange(len(self._names))
        name = self._names[place]
        self._names[place] = self._names[-1]
        self._names.pop()
        node = self._nodes[name]
        node.taints[TO_BE_DELETED] = objects.stamp(self._next()), "NoSchedule"
        self._show(node)
        self.cluster.deliver_all()
        self._drain(name)
        self._delete(NODES, name)
        self._delete(CSI_NODES, name)
        del self._nodes[name]
        self.cluster.deliver_all()
        joined = self._join(has_gpu=node.has_gpu, taints={NOT_READY: ("", "NoSchedule")})
        self._nodes[joined].taints.clear()
        self._show(self._nodes[joined])

    def _drain(self, name: str) -> None:
        """Delete the node's pods; their controllers create new ones."""
        groups = {key: group for group in (*self._deployments, *self._jobs, *self._stateful) for key in group.keys}
        pods: Iterable[Pod] = self.cluster.informers[PODS].store.list()
        for pod in [each for each in pods if each.spec.node_name == name]:
            group = groups.get(pod.key)
            if group is None:
                self.cluster.delete(PODS, pod)
                continue
            group.keys.remove(pod.key)
            volumes = [msgspec.to_builtins(volume) for volume in pod.spec.volumes]
            self.cluster.delete(PODS, pod)
            group.keys.append(self._create_pod(group.template, **({"volumes": volumes} if volumes else {})))


def _time(step: int) -> str:
    minutes, seconds = divmod(step, 60)
    hours, minutes = divmod(minutes, 60)
    return f"2026-11-{1 + hours // 24 % 28:02}T{hours % 24:02}:{minutes:02}:{seconds:02}Z"
