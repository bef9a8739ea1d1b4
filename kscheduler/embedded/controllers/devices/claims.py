"""Device claims as kube-controller-manager's resourceclaim controller keeps them: made, reserved, released, deleted.

    a pod with a template         its claim, named by the server; pod.status.resourceClaimStatuses names it
    a pod that has a node already a reservation of its allocated claims, which a scheduler would have made
    a consumer is gone or done    its reservation goes; with the last one the allocation and the finalizer
    a pod is done                 the claims that were made for it are deleted

Groups of pods with claims need the gate DRAWorkloadResourceClaims, which is not built: their claims are not made.
"""

from collections.abc import Iterator, Mapping

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import (
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    ServedResource,
)
from kscheduler.embedded.controllers.devices import driver
from kscheduler.embedded.controllers.engine.plan import Concerned, Create, Delete, News, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import controller_of, is_terminating, itself, key_of, node_of
from kscheduler.embedded.objects.store import Change, ChangeType, Key

_COMPONENT = "resource_claim"
# Of a generated name, so that it has at most 63 characters with the server's suffix and a hyphen.
_LONGEST_BASE = 57


class ResourceClaimController:
    """Makes and reserves the claims of pods; keyed by pod."""

    name = "resourceclaim-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Pods with claims, their claims, and the templates that they wait for."""
        return {PODS: _with_claims, RESOURCE_CLAIMS: _pods_of_claim, RESOURCE_CLAIM_TEMPLATES: _pods_of_template}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Create missing claims, name those that exist in the pod's status, reserve what a pod on a node has."""
        plan = Plan()
        pod = view.get(PODS, key)
        if pod is None or is_terminating(pod) or driver.is_done(pod):
            return plan
        known = driver.statuses(pod)
        named = dict(known)
        for entry in driver.wanted(pod):
            made = _claim_for(view, pod, entry)
            if made is not None and entry.get("resourceClaimTemplateName"):
                named[entry["name"]] = {"name": entry["name"], "resourceClaimName": made["metadata"]["name"]}
            if made is not None and _needs_reservation(pod, made):
                plan.add(_reserved(made, pod))
            if made is None and entry.get("resourceClaimTemplateName") and not _is_unneeded(known.get(entry["name"])):
                plan.add(_creation(view, pod, entry))
        if named != known:
            entries = [named[name] for name in sorted(named)]
            plan.set_status(PODS, pod, {**(pod.get("status") or {}), "resourceClaimStatuses": entries})
        return plan


class ResourceClaimRelease:
    """Takes away reservations and allocations that nobody needs, and claims of pods that are done; keyed by claim."""

    name = "resourceclaim-release"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Claims, and consumers that are gone or done."""
        return {RESOURCE_CLAIMS: itself, PODS: _released_by_pod, POD_GROUPS: _released_by_group}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Release what is left over."""
        plan = Plan()
        claim = view.get(RESOURCE_CLAIMS, key)
        if claim is None:
            return plan
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        needed = [one for one in reserved if driver.still_needs(view, key[0], one)]
        is_held = driver.FINALIZER in (claim["metadata"].get("finalizers") or ())
        is_left = not needed and is_held and ("deletionTimestamp" in claim["metadata"] or bool(reserved))
        if len(needed) < len(reserved) or is_left:
            plan.set_status(RESOURCE_CLAIMS, claim, _without(status, needed, deallocate=is_left))
        if is_left:
            plan.add(Update(RESOURCE_CLAIMS, _without_finalizer(claim)))
        if not needed and _is_left_over(view, claim):
            plan.add(Delete(RESOURCE_CLAIMS, claim))
        return plan


def _claim_for(view: View, pod: Object, entry: Object) -> Object | None:
    """The claim of an entry, also one that was made but is not in the pod's status yet."""
    name = driver.claim_name(pod, entry)
    found = view.get(RESOURCE_CLAIMS, (pod["metadata"]["namespace"], name)) if name else None
    if not entry.get("resourceClaimTemplateName"):
        return found
    if found is not None and driver.pod_of(view, found) is not None:
        return found
    for claim in view.controlled(RESOURCE_CLAIMS, pod):
        annotations = claim["metadata"].get("annotations") or {}
        if annotations.get(driver.CLAIM_ANNOTATION) == entry["name"]:
            return claim
    return None


def _is_unneeded(status: Object | None) -> bool:
    """Whether the pod's status says that no claim is needed: an entry without a name."""
    return status is not None and not status.get("resourceClaimName")


def _creation(view: View, pod: Object, entry: Object) -> Create | News:
    metadata, name = pod["metadata"], entry["resourceClaimTemplateName"]
    template = view.get(RESOURCE_CLAIM_TEMPLATES, (metadata["namespace"], name))
    prefix = f"PodResourceClaim {entry['name']}: "
    if template is None:
        text = f'{prefix}resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
        return News(pod, _COMPONENT, "FailedResourceClaimCreation", text, is_warning=True)
    given = template["spec"].get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    made: Object = {
        "generateName": _base_name(metadata["name"], entry["name"]),
        "namespace": metadata["namespace"],
        "annotations": {**(given.get("annotations") or {}), driver.CLAIM_ANNOTATION: entry["name"]},
        "ownerReferences": [owner],
    }
    if given.get("labels"):
        made["labels"] = given["labels"]
    claim = {
        "apiVersion": RESOURCE_CLAIMS.group_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": made,
        "spec": template["spec"].get("spec") or {},
    }
    failed = News(pod, _COMPONENT, "FailedResourceClaimCreation", prefix + "{error}", is_warning=True)
    return Create(RESOURCE_CLAIMS, claim, failed=failed)


def _base_name(pod: str, entry: str) -> str:
    """`<pod>-<entry>-`; of long names each is cut in proportion, so that something of both is left."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    kept = len(pod) * _LONGEST_BASE // len(whole)
    shortened = f"{pod[:kept]}-"
    # kube-controller-manager cuts the second name by the same proportion of the whole name.
    return shortened + entry[: len(entry) * _LONGEST_BASE // len(whole)]


def _needs_reservation(pod: Object, claim: Object) -> bool:
    is_allocated = (claim.get("status") or {}).get("allocation") is not None
    return bool(node_of(pod)) and is_allocated and not driver.is_reserved(claim, pod) and not _is_going(claim)


def _is_going(claim: Object) -> bool:
    return "deletionTimestamp" in claim["metadata"]


def _reserved(claim: Object, pod: Object) -> Update:
    consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    status = claim["status"]
    changed = {**status, "reservedFor": [*(status.get("reservedFor") or ()), consumer]}
    return Update(RESOURCE_CLAIMS, {**claim, "status": changed}, "status")


def _without(status: Object, needed: list[Object], *, deallocate: bool) -> Object:
    left = {name: part for name, part in status.items() if name != "reservedFor"}
    if needed:
        left["reservedFor"] = needed
    if deallocate:
        left.pop("allocation", None)
        left.pop("devices", None)
    return left


def _without_finalizer(claim: Object) -> Object:
    metadata = dict(claim["metadata"])
    metadata["finalizers"] = [name for name in metadata["finalizers"] if name != driver.FINALIZER]
    if not metadata["finalizers"]:
        del metadata["finalizers"]
    return {**claim, "metadata": metadata}


def _is_left_over(view: View, claim: Object) -> bool:
    """Whether the claim was made for a pod that is done; a pod that is gone takes its claims with it."""
    pod = driver.pod_of(view, claim)
    return pod is not None and driver.is_done(pod) and not _is_going(claim)


# --- which objects a change concerns ----------------------------------------------------------------------------------


def _with_claims(view: View, change: Change) -> Iterator[Key]:
    del view
    if driver.wanted(change.record.value) and change.type is not ChangeType.DELETED:
        yield change.key


def _pods_of_claim(view: View, change: Change) -> Iterator[Key]:
    """The pod that a claim was made for, or else all pods of its namespace that name it."""
    claim = change.record.value
    owner = controller_of(claim)
    if owner is not None:
        yield change.key[0], str(owner["name"])
        return
    for pod in view.in_namespace(PODS, change.key[0]):
        if any(entry.get("resourceClaimName") == change.key[1] for entry in driver.wanted(pod)):
            yield key_of(pod)


def _pods_of_template(view: View, change: Change) -> Iterator[Key]:
    for pod in view.in_namespace(PODS, change.key[0]):
        if any(entry.get("resourceClaimTemplateName") == change.key[1] for entry in driver.wanted(pod)):
            yield key_of(pod)


def _released_by_pod(view: View, change: Change) -> Iterator[Key]:
    """The claims of a pod that is gone or done."""
    del view
    pod = change.record.value
    if change.type is ChangeType.DELETED or driver.is_done(pod):
        yield from ((change.key[0], name) for name in driver.claims_of(pod))


def _released_by_group(view: View, change: Change) -> Iterator[Key]:
    if change.type is not ChangeType.DELETED:
        return
    uid = change.record.value["metadata"]["uid"]
    for claim in view.in_namespace(RESOURCE_CLAIMS, change.key[0]):
        if any(one.get("uid") == uid for one in (claim.get("status") or {}).get("reservedFor") or ()):
            yield key_of(claim)
