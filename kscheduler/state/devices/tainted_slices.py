"""The slice tracker: ResourceSlices with the taints that DeviceTaintRules add to their devices.

A rule selects devices by driver, pool and name: all fields that are set must be equal, and without a selector it
selects none. Readers see slices in which the taints of rules stand behind the devices' own, in the order of the rules'
names.
"""

from collections.abc import Mapping, Sequence

import msgspec

from kscheduler.api.devices import Device, DeviceTaint, DeviceTaintRule, ResourceSlice


class TaintedSlices:
    """Slices and rules by name."""

    def __init__(self) -> None:
        self._published: dict[str, ResourceSlice] = {}
        self._tainted: dict[str, ResourceSlice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._all: Sequence[ResourceSlice] | None = None
        self._rules_count = True
        self.revision = 0
        """Grows with each change of what `all` returns."""

    def all(self) -> Sequence[ResourceSlice]:
        """The slices with all taints; the same object until something changes."""
        if self._all is None:
            self._all = tuple(self._tainted.values())
        return self._all

    def published(self, name: str) -> ResourceSlice | None:
        """A slice without the taints of rules."""
        return self._published.get(name)

    def rules(self) -> Sequence[DeviceTaintRule]:
        """The rules that count, by name."""
        return [self._rules[name] for name in sorted(self._rules)] if self._rules_count else []

    def follow(self, *, rules_count: bool) -> None:
        """Add the taints of rules from now on, or do not."""
        if rules_count != self._rules_count:
            self._rules_count = rules_count
            for published in tuple(self._published.values()):
                self.put(published)

    def put(self, published: ResourceSlice) -> None:
        """Store a slice as its driver publishes it."""
        name = published.metadata.name
        self._published[name] = published
        self._tainted[name] = self._with_taints(published)
        self._changed()

    def remove(self, name: str) -> None:
        """Remove a slice."""
        self._published.pop(name, None)
        if self._tainted.pop(name, None) is not None:
            self._changed()

    def put_rule(self, rule: DeviceTaintRule) -> Sequence[tuple[ResourceSlice, ResourceSlice]]:
        """Store a rule; returns the slices whose taints are others now, before and after."""
        before = self._rules.get(rule.metadata.name)
        self._rules[rule.metadata.name] = rule
        return self._patched(before, rule)

    def remove_rule(self, name: str) -> Sequence[tuple[ResourceSlice, ResourceSlice]]:
        """Remove a rule; returns the slices whose taints are others now, before and after."""
        before = self._rules.pop(name, None)
        return self._patched(before)

    def _patched(self, *touched: DeviceTaintRule | None) -> Sequence[tuple[ResourceSlice, ResourceSlice]]:
        """Apply the rules again to the slices that one of `touched` selects a device of."""
        rules = {str(place): rule for place, rule in enumerate(touched) if rule is not None}
        changed = []
        for name, published in self._published.items():
            if not _of_slice(published, rules):
                continue
            before, now = self._tainted[name], self._with_taints(published)
            if before != now:
                self._tainted[name] = now
                changed.append((before, now))
        if changed:
            self._changed()
        return changed

    def _with_taints(self, published: ResourceSlice) -> ResourceSlice:
        return _with_taints(published, self._rules) if self._rules_count else published

    def _changed(self) -> None:
        self._all = None
        self.revision += 1


def _with_taints(published: ResourceSlice, rules: Mapping[str, DeviceTaintRule]) -> ResourceSlice:
    """The slice with the taints of all rules; the same object if no rule selects one of its devices."""
    of_slice = _of_slice(published, rules)
    if not of_slice:
        return published
    devices = tuple(_tainted(device, of_slice) for device in published.spec.devices)
    return msgspec.structs.replace(published, spec=msgspec.structs.replace(published.spec, devices=devices))


def _tainted(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    taints: list[DeviceTaint] = []
    for rule in rules:
        selector = rule.spec.device_selector
        if selector is not None and selector.device in (None, device.name):
            taints.append(rule.spec.taint)
    return msgspec.structs.replace(device, taints=(*device.taints, *taints)) if taints else device


def _of_slice(published: ResourceSlice, rules: Mapping[str, DeviceTaintRule]) -> Sequence[DeviceTaintRule]:
    """The rules that may select a device of the slice, in the order of their names."""
    spec, found = published.spec, []
    for name in sorted(rules):
        selector = rules[name].spec.device_selector
        if selector is not None and selector.driver in (None, spec.driver) and selector.pool in (None, spec.pool.name):
            found.append(rules[name])
    return found
