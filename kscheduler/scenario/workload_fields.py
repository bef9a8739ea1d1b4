"""The fields of what makes pods (apps/v1, batch/v1, v1), so that a misspelt one is told: `replica` would make one pod.

Only names are kept, no values: nothing of this is decoded. A field whose own fields need no check is `Any`.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from kscheduler.api.core import LabelSelector, Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.storage import PersistentVolumeClaim


class _Fields(Struct, rename="camel"):
    pass


class _RollingUpdate(_Fields):
    max_unavailable: Any
    max_surge: Any


class _Strategy(_Fields):
    type: Any
    rolling_update: _RollingUpdate


class _StatefulRollingUpdate(_Fields):
    partition: Any
    max_unavailable: Any


class _StatefulStrategy(_Fields):
    type: Any
    rolling_update: _StatefulRollingUpdate


class _Ordinals(_Fields):
    start: Any


class _ClaimRetentionPolicy(_Fields):
    when_deleted: Any
    when_scaled: Any


class _DeploymentSpec(_Fields):
    replicas: Any
    selector: LabelSelector
    template: Pod
    strategy: _Strategy
    min_ready_seconds: Any
    revision_history_limit: Any
    paused: Any
    progress_deadline_seconds: Any


class _ReplicaSetSpec(_Fields):
    replicas: Any
    min_ready_seconds: Any
    selector: LabelSelector
    template: Pod


class _StatefulSetSpec(_Fields):
    replicas: Any
    selector: LabelSelector
    template: Pod
    volume_claim_templates: tuple[PersistentVolumeClaim, ...]
    service_name: Any
    pod_management_policy: Any
    update_strategy: _StatefulStrategy
    revision_history_limit: Any
    min_ready_seconds: Any
    persistent_volume_claim_retention_policy: _ClaimRetentionPolicy
    ordinals: _Ordinals


class _DaemonSetSpec(_Fields):
    selector: LabelSelector
    template: Pod
    update_strategy: _Strategy
    min_ready_seconds: Any
    revision_history_limit: Any


class _JobSpec(_Fields):
    parallelism: Any
    completions: Any
    active_deadline_seconds: Any
    pod_failure_policy: Any
    success_policy: Any
    backoff_limit: Any
    backoff_limit_per_index: Any
    max_failed_indexes: Any
    selector: LabelSelector
    manual_selector: Any
    template: Pod
    ttl_seconds_after_finished: Any
    completion_mode: Any
    suspend: Any
    pod_replacement_policy: Any
    managed_by: Any


class _JobTemplate(_Fields):
    metadata: ObjectMeta
    spec: _JobSpec


class _CronJobSpec(_Fields):
    schedule: Any
    time_zone: Any
    starting_deadline_seconds: Any
    concurrency_policy: Any
    suspend: Any
    job_template: _JobTemplate
    successful_jobs_history_limit: Any
    failed_jobs_history_limit: Any


class _ReplicationControllerSpec(_Fields):
    replicas: Any
    min_ready_seconds: Any
    selector: Any
    template: Pod


class _Workload(_Fields):
    metadata: ObjectMeta
    status: Any


class _Deployment(_Workload):
    spec: _DeploymentSpec


class _ReplicaSet(_Workload):
    spec: _ReplicaSetSpec


class _StatefulSet(_Workload):
    spec: _StatefulSetSpec


class _DaemonSet(_Workload):
    spec: _DaemonSetSpec


class _Job(_Workload):
    spec: _JobSpec


class _CronJob(_Workload):
    spec: _CronJobSpec


class _ReplicationController(_Workload):
    spec: _ReplicationControllerSpec


class _PodTemplate(_Fields):
    metadata: ObjectMeta
    template: Pod


# By kind of what is a pod, or makes pods.
FIELDS: Final[Mapping[str, type[Struct]]] = {
    "Deployment": _Deployment,
    "ReplicaSet": _ReplicaSet,
    "StatefulSet": _StatefulSet,
    "DaemonSet": _DaemonSet,
    "Job": _Job,
    "CronJob": _CronJob,
    "ReplicationController": _ReplicationController,
    "PodTemplate": _PodTemplate,
    "Pod": Pod,
}
