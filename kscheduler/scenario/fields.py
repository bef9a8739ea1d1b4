"""Names of fields in manifests: which are unknown, and which name was probably meant."""

import typing
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from kscheduler.api.core import LabelSelector, Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.storage import PersistentVolumeClaim

# Finds misspelt fields.
#
# The problem: objects of real clusters have hundreds of fields that no scheduler reads, and some that are newer than
# this code, so an unknown field is not an error. But `spec.nodeSelectr` would silently change the answer. The idea: an
# unknown field within two letters of a known field that is absent is a typing mistake.

# Letters; shorter names are within two letters of too many others.
_SHORTEST: Final = 5
_MAX_EDITS: Final = 2
# With which an unknown name is compared.
_MAX_NODES: Final = 10_000


def misspelt(tree: Any, kind: type, path: str = "") -> Iterator[str]:
    """Yields `path is not a field: do you mean name?` for each misspelt field, in the order of the tree."""
    if isinstance(tree, Mapping) and issubclass(kind, msgspec.Struct):
        known = _fields(kind)
        for name, child in tree.items():
            place = f"{path}.{name}" if path else str(name)
            if name in known:
                yield from misspelt(child, known[name], place)
            else:
                suggestion = _nearest_field(str(name), kind)
                if suggestion and suggestion not in tree:
                    yield f"{place} is not a field: do you mean {suggestion}?"
    elif isinstance(tree, (list, tuple)):
        for position, child in enumerate(tree):
            yield from misspelt(child, kind, f"{path}[{position}]")


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """The nearest known name within two letters (ignoring case); empty if there is none."""
    if len(name) < _SHORTEST:
        return ""
    distances = ((_distance(name.lower(), candidate.lower()), candidate) for candidate in known)
    near = [(distance, candidate) for distance, candidate in distances if distance <= _MAX_EDITS]
    return min(near)[1] if near else ""


def nearest_node(name: str, known: typing.Collection[str]) -> str:
    """`: do you mean node-007?`, to stand behind "there is no node node-7"; empty: none is near, or there are many."""
    near = nearest(name, known) if len(known) < _MAX_NODES else ""
    return f": do you mean {near}?" if near else ""


@lru_cache(maxsize=4096)
def _nearest_field(name: str, kind: type) -> str:
    """The known field that an unknown one may mean. Kept: a thousand pods of one template ask the same."""
    return nearest(name, (candidate for candidate in _fields(kind) if len(candidate) >= _SHORTEST))


@lru_cache(maxsize=256)
def _fields(kind: type) -> dict[str, type]:
    """For each name in JSON the struct that the field holds, also within a list; `object` for other types."""
    hints = typing.get_type_hints(kind)
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)  # type: ignore[attr-defined]
    return {encoded: _struct_in(hints[name]) for name, encoded in names}


def _struct_in(hint: Any) -> type:
    origin = typing.get_origin(hint)
    if origin is None:
        return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else object
    if origin is dict:
        return object
    found = (_struct_in(argument) for argument in typing.get_args(hint) if argument is not Ellipsis)
    return next((struct for struct in found if struct is not object), object)


def _distance(source: str, target: str) -> int:
    """Insertions, deletions, substitutions and swaps of neighbours; `_MAX_EDITS + 1` if the lengths differ by more."""
    if abs(len(source) - len(target)) > _MAX_EDITS:
        return _MAX_EDITS + 1
    # `row[j]` is the distance from the first i letters of `source` to the first j of `target`, for rising i.
    second_last: list[int] = []
    last = list(range(len(target) + 1))
    for i, letter in enumerate(source, 1):
        row = [i]
        for j, target_letter in enumerate(target, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != target_letter))
            if second_last and j > 1 and letter == target[j - 2] and source[i - 2] == target_letter:
                cost = min(cost, second_last[j - 2] + 1)
            row.append(cost)
        second_last, last = last, row
    return last[-1]


# The fields of what makes pods (apps/v1, batch/v1, v1), so that a misspelt one is told: `replica` would make one pod.
#
# Only names are kept, no values: nothing of this is decoded. A field whose own fields need no check is `Any`.


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
