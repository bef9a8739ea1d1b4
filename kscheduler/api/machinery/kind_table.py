"""The kinds that a server has now: those of its release, and those that CustomResourceDefinitions add and take away."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import (
    BY_GROUP_KIND,
    BY_KEY,
    BY_PATH,
    NAMESPACES,
    ServedKinds,
    ServedResource,
    by_group,
    by_group_version,
)

# Parses URL paths of the API: group, version, namespace, resource, name, subresource.
#
# /api/v1/namespaces/default/pods/p1/binding      namespaced, with a subresource
# /api/v1/namespaces/default/status               a namespace's subresource
# /apis/apps/v1/deployments                       all namespaces
# /api/v1/watch/namespaces/default/pods           a watch, as long ago

# The kind of a group, a version and a plural.
Find = Callable[[str, str, str], ServedResource | None]


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


def resources_of(definition: Object) -> tuple[ServedResource, ...]:
    """The kinds of a definition: one for each version that is served, the stored one first."""
    spec = definition["spec"]
    names = spec["names"]
    served = [version for version in spec.get("versions") or () if version.get("served")]
    return tuple(
        ServedResource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            namespaced=spec.get("scope") == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=("status",) if "status" in (version.get("subresources") or {}) else (),
            has_generation=True,
            is_plain=True,
            is_custom=True,
            has_versions=len(served) > 1,
        )
        for version in sorted(served, key=lambda one: not one.get("storage"))
    )


class KindTable:
    """Kinds by what a request, a collection or an owner reference says of them."""

    def __init__(self, kinds: ServedKinds) -> None:
        self.release = kinds.release
        self.generation = 0
        """Grows with each change; documents that are made from the table are as old as theirs."""
        self._own = kinds.resources
        self._served = frozenset((one.group, one.version, one.plural) for one in kinds.resources)
        self._defined: dict[str, tuple[ServedResource, ...]] = {}
        self._by_path: dict[tuple[str, str, str], ServedResource] = {}
        self._by_key: dict[str, ServedResource] = {}
        self._by_group_kind: dict[tuple[str, str], ServedResource] = {}

    @property
    def resources(self) -> tuple[ServedResource, ...]:
        """All kinds, in the order of discovery."""
        return (*self._own, *(one for resources in self._defined.values() for one in resources))

    def define(self, definition: Object) -> None:
        """Serve the versions of a CustomResourceDefinition, instead of those that it had."""
        self._set(definition["metadata"]["name"], resources_of(definition))

    def forget(self, definition: Object) -> None:
        """Serve them no more."""
        self._set(definition["metadata"]["name"], ())

    def _set(self, name: str, resources: tuple[ServedResource, ...]) -> None:
        if self._defined.get(name, ()) == resources:
            return
        self._defined.pop(name, None)
        if resources:
            self._defined[name] = resources
        self.generation += 1
        defined = [one for known in self._defined.values() for one in known]
        self._by_path = {(one.group, one.version, one.plural): one for one in defined}
        self._by_key = {one.key: one for one in reversed(defined)}
        self._by_group_kind = {(one.group_version, one.kind): one for one in defined}

    def at(self, group: str, version: str, plural: str) -> ServedResource | None:
        """The kind of a path, if it is served."""
        place = (group, version, plural)
        return BY_PATH[place] if place in self._served else self._by_path.get(place)

    def of_collection(self, key: str) -> ServedResource:
        """The kind of a collection; also of one whose definition has just gone. Raises KeyError."""
        return BY_KEY[key] if key in BY_KEY else self._by_key[key]

    def of_reference(self, group_version: str, kind: str) -> ServedResource | None:
        """The kind that an owner reference names."""
        return BY_GROUP_KIND.get((group_version, kind)) or self._by_group_kind.get((group_version, kind))

    def group_versions(self) -> dict[tuple[str, str], list[ServedResource]]:
        """Resources by (group, version), core first, in table order."""
        return by_group_version(self.resources)

    def groups(self) -> dict[str, dict[str, list[ServedResource]]]:
        """Resources by group and version; the first version of a group is the preferred one."""
        return by_group(self.resources)
