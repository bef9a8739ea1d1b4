"""The kinds that a server has now: those of its release, and those that CustomResourceDefinitions add and take away."""

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.resources import (
    BY_GROUP_KIND,
    BY_KEY,
    BY_PATH,
    ServedKinds,
    ServedResource,
    by_group,
    by_group_version,
)


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
