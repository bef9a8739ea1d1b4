"""Objects in several forms: Events in two API groups (stored as core/v1), and kinds of several versions.

The two forms have different names for the same fields: `involvedObject` and `regarding`, `message` and `note`,
`reportingComponent` and `reportingController`; fields of core/v1 only are `deprecated...` in the other.
"""

from functools import lru_cache

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.embedded.objects.store import View

_TO_NEW = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


_CORE_BLANKS: Object = {
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_BLANKS: Object = {"deprecatedSource": {}, "deprecatedFirstTimestamp": None, "deprecatedLastTimestamp": None}


def complete(resource: ServedResource, value: Object) -> None:
    """Add fields that an Event has even when empty, for `--sort-by=.lastTimestamp`."""
    if resource.collection == "events":
        for name, blank in (_NEW_BLANKS if resource.stored_as else _CORE_BLANKS).items():
            value.setdefault(name, blank)


def to_events_group(value: Object) -> Object:
    """The events.k8s.io/v1 form of a stored Event."""
    names = dict(_TO_NEW)
    shown = {names.get(name, name): part for name, part in value.items()}
    return {**shown, "apiVersion": "events.k8s.io/v1"}


def to_core_group(value: Object) -> Object:
    """The stored core/v1 form of an Event that came through events.k8s.io/v1."""
    names = {new: old for old, new in _TO_NEW}
    stored = {names.get(name, name): part for name, part in value.items()}
    return {**stored, "apiVersion": "v1"}


@lru_cache(maxsize=256)
def _in_version(group_version: str) -> View:
    """Names another version; nothing else is converted."""
    return lambda stored: {**stored, "apiVersion": group_version}


def view_of(resource: ServedResource) -> View | None:
    """The conversion from the stored form to this resource's form; None if they are the same."""
    if resource.has_versions:
        return _in_version(resource.group_version)
    return to_events_group if resource.stored_as else None


def shown(resource: ServedResource, stored: Object) -> Object:
    """A stored object in the form of this resource's API group."""
    view = view_of(resource)
    return stored if view is None else view(stored)


def stored(resource: ServedResource, received: Object) -> Object:
    """An object of this resource's API group in the form that is stored."""
    return to_core_group(received) if resource.stored_as else received
