"""What the pod's resource claims could ask for instead: fewer devices, other ones, or ones with a taint.

A claim that has its devices already is left alone. One that several pods share is changed for all of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from kscheduler.api.devices import (
    ALL,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kscheduler.devices.plan import MOST_RESULTS
from kscheduler.explain.suggestions.changed import ADD, REMOVE, REPLACE, ObjectChange, Operation, pointer
from kscheduler.explain.suggestions.other_changes.selector_fixes import (
    meant_attributes,
    selector_fixes,
    values_of_devices,
)
from kscheduler.explain.suggestions.other_changes.wanted_devices import claims_of_pod
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step
from kscheduler.explain.suggestions.trials.trial import Trials

_TAINTS_TRIED: Final = 8
# The size of what gives up all of a rule that cannot be measured.
_EVERYTHING: Final = 0.9

Request = ExactDeviceRequest | DeviceSubRequest
Place = tuple[str | int, ...]
# By name, as far as they are known; `None`: there is none.
ClaimTemplates = Mapping[str, ResourceClaimTemplate | None]


def device_changes(trials: Trials) -> Iterator[Step]:
    """Proposals about each claim. They are not tried yet; of one request the largest number of devices comes first."""
    templates = {entry.name: entry.resource_claim_template_name or "" for entry in trials.pod.pod.spec.resource_claims}
    seen: set[str] = set()
    for entry, claim in claims_of_pod(trials):
        if claim.status.allocation is not None or claim.key in seen:
            continue
        seen.add(claim.key)
        of = {"claim": claim.metadata.name, "template": templates.get(entry, "")}
        for place, name, request in _requests(claim):
            yield from _of_request(claim, place, {**of, "request": name}, request, trials)
        for position, constraint in enumerate(claim.spec.devices.constraints):
            attribute = constraint.match_attribute or constraint.distinct_attribute or ""
            patch = (Operation(REMOVE, pointer("spec", "devices", "constraints", position)),)
            facts = {**of, "attribute": attribute, "constraint": position}
            field = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
            for meant in meant_attributes(attribute, trials.cache.devices.slices()):
                changed = (Operation(REPLACE, pointer("spec", "devices", "constraints", position, field), meant),)
                yield _step(ChangeKind.DEVICE_CONSTRAINT, claim, changed, 0.2, {**facts, "to": meant}, str(position))
            yield _step(ChangeKind.DEVICE_CONSTRAINT, claim, patch, 0.5, facts, str(position))


def claims_made_again(trials: Trials, templates: ClaimTemplates) -> Iterator[Step]:
    """Proposal: the claims that were made from templates which say something else by now, all of them made again."""
    pod = trials.pod.pod
    of_entry = {
        entry.name: templates.get(entry.resource_claim_template_name or "") for entry in pod.spec.resource_claims
    }
    changes: list[ObjectChange] = []
    for entry, claim in claims_of_pod(trials):
        template = of_entry.get(entry)
        if template is None or template.spec.spec == claim.spec or claim.status.allocation is not None:
            continue
        patch = (Operation(REPLACE, "/spec", msgspec.to_builtins(template.spec.spec)),)
        changes.append(ObjectChange("resourceclaims", claim.metadata.namespace, claim.metadata.name, patch))
    if changes:
        yield Step(ChangeKind.NEW_CLAIM, tuple(changes), 0.1, {"claims": [change.name for change in changes]})


def _requests(claim: ResourceClaim) -> Iterator[tuple[Place, str, Request]]:
    for number, request in enumerate(claim.spec.devices.requests):
        at: Place = ("spec", "devices", "requests", number)
        if request.exactly is not None:
            yield (*at, "exactly"), request.name, request.exactly
        for position, alternative in enumerate(request.first_available):
            yield (*at, "firstAvailable", position), f"{request.name}/{alternative.name}", alternative


def _of_request(
    claim: ResourceClaim, at: Place, facts: dict[str, Any], request: Request, trials: Trials
) -> Iterator[Step]:
    name = str(facts["request"])
    yield from _fewer(claim, at, facts, request, _most_on_a_node(trials))
    for position, selector in enumerate(request.selectors):
        patch = (Operation(REMOVE, pointer(*at, "selectors", position)),)
        expression = selector.cel.expression if selector.cel is not None else ""
        details = {**facts, "selector": expression}
        for number, (fixed, why) in enumerate(selector_fixes(expression, trials.cache.devices.slices())):
            changed = (Operation(REPLACE, pointer(*at, "selectors", position, "cel", "expression"), fixed),)
            size = 0.1 if number == 0 else 0.2
            yield _step(
                ChangeKind.DEVICE_SELECTOR,
                claim,
                changed,
                size,
                {**details, "to": fixed, "why": why},
                f"{name}#{position}",
            )
        there = values_of_devices(expression, trials.cache.devices.slices())
        details["attributes"] = [msgspec.to_builtins(each) for each in there]
        yield _step(ChangeKind.DEVICE_SELECTOR, claim, patch, 0.5, details, f"{name}#{position}")
    for taint in _taints(trials):
        tree = {"key": taint[0], "operator": "Equal", "value": taint[1], "effect": taint[2]}
        patch = (Operation(ADD, pointer(*at, "tolerations"), [tree]),)
        if request.tolerations:
            patch = (Operation(ADD, pointer(*at, "tolerations", "-"), tree),)
        details = {**facts, "key": taint[0], "value": taint[1], "effect": taint[2]}
        yield _step(ChangeKind.DEVICE_TOLERATION, claim, patch, 0.5, details, f"{name} {taint}")
    for other in trials.cache.devices.class_names():
        if other != request.device_class_name:
            patch = (Operation(REPLACE, pointer(*at, "deviceClassName"), other),)
            details = {**facts, "class": request.device_class_name, "to": other}
            # Devices of another kind are hardly what the pod is made for.
            yield _step(ChangeKind.DEVICE_CLASS, claim, patch, 0.7, details, f"{name} {other}", comes_last=True)


def _fewer(claim: ResourceClaim, at: Place, facts: dict[str, Any], request: Request, most: int) -> Iterator[Step]:
    """`most`: the devices that a node can reach at most."""
    name = str(facts["request"])
    if request.allocation_mode == ALL:
        patch = (Operation(REPLACE, pointer(*at, "allocationMode"), "ExactCount"),)
        yield _step(ChangeKind.DEVICE_COUNT, claim, patch, _EVERYTHING, {**facts, "count": None, "to": 1}, name)
        return
    queried = request.count or 1
    for count in range(min(queried - 1, MOST_RESULTS, most), 0, -1):
        patch = (Operation(REPLACE, pointer(*at, "count"), count),)
        details = {**facts, "count": queried, "to": count}
        yield _step(ChangeKind.DEVICE_COUNT, claim, patch, (queried - count) / queried, details, name)


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
    counts: dict[tuple[str, str, str], int] = {}
    for published in trials.cache.devices.slices():
        for device in published.spec.devices:
            for taint in device.taints:
                if taint.effect in ("NoSchedule", "NoExecute"):
                    key = taint.key, taint.value, taint.effect
                    counts[key] = counts.get(key, 0) + 1
    return sorted(counts, key=lambda taint: (-counts[taint], taint))[:_TAINTS_TRIED]


def _step(
    kind: ChangeKind,
    claim: ResourceClaim,
    patch: tuple[Operation, ...],
    size: float,
    facts: dict[str, Any],
    subject: str,
    *,
    comes_last: bool = False,
) -> Step:
    change = ObjectChange("resourceclaims", claim.metadata.namespace, claim.metadata.name, patch)
    return Step(kind, (change,), size, facts, f"{claim.key} {subject}", comes_last)
