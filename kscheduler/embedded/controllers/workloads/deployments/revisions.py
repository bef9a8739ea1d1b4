"""The revisions of a Deployment: current and earlier ReplicaSets, and their annotations.

`kubectl rollout history` and `undo` read the annotation `deployment.kubernetes.io/revision` of the ReplicaSets; it
grows by one with every template, and a template that is used again gives its old ReplicaSet the newest number.
"""

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.well_known import LAST_APPLIED
from kscheduler.embedded.controllers.reading import HASH_LABEL, created, hash_of, reference_to, with_label, without_hash

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    {
        LAST_APPLIED,
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
    }
)


def annotations_of(value: Object) -> dict[str, str]:
    """The object's annotations."""
    annotations: dict[str, str] = value["metadata"].get("annotations") or {}
    return annotations


def replicas_of(replica_set: Object) -> int:
    """The desired number of pods."""
    return int(replica_set["spec"].get("replicas", 1))


def revision_of(value: Object) -> int:
    """The revision's number; 0 if there is none."""
    text = annotations_of(value).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def find_new(deployment: Object, replica_sets: list[Object]) -> Object | None:
    """The oldest ReplicaSet with the Deployment's template."""
    template = without_hash(deployment["spec"]["template"])
    for replica_set in sorted(replica_sets, key=created):
        if without_hash(replica_set["spec"]["template"]) == template:
            return replica_set
    return None


def new_replica_set(deployment: Object, replicas: int, revision: int, most: int) -> Object:
    """The ReplicaSet for the Deployment's template."""
    spec = deployment["spec"]
    template_hash = hash_of(spec["template"], int((deployment.get("status") or {}).get("collisionCount", 0)))
    template = with_label(spec["template"], HASH_LABEL, template_hash)
    selector = spec["selector"]
    metadata = {
        "name": f"{deployment['metadata']['name']}-{template_hash}",
        "namespace": deployment["metadata"]["namespace"],
        "labels": template["metadata"]["labels"],
        "annotations": _annotated(deployment, {}, revision) | _sizes(deployment, most),
        "ownerReferences": [reference_to(deployment)],
    }
    made = {
        "replicas": replicas,
        "minReadySeconds": spec.get("minReadySeconds", 0),
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: template_hash}},
        "template": template,
    }
    if not made["minReadySeconds"]:
        del made["minReadySeconds"]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": made}


def renewed(deployment: Object, replica_set: Object, revision: int) -> Object:
    """The current ReplicaSet with up-to-date annotations, revision and `minReadySeconds`."""
    annotations = _annotated(deployment, annotations_of(replica_set), revision)
    spec = dict(replica_set["spec"])
    if deployment["spec"].get("minReadySeconds"):
        spec["minReadySeconds"] = deployment["spec"]["minReadySeconds"]
    else:
        spec.pop("minReadySeconds", None)
    return {**replica_set, "metadata": {**replica_set["metadata"], "annotations": annotations}, "spec": spec}


def resized(deployment: Object, replica_set: Object, replicas: int, most: int) -> Object:
    """The ReplicaSet with another number of pods, and annotations with the Deployment's current size."""
    annotations = annotations_of(replica_set) | _sizes(deployment, most)
    metadata = {**replica_set["metadata"], "annotations": annotations}
    return {**replica_set, "metadata": metadata, "spec": {**replica_set["spec"], "replicas": replicas}}


def _sizes(deployment: Object, most: int) -> dict[str, str]:
    return {DESIRED: str(deployment["spec"].get("replicas", 1)), MOST: str(most)}


def _annotated(deployment: Object, present: dict[str, str], revision: int) -> dict[str, str]:
    copied = {key: text for key, text in annotations_of(deployment).items() if key not in _NOT_COPIED}
    annotations = {**present, **copied}
    before = present.get(REVISION, "")
    if before.isdigit() and int(before) >= revision:
        return annotations
    if before:
        annotations[HISTORY] = ",".join(filter(None, (present.get(HISTORY, ""), before)))
    annotations[REVISION] = str(revision)
    return annotations
