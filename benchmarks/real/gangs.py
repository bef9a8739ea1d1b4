"""Gangs for the benchmarks on a real API server: all pods in pod groups of Kubernetes 1.37 that need all their members.

The sizes are those of scheduler_perf's GangScheduling. The API server, and kube-scheduler, need the gate.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

Object = dict[str, Any]

GATE: Final = "GenericWorkload"
API_SERVER: Final = (f"--feature-gates={GATE}=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")
KSCHEDULER: Final = ("--feature-gates", f"{GATE}=true", "--emulated-version", "1.37")
KUBE_SCHEDULER: Final = (f"--feature-gates={GATE}=true",)
GROUP_VERSION: Final = "scheduling.k8s.io/v1beta1"
# What the chart grants where its `podGroups` names Kubernetes' own.
RULES: Final[tuple[Object, ...]] = (
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["list", "watch"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"], "verbs": ["patch"]},
)


class Gangs:
    """Pods in gangs of one size, one gang after the other."""

    def __init__(self, members: int) -> None:
        self.members = members

    def asks(self, number: int, app: str) -> Object:
        """The part of the spec of the pod that is created as the `number`th."""
        del app
        return {"schedulingGroup": {"podGroupName": self._name(number)}}

    def groups(self, nodes: int, pods: int, namespace: str) -> Iterator[tuple[str, Iterable[Object]]]:
        """The groups of so many pods. Raises ValueError if the last one would wait forever."""
        del nodes
        if pods % self.members:
            raise ValueError(f"{pods} pods make no whole gangs of {self.members}")
        spec = {"schedulingPolicy": {"gang": {"minCount": self.members}}}
        names = (self._name(number) for number in range(0, pods, self.members))
        yield (
            f"/apis/{GROUP_VERSION}/namespaces/{namespace}/podgroups",
            ({"metadata": {"name": n}, "spec": spec} for n in names),
        )

    def _name(self, number: int) -> str:
        return f"gang-{number // self.members:05}"


def gang_faults(pods: Iterable[Object]) -> list[str]:
    """A line per gang that has some of its members on nodes, and not all."""
    of_gang: Counter[str] = Counter()
    bound: Counter[str] = Counter()
    for pod in pods:
        name = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        if name:
            of_gang[name] += 1
            bound[name] += bool(pod["spec"].get("nodeName"))
    return [
        f"{bound[name]} of {size} members of {name} are bound"
        for name, size in of_gang.items()
        if 0 < bound[name] < size
    ]
