"""Devices as the next decision must see them: claims, slices with all taints, classes.

Updated by the handlers of these kinds. Everything is synchronous, so each change is atomic. Implements
`framework.cluster.devices.Devices`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from kscheduler.api.devices import IMPLICIT_EXTENDED_RESOURCE, DeviceClass, DeviceTaintRule, ResourceSlice
from kscheduler.api.quantity import QuantityError
from kscheduler.api.releases import Behaviours
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.devices.claims import ClaimTracker
from kscheduler.state.devices.tainted_slices import TaintedSlices


class DeviceTable:
    """Slices, classes, rules and claims."""

    def __init__(self) -> None:
        self.claims = ClaimTracker()
        self._slices = TaintedSlices()
        self._classes: dict[str, DeviceClass] = {}
        self.class_changes = 0
        """The number of changes of classes."""
        self._extended = ExtendedResourceClasses()

    @property
    def changes(self) -> int:
        """The number of changes, assumed and pending claims included."""
        return self.claims.changes + self.revision

    @property
    def revision(self) -> int:
        """Grows with each change of slices, taints, classes, and of what is allocated or pending."""
        return self.claims.revision + self._slices.revision + self.class_changes

    # --- updated by the watches ---------------------------------------------------------------------------------------

    def follow(self, *, taint_rules: bool) -> None:
        """Whether rules of taints count from now on (gate DRADeviceTaintRules). By default they do."""
        self._slices.follow(rules_count=taint_rules)

    def follow_version(self, behaviours: Behaviours) -> None:
        """Count what claims hold, and find the classes of resources, as this version does from now on."""
        self.claims.join_names(joins=behaviours.joins_names_of_devices)
        before = self._extended.revision
        self._extended.let_promote(self._classes.values(), promotes=behaviours.promotes_other_classes)
        self.class_changes += self._extended.revision != before

    def put_slice(self, published: ResourceSlice) -> None:
        """Store a slice."""
        self._slices.put(published)

    def remove_slice(self, name: str) -> None:
        """Remove a slice."""
        self._slices.remove(name)

    def put_rule(self, rule: DeviceTaintRule) -> Sequence[tuple[ResourceSlice, ResourceSlice]]:
        """Store a rule of taints; returns the slices whose taints are others now, before and after."""
        return self._slices.put_rule(rule)

    def remove_rule(self, name: str) -> Sequence[tuple[ResourceSlice, ResourceSlice]]:
        """Remove a rule of taints; returns the slices whose taints are others now, before and after."""
        return self._slices.remove_rule(name)

    def put_class(self, device_class: DeviceClass) -> None:
        """Store a class."""
        name = device_class.metadata.name
        self._extended.put(self._classes.get(name), device_class)
        self._classes[name] = device_class
        self.class_changes += 1

    def remove_class(self, name: str) -> None:
        """Remove a class."""
        gone = self._classes.pop(name, None)
        if gone is not None:
            self._extended.remove(gone)
            self.class_changes += 1

    # --- reading ------------------------------------------------------------------------------------------------------

    def slices(self) -> Sequence[ResourceSlice]:
        """The slices, with the taints of all rules; the same object as long as no slice and no rule changes."""
        return self._slices.all()

    def published_slice(self, name: str) -> ResourceSlice | None:
        """A slice as its driver publishes it, without the taints of rules."""
        return self._slices.published(name)

    def taint_rules(self) -> Sequence[DeviceTaintRule]:
        """The rules whose taints `slices` have, by name."""
        return self._slices.rules()

    def device_class(self, name: str) -> DeviceClass | None:
        """A class of devices."""
        return self._classes.get(name)

    def class_names(self) -> tuple[str, ...]:
        """The names of all classes, sorted."""
        return tuple(sorted(self._classes))

    def stand_for_any(self, resources: Collection[str]) -> bool:
        """Whether devices stand for one of these resources."""
        return self._extended.has_any(resources)

    def serve(self, pod: PodInfo) -> bool:
        """Whether devices stand for a resource of the pod; not where its amounts cannot be read: its cycle says so."""
        try:
            return bool(self._extended.winners) and self._extended.has_any(pod.requests)
        except QuantityError:
            return False

    def classes_of_resources(self) -> dict[str, str]:
        """By extended resource, the name of the class whose devices stand for it."""
        return self._extended.names()

    def let_stand_for(self, classes: Mapping[str, str] | None) -> None:
        """Let these classes (names by resource) stand for resources, and no others; `None`: nothing happens.

        Which of several classes has a name depends on the order of events, so what a snapshot says is put back.
        """
        if classes is not None and self._extended.names() != classes:
            found = {resource: self._classes[name] for resource, name in classes.items() if name in self._classes}
            self._extended.become(found)
            self.class_changes += 1

    def class_of_resource(self, resource: str) -> DeviceClass | None:
        """The class whose devices stand for an extended resource."""
        return self._extended.class_of(resource)


# Which class of devices stands for an extended resource.
#
# A class names a resource in `spec.extendedResourceName`, and has another one, `deviceclass.resource.kubernetes.io/`
# and its own name, without naming it. Of several classes with one name the newest wins, of equally old ones the one
# whose name comes first.
#
# As in kube-scheduler up to 1.37, a class that loses has not even its implicit name, and a winner that goes or changes
# leaves its name to nobody: an older class gets it with the next event about itself. From 1.38 on all classes have
# their implicit names, and the best of the others gets the name at once (`promotes_other_classes`).


class ExtendedResourceClasses:
    """The winning class by resource."""

    def __init__(self) -> None:
        self._promotes = False
        self.winners: dict[str, DeviceClass] = {}
        self._named: dict[str, dict[str, DeviceClass]] = {}
        """The classes that name a resource, by resource and their own names, where others are promoted."""
        self.revision = 0
        """Grows when a resource gets another class, or loses its class."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no class at all."""
        return not self.winners

    def class_of(self, resource: str) -> DeviceClass | None:
        """The class whose devices stand for a resource."""
        return self.winners.get(resource)

    def has_any(self, resources: Collection[str]) -> bool:
        """Whether a class stands for one of these resources."""
        return not self.winners.keys().isdisjoint(resources)

    def names(self) -> dict[str, str]:
        """By resource, the name of its class."""
        return {resource: winner.metadata.name for resource, winner in self.winners.items()}

    def become(self, winners: Mapping[str, DeviceClass]) -> None:
        """Let exactly these classes stand for these resources."""
        self.winners = dict(winners)
        self.revision += 1

    def let_promote(self, classes: Iterable[DeviceClass], *, promotes: bool) -> None:
        """Whether a name that is given up goes to the best of the other classes.

        `classes`: all, in the order in which they appeared; what they stand for is worked out again.
        """
        if promotes == self._promotes:
            return
        self._promotes = promotes
        before, revision = self.names(), self.revision
        self._named.clear()
        self.winners.clear()
        for each in classes:
            self.put(None, each)
        self.revision = revision + (self.names() != before)

    def put(self, before: DeviceClass | None, now: DeviceClass) -> None:
        """A class has appeared, or changed."""
        if self._promotes:
            self._name(before, now)
        elif self._wins(before, now):
            self._set(f"{IMPLICIT_EXTENDED_RESOURCE}{now.metadata.name}", now)

    def _wins(self, before: DeviceClass | None, now: DeviceClass) -> bool:
        """Whether no other class has the name that the class gives."""
        if before is not None and before.spec.extended_resource_name != now.spec.extended_resource_name:
            self._forget(before.spec.extended_resource_name, before)
        named = now.spec.extended_resource_name
        return not named or self._win(named, now)

    def _name(self, before: DeviceClass | None, now: DeviceClass) -> None:
        named = now.spec.extended_resource_name
        if before is not None and before.spec.extended_resource_name != named:
            self._withdraw(before)
        if named:
            self._named.setdefault(named, {})[now.metadata.name] = now
            self._promote(named)
        self._set(f"{IMPLICIT_EXTENDED_RESOURCE}{now.metadata.name}", now)

    def _withdraw(self, gone: DeviceClass) -> None:
        """Give the name of a class to the best of the others."""
        named = gone.spec.extended_resource_name
        if named and named in self._named:
            self._named[named].pop(gone.metadata.name, None)
            self._promote(named)

    def _promote(self, resource: str) -> None:
        best: DeviceClass | None = None
        for each in self._named[resource].values():
            if best is None or not _precedes(best, each):
                best = each
        if best is not None:
            self._set(resource, best)
            return
        del self._named[resource]
        if self.winners.pop(resource, None) is not None:
            self.revision += 1

    def remove(self, gone: DeviceClass) -> None:
        """A class is gone."""
        if self._promotes:
            self._withdraw(gone)
        else:
            self._forget(gone.spec.extended_resource_name, gone)
        self._forget(f"{IMPLICIT_EXTENDED_RESOURCE}{gone.metadata.name}", gone)

    def _win(self, resource: str, candidate: DeviceClass) -> bool:
        winner = self.winners.get(resource)
        if winner is not None and winner.metadata.name != candidate.metadata.name and _precedes(winner, candidate):
            return False
        self._set(resource, candidate)
        return True

    def _set(self, resource: str, winner: DeviceClass) -> None:
        before = self.winners.get(resource)
        self.winners[resource] = winner
        if before is None or before.metadata.name != winner.metadata.name:
            self.revision += 1

    def _forget(self, resource: str | None, loser: DeviceClass) -> None:
        winner = self.winners.get(resource or "")
        if winner is not None and winner.metadata.name == loser.metadata.name:
            del self.winners[resource or ""]
            self.revision += 1


def _precedes(winner: DeviceClass, candidate: DeviceClass) -> bool:
    """Whether the winner is newer, or as old with a name that comes first. Times of the API sort as text."""
    made, other = winner.metadata.creation_timestamp or "", candidate.metadata.creation_timestamp or ""
    return made > other if made != other else winner.metadata.name < candidate.metadata.name
