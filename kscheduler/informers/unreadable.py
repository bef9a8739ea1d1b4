"""What happens to a stored object whose new state cannot be decoded.

It must not stop the stream, and no decision may rest on a state known to be old:
- An unreadable node is treated as deleted: it must not stay schedulable forever with its old state.
- A pod that occupies a node's resources must not vanish, or its place would be given away twice: the last good state is
  kept, on the node that the new state names. So it is for a pod that is being bound, and for one whose new state does
  not say whether it has a node: nothing changes until it was read again (`rereading`). A pod that occupies nothing is
  treated as deleted, so that it is not scheduled by a specification that may have changed.
- What takes room away or protects is kept for the same reason: without a claim its devices would be free, without a
  CSINode or an attachment there would be no limit, without a budget its pods could be evicted.
- Anything else (volumes, classes, slices, capacities) is treated as deleted; pods that need it wait.
An object that was never readable is only counted and named (log, `/readyz?verbose`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.client.watch import Undecodable, WatchEvent

# From the last good state and the readable parts of the new one to the state to keep; `None` means deleted.
Retain = Callable[[Any, Undecodable], Any]
HoldsRoom = Callable[[str], bool]

_TAKES_OR_PROTECTS: Final = frozenset(
    ("resourceclaims", "devicetaintrules", "csinodes", "volumeattachments", "poddisruptionbudgets")
)


def _holds_nothing(_uid: str) -> bool:
    return False


def forget(_old: Any, _new: Undecodable) -> None:
    """Treat the object as deleted."""


def keep(old: Any, new: Undecodable) -> Any:
    """Keep the last good state of the same object."""
    return None if new.uid and new.uid != old.metadata.uid else old


def keep_if_it_holds_resources(holds_room: HoldsRoom, old: Pod, new: Undecodable) -> Pod | None:
    """The rule for pods. `holds_room`: whether the pod of this UID counts on a node where its own state has none."""
    if new.uid and new.uid != old.metadata.uid:
        return None
    if not new.is_node_known:
        # Perhaps it shows our own Binding: as if the event were late, until the pod is read again. To free the room
        # that the cache has assumed for it would give it away twice.
        return old
    node_name = new.node_name or old.spec.node_name
    if not node_name:
        return old if holds_room(old.metadata.uid) else None
    if old.spec.node_name == node_name:
        return old
    replace = msgspec.structs.replace
    metadata = replace(old.metadata, resource_version=new.resource_version)
    return replace(old, metadata=metadata, spec=replace(old.spec, node_name=node_name))


def rule_for(resource: str, holds_room: HoldsRoom = _holds_nothing) -> Retain:
    """The rule for a kind (`Kind.resource`)."""
    if resource == "pods":
        return partial(keep_if_it_holds_resources, holds_room)
    return keep if resource.partition(".")[0] in _TAKES_OR_PROTECTS else forget


def unreadable_event(event: WatchEvent[Any], error: str) -> Undecodable:
    """An event whose object was decoded, but cannot be stored."""
    metadata, node_name = event.object.metadata, getattr(getattr(event.object, "spec", None), "node_name", "")
    return Undecodable(
        type=event.type,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        node_name=node_name or "",
        error=error,
    )
