"""Deletion of objects: preconditions, grace periods, finalizers, owners and namespaces.

    DELETE -> preconditions -> grace 0 and no finalizers        removed at once
                            -> a bound, running pod             deletionTimestamp; its kubelet ends it with grace 0
                            -> finalizers                       deletionTimestamp; removed with the last finalizer
                            -> a namespace                      Terminating; emptied, then removed

An object whose last owner is removed is deleted too (background garbage collection, but at once). In foreground
deletion the owner is marked and removed with the last dependent that blocks it. Owners that never existed cause no
deletion: manifests of simulated pods may name controllers that are not simulated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kscheduler.api.machinery.api_errors import Object, forbidden, not_found, precondition_failed
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.kind_table import KindTable, resources_of
from kscheduler.api.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, ServedResource
from kscheduler.embedded.objects.store import Key, ObjectStore, Record

_UNDELETABLE = frozenset({"default", "kube-system", "kube-public"})
_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
_DEFAULT_GRACE_SECONDS = 30
_FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Options from the body and query of a DELETE."""

    grace_period_seconds: int | None = None
    """None means the pod's own; 0 means at once."""
    uid: str = ""
    """Precondition: the object has this UID."""
    resource_version: str = ""
    """Precondition: the object has this version."""
    propagation: str = "Background"
    """`Background` and `Foreground` delete dependents, `Orphan` releases them."""
    dry_run: bool = False


NO_DELETE_OPTIONS = DeleteOptions()


class Deletion:
    """Deletes objects in the store; keeps an index of owners."""

    def __init__(self, store: ObjectStore, now: Callable[[], datetime], kinds: KindTable) -> None:
        self._store = store
        self._kinds = kinds
        self._now = now
        self._dependents: dict[str, set[tuple[str, Key]]] = {}

    def delete(
        self, resource: ServedResource, namespace: str, name: str, options: DeleteOptions = NO_DELETE_OPTIONS
    ) -> Record:
        """Delete an object or begin its deletion; returns its current record. Raises 403, 404 or 409."""
        record = self._store.get(resource.collection, namespace, name)
        if record is None:
            raise not_found(resource.plural, resource.group, name)
        self._check(resource, record, options)
        if options.dry_run:
            return record
        if resource is NAMESPACES:
            return self._terminate_namespace(record)
        if options.propagation == "Orphan":
            self._orphan(record.value["metadata"]["uid"])
        if options.propagation == "Foreground" and self._blocking_dependents(record):
            return self._delete_after_dependents(resource, record)
        return self._delete(resource, record, _grace_seconds(resource, record.value, options))

    def is_finished(self, resource: ServedResource, value: Object) -> bool:
        """Whether an object that is being deleted can be removed now."""
        metadata = value["metadata"]
        if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
            return False
        if resource is NAMESPACES:
            return not (value.get("spec") or {}).get("finalizers") and self._is_empty(metadata["name"])
        return not metadata.get("deletionGracePeriodSeconds")

    def remove(self, resource: ServedResource, final: Object) -> Record:
        """Remove an object from the store, then its dependents, then its namespace if that was waiting."""
        metadata = final["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        record = self._store.remove(resource.collection, key, final)
        for reference in metadata.get("ownerReferences") or ():
            self._dependents.get(reference.get("uid", ""), set()).discard((resource.key, key))
        self._collect(metadata["uid"])
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            self._remove_defined(final)
        for reference in metadata.get("ownerReferences") or ():
            self._finish_owner(key[0], reference)
        if key[0]:
            self._finish_namespace(key[0])
        return record

    def _remove_defined(self, definition: Object) -> None:
        """With a definition all objects of its kind go, finalizers or not: nobody could be asked for them any more."""
        for resource in resources_of(definition)[:1]:
            for key, record in list(self._store.collection(resource.collection).records.items()):
                if self._store.get(resource.collection, *key) is not None:
                    self.remove(resource, record.value)
        self._kinds.forget(definition)

    def note_owners(self, resource: ServedResource, record: Record, previous: Record | None) -> None:
        """Keep the index of owners up to date after a write."""
        owners = record.value["metadata"].get("ownerReferences")
        before = previous.value["metadata"].get("ownerReferences") if previous else None
        if owners == before:
            return
        metadata = record.value["metadata"]
        entry = (resource.key, (metadata.get("namespace", ""), metadata["name"]))
        for reference in before or ():
            self._dependents.get(reference["uid"], set()).discard(entry)
        for reference in owners or ():
            self._dependents.setdefault(reference["uid"], set()).add(entry)

    def dependents(self, uid: str) -> tuple[tuple[str, Key], ...]:
        """(collection, key) of the objects with this owner."""
        return tuple(self._dependents.get(uid, ()))

    def _check(self, resource: ServedResource, record: Record, options: DeleteOptions) -> None:
        metadata = record.value["metadata"]
        if options.uid and options.uid != metadata["uid"]:
            raise precondition_failed(resource.plural, resource.group, metadata, "UID", options.uid, metadata["uid"])
        wanted, found = options.resource_version, str(record.version)
        if wanted and wanted != found:
            raise precondition_failed(resource.plural, resource.group, metadata, "ResourceVersion", wanted, found)
        if resource is NAMESPACES and metadata["name"] in _UNDELETABLE:
            raise forbidden("namespaces", "", metadata["name"], "this namespace may not be deleted")

    def _delete(self, resource: ServedResource, record: Record, grace_seconds: int) -> Record:
        metadata = record.value["metadata"]
        if grace_seconds == 0 and not metadata.get("finalizers"):
            return self.remove(resource, record.value)
        if "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds", 0) <= grace_seconds:
            return record
        deadline = timestamp(self._now() + timedelta(seconds=grace_seconds))
        return self._mark(resource, record, {}, deletionTimestamp=deadline, deletionGracePeriodSeconds=grace_seconds)

    def _mark(self, resource: ServedResource, record: Record, fields: Object, **metadata: object) -> Record:
        marked = {**record.value["metadata"], **metadata}
        if "generation" in marked:
            marked["generation"] += 1
        return self._store.put(resource.collection, {**record.value, **fields, "metadata": marked})

    def _delete_after_dependents(self, resource: ServedResource, record: Record) -> Record:
        """Foreground deletion: the marked owner stays until its last blocking dependent is gone."""
        metadata = record.value["metadata"]
        if _FOREGROUND not in (metadata.get("finalizers") or ()):
            finalizers = [*(metadata.get("finalizers") or ()), _FOREGROUND]
            marks: Object = {"finalizers": finalizers}
            if "deletionTimestamp" not in metadata:
                marks |= {"deletionTimestamp": timestamp(self._now()), "deletionGracePeriodSeconds": 0}
            record = self._mark(resource, record, {}, **marks)
        options = DeleteOptions(propagation="Foreground")
        for key, dependent in self._dependents_of(metadata["uid"]):
            value, kind = dependent.value["metadata"], self._kinds.of_collection(key)
            if self._store.get(kind.collection, value.get("namespace", ""), value["name"]) is not None:
                self.delete(kind, value.get("namespace", ""), value["name"], options)
        return record

    def _blocking_dependents(self, record: Record) -> bool:
        uid = record.value["metadata"]["uid"]
        references = (
            reference
            for _, dependent in self._dependents_of(uid)
            for reference in dependent.value["metadata"].get("ownerReferences") or ()
        )
        return any(reference["uid"] == uid and reference.get("blockOwnerDeletion") for reference in references)

    def _finish_owner(self, namespace: str, reference: Object) -> None:
        """Remove an owner that waits for its dependents, if this was the last of them."""
        resource = self._kinds.of_reference(reference.get("apiVersion", ""), reference.get("kind", ""))
        place = namespace if resource is not None and resource.namespaced else ""
        record = self._store.get(resource.collection, place, reference["name"]) if resource is not None else None
        if resource is None or record is None or record.value["metadata"]["uid"] != reference["uid"]:
            return
        metadata = record.value["metadata"]
        if _FOREGROUND not in (metadata.get("finalizers") or ()) or self._blocking_dependents(record):
            return
        finalizers = [finalizer for finalizer in metadata["finalizers"] if finalizer != _FOREGROUND]
        final = {**record.value, "metadata": {**metadata, "finalizers": finalizers}}
        if finalizers:
            self._store.put(resource.collection, final)
        else:
            self.remove(resource, final)

    def _orphan(self, uid: str) -> None:
        for key, record in self._dependents_of(uid):
            metadata = dict(record.value["metadata"])
            metadata["ownerReferences"] = [r for r in metadata.get("ownerReferences") or () if r["uid"] != uid]
            if not metadata["ownerReferences"]:
                del metadata["ownerReferences"]
            self._store.put(self._kinds.of_collection(key).collection, {**record.value, "metadata": metadata})
        self._dependents.pop(uid, None)

    def _collect(self, uid: str) -> None:
        """Delete the objects whose last owner was removed."""
        for key, record in self._dependents_of(uid):
            others = [r["uid"] for r in record.value["metadata"].get("ownerReferences") or () if r["uid"] != uid]
            if not any(other_uid in self._dependents for other_uid in others):
                resource = self._kinds.of_collection(key)
                self._delete(resource, record, _grace_seconds(resource, record.value, NO_DELETE_OPTIONS))
        self._dependents.pop(uid, None)

    def _dependents_of(self, uid: str) -> list[tuple[str, Record]]:
        found = []
        for key, (namespace, name) in sorted(self._dependents.get(uid, ())):
            record = self._store.get(self._kinds.of_collection(key).collection, namespace, name)
            if record is not None:
                found.append((key, record))
        return found

    def _terminate_namespace(self, record: Record) -> Record:
        name = record.value["metadata"]["name"]
        if "deletionTimestamp" not in record.value["metadata"]:
            status = {**(record.value.get("status") or {}), "phase": "Terminating"}
            moment = timestamp(self._now())
            record = self._mark(NAMESPACES, record, {"status": status}, deletionTimestamp=moment)
        for collection, content in list(self._store.namespaced_objects(name)):
            resource = self._kinds.of_collection(collection)
            if self._store.get(collection, name, content.value["metadata"]["name"]) is not None:
                self._delete(resource, content, _grace_seconds(resource, content.value, NO_DELETE_OPTIONS))
        self._finish_namespace(name)
        return record

    def _finish_namespace(self, name: str) -> None:
        """Remove a terminating namespace once it is empty and only the cluster's own finalizer is left."""
        record = self._store.get(NAMESPACES.collection, "", name)
        if record is None or "deletionTimestamp" not in record.value["metadata"] or not self._is_empty(name):
            return
        holders = set((record.value.get("spec") or {}).get("finalizers") or ()) - {"kubernetes"}
        if not holders and not record.value["metadata"].get("finalizers"):
            self.remove(NAMESPACES, {**record.value, "spec": {}})

    def _is_empty(self, namespace: str) -> bool:
        return self._store.is_namespace_empty(namespace)


def _grace_seconds(resource: ServedResource, value: Object, options: DeleteOptions) -> int:
    """The grace period of a deletion; 0 for anything but a running pod on a node."""
    if resource is not PODS:
        return 0
    spec, phase = value["spec"], (value.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in _FINISHED_PHASES:
        return 0
    if options.grace_period_seconds is not None:
        return max(options.grace_period_seconds, 0)
    return int(spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
