"""Churn and deletions while pods are measured, paced by the number of bound pods."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.bench.cluster import StandIn
from kscheduler.bench.scenario import Churn, DeletePods
from kscheduler.bench.template import ObjectTemplate, TemplateError

# An object from a template, its index and a namespace.
Make = Callable[[ObjectTemplate, int, str], KubeObject]


class Disturbance(Protocol):
    """A disturbance that makes a step every `every` measured pods."""

    every: float
    """Measured pods between two steps."""

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to do."""
        ...

    def step(self, cluster: StandIn) -> None:
        """Make a step."""
        ...


@dataclass(slots=True)
class Churning:
    """Creates the objects of a `Churn`; in the mode `recreate` it deletes them again, the first one first."""

    churn: Churn
    every: float
    namespace: str
    make: Make
    _steps: int = 0
    _made: int = 0
    _present: dict[int, list[tuple[Kind, KubeObject]]] = field(default_factory=dict)
    """By the remainder of the step that created them: of N objects, the first goes when N are there."""

    @property
    def is_over(self) -> bool:
        """Whether all objects have been created."""
        return self.churn.mode == "create" and 0 < self.churn.number <= self._steps

    def step(self, cluster: StandIn) -> None:
        """Create an object of each template, or delete those that were created here before."""
        place = self._steps % max(self.churn.number, 1)
        self._steps += 1
        if place in self._present:
            for kind, obj in self._present.pop(place):
                cluster.delete(kind, cluster.informers[kind].store.get(obj.key) or obj)
            return
        made = [(source.kind, self.make(source, self._made, self.namespace)) for source in self.churn.templates]
        self._made += 1
        for kind, obj in made:
            cluster.create(kind, obj)
        if self.churn.mode == "recreate":
            self._present[place] = made


@dataclass(slots=True)
class Deleting:
    """Deletes the pods of a namespace one by one, in the order of their creation."""

    deletion: DeletePods
    every: float
    _keys: deque[str]

    @property
    def is_over(self) -> bool:
        """Whether all have been deleted."""
        return not self._keys

    def step(self, cluster: StandIn) -> None:
        """Delete the next pod."""
        while self._keys:
            pod = cluster.pod_of(self._keys.popleft())
            if pod is not None and has_labels(pod, self.deletion.labels):
                self._delete(cluster, pod)
                return

    def _delete(self, cluster: StandIn, pod: Pod) -> None:
        if self.deletion.keeps_objects:
            cluster.terminate(pod)
        else:
            cluster.delete(PODS, pod)


@dataclass(slots=True)
class Updating:
    """Replaces objects one by one. What only the API server and the scheduler write stays: UID, a pod's node."""

    kind: Kind
    objects: deque[KubeObject]
    every: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether all have been replaced."""
        return not self.objects

    def step(self, cluster: StandIn) -> None:
        """Replace the next object. Raises `TemplateError` if it is not there."""
        new = self.objects.popleft()
        old = cluster.stores[self.kind].get(new.key)
        if old is None:
            raise TemplateError(f"{self.kind.name} {new.key} is to be updated, and is not there")
        new.metadata = replace(new.metadata, uid=old.metadata.uid, owner_references=old.metadata.owner_references)
        if isinstance(new, Pod):
            new.spec = replace(new.spec, node_name=new.spec.node_name or old.spec.node_name)
        cluster.write(self.kind, old, new)


def has_labels(pod: Pod, labels: Iterable[tuple[str, str]]) -> bool:
    """Whether the pod has all of these labels."""
    return dict(labels).items() <= pod.metadata.labels.items()


def deleting(deletion: DeletePods, pace: float, keys: Mapping[str, list[str]]) -> Deleting:
    """The deletions of a namespace; `keys` are pods' keys by namespace."""
    every = pace / deletion.per_second if deletion.per_second else 0.0
    return Deleting(deletion, every, deque(keys.get(deletion.namespace, ())))
