"""The pods and claims of a StatefulSet: names by ordinal, storage that outlives the pods."""

import re

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import CLAIMS, PODS
from kscheduler.embedded.controllers.engine.plan import Create, Delete, News, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import REVISION_LABEL, key_of, pod_of, reference_to
from kscheduler.embedded.controllers.workloads.pod_changes import name_of, template_of
from kscheduler.scenario.workload_pods import stateful_labels

COMPONENT = "statefulset-controller"
_NAME = re.compile(r"(?P<set>.+)-(?P<ordinal>[0-9]+)")


def ordinal_of(pod: Object, stateful_set: Object) -> int | None:
    """The pod's ordinal; None if its name does not belong to this set."""
    match = _NAME.fullmatch(pod["metadata"]["name"])
    if match is None or match["set"] != stateful_set["metadata"]["name"]:
        return None
    return int(match["ordinal"])


def stateful_pod(stateful_set: Object, revision: Object, ordinal: int) -> Object:
    """The pod of an ordinal, from this revision's template."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    pod = pod_of(template_of(revision), stateful_set, name=name)
    pod["metadata"]["labels"] = {
        **pod["metadata"].get("labels", {}),
        **stateful_labels(name, ordinal),
        REVISION_LABEL: name_of(revision),
    }
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = {template["metadata"]["name"] for template in claim_templates(stateful_set)}
    kept = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
    made = [
        {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name(template, name)}}
        for template in claim_templates(stateful_set)
    ]
    if kept or made:
        spec["volumes"] = [*kept, *made]
    return pod


def claim_templates(stateful_set: Object) -> list[Object]:
    """`spec.volumeClaimTemplates`."""
    templates: list[Object] = stateful_set["spec"].get("volumeClaimTemplates") or []
    return templates


def claim_name(template: Object, pod_name: str) -> str:
    """The claim of a template for a pod."""
    return f"{template['metadata']['name']}-{pod_name}"


def creations(view: View, stateful_set: Object, pod: Object) -> list[Create]:
    """The creation of a pod and its missing claims, claims first."""
    name, set_name = pod["metadata"]["name"], stateful_set["metadata"]["name"]
    text = f"Pod {name} in StatefulSet {set_name}"
    done = News(stateful_set, COMPONENT, "SuccessfulCreate", f"Create {text} successful")
    failed = News(stateful_set, COMPONENT, "FailedCreate", f"Create {text} failed error: {{error}}", is_warning=True)
    return [*missing_claims(view, stateful_set, name), Create(PODS, pod, done, failed)]


def missing_claims(view: View, stateful_set: Object, pod_name: str) -> list[Create]:
    """The creation of a pod's missing claims."""
    found = []
    for template in claim_templates(stateful_set):
        claim = _claim(stateful_set, template, pod_name)
        if view.get(CLAIMS, key_of(claim)) is None:
            name, set_name = claim["metadata"]["name"], stateful_set["metadata"]["name"]
            text = f"Create Claim {name} Pod {pod_name} in StatefulSet {set_name} success"
            found.append(Create(CLAIMS, claim, News(stateful_set, COMPONENT, "SuccessfulCreate", text)))
    return found


def deletion(stateful_set: Object, pod: Object) -> Delete:
    """The deletion of a pod, with an Event."""
    text = f"Delete Pod {pod['metadata']['name']} in StatefulSet {stateful_set['metadata']['name']} successful"
    return Delete(PODS, pod, done=News(stateful_set, COMPONENT, "SuccessfulDelete", text))


def claims_deleted_with(view: View, stateful_set: Object, pod: Object) -> list[Update]:
    """With `whenScaled: Delete` the claims of a pod that is scaled down are owned by the pod, and deleted with it."""
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenScaled") != "Delete":
        return []
    updates = []
    for template in claim_templates(stateful_set):
        name = claim_name(template, pod["metadata"]["name"])
        claim = view.get(CLAIMS, (pod["metadata"]["namespace"], name))
        if claim is not None:
            metadata = {**claim["metadata"], "ownerReferences": [_loose_reference(pod)]}
            updates.append(Update(CLAIMS, {**claim, "metadata": metadata}))
    return updates


def _claim(stateful_set: Object, template: Object, pod_name: str) -> Object:
    given = template["metadata"]
    labels = {**(given.get("labels") or {}), **(stateful_set["spec"]["selector"].get("matchLabels") or {})}
    metadata: Object = {
        "name": claim_name(template, pod_name),
        "namespace": stateful_set["metadata"]["namespace"],
        "labels": labels,
    }
    if given.get("annotations"):
        metadata["annotations"] = given["annotations"]
    policy = stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenDeleted") == "Delete":
        metadata["ownerReferences"] = [_loose_reference(stateful_set)]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}


def _loose_reference(owner: Object) -> Object:
    return {name: value for name, value in reference_to(owner).items() if name != "blockOwnerDeletion"}
