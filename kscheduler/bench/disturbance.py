"""Churn and deletions while pods are measured, paced by the number of bound pods."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.bench.cluster import StandIn
from kscheduler.bench.scenario import Churn, DeletePods
from kscheduler.bench.template import Template

# An object from a template, its index and a namespace.
Make = Callable[[Template, int, str], KubeObject]


class Disturbance(Protocol):
    """A disturbance that makes a step every `every` measured pods."""

    every: float
    """Measured pods between two steps."""

    def step(self, cluster: StandIn) -> None:
        """Make a step."""
        ...


@dataclass(slots=True)
class Churning:
    """Creates the objects of a `Churn`; in the mode `recreate` every second step deletes them again."""

    churn: Churn
    every: float
    namespace: str
    make: Make
    _made: int = 0
    _present: list[tuple[Kind, KubeObject]] = field(default_factory=list)

    def step(self, cluster: StandIn) -> None:
        """Create the objects, or delete them."""
        if self._present:
            for kind, obj in self._present:
                cluster.delete(kind, cluster.informers[kind].store.get(obj.key) or obj)
            self._present.clear()
            return
        for template in self.churn.templates:
            obj = self.make(template, self._made, self.namespace)
            cluster.create(template.kind, obj)
            if self.churn.mode == "recreate":
                self._present.append((template.kind, obj))
        self._made += 1


@dataclass(slots=True)
class Deleting:
    """Deletes the pods of a namespace one by one, in the order of their creation."""

    deletion: DeletePods
    every: float
    _keys: deque[str]

    def step(self, cluster: StandIn) -> None:
        """Delete the next pod."""
        while self._keys:
            pod = cluster.pod_of(self._keys.popleft())
            if pod is not None:
                self._delete(cluster, pod)
                return

    def _delete(self, cluster: StandIn, pod: Pod) -> None:
        if self.deletion.keeps_objects:
            cluster.terminate(pod)
        else:
            cluster.delete(PODS, pod)


def deleting(deletion: DeletePods, pace: float, keys: Mapping[str, list[str]]) -> Deleting:
    """The deletions of a namespace; `keys` are pods' keys by namespace."""
    return Deleting(deletion, pace / deletion.per_second, deque(keys.get(deletion.namespace, ())))
