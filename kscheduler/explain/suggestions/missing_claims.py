"""Claims that the pod waits for and that nobody has made: until they are there, no change of anything else helps."""

from collections.abc import Iterator
from typing import Final

from kscheduler.explain.suggestions.claim_origins import set_that_makes
from kscheduler.whatif.scenario import Scenario

_WAITS: Final = "it waits for what does not exist"


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
            yield f"{_WAITS}: create PersistentVolumeClaim {name} in namespace {space}"
    device_claims = {claim.key for claim in objects.resourceclaims}
    made = {status.name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        template = entry.resource_claim_template_name
        if template and entry.name not in made:
            yield f"{_WAITS}: {_of_template(template, entry.name, scenario)}"
        if entry.resource_claim_name and f"{space}/{entry.resource_claim_name}" not in device_claims:
            yield f"{_WAITS}: create ResourceClaim {entry.resource_claim_name} in namespace {space}"


def _of_template(template: str, entry: str, scenario: Scenario) -> str:
    claim = f"the pod's claim {entry} is made from"
    if template in scenario.claim_templates and scenario.claim_templates[template] is None:
        return f"create ResourceClaimTemplate {template} in namespace {scenario.pod.metadata.namespace}, which {claim}"
    return f"{claim} ResourceClaimTemplate {template}, and is not made yet"
