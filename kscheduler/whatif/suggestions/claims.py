"""Another storage class for a claim of the pod that has no volume yet."""

from collections.abc import Iterator

from kscheduler.api.storage import PersistentVolumeClaim
from kscheduler.framework.cluster.volumes import claim_name
from kscheduler.whatif.suggestions.changed import ADD, ObjectChange, Operation
from kscheduler.whatif.suggestions.suggestion import ChangeKind, Step
from kscheduler.whatif.suggestions.trial import Trials


def other_classes(trials: Trials) -> Iterator[Step]:
    """Proposals: each claim in each other class. They are not tried yet."""
    volumes, pod = trials.cache.volumes, trials.pod.pod
    names = (claim_name(pod, volume) for volume in pod.spec.volumes)
    for name in dict.fromkeys(name for name in names if name is not None):
        claim = volumes.confirmed_claim(pod.metadata.namespace, name)
        if claim is None or claim.spec.volume_name:
            continue
        for other in sorted(volumes.storage_class_names()):
            if other != claim.storage_class:
                yield _step(claim, other)


def _step(claim: PersistentVolumeClaim, other: str) -> Step:
    patch = (Operation(ADD, "/spec/storageClassName", other),)
    change = ObjectChange("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name, patch)
    facts = {"claim": claim.metadata.name, "class": claim.storage_class, "to": other}
    return Step(ChangeKind.CLAIM_CLASS, (change,), 0.6, facts)
