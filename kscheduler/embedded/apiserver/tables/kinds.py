"""Tables with the columns that `kubectl get` prints, made by the server as in Kubernetes.

A kind has a list of columns, each a name, a priority (above 0 only with `-o wide`) and a function from the object and
the current time to a cell. Kinds without a list of their own show name and age.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import UNKNOWN, age
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.embedded import table_cells
from kscheduler.embedded.apiserver.tables.columns import AGE, NAME, Column
from kscheduler.embedded.apiserver.tables.columns import at as _column
from kscheduler.embedded.apiserver.tables.columns import plain as _plain
from kscheduler.embedded.apiserver.tables.more_kinds import MORE_COLUMNS
from kscheduler.embedded.table_cells import (
    NONE,
    event_object,
    event_source,
    external_address,
    field,
    internal_address,
    last_seen,
    node_roles,
    node_status,
    pod_ready,
    pod_restarts,
    pod_status,
    quantity_field,
    readiness_gates,
    selector_text,
    service_ports,
    volume_mode,
)


def _pods() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Ready", _plain(pod_ready)),
        Column("Status", _plain(pod_status)),
        Column("Restarts", _plain(pod_restarts)),
        AGE,
        _column("IP", "status.podIP", NONE, wide=True),
        _column("Node", "spec.nodeName", NONE, wide=True),
        _column("Nominated Node", "status.nominatedNodeName", NONE, wide=True),
        Column("Readiness Gates", _plain(readiness_gates), wide=True),
    )


def _nodes() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Status", _plain(node_status)),
        Column("Roles", _plain(node_roles)),
        AGE,
        _column("Version", "status.nodeInfo.kubeletVersion"),
        Column("Internal-IP", _plain(internal_address), wide=True),
        Column("External-IP", _plain(external_address), wide=True),
        _column("OS-Image", "status.nodeInfo.osImage", UNKNOWN, wide=True),
        _column("Kernel-Version", "status.nodeInfo.kernelVersion", UNKNOWN, wide=True),
        _column("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", UNKNOWN, wide=True),
    )


def _events() -> tuple[Column, ...]:
    return (
        Column("Last Seen", last_seen),
        _column("Type", "type"),
        _column("Reason", "reason"),
        Column("Object", _plain(event_object)),
        _column("Subobject", "involvedObject.fieldPath", wide=True),
        Column("Source", _plain(event_source), wide=True),
        Column("Message", _plain(lambda value: str(value.get("message") or value.get("note") or "").strip())),
        Column(
            "First Seen", lambda value, now: age(value.get("firstTimestamp") or value.get("eventTime"), now), wide=True
        ),
        Column("Count", _plain(lambda value: str(value.get("count") or 1)), wide=True),
        Column("Name", _plain(lambda value: value["metadata"]["name"]), wide=True),
    )


def _services() -> tuple[Column, ...]:
    return (
        NAME,
        _column("Type", "spec.type"),
        _column("Cluster-IP", "spec.clusterIP", NONE),
        Column("External-IP", _plain(lambda value: ",".join(field(value, "spec.externalIPs", ())) or NONE)),
        Column("Port(s)", _plain(service_ports)),
        AGE,
        Column("Selector", _plain(lambda value: selector_text(field(value, "spec.selector", {}))), wide=True),
    )


def _budgets() -> tuple[Column, ...]:
    return (
        NAME,
        _column("Min Available", "spec.minAvailable", "N/A"),
        _column("Max Unavailable", "spec.maxUnavailable", "N/A"),
        _column("Allowed Disruptions", "status.disruptionsAllowed", 0),
        AGE,
    )


def _leases() -> tuple[Column, ...]:
    return (NAME, _column("Holder", "spec.holderIdentity"), AGE)


def _priority_classes() -> tuple[Column, ...]:
    return (
        NAME,
        _column("Value", "value", 0),
        _column("Global-Default", "globalDefault", default=False),
        AGE,
        _column("PreemptionPolicy", "preemptionPolicy"),
    )


def _workload(*columns: Column, selected: bool = True) -> tuple[Column, ...]:
    wide = [
        Column("Containers", _plain(table_cells.container_names), wide=True),
        Column("Images", _plain(table_cells.container_images), wide=True),
        Column("Selector", _plain(table_cells.selector), wide=True),
    ]
    return (NAME, *columns, AGE, *(wide if selected else wide[:2]))


def _ready_of_replicas(value: Object) -> str:
    return f"{field(value, 'status.readyReplicas', 0)}/{field(value, 'spec.replicas', 0)}"


def _replica_sets() -> tuple[Column, ...]:
    return _workload(
        _column("Desired", "spec.replicas", 0),
        _column("Current", "status.replicas", 0),
        _column("Ready", "status.readyReplicas", 0),
    )


def _deployments() -> tuple[Column, ...]:
    return _workload(
        Column("Ready", _plain(_ready_of_replicas)),
        _column("Up-to-date", "status.updatedReplicas", 0),
        _column("Available", "status.availableReplicas", 0),
    )


def _daemon_sets() -> tuple[Column, ...]:
    return _workload(
        _column("Desired", "status.desiredNumberScheduled", 0),
        _column("Current", "status.currentNumberScheduled", 0),
        _column("Ready", "status.numberReady", 0),
        _column("Up-to-date", "status.updatedNumberScheduled", 0),
        _column("Available", "status.numberAvailable", 0),
        Column(
            "Node Selector", _plain(lambda value: selector_text(field(value, "spec.template.spec.nodeSelector", {})))
        ),
    )


def _jobs() -> tuple[Column, ...]:
    return _workload(
        Column("Status", _plain(table_cells.job_status)),
        Column("Completions", _plain(table_cells.job_completions)),
        Column("Duration", table_cells.job_duration),
    )


def _cron_jobs() -> tuple[Column, ...]:
    return _workload(
        _column("Schedule", "spec.schedule"),
        _column("Timezone", "spec.timeZone", NONE),
        Column("Suspend", _plain(lambda value: str(bool(field(value, "spec.suspend", None))))),
        Column("Active", _plain(lambda value: len(field(value, "status.active", ())))),
        Column("Last Schedule", table_cells.last_schedule),
    )


def _autoscalers() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Reference", _plain(table_cells.scale_target)),
        Column("Targets", _plain(table_cells.scale_metrics)),
        _column("MinPods", "spec.minReplicas", "<unset>"),
        _column("MaxPods", "spec.maxReplicas", 0),
        _column("Replicas", "status.currentReplicas", 0),
        AGE,
    )


def _controller_revisions() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Controller", _plain(table_cells.revision_controller)),
        _column("Revision", "revision", 0),
        AGE,
    )


def _claims() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Status", _plain(table_cells.phase)),
        _column("Volume", "spec.volumeName"),
        Column("Capacity", _plain(lambda value: quantity_field(value, "status.capacity.storage"))),
        Column("Access Modes", _plain(table_cells.claim_modes)),
        _column("StorageClass", "spec.storageClassName"),
        _column("VolumeAttributesClass", "spec.volumeAttributesClassName", table_cells.UNSET),
        AGE,
        Column("VolumeMode", _plain(volume_mode), wide=True),
    )


def _volumes() -> tuple[Column, ...]:
    def claim(value: Object) -> str:
        reference = field(value, "spec.claimRef", None)
        return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""

    return (
        NAME,
        Column("Capacity", _plain(lambda value: quantity_field(value, "spec.capacity.storage"))),
        Column("Access Modes", _plain(table_cells.volume_modes)),
        _column("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        Column("Status", _plain(table_cells.phase)),
        Column("Claim", _plain(claim)),
        _column("StorageClass", "spec.storageClassName"),
        _column("VolumeAttributesClass", "spec.volumeAttributesClassName", table_cells.UNSET),
        _column("Reason", "status.reason"),
        AGE,
        Column("VolumeMode", _plain(volume_mode), wide=True),
    )


def _storage_classes() -> tuple[Column, ...]:
    return (
        NAME,
        _column("Provisioner", "provisioner"),
        _column("ReclaimPolicy", "reclaimPolicy"),
        _column("VolumeBindingMode", "volumeBindingMode"),
        _column("AllowVolumeExpansion", "allowVolumeExpansion", default=False),
        AGE,
    )


_EVENTS = _events()

# Columns by resource.
COLUMNS: Mapping[str, tuple[Column, ...]] = MappingProxyType(
    {
        "pods": _pods(),
        "nodes": _nodes(),
        "namespaces": (NAME, _column("Status", "status.phase"), AGE),
        "events": _EVENTS,
        "events.events.k8s.io": _EVENTS,
        "services": _services(),
        "persistentvolumeclaims": _claims(),
        "persistentvolumes": _volumes(),
        "poddisruptionbudgets.policy": _budgets(),
        "leases.coordination.k8s.io": _leases(),
        "priorityclasses.scheduling.k8s.io": _priority_classes(),
        "replicasets.apps": _replica_sets(),
        "replicationcontrollers": _replica_sets(),
        "deployments.apps": _deployments(),
        "statefulsets.apps": _workload(Column("Ready", _plain(_ready_of_replicas)), selected=False),
        "controllerrevisions.apps": _controller_revisions(),
        "cronjobs.batch": _cron_jobs(),
        "horizontalpodautoscalers.autoscaling": _autoscalers(),
        "daemonsets.apps": _daemon_sets(),
        "jobs.batch": _jobs(),
        "storageclasses.storage.k8s.io": _storage_classes(),
        **MORE_COLUMNS,
    }
)

_GENERIC = (NAME, AGE)


def table(resource: ServedResource, values: list[Object], metadata: Object, now: datetime, include: str) -> Object:
    """The Table of some objects; `include` is the object part of each row: Metadata (default), Object or None."""
    columns = COLUMNS.get(resource.key, _GENERIC)
    rows = [_row(columns, value, now, include) for value in values]
    head: Object = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**head, "columnDefinitions": [column.definition() for column in columns], "rows": rows}


def _row(columns: tuple[Column, ...], value: Object, now: datetime, include: str) -> Object:
    row: Object = {"cells": [column.cell(value, now) for column in columns]}
    if include == "Object":
        row["object"] = value
    elif include != "None":
        metadata = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]}
        row["object"] = metadata
    return row
