"""The status of a Deployment: counts, and the conditions Available and Progressing that `kubectl rollout` waits for."""

from dataclasses import dataclass
from datetime import datetime

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time, timestamp
from kscheduler.embedded.controllers.reading import compact, find, with_condition, without_condition
from kscheduler.embedded.controllers.workloads.deployments.rollout import max_unavailable, present, wanted

AVAILABLE_REASON = "NewReplicaSetAvailable"
TIMED_OUT_REASON = "ProgressDeadlineExceeded"
_NO_DEADLINE = 2**31 - 1
_FAILURE = "ReplicaFailure"
_PROGRESSING = "Progressing"


@dataclass(frozen=True, slots=True)
class Rollout:
    """The ReplicaSets of a Deployment."""

    new: Object | None
    old: list[Object]

    @property
    def all(self) -> list[Object]:
        """Old ReplicaSets and the current one."""
        return [*self.old, *([self.new] if self.new is not None else [])]


def has_deadline(deployment: Object) -> bool:
    """Whether the Deployment has a progress deadline."""
    return int(deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE)) != _NO_DEADLINE


def conditions_of(deployment: Object) -> list[Object]:
    found: list[Object] = (deployment.get("status") or {}).get("conditions") or []
    return found


def progressing(
    conditions: list[Object], status: str, reason: str, message: str, now: datetime, *, renew: bool = False
) -> list[Object]:
    """The conditions with Progressing; `renew` updates `lastUpdateTime` even if status and reason stay."""
    moment = timestamp(now)
    known = find(conditions, _PROGRESSING)
    if renew and known is not None and (known["status"], known["reason"]) == (status, reason):
        changed = {**known, "message": message, "lastUpdateTime": moment}
        return [*without_condition(conditions, _PROGRESSING), changed]
    return _newest_last(conditions, _PROGRESSING, status, reason, message, now)


def _newest_last(
    conditions: list[Object], kind: str, status: str, reason: str, message: str, now: datetime
) -> list[Object]:
    """The conditions with a condition, which moves to the end when it changes."""
    changed = with_condition(conditions, kind, status, reason, message, now, lastUpdateTime=timestamp(now))
    if changed is conditions:
        return conditions
    return [*without_condition(changed, kind), *(condition for condition in changed if condition["type"] == kind)]


def counted(deployment: Object, rollout: Rollout, conditions: list[Object], now: datetime) -> Object:
    """The counts, and the condition Available."""
    available = present(rollout.all, "availableReplicas")
    total = sum(int(replica_set["spec"].get("replicas", 1)) for replica_set in rollout.all)
    is_enough = available >= wanted(deployment) - max_unavailable(deployment)
    reason = "MinimumReplicasAvailable" if is_enough else "MinimumReplicasUnavailable"
    message = f"Deployment {'has' if is_enough else 'does not have'} minimum availability."
    is_available = "True" if is_enough else "False"
    conditions = _newest_last(conditions, "Available", is_available, reason, message, now)
    status = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": present(rollout.all),
        "updatedReplicas": present([rollout.new] if rollout.new else []),
        "readyReplicas": present(rollout.all, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(total - available, 0),
        "collisionCount": (deployment.get("status") or {}).get("collisionCount", 0),
        "conditions": conditions,
    }
    return {**compact(status), "terminatingReplicas": present(rollout.all, "terminatingReplicas")}


def is_complete(deployment: Object, status: Object) -> bool:
    """Whether all pods are of the current template, available, and no old ones are left."""
    replicas = wanted(deployment)
    counts = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
    return counts == [replicas] * 3 and status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]


def with_progress(deployment: Object, rollout: Rollout, conditions: list[Object], now: datetime) -> Object:
    """The whole status during a rollout."""
    status = counted(deployment, rollout, conditions, now)
    if not has_deadline(deployment):
        status["conditions"] = without_condition(status["conditions"], _PROGRESSING)
        return _with_failure(status, rollout, now)
    known = find(conditions, _PROGRESSING)
    is_settled = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if not (is_settled and known is not None and known.get("reason") == AVAILABLE_REASON):
        status["conditions"] = _judged(deployment, rollout, status, now)
    return _with_failure(status, rollout, now)


def _judged(deployment: Object, rollout: Rollout, status: Object, now: datetime) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    subject = f'Deployment "{deployment["metadata"]["name"]}"'
    if rollout.new is not None:
        subject = f'ReplicaSet "{rollout.new["metadata"]["name"]}"'
    if is_complete(deployment, status):
        text = f"{subject} has successfully progressed."
        return progressing(conditions, "True", AVAILABLE_REASON, text, now)
    if _has_moved(deployment, status):
        return progressing(conditions, "True", "ReplicaSetUpdated", f"{subject} is progressing.", now, renew=True)
    if seconds_left(deployment, conditions, now) == 0:
        return progressing(conditions, "False", TIMED_OUT_REASON, f"{subject} has timed out progressing.", now)
    return conditions


def _has_moved(deployment: Object, status: Object) -> bool:
    before = deployment.get("status") or {}

    def old(counts: Object) -> int:
        return int(counts.get("replicas", 0)) - int(counts.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(status) < old(before) or any(status.get(name, 0) > before.get(name, 0) for name in grown)


def seconds_left(deployment: Object, conditions: list[Object], now: datetime) -> float | None:
    """Seconds until the rollout counts as stuck; 0 if it is stuck; None without a running deadline."""
    known = find(conditions, _PROGRESSING)
    if not has_deadline(deployment) or known is None or known.get("reason") == AVAILABLE_REASON:
        return None
    if known.get("reason") == TIMED_OUT_REASON:
        return 0
    since = parse_time(known.get("lastUpdateTime")) or now
    return max(int(deployment["spec"]["progressDeadlineSeconds"]) - (now - since).total_seconds(), 0)


def _with_failure(status: Object, rollout: Rollout, now: datetime) -> Object:
    """Copy the condition ReplicaFailure from the ReplicaSets."""
    newest_first = reversed(rollout.all)
    failures = (
        find((replica_set.get("status") or {}).get("conditions") or [], _FAILURE) for replica_set in newest_first
    )
    failure = next(filter(None, failures), None)
    conditions = status["conditions"]
    if failure is None:
        conditions = without_condition(conditions, _FAILURE)
    else:
        text = failure.get("message", "")
        conditions = _newest_last(conditions, _FAILURE, failure["status"], failure["reason"], text, now)
    return {**status, "conditions": conditions}
