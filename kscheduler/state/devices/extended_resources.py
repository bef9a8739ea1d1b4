"""Which class of devices stands for an extended resource.

A class names a resource in `spec.extendedResourceName`, and has another one, `deviceclass.resource.kubernetes.io/` and
its own name, without naming it. Of several classes with one name the newest wins, of equally old ones the one whose
name comes first.

As in kube-scheduler, a class that loses has not even its implicit name, and a winner that goes or changes leaves its
name to nobody: an older class gets it with the next event about itself.
"""

from collections.abc import Collection, Mapping

from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE, DeviceClass


class ExtendedResourceClasses:
    """The winning class by resource."""

    def __init__(self) -> None:
        self._winners: dict[str, DeviceClass] = {}
        self.revision = 0
        """Grows when a resource gets another class, or loses its class."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no class at all."""
        return not self._winners

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class whose devices stand for a resource."""
        return self._winners.get(resource)

    def has_any(self, resources: Collection[str]) -> bool:
        """Whether a class stands for one of these resources."""
        return not self._winners.keys().isdisjoint(resources)

    def names(self) -> dict[str, str]:
        """By resource, the name of its class."""
        return {resource: winner.metadata.name for resource, winner in self._winners.items()}

    def become(self, winners: Mapping[str, DeviceClass]) -> None:
        """Let exactly these classes stand for these resources."""
        self._winners = dict(winners)
        self.revision += 1

    def put(self, before: DeviceClass | None, now: DeviceClass) -> None:
        """A class has appeared, or changed."""
        if before is not None and before.spec.extended_resource_name != now.spec.extended_resource_name:
            self._forget(before.spec.extended_resource_name, before)
        named = now.spec.extended_resource_name
        if named and not self._win(named, now):
            return
        self._set(f"{IMPLICIT_EXTENDED_RESOURCE}{now.metadata.name}", now)

    def remove(self, gone: DeviceClass) -> None:
        """A class is gone."""
        self._forget(gone.spec.extended_resource_name, gone)
        self._forget(f"{IMPLICIT_EXTENDED_RESOURCE}{gone.metadata.name}", gone)

    def _win(self, resource: str, candidate: DeviceClass) -> bool:
        winner = self._winners.get(resource)
        if winner is not None and winner.metadata.name != candidate.metadata.name and _precedes(winner, candidate):
            return False
        self._set(resource, candidate)
        return True

    def _set(self, resource: str, winner: DeviceClass) -> None:
        before = self._winners.get(resource)
        self._winners[resource] = winner
        if before is None or before.metadata.name != winner.metadata.name:
            self.revision += 1

    def _forget(self, resource: str | None, loser: DeviceClass) -> None:
        winner = self._winners.get(resource or "")
        if winner is not None and winner.metadata.name == loser.metadata.name:
            del self._winners[resource or ""]
            self.revision += 1


def _precedes(winner: DeviceClass, candidate: DeviceClass) -> bool:
    """Whether the winner is newer, or as old with a name that comes first. Times of the API sort as text."""
    made, asked = winner.metadata.creation_timestamp or "", candidate.metadata.creation_timestamp or ""
    return made > asked if made != asked else winner.metadata.name < candidate.metadata.name
