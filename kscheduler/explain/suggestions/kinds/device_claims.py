"""What the pod's resource claims could ask for instead: fewer devices, other ones, or ones with a taint.

A claim that has its devices already is left alone. One that several pods share is changed for all of them. The claim's
spec is for good: where it was made from a template, the template is changed, and the claim is made again with the pod.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from kscheduler.api.core import Pod
from kscheduler.api.devices import ALL, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from kscheduler.devices.obstacle_details import AttributeValues
from kscheduler.devices.plan import MAX_RESULTS
from kscheduler.explain.suggestions.kinds.device_selectors import meant_attributes, selector_fixes, values_of_devices
from kscheduler.explain.suggestions.kinds.taints import KEEPING_OUT, key_value_effect
from kscheduler.explain.suggestions.kubectl_lines import recreated
from kscheduler.explain.suggestions.object_changes import ADD, REMOVE, REPLACE, ObjectChange, Operation, pointer
from kscheduler.explain.suggestions.suggestion import HALF, Patch, Step, Suggestion, SuggestionKind, first_of_each
from kscheduler.explain.suggestions.trials import Trials
from kscheduler.plugins.dynamic_resources.details import values_text
from kscheduler.scenario.scenario import ClusterObjects

_TAINTS_TRIED: Final = 8
# The size of what gives up all of a rule that cannot be measured.
_EVERYTHING: Final = 0.9
_SIZE_OF_FIX: Final = 0.2
_SIZE_OF_GUARD: Final = 0.1
_SIZE_OF_CLASS: Final = 0.7
_MAX_NAMED: Final = 3

DeviceRequest = ExactDeviceRequest | DeviceSubRequest
Place = tuple[str | int, ...]


class RecreateClaims(SuggestionKind, frozen=True):
    """The claims that were made from templates which say something else by now, all of them made again."""

    kind = "newClaim"
    is_of_the_pod = True

    claims: Sequence[str]

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        pod, templates = trials.pod.pod, trials.inputs.claim_templates
        of_entry = {
            entry.name: templates.get(entry.resource_claim_template_name or "") for entry in pod.spec.resource_claims
        }
        changes: list[ObjectChange] = []
        for entry, claim in trials.claims():
            template = of_entry.get(entry)
            if template is None or template.spec.spec == claim.spec or claim.status.allocation is not None:
                continue
            patch = (Operation(REPLACE, "/spec", msgspec.to_builtins(template.spec.spec)),)
            changes.append(ObjectChange("resourceclaims", claim.metadata.namespace, claim.metadata.name, patch))
        if changes:
            yield Step(cls([change.name for change in changes]), tuple(changes), 0.1)

    @classmethod
    def found(cls, trials: Trials) -> Iterator[Suggestion]:
        """It is tried by `FewerDevices`, which must know of it."""
        yield from ()

    def text(self, step: Step) -> str:
        return f"recreate the pod: it has claim {', '.join(self.claims)} from before the template was changed"

    @property
    def new_claims(self) -> Sequence[str]:
        return self.claims


class DeviceChange(SuggestionKind, frozen=True):
    """A kind of change of one claim, or of the template that it is made from."""

    is_of_the_pod = True

    claim: str
    template: str

    @property
    def claim_template(self) -> str:
        return self.template

    @property
    def new_claims(self) -> Sequence[str]:
        return (self.claim,) if self.template else ()

    @property
    def claim_text(self) -> str:
        """`claim gpus`, or `claim template gpus`."""
        return f"claim template {self.template}" if self.template else f"claim {self.claim}"

    def command(self, step: Step) -> str:
        (change,) = step.changes
        if not self.template:
            return recreated("resourceclaim", change)
        patch = tuple(Operation(each.op, f"/spec{each.path}", each.value) for each in change.patch)
        template = ObjectChange("resourceclaimtemplates", change.namespace, self.template, patch)
        return recreated("resourceclaimtemplate", template)

    def note(self, pod: Pod, objects: ClusterObjects) -> str:
        """The other pods for which the claim or its template would change as well; empty where there is none."""
        users = [
            each.metadata.name
            for each in objects.pods
            if each.metadata.namespace == pod.metadata.namespace
            and each.metadata.name != pod.metadata.name
            and not each.is_terminal
            and any(
                entry.resource_claim_template_name == self.template
                if self.template
                else entry.resource_claim_name == self.claim
                for entry in each.spec.resource_claims
            )
        ]
        what = f"ResourceClaimTemplate {self.template}" if self.template else f"claim {self.claim}"
        return f"{what} is also that of {_named(sorted(users))}" if users else ""

    def step(self, claim: ResourceClaim, patch: Patch, size: float, subject: str, *, comes_last: bool = False) -> Step:
        """The claim changed in this way."""
        change = ObjectChange("resourceclaims", claim.metadata.namespace, claim.metadata.name, patch)
        return Step(self, (change,), size, f"{claim.key} {subject}", comes_last)


class RequestChange(DeviceChange, frozen=True):
    """The same of one request of the claim."""

    request: str

    @property
    def request_text(self) -> str:
        """`request a of claim gpus`"""
        return f"request {self.request} of {self.claim_text}"


class FewerDevices(RequestChange, frozen=True):
    """Fewer devices. Proposes all changes of claims for devices, request by request."""

    kind = "deviceCount"
    is_paired_with_demands = True
    is_paired_with_claims = True

    count: int | None
    """`None`: all devices that there are."""
    to: int

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        """Of one request the largest number of devices comes first."""
        entries = trials.pod.pod.spec.resource_claims
        templates = {entry.name: entry.resource_claim_template_name or "" for entry in entries}
        seen: set[str] = set()
        for entry, claim in trials.claims():
            if claim.status.allocation is not None or claim.key in seen:
                continue
            seen.add(claim.key)
            template = templates.get(entry, "")
            for place, name, request in _requests(claim):
                yield from _of_request(claim, place, (claim.metadata.name, template, name), request, trials)
            yield from _of_constraints(claim, template, trials)

    @classmethod
    def found(cls, trials: Trials) -> Iterator[Suggestion]:
        """Claims that are made again first: their templates are others by now, so what they ask for says nothing."""
        again: set[str] = set()
        for suggestion in first_of_each(RecreateClaims.proposals(trials), trials):
            again.update(suggestion.steps[0].facts.new_claims)
            yield suggestion
        steps = (each for each in cls.proposals(trials) if not again.intersection(each.facts.new_claims))
        yield from first_of_each(steps, trials)

    def text(self, step: Step) -> str:
        now = "all devices" if self.count is None else str(self.count)
        devices = "1 device" if self.to == 1 else f"{self.to} devices"
        return f"ask for {devices} instead of {now} in {self.request_text}"


class ChangeDeviceSelector(RequestChange, frozen=True):
    """A selector goes, or is written as it is probably meant."""

    kind = "deviceSelector"

    selector: str
    to: str | UnsetType = UNSET
    why: str | UnsetType = UNSET
    attributes: Sequence[AttributeValues] | UnsetType = UNSET
    """What devices have where the selector looks."""

    def text(self, step: Step) -> str:
        if self.to is not UNSET:
            why = f": {self.why}" if self.why else ""
            return f"write the selector {self.to} instead of {self.selector} in {self.request_text}{why}"
        values = values_text(() if self.attributes is UNSET else self.attributes)
        return f"drop the selector {self.selector} from {self.request_text}{values}"


class TolerateDeviceTaint(RequestChange, frozen=True):
    """A toleration of a taint of devices."""

    kind = "deviceToleration"

    key: str
    value: str
    effect: str

    def text(self, step: Step) -> str:
        taint = key_value_effect(self.key, self.value, self.effect)
        return f"tolerate the taint {taint} of devices in {self.request_text}"


class ChangeDeviceClass(RequestChange, frozen=True, rename={"device_class": "class"}):
    """Devices of another class, which are hardly what the pod is made for."""

    kind = "deviceClass"

    device_class: str
    to: str

    def text(self, step: Step) -> str:
        return f"ask for devices of class {self.to} instead of {self.device_class} in {self.request_text}"


class ChangeDeviceConstraint(DeviceChange, frozen=True):
    """A constraint goes, or is on the attribute that is probably meant."""

    kind = "deviceConstraint"

    attribute: str
    constraint: int
    to: str | UnsetType = UNSET

    def text(self, step: Step) -> str:
        if self.to is not UNSET:
            return f"let the constraint of {self.claim_text} be on {self.to} instead of {self.attribute}"
        return f"drop the constraint on {self.attribute} from {self.claim_text}"


def _requests(claim: ResourceClaim) -> Iterator[tuple[Place, str, DeviceRequest]]:
    for number, request in enumerate(claim.spec.devices.requests):
        at: Place = ("spec", "devices", "requests", number)
        if request.exactly is not None:
            yield (*at, "exactly"), request.name, request.exactly
        for position, alternative in enumerate(request.first_available):
            yield (*at, "firstAvailable", position), f"{request.name}/{alternative.name}", alternative


def _of_request(
    claim: ResourceClaim, at: Place, of: tuple[str, str, str], request: DeviceRequest, trials: Trials
) -> Iterator[Step]:
    """`of`: the names of claim, template and request."""
    name, slices = of[2], trials.cache.devices.slices()
    yield from _fewer(claim, at, of, request, _most_on_a_node(trials))
    for position, selector in enumerate(request.selectors):
        subject, expression = f"{name}#{position}", selector.cel.expression if selector.cel is not None else ""
        for number, (fixed, why) in enumerate(selector_fixes(expression, slices)):
            path = pointer(*at, "selectors", position, "cel", "expression")
            facts = ChangeDeviceSelector(*of, expression, fixed, why)
            size = _SIZE_OF_GUARD if number == 0 else _SIZE_OF_FIX
            yield facts.step(claim, (Operation(REPLACE, path, fixed),), size, subject)
        facts = ChangeDeviceSelector(*of, expression, attributes=values_of_devices(expression, slices))
        yield facts.step(claim, (Operation(REMOVE, pointer(*at, "selectors", position)),), HALF, subject)
    for taint in _taints(trials):
        tree = {"key": taint[0], "operator": "Equal", "value": taint[1], "effect": taint[2]}
        patch = (Operation(ADD, pointer(*at, "tolerations"), [tree]),)
        if request.tolerations:
            patch = (Operation(ADD, pointer(*at, "tolerations", "-"), tree),)
        yield TolerateDeviceTaint(*of, *taint).step(claim, patch, HALF, f"{name} {taint}")
    for other in trials.cache.devices.class_names():
        if other != request.device_class_name:
            patch = (Operation(REPLACE, pointer(*at, "deviceClassName"), other),)
            instead = ChangeDeviceClass(*of, request.device_class_name, other)
            yield instead.step(claim, patch, _SIZE_OF_CLASS, f"{name} {other}", comes_last=True)


def _fewer(
    claim: ResourceClaim, at: Place, of: tuple[str, str, str], request: DeviceRequest, most: int
) -> Iterator[Step]:
    """`most`: the devices that a node can reach at most."""
    if request.allocation_mode == ALL:
        patch = (Operation(REPLACE, pointer(*at, "allocationMode"), "ExactCount"),)
        yield FewerDevices(*of, None, 1).step(claim, patch, _EVERYTHING, of[2])
        return
    now = request.count or 1
    for count in range(min(now - 1, MAX_RESULTS, most), 0, -1):
        patch = (Operation(REPLACE, pointer(*at, "count"), count),)
        yield FewerDevices(*of, now, count).step(claim, patch, (now - count) / now, of[2])


def _of_constraints(claim: ResourceClaim, template: str, trials: Trials) -> Iterator[Step]:
    for position, constraint in enumerate(claim.spec.devices.constraints):
        attribute = constraint.match_attribute or constraint.distinct_attribute or ""
        at = ("spec", "devices", "constraints", position)
        field = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
        facts = ChangeDeviceConstraint(claim.metadata.name, template, attribute, position)
        for meant in meant_attributes(attribute, trials.cache.devices.slices()):
            patch = (Operation(REPLACE, pointer(*at, field), meant),)
            changed = msgspec.structs.replace(facts, to=meant)
            yield changed.step(claim, patch, _SIZE_OF_FIX, str(position))
        yield facts.step(claim, (Operation(REMOVE, pointer(*at)),), HALF, str(position))


def _most_on_a_node(trials: Trials) -> int:
    """A bound for the devices of a node: its own and all that are not of one node."""
    local: Counter[str] = Counter()
    others = 0
    for published in trials.cache.devices.slices():
        name, count = published.spec.node_name, len(published.spec.devices)
        if name:
            local[name] += count
        else:
            others += count
    return max(local.values(), default=0) + others


def _taints(trials: Trials) -> list[tuple[str, str, str]]:
    """The taints of all devices, those of most devices first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for published in trials.cache.devices.slices():
        for device in published.spec.devices:
            counts.update((each.key, each.value, each.effect) for each in device.taints if each.effect in KEEPING_OUT)
    return sorted(counts, key=lambda taint: (-counts[taint], taint))[:_TAINTS_TRIED]


def _named(pods: Sequence[str]) -> str:
    if len(pods) == 1:
        return f"pod {pods[0]}"
    more = f" and {len(pods) - _MAX_NAMED} more" if len(pods) > _MAX_NAMED else ""
    return f"pods {', '.join(pods[:_MAX_NAMED])}{more}"
