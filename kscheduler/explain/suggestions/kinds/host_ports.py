"""Host ports of a pod, one by one; on the host's network they go with it."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from kscheduler.explain.suggestions.object_changes import REMOVE, Operation, pointer
from kscheduler.explain.suggestions.suggestion import Demand, Patch, PodChange, Step
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache

_SIZE: Final = 0.6
_SIZE_OF_ALL: Final = 0.8


class DropHostPort(PodChange, frozen=True):
    """A host port goes, or `hostNetwork` with all ports."""

    kind = "hostPort"
    touched = frozenset(("NodePorts",))

    container: str | UnsetType = UNSET
    port: int | UnsetType = UNSET
    protocol: str | UnsetType = UNSET
    host_network: bool | UnsetType = UNSET
    ports: Sequence[str] | UnsetType = UNSET

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        spec = pod.pod.spec
        found: list[tuple[Patch, DropHostPort]] = []
        for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
            for at, container in enumerate(containers):
                for position, port in enumerate(container.ports):
                    if port.host_port:
                        patch = (Operation(REMOVE, pointer("spec", name, at, "ports", position, "hostPort")),)
                        found.append((patch, cls(container.name, port.host_port, port.protocol or "TCP")))
        if not spec.host_network:
            yield from (Demand(facts, patch, _SIZE) for patch, facts in found)
        elif found:
            whole = (*(step for patch, _ in found for step in patch), Operation(REMOVE, "/spec/hostNetwork"))
            ports = [f"{facts.port}/{facts.protocol}" for _, facts in found]
            yield Demand(cls(host_network=True, ports=ports), whole, _SIZE_OF_ALL)

    def text(self, step: Step) -> str:
        if self.ports is not UNSET:
            return f"drop hostNetwork, and with it host ports {', '.join(self.ports)}"
        return f"drop host port {self.port}/{self.protocol} (container {self.container})"
