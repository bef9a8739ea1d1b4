"""Writes: admission, defaults, validation, concurrency and field ownership on top of the plain store.

    create   admit namespace -> defaults -> priority -> validate -> put
    update   preconditions -> carry over -> validate -> put, or remove after the last finalizer

Everything is synchronous: each verb is atomic under one event loop. Time and identifiers are injected.
"""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kscheduler.api import releases
from kscheduler.api.defaults import objects as defaults
from kscheduler.api.defaults.devices import stamp_taints
from kscheduler.api.machinery.api_errors import (
    ApiError,
    FieldCause,
    Object,
    already_exists,
    bad_request,
    invalid,
    not_found,
    precondition_failed,
    stale_resource_version,
)
from kscheduler.api.machinery.durations import timestamp
from kscheduler.api.machinery.field_rules import bad_value, required
from kscheduler.api.machinery.kind_table import KindTable
from kscheduler.api.machinery.resources import (
    CLAIMS,
    COMPOSITE_POD_GROUPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
    USUAL,
    ServedKinds,
    ServedResource,
)
from kscheduler.api.machinery.shapes import check_shape
from kscheduler.api.names import generated_name
from kscheduler.api.patches import field_managers
from kscheduler.api.typed.api_types import type_of_resource
from kscheduler.api.typed.stored_form import stored_form
from kscheduler.api.validation import objects as validation
from kscheduler.embedded.objects import admission, event_views, limit_ranges, service_addresses
from kscheduler.embedded.objects.deletion import Deletion
from kscheduler.embedded.objects.store import ObjectStore, Record

# CustomResourceDefinitions: what they define is served at once, and goes with them.
#
# Objects of defined kinds are stored as they are: no schemas, no defaults, no conversion but the version's name, no
# controllers. So charts with a `crds` folder can be installed, and schedulers that read kinds of their own tried out.


def establish(definition: Object, now: str) -> None:
    """Fill in what a new or changed definition does not say, and its status: its names are accepted at once.

    Raises 422 where it lacks what its kinds are made of.
    """
    spec = definition.get("spec") or {}
    causes = _wrong(definition["metadata"]["name"], spec)
    if causes:
        raise invalid("CustomResourceDefinition", "apiextensions.k8s.io", definition["metadata"]["name"], causes)
    names = spec["names"] = dict(spec["names"])
    names.setdefault("singular", names["kind"].lower())
    names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})
    since = {"lastTransitionTime": now, "status": "True"}
    known = (definition.get("status") or {}).get("conditions")
    definition["status"] = {
        "acceptedNames": names,
        "conditions": known
        or [
            {**since, "type": "NamesAccepted", "reason": "NoConflicts", "message": "no conflicts found"},
            {
                **since,
                "type": "Established",
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "storedVersions": [version["name"] for version in spec["versions"] if version.get("storage")],
    }


def _wrong(name: str, spec: Object) -> list[FieldCause]:
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    causes = [required(f"spec.{field}") for field in ("group", "scope") if not spec.get(field)]
    causes += [required(f"spec.names.{field}") for field in ("plural", "kind") if not names.get(field)]
    if not causes and name != f"{names['plural']}.{spec['group']}":
        causes.append(bad_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(bad_value("spec.versions", versions, text))
    return causes


# Raised for objects of unexpected shape; the client's fault, answered with 400.
_UNREADABLE = (TypeError, AttributeError, KeyError, ValueError)

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_NEEDS_VERSION = frozenset({"leases.coordination.k8s.io"})


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Query parameters of a write."""

    dry_run: bool = False
    """Do everything but store the result."""
    field_manager: str = ""
    """The writer's name; if given, its fields are tracked in managedFields."""
    force: bool = False
    """Whether server-side apply takes over fields of other owners."""


NO_OPTIONS = WriteOptions()


class ObjectRegistry:
    """The verbs over a store. Bodies are copied; the value of a record must never be changed in place."""

    def __init__(
        self,
        store: ObjectStore,
        now: Callable[[], datetime] = utc_now,
        random_source: random.Random | None = None,
        kinds: ServedKinds = USUAL,
    ) -> None:
        self.store = store
        self.now = now
        self.kinds = KindTable(kinds)
        """The kinds that are served now."""
        followed = releases.followed(kinds.release) or releases.VERSION
        self._limits_devices = releases.BEHAVIOURS[followed].limits_capacity_requests
        self.deletion = Deletion(store, now, self.kinds)
        self.taints_new_nodes = False
        """Whether a new node is tainted as not ready. A node controller must be there to take the taint off again."""
        self._random = random_source or random.Random()
        self._has_composites = not set(kinds.resources).isdisjoint(COMPOSITE_POD_GROUPS)
        self.has_comparisons = True
        """Whether tolerations may compare numbers; a server sets it by the gate TaintTolerationComparisonOperators."""
        for resource, value in admission.initial_objects():
            self.create(resource, "", value)

    def get(self, resource: ServedResource, namespace: str, name: str) -> Record:
        """The stored record. Raises 404."""
        record = self.store.get(resource.collection, namespace, name)
        if record is None:
            raise not_found(resource.plural, resource.group, name)
        return record

    def create(
        self, resource: ServedResource, namespace: str, body: Object, options: WriteOptions = NO_OPTIONS
    ) -> Record:
        """Store a new object; returns its record (not stored under dry run). Raises 400, 403, 404, 409 or 422."""
        value = self._new_object(resource, namespace, body, dry_run=options.dry_run)
        name = value["metadata"]["name"]
        admission.admit_namespace(self.store, resource, value)
        try:
            defaults.on_create(resource, value, self.kinds.release)
            stamp_taints(resource, value, timestamp(self.now()))
            if resource in (POD_GROUPS, *COMPOSITE_POD_GROUPS):
                admission.admit_priority(self.store, resource, value)
            if resource is PODS:
                limit_ranges.fill_in(self.store, value)
                admission.admit_priority(self.store, resource, value)
                admission.admit_account(self.store, value)
                admission.admit_runtime_class(self.store, value)
            if resource is NODES and self.taints_new_nodes:
                admission.admit_node(value)
            if resource is SERVICES:
                service_addresses.allocate(self.store, value, dry_run=options.dry_run)
            has = {"has_composites": self._has_composites, "has_comparisons": self.has_comparisons}
            validation.check_create(resource, value, **has, limits_devices=self._limits_devices)
            limit_ranges.check(self.store, resource, value)
            if resource is CUSTOM_RESOURCE_DEFINITIONS:
                establish(value, timestamp(self.now()))
        except _UNREADABLE as error:
            raise validation.malformed(resource, error) from error
        # Storage is what notices a name that is taken, so a bad object is refused for what is wrong with it.
        if self.store.get(resource.collection, value["metadata"].get("namespace", ""), name) is not None:
            raise already_exists(resource.plural, resource.group, name)
        event_views.complete(resource, value)
        if options.field_manager and "managedFields" not in value["metadata"]:
            field_managers.track(None, value, options.field_manager, self.now())
        record = self._store(resource, event_views.stored(resource, value), None, options)
        if resource is NAMESPACES and not options.dry_run:
            self._furnish(name)
        return record

    def _furnish(self, namespace: str) -> None:
        for resource, value in admission.companions(namespace):
            self.create(resource, namespace, value)

    def update(
        self,
        resource: ServedResource,
        namespace: str,
        name: str,
        body: Object,
        options: WriteOptions = NO_OPTIONS,
        subresource: str = "",
    ) -> Record:
        """Replace an object (or its status); returns the new record. Raises 400, 404, 409 or 422."""
        record = self.get(resource, namespace, name)
        check_shape(body)
        body = {**body, "metadata": dict(body.get("metadata") or {})}
        self._check_names(resource, namespace, name, body)
        self._check_preconditions(resource, record, body["metadata"])
        return self.replace(resource, record, body, options, subresource)

    def replace(
        self, resource: ServedResource, record: Record, body: Object, options: WriteOptions, subresource: str = ""
    ) -> Record:
        """Store `body` over `record` after carrying over and validating; no write if nothing changed."""
        check_shape(body)
        old = event_views.shown(resource, record.value)
        new: Object = stored_form(type_of_resource(resource), body)
        new["metadata"] = dict(body["metadata"])
        new["apiVersion"], new["kind"] = resource.group_version, resource.kind
        try:
            if resource is SERVICES and not subresource:
                service_addresses.keep_allocated(old, new)
            defaults.on_update(resource, old, new, subresource, self.kinds.release)
            if resource is SERVICES and not subresource:
                service_addresses.allocate(self.store, new, dry_run=options.dry_run)
            stamp_taints(resource, new, timestamp(self.now()))
            has = {"has_comparisons": self.has_comparisons, "limits_devices": self._limits_devices}
            validation.check_update(resource, old, new, subresource, **has)
            if resource is CLAIMS and not subresource:
                limit_ranges.check(self.store, resource, new)
            if resource is CUSTOM_RESOURCE_DEFINITIONS and not subresource:
                establish(new, timestamp(self.now()))
            event_views.complete(resource, new)
        except _UNREADABLE as error:
            raise validation.malformed(resource, error) from error
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        tracked = new["metadata"].get("managedFields") != old["metadata"].get("managedFields")
        if new == old:
            return record
        if not tracked and (options.field_manager or "managedFields" in old["metadata"]):
            manager = options.field_manager or "unknown"
            field_managers.track(old, new, manager, self.now(), subresource)
        return self._store(resource, event_views.stored(resource, new), record, options)

    def _store(self, resource: ServedResource, value: Object, previous: Record | None, options: WriteOptions) -> Record:
        if options.dry_run:
            return Record(value, self.store.version if previous is None else previous.version)
        if previous is not None and self.deletion.is_finished(resource, value):
            return self.deletion.remove(resource, value)
        record = self.store.put(resource.collection, value)
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            self.kinds.define(value)
        self.deletion.note_owners(resource, record, previous)
        return record

    def _new_object(self, resource: ServedResource, namespace: str, body: Object, *, dry_run: bool) -> Object:
        check_shape(body)
        value: Object = stored_form(type_of_resource(resource), body)
        value["apiVersion"], value["kind"] = resource.group_version, resource.kind
        metadata = value["metadata"] = dict(value.get("metadata") or {})
        if resource.key == "pods":
            value.setdefault("spec", {})
        if resource.namespaced:
            self._set_namespace(metadata, namespace)
        else:
            metadata.pop("namespace", None)
        if metadata.get("resourceVersion") and not dry_run:
            # The real server's storage says so, which a dry run does not reach: 500 without a reason, although the
            # client is at fault.
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        self._set_identity(resource, metadata)
        return value

    def _set_namespace(self, metadata: Object, namespace: str) -> None:
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _set_identity(self, resource: ServedResource, metadata: Object) -> None:
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = generated_name(metadata["generateName"], self._suffix())
        if not metadata.get("name"):
            cause = required("metadata.name", "name or generateName is required")
            raise invalid(resource.kind, resource.group, "", [cause])
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
            metadata.pop(name, None)
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = timestamp(self.now())

    def _suffix(self) -> str:
        return "".join(self._random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))

    def _check_names(self, resource: ServedResource, namespace: str, name: str, body: Object) -> None:
        metadata = body["metadata"]
        if metadata.setdefault("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        if resource.namespaced and metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _check_preconditions(self, resource: ServedResource, record: Record, metadata: Object) -> None:
        name = record.value["metadata"]["name"]
        stored_uid = record.value["metadata"]["uid"]
        if metadata.get("uid") and metadata["uid"] != stored_uid:
            stored = record.value["metadata"]
            raise precondition_failed(resource.plural, resource.group, stored, "UID", metadata["uid"], stored_uid)
        version = metadata.get("resourceVersion")
        if not version and resource.key in _NEEDS_VERSION:
            cause = bad_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(resource.kind, resource.group, name, [cause])
        if version and version != str(record.version):
            raise stale_resource_version(resource.plural, resource.group, name)
