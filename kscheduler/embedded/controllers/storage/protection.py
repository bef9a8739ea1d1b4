"""Finalizers that keep claims in use by pods, and volumes in use by claims, from being deleted."""

from collections.abc import Iterator, Mapping

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import CLAIMS, PODS, VOLUMES, ServedResource
from kscheduler.embedded.controllers.engine.plan import Concerned, Create, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import is_finished, itself, key_of, node_of, reference_to
from kscheduler.embedded.objects.store import Change, ChangeType, Key

_CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
_VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def claims_of(pod: Object) -> Iterator[str]:
    """Names of the claims that a pod uses, including those of its ephemeral volumes."""
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume['name']}"


class ClaimProtection:
    """Protects a claim while a pod on a node uses it."""

    name = "persistentvolumeclaim-protection-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Claims, and pods that have ended."""
        return {CLAIMS: itself, PODS: self._released}

    def _released(self, view: View, change: Change) -> Iterator[Key]:
        del view
        pod = change.record.value
        if pod["spec"].get("volumes") and (change.type is ChangeType.DELETED or is_finished(pod)):
            yield from ((change.key[0], name) for name in claims_of(pod))

    def reconcile(self, view: View, key: Key) -> Plan:
        """Add or remove the finalizer."""
        claim = view.get(CLAIMS, key)
        if claim is None:
            return Plan()
        is_going = "deletionTimestamp" in claim["metadata"]
        return _with_finalizer(CLAIMS, claim, _CLAIM_FINALIZER, hold=not is_going or _is_used(view, key))


class VolumeProtection:
    """Protects a volume while a claim is bound to it."""

    name = "persistentvolume-protection-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        return {VOLUMES: itself}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Add or remove the finalizer."""
        volume = view.get(VOLUMES, key)
        if volume is None:
            return Plan()
        is_going = "deletionTimestamp" in volume["metadata"]
        is_bound = (volume.get("status") or {}).get("phase") == "Bound"
        return _with_finalizer(VOLUMES, volume, _VOLUME_FINALIZER, hold=not is_going or is_bound)


def _with_finalizer(resource: ServedResource, value: Object, finalizer: str, *, hold: bool) -> Plan:
    present: list[str] = value["metadata"].get("finalizers") or []
    if hold is (finalizer in present) or (hold and "deletionTimestamp" in value["metadata"]):
        return Plan()
    changed = [*present, finalizer] if hold else [known for known in present if known != finalizer]
    metadata = {**value["metadata"], "finalizers": changed}
    if not changed:
        del metadata["finalizers"]
    return Plan([Update(resource, {**value, "metadata": metadata})])


def _is_used(view: View, key: Key) -> bool:
    """Whether a pod on a node uses the claim. Pods without a node do not count: no kubelet would start them."""
    pods = (pod for pod in view.in_namespace(PODS, key[0]) if pod["spec"].get("volumes") and node_of(pod))
    return any(key[1] in claims_of(pod) for pod in pods if not is_finished(pod))


class EphemeralVolumes:
    """Creates the claims of pods' ephemeral volumes, which are owned by the pod."""

    name = "ephemeral-volume-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Pods with such volumes."""
        return {PODS: self._with_ephemeral}

    def _with_ephemeral(self, view: View, change: Change) -> Iterator[Key]:
        del view
        if any("ephemeral" in volume for volume in change.record.value["spec"].get("volumes") or ()):
            yield change.key

    def reconcile(self, view: View, key: Key) -> Plan:
        """Create the missing claims."""
        plan = Plan()
        pod = view.get(PODS, key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return plan
        for volume in pod["spec"].get("volumes") or ():
            if "ephemeral" not in volume:
                continue
            template = volume["ephemeral"]["volumeClaimTemplate"]
            given = template.get("metadata") or {}
            metadata = {field: given[field] for field in ("labels", "annotations") if given.get(field)}
            metadata |= {"name": f"{key[1]}-{volume['name']}", "namespace": key[0]}
            metadata["ownerReferences"] = [reference_to(pod)]
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": template["spec"],
            }
            if view.get(CLAIMS, key_of(claim)) is None:
                plan.add(Create(CLAIMS, claim))
        return plan
