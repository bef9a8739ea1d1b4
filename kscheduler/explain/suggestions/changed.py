"""Changes of objects as RFC 6902 patches, so that a program can apply what was tried."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from kscheduler.api.devices import ResourceSlice
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import RESOURCE_SLICES
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cluster.pod_groups import GroupKey

Tree = dict[str, Any]

ADD, REMOVE, REPLACE = "add", "remove", "replace"
# Of a pod group of Kubernetes: where its members must be together.
CONSTRAINTS = "/spec/schedulingConstraints"


@dataclass(frozen=True, slots=True)
class Operation:
    """A step of a patch."""

    op: str
    """`add`, `remove` or `replace`."""
    path: str
    """A JSON pointer (RFC 6901)."""
    value: Any = None
    """As in JSON; of a new object the decoded object."""

    @property
    def tree(self) -> Tree:
        """As JSON has it."""
        head: Tree = {"op": self.op, "path": self.path}
        if self.op == REMOVE:
            return head
        if isinstance(self.value, KubeObject):
            version = RESOURCE_SLICES.group_version if isinstance(self.value, ResourceSlice) else "v1"
            named = {"apiVersion": version, "kind": type(self.value).__name__}
            return {**head, "value": {**named, **msgspec.to_builtins(self.value)}}
        return {**head, "value": self.value}


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """A change of one object; with an `add` of the empty path it is a new object."""

    resource: str
    """As in the API's paths: `pods`, `nodes`."""
    namespace: str
    """Empty for kinds without namespaces."""
    name: str
    patch: tuple[Operation, ...] = ()
    delete: bool = False
    """Whether the object goes; then there is no patch."""

    @property
    def tree(self) -> Tree:
        """As JSON has it."""
        head: Tree = {"resource": self.resource, "namespace": self.namespace, "name": self.name}
        return {**head, "delete": True} if self.delete else {**head, "patch": [each.tree for each in self.patch]}


def group_resource(key: GroupKey) -> str:
    """`podgroups` for the groups of Kubernetes, and with the API group for those of other projects."""
    return POD_GROUPS.plural if key.api == POD_GROUPS.group else key.resource


def pointer(*steps: str | int) -> str:
    """A JSON pointer to the field behind these steps."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def joined(patches: Iterable[tuple[Operation, ...]]) -> tuple[Operation, ...]:
    """Several patches of one object as one: lists made by two of them hold both, and removals do not move each other.

    Each patch presumes the object as it is, so what they set comes first, then removals from the end of each list on.
    """
    operations = [operation for patch in patches for operation in patch]
    setting: dict[str, Operation] = {}
    for operation in operations:
        if operation.op == REMOVE:
            continue
        before = setting.pop(operation.path, None)
        if before is not None and isinstance(before.value, list):
            operation = Operation(operation.op, operation.path, [*before.value, *operation.value])  # noqa: PLW2901
        # Each `/-` appends, so two of them are two steps.
        setting[f"{operation.path}#{len(setting)}" if operation.path.endswith("/-") else operation.path] = operation
    removals = {operation.path: operation for operation in operations if operation.op == REMOVE}
    return (*setting.values(), *sorted(removals.values(), key=_position, reverse=True))


def patched(obj: msgspec.Struct, patch: Iterable[Operation]) -> msgspec.Struct:
    """Another version of a decoded object. The patch is one of this package's: its paths exist."""
    tree = msgspec.json.decode(msgspec.json.encode(obj))  # builtins with lists, which tuples would not be
    for operation in patch:
        _apply(tree, operation)
    return msgspec.convert(tree, type(obj))


def _apply(tree: Tree, operation: Operation) -> None:
    *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation.path.split("/")[1:]]
    place: Any = tree
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    if isinstance(place, list):
        if operation.op == REMOVE:
            del place[int(last)]
        elif last == "-":
            place.append(operation.value)
        else:
            place[int(last)] = operation.value
    elif operation.op == REMOVE:
        place.pop(last, None)
    else:
        place[last] = operation.value


def _position(operation: Operation) -> tuple[tuple[bool, int, str], ...]:
    """Sorts by the steps of the path, with numbers as such."""
    steps = operation.path.split("/")[1:]
    return tuple((step.isdigit(), int(step) if step.isdigit() else 0, step) for step in steps)
