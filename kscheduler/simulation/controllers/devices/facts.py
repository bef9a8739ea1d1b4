"""Facts about device claims: which claims a pod uses, and who still needs a claim."""

from collections.abc import Iterator

from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.controllers.reading.owners import controller_of
from kscheduler.simulation.controllers.reading.pods import is_finished, is_terminating, node_of
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.resources import POD_GROUPS, PODS

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim until it is deallocated."""
CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
"""On a claim made from a template: the name by which its pod knows it."""
GROUP = "scheduling.k8s.io"


def wanted(pod: Object) -> list[Object]:
    """The entries of a pod's `spec.resourceClaims`."""
    claims: list[Object] = pod["spec"].get("resourceClaims") or []
    return claims


def statuses(pod: Object) -> dict[str, Object]:
    """The entries of a pod's `status.resourceClaimStatuses` by name."""
    found = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {status["name"]: status for status in found}


def claim_name(pod: Object, entry: Object) -> str:
    """The claim of an entry; empty if it is not made yet, or not needed."""
    if entry.get("resourceClaimName"):
        return str(entry["resourceClaimName"])
    return str((statuses(pod).get(entry["name"]) or {}).get("resourceClaimName") or "")


def claims_of(pod: Object) -> Iterator[str]:
    """The names of the claims that a pod uses, with that for its extended resources."""
    yield from filter(None, (claim_name(pod, entry) for entry in wanted(pod)))
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        yield str(extended["resourceClaimName"])


def is_done(pod: Object) -> bool:
    """Whether a pod will not run any more: it has ended, or is deleted before it had a node."""
    return is_finished(pod) or (is_terminating(pod) and not node_of(pod))


def is_reserved(claim: Object, pod: Object) -> bool:
    """Whether the claim is reserved for the pod."""
    uid = pod["metadata"]["uid"]
    return any(one.get("uid") == uid for one in (claim.get("status") or {}).get("reservedFor") or ())


def still_needs(view: View, namespace: str, consumer: Object) -> bool:
    """Whether the consumer exists under its UID and is not done; kinds that nobody here knows are kept."""
    kind = (consumer.get("apiGroup") or "", consumer.get("resource"))
    if kind not in {("", "pods"), (GROUP, "podgroups")}:
        return True
    found = view.get(PODS if kind[1] == "pods" else POD_GROUPS, (namespace, consumer["name"]))
    if found is None or found["metadata"]["uid"] != consumer.get("uid"):
        return False
    return kind[1] != "pods" or not is_done(found)


def pod_of(view: View, claim: Object) -> Object | None:
    """The pod that the claim was made for, if it exists."""
    owner = controller_of(claim)
    if owner is None or owner["kind"] != "Pod":
        return None
    pod = view.get(PODS, (claim["metadata"]["namespace"], owner["name"]))
    return pod if pod is not None and pod["metadata"]["uid"] == owner["uid"] else None
