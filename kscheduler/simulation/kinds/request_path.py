"""Parses URL paths of the API: group, version, namespace, resource, name, subresource.

/api/v1/namespaces/default/pods/p1/binding      namespaced, with a subresource
/api/v1/namespaces/default/status               a namespace's subresource
/apis/apps/v1/deployments                       all namespaces
/api/v1/watch/namespaces/default/pods           a watch, as long ago
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from kscheduler.simulation.kinds.resources import BY_PATH, NAMESPACES, ServedResource

Find = Callable[[str, str, str], ServedResource | None]
"""The kind of a group, a version and a plural."""


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """A path that names a served resource."""

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    is_watch: bool = False
    """Whether the path itself asks for a watch: `/api/v1/watch/pods`, the old form of `?watch=1`."""


@lru_cache(maxsize=8192)
def parse_path(path: str) -> ResourcePath | None:
    """The parsed path, or None if it does not name a kind of any release."""
    return parse_with(path, lambda group, version, plural: BY_PATH.get((group, version, plural)))


def parse_with(path: str, find: Find) -> ResourcePath | None:
    """The parsed path, or None if it names no kind that `find` knows."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        return _within("", parts[1], parts[2:], find)
    if parts[0] == "apis" and len(parts) > 3:
        return _within(parts[1], parts[2], parts[3:], find)
    return None


def _within(group: str, version: str, parts: list[str], find: Find) -> ResourcePath | None:
    if parts[0] == "watch" and len(parts) > 1:
        watched = _within(group, version, parts[1:], find)
        return replace(watched, is_watch=True) if watched and not watched.subresource else None
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in NAMESPACES.subresources:
        namespace, parts = parts[1], parts[2:]
    resource = find(group, version, parts[0])
    if resource is None or len(parts) > 3 or (namespace and not resource.namespaced):
        return None
    name = parts[1] if len(parts) > 1 else ""
    subresource = parts[2] if len(parts) > 2 else ""
    if subresource and subresource not in resource.subresources:
        return None
    return ResourcePath(resource, namespace, name, subresource)
