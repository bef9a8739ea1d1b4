"""What an API server would say against the objects that `make_node` and `make_pod` return.

Manifests are checked before they are read. These objects have been read already, and hold only what a scheduler reads:
so they are written out again, with what they may leave out, and the same rules are asked. Pods come by the thousand and
are mostly alike, so all but the names is checked once for each kind of pod.

Beyond the API server's rules, the resources of a node are checked as those of a container are: a server takes a node
with `gpu: 8`, but no container can request that, and the GPUs are never used.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.machinery.field_rules import subdomain
from kscheduler.api.new_objects import UncheckableObjectError, objections
from kscheduler.api.validation.containers import HUGE_PAGES, is_extended, resource_amount

Tree = dict[str, Any]

# The name under which all that is alike is checked.
_ANY_NAME: Final = "made"
# Resources that nodes have and containers do not request.
_OF_NODES_ALONE: Final = ("pods", "attachable-volumes-")


class MadeObjects:
    """The mistakes in objects, whose rules are asked once for all pods that are alike."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, ...]] = {}

    def mistakes(self, made: Node | Pod) -> Iterator[str]:
        """Each violated rule as `FIELD: TEXT`."""
        name = made.metadata.name
        if not name:
            yield "metadata.name: Required value"
        else:
            yield from (f"{cause.field}: {cause.message}" for cause in subdomain("metadata.name", name))
        metadata = msgspec.structs.replace(made.metadata, name=_ANY_NAME, uid="")
        written = msgspec.json.encode(msgspec.structs.replace(made, metadata=metadata))
        kind = "Pod" if isinstance(made, Pod) else "Node"
        key = kind.encode() + written
        if key not in self._known:
            tree = {"apiVersion": "v1", "kind": kind, **msgspec.json.decode(written)}
            self._known[key] = tuple(_mistakes_in(tree))
        yield from self._known[key]


def _mistakes_in(tree: Tree) -> Iterator[str]:
    if tree["kind"] == "Pod":
        for field in ("containers", "initContainers"):
            for container in tree["spec"].get(field) or ():
                _complete(container)
    else:
        yield from _wrong_resources(tree["status"].get("allocatable") or {})
    try:
        yield from objections(tree)
    except UncheckableObjectError as problem:
        yield str(problem)


def _complete(container: Tree) -> None:
    """What `make_pod` spares its caller: the image, and limits of resources that are not overcommitted."""
    container.setdefault("image", "app")
    resources = container.get("resources") or {}
    limits = resources.setdefault("limits", {})
    for name, amount in (resources.get("requests") or {}).items():
        if is_extended(name) or name.startswith(HUGE_PAGES):
            limits.setdefault(name, amount)


def _wrong_resources(allocatable: Tree) -> Iterator[str]:
    """The first mistake of each."""
    for name, amount in allocatable.items():
        if not name.startswith(_OF_NODES_ALONE):
            for cause in resource_amount(f"status.allocatable[{name}]", name, amount)[:1]:
                yield f"{cause.field}: {cause.message}"
