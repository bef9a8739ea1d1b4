"""What a controller wants done: a list of writes, and when to look again.

A plan is data. The engine performs its actions in order and skips what has become pointless (the object is gone);
Events are actions too, or hang on a write as what is told when it succeeds or fails.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.resources import ServedResource
from kscheduler.simulation.objects.store import Change, Key


@dataclass(frozen=True, slots=True)
class News:
    """An Event about an object. `{name}` and `{error}` in the text are filled in by the write that it hangs on."""

    about: Object
    component: str
    reason: str
    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Store a new object."""

    resource: ServedResource
    value: Object
    done: News | None = None
    failed: News | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Store a changed object; `subresource` is `status` or empty. The value is the whole object as it shall be."""

    resource: ServedResource
    value: Object
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object as a client would: with its grace period, or in so many seconds."""

    resource: ServedResource
    value: Object
    grace_seconds: int | None = None
    done: News | None = None


Action = Create | Update | Delete | News


@dataclass(slots=True)
class Plan:
    """What is to be done for one object."""

    actions: list[Action] = field(default_factory=list)
    again_seconds: float | None = None
    """Look at the object again after so long, though nothing happens to it."""

    def add(self, *actions: Action) -> None:
        """Append actions."""
        self.actions.extend(actions)

    def set_status(self, resource: ServedResource, value: Object, status: Object) -> None:
        """Write a status if it differs from the present one."""
        if status != (value.get("status") or {}):
            self.add(Update(resource, {**value, "status": status}, "status"))

    def look_again(self, seconds: float) -> None:
        """Look again after so many seconds at the latest."""
        known = self.again_seconds
        self.again_seconds = max(seconds, 0.0) if known is None else min(known, max(seconds, 0.0))


Concerned = Callable[[View, Change], Iterable[Key]]
"""Keys of the controller's objects that a change concerns."""


class Controller(Protocol):
    """One kind of care: which objects a change concerns, and what one object needs."""

    @property
    def name(self) -> str:
        """As kube-controller-manager calls it."""
        ...

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """The kinds whose changes matter, each with the objects of ours that a change concerns."""
        ...

    def reconcile(self, view: View, key: Key) -> Plan:
        """What is missing for the object of this key, which may be gone."""
        ...
