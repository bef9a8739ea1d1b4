"""Plans: a list of writes, and when to reconcile again.

A plan is data. The engine executes its actions in order and skips pointless ones (the object is gone). Events are
actions too, or belong to a write and are recorded when it succeeds or fails.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.objects.store import Change, Key


@dataclass(frozen=True, slots=True)
class News:
    """An Event about an object. `{name}` and `{error}` in the text are filled in by the write that it belongs to."""

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
    """Store a changed object; `subresource` is `status` or empty. The value is the whole new object."""

    resource: ServedResource
    value: Object
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object as a client would, with its own grace period or the given one."""

    resource: ServedResource
    value: Object
    grace_seconds: int | None = None
    done: News | None = None


Action = Create | Update | Delete | News


@dataclass(slots=True)
class Plan:
    """The writes for an object."""

    actions: list[Action] = field(default_factory=list)
    again_seconds: float | None = None
    """Reconcile the object again after this time, even without an event."""

    def add(self, *actions: Action) -> None:
        self.actions.extend(actions)

    def set_status(self, resource: ServedResource, value: Object, status: Object) -> None:
        """Write a status if it differs from the current one."""
        if status != (value.get("status") or {}):
            self.add(Update(resource, {**value, "status": status}, "status"))

    def look_again(self, seconds: float) -> None:
        """Reconcile again after at most `seconds`."""
        known = self.again_seconds
        self.again_seconds = max(seconds, 0.0) if known is None else min(known, max(seconds, 0.0))


# From a change to the keys of the controller's objects that it concerns.
Concerned = Callable[[View, Change], Iterable[Key]]


class Controller(Protocol):
    """A controller: which objects a change concerns, and the writes that an object needs."""

    @property
    def name(self) -> str:
        """The name in kube-controller-manager."""
        ...

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """The kinds to watch, each with the function that finds our objects concerned by a change."""
        ...

    def reconcile(self, view: View, key: Key) -> Plan:
        """The missing writes for the object of this key, which may be gone."""
        ...
