"""Typed nodes and pods from stored ones, for DaemonSets. Nodes are decoded once per version."""

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.simulation.kinds.api_errors import Object


class NodeReader:
    """Stored nodes as typed ones, each version decoded once."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[str, Node]] = {}

    def node(self, value: Object) -> Node:
        """The typed node."""
        metadata = value["metadata"]
        name, version = metadata["name"], metadata["resourceVersion"]
        known = self._nodes.get(name)
        if known is None or known[0] != version:
            known = self._nodes[name] = version, msgspec.convert(value, Node, strict=False)
        return known[1]

    def forget(self, name: str) -> None:
        """Forget a deleted node."""
        self._nodes.pop(name, None)


def pod_of(value: Object) -> Pod:
    """A stored pod as a typed one."""
    return msgspec.convert(value, Pod, strict=False)
