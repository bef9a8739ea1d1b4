"""Claims that the pod waits for and that nobody has made: until they are there, no change of anything else helps."""

from collections.abc import Collection, Iterator
from typing import Final

from kscheduler.explain.suggestions.makers import set_that_makes
from kscheduler.scenario.fields import nearest
from kscheduler.scenario.scenario import Scenario

_WAITS: Final = "it waits for a missing object"
_MAX_NAMESPACES: Final = 3


def missing_claims(scenario: Scenario) -> Iterator[str]:
    """What has to be created first, a line for each object; nothing where all that the pod names is there."""
    pod, objects = scenario.pod, scenario.objects
    space = pod.metadata.namespace
    volume_claims = {claim.key for claim in objects.persistentvolumeclaims}
    for volume in pod.spec.volumes:
        name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim is not None else ""
        if not name or f"{space}/{name}" in volume_claims:
            continue
        if maker := set_that_makes(name, volume, pod, objects):
            yield f"{_WAITS}: {maker} has not made PersistentVolumeClaim {name} in namespace {space} yet"
        else:
            yield f"{_WAITS}: create {_absent('PersistentVolumeClaim', name, space, volume_claims)}"
    device_claims = {claim.key for claim in objects.resourceclaims}
    made = {status.name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        template = entry.resource_claim_template_name
        if template and entry.name not in made:
            yield f"{_WAITS}: {_of_template(template, entry.name, scenario)}"
        if entry.resource_claim_name and f"{space}/{entry.resource_claim_name}" not in device_claims:
            yield f"{_WAITS}: create {_absent('ResourceClaim', entry.resource_claim_name, space, device_claims)}"


def _of_template(template: str, entry: str, scenario: Scenario) -> str:
    claim, space = f"the pod's claim {entry} is made from", scenario.pod.metadata.namespace
    known = {each.key for each in scenario.objects.resourceclaimtemplates}
    is_absent = template in scenario.claim_templates and scenario.claim_templates[template] is None
    # Where templates were read at all, one that is not among them is not there.
    if is_absent or (known and f"{space}/{template}" not in known):
        return f"create {_absent('ResourceClaimTemplate', template, space, known, f', which {claim}')}"
    return f"{claim} ResourceClaimTemplate {template}, and is not made yet"


def _absent(kind: str, name: str, space: str, known: Collection[str], what: str = "") -> str:
    """The object, and what there is instead: a name that is nearly it, or the same name in other namespaces.

    `known`: the objects of the kind in all namespaces, as namespace/name.
    """
    there = [key.partition("/")[::2] for key in known]
    near = nearest(name, sorted(other for namespace, other in there if namespace == space))
    elsewhere = sorted(namespace for namespace, other in there if other == name)[:_MAX_NAMESPACES]
    hint = f"; do you mean {near}?" if near else ""
    if elsewhere:
        hint += f"; it exists in namespace {', '.join(elsewhere)}, which pods of {space} cannot name"
    return f"{kind} {name} in namespace {space}{what}{hint}"
