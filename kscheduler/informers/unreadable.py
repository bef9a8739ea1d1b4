"""What becomes of an object that was good and can no longer be decoded.

It must not stop the stream, and nothing may be decided on a state that is known to be old:
- A node that cannot be read is treated as deleted: it must not stay schedulable for ever on what it once was.
- A pod that holds a node's resources must not vanish, or its place would be given away twice: the last good state is
  kept, on the node that the unreadable one names. A pod that holds nothing is treated as deleted, so that it is not
  scheduled by a specification that may have changed.
- Anything else is treated as deleted; the plugins that wanted it hold their pods.
An object that never was readable is only counted and named (log, `/readyz?verbose`).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from kscheduler.api.core import Pod
from kscheduler.client.watch import Undecodable

Retain = Callable[[Any, Undecodable], Any]
"""Last good state and what is known of the new one; the state to go on with, or `None` for deleted."""


def forget(_old: Any, _new: Undecodable) -> None:
    """Treat it as deleted."""


def keep_if_it_holds_resources(old: Pod, new: Undecodable) -> Pod | None:
    """The rule for pods."""
    node_name = new.node_name or old.spec.node_name
    if not node_name or (new.uid and new.uid != old.metadata.uid):
        return None
    if old.spec.node_name == node_name:
        return old
    replace = msgspec.structs.replace
    metadata = replace(old.metadata, resource_version=new.resource_version)
    return replace(old, metadata=metadata, spec=replace(old.spec, node_name=node_name))


def rule_for(plural: str) -> Retain:
    """The rule for a kind."""
    return keep_if_it_holds_resources if plural == "pods" else forget
