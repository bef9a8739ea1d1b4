"""The persistent volume binder, for claims and volumes.

    claim without a volume   a volume is reserved for it                   -> bound
                             class waits for a pod, none placed yet        -> an Event says so
                             a free volume fits                            -> bound
                             its class has a provisioner                   -> the claim is marked for it
    volume                   Available, Bound, or Released when its claim is gone

A key with a namespace is a claim, a key without is a volume.
"""

from collections.abc import Iterator, Mapping

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import CLAIMS, STORAGE_CLASSES, VOLUMES, ServedResource
from kscheduler.api.storage import BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, SELECTED_NODE
from kscheduler.embedded.controllers.engine.plan import Concerned, News, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import itself, key_of
from kscheduler.embedded.controllers.storage import facts
from kscheduler.embedded.objects.store import Change, Key

_COMPONENT = "persistentvolume-controller"
_WAITS = "waiting for first consumer to be created before binding"
_NO_CLASS = "no persistent volumes available for this claim and no storage class is set"
_LOST = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
_MISBOUND = "Two claims are bound to the same volume, this one is bound incorrectly"


class VolumeBinder:
    """Binds claims and volumes."""

    name = "persistentvolume-binder-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Claims and volumes with their partners, and classes that claims may wait for."""
        return {CLAIMS: self._by_claim, VOLUMES: self._by_volume, STORAGE_CLASSES: self._unbound}

    def _by_claim(self, view: View, change: Change) -> Iterator[Key]:
        yield from itself(view, change)
        volume = change.record.value["spec"].get("volumeName")
        if volume:
            yield "", volume
        elif view.get(CLAIMS, change.key) is None:
            # A volume may have been reserved for a claim that was deleted before it was bound.
            yield from (key_of(volume) for volume in view.all(VOLUMES) if facts.refers_to(volume, change.record.value))

    def _by_volume(self, view: View, change: Change) -> Iterator[Key]:
        yield change.key
        reference = change.record.value["spec"].get("claimRef")
        if reference:
            yield reference.get("namespace", ""), reference["name"]
        else:
            yield from self._unbound(view, change)

    def _unbound(self, view: View, _: Change) -> Iterator[Key]:
        yield from (key_of(claim) for claim in view.all(CLAIMS) if not claim["spec"].get("volumeName"))

    def reconcile(self, view: View, key: Key) -> Plan:
        """Handle a claim or a volume."""
        plan = Plan()
        value = view.get(CLAIMS if key[0] else VOLUMES, key)
        if value is None:
            return plan
        if not key[0]:
            self._see_volume(plan, view, value)
        elif "deletionTimestamp" not in value["metadata"]:
            self._see_claim(plan, view, value)
        return plan

    # --- claims -------------------------------------------------------------------------------------------------------

    def _see_claim(self, plan: Plan, view: View, claim: Object) -> None:
        name = claim["spec"].get("volumeName")
        if name:
            self._see_named(plan, view, claim, view.get(VOLUMES, ("", name)))
            return
        if facts.class_of(claim) is None and (name := facts.default_class_name(view)):
            claim = {**claim, "spec": {**claim["spec"], "storageClassName": name}}
            plan.add(Update(CLAIMS, claim))
        reserved = next((volume for volume in view.all(VOLUMES) if facts.refers_to(volume, claim)), None)
        storage = facts.storage_class(view, claim)
        is_placed = SELECTED_NODE in facts.annotations_of(claim)
        if reserved is not None:
            self._bind(plan, claim, reserved)
        elif facts.waits_for_pod(storage) and not is_placed:
            plan.add(News(claim, _COMPONENT, "WaitForFirstConsumer", _WAITS))
        elif not facts.waits_for_pod(storage) and (match := facts.best_match(view.all(VOLUMES), claim)) is not None:
            self._bind(plan, claim, match)
        else:
            self._ask_provisioner(plan, claim, storage)

    def _see_named(self, plan: Plan, view: View, claim: Object, volume: Object | None) -> None:
        """Handle a claim that names a volume: it is bound, or requests this volume."""
        is_bound = BIND_COMPLETED in facts.annotations_of(claim)
        if volume is None:
            if is_bound:
                self._lose(plan, claim, "ClaimLost", _LOST)
        elif not volume["spec"].get("claimRef") or facts.refers_to(volume, claim):
            self._bind(plan, claim, volume)
        elif is_bound:
            self._lose(plan, claim, "ClaimMisbound", _MISBOUND)
        del view

    def _lose(self, plan: Plan, claim: Object, reason: str, text: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            plan.set_status(CLAIMS, claim, {**(claim.get("status") or {}), "phase": "Lost"})
            plan.add(News(claim, _COMPONENT, reason, text, is_warning=True))

    def _ask_provisioner(self, plan: Plan, claim: Object, storage: Object | None) -> None:
        name = facts.class_of(claim)
        if not name:
            plan.add(News(claim, _COMPONENT, "FailedBinding", _NO_CLASS))
            return
        if storage is None:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            plan.add(News(claim, _COMPONENT, "ProvisioningFailed", text, is_warning=True))
            return
        driver = storage["provisioner"]
        if driver == NO_PROVISIONER:
            return
        annotations = facts.annotations_of(claim)
        marked = {**annotations, facts.PROVISIONER: driver, facts.PROVISIONER_BETA: driver}
        if marked != annotations:
            plan.add(Update(CLAIMS, {**claim, "metadata": {**claim["metadata"], "annotations": marked}}))
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{driver}' or manually by the "
            "system administrator. If volume creation is delayed, please verify that the provisioner is running and "
            "correctly registered."
        )
        plan.add(News(claim, _COMPONENT, "ExternalProvisioning", text))

    def _bind(self, plan: Plan, claim: Object, volume: Object) -> None:
        """Both sides name each other, and both are Bound."""
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            metadata = {**volume["metadata"]}
            if reference is None:
                metadata["annotations"] = {**facts.annotations_of(volume), BOUND_BY_CONTROLLER: "yes"}
            spec = {**volume["spec"], "claimRef": facts.reference_to(claim)}
            volume = {**volume, "metadata": metadata, "spec": spec}
            plan.add(Update(VOLUMES, volume))
        plan.set_status(VOLUMES, volume, {**(volume.get("status") or {}), "phase": "Bound"})
        annotations = {**facts.annotations_of(claim), BIND_COMPLETED: "yes"}
        if not claim["spec"].get("volumeName"):
            annotations[BOUND_BY_CONTROLLER] = "yes"
        metadata = {**claim["metadata"], "annotations": annotations}
        bound = {**claim, "metadata": metadata}
        bound["spec"] = {**claim["spec"], "volumeName": volume["metadata"]["name"]}
        if bound != claim:
            plan.add(Update(CLAIMS, bound))
        status = {**(claim.get("status") or {}), "phase": "Bound"}
        status["accessModes"] = volume["spec"].get("accessModes") or []
        status.setdefault("capacity", volume["spec"].get("capacity") or {})
        plan.set_status(CLAIMS, bound, status)

    # --- volumes ------------------------------------------------------------------------------------------------------

    def _see_volume(self, plan: Plan, view: View, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            self._set_phase(plan, volume, "Available")
            return
        claim = view.get(CLAIMS, (reference.get("namespace", ""), reference["name"]))
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            self._set_phase(plan, volume, "Released")
        elif claim["spec"].get("volumeName") == volume["metadata"]["name"]:
            self._set_phase(plan, volume, "Bound")
        elif claim["spec"].get("volumeName"):
            self._give_back(plan, volume)

    def _give_back(self, plan: Plan, volume: Object) -> None:
        """Release a volume whose claim has got another volume."""
        annotations = facts.annotations_of(volume)
        if facts.PROVISIONED_BY in annotations and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            self._set_phase(plan, volume, "Released")
            return
        kept = {key: text for key, text in annotations.items() if key != BOUND_BY_CONTROLLER}
        spec = dict(volume["spec"])
        if kept != annotations:
            del spec["claimRef"]
        else:
            spec["claimRef"] = {key: text for key, text in spec["claimRef"].items() if key != "uid"}
        freed = {**volume, "metadata": {**volume["metadata"], "annotations": kept}, "spec": spec}
        plan.add(Update(VOLUMES, freed))
        self._set_phase(plan, freed, "Available")

    def _set_phase(self, plan: Plan, volume: Object, phase: str) -> None:
        plan.set_status(VOLUMES, volume, {**(volume.get("status") or {}), "phase": phase})
