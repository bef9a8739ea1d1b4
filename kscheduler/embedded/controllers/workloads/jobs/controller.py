"""Jobs: creates pods until enough have succeeded or too many have failed.

    suspended     no pods, no deadline
    running       as many pods as parallelism and the missing completions allow; a pause after each failure
    enough        SuccessCriteriaMet, and Complete once no pod is terminating
    too many, or too late    FailureTarget, the other pods are deleted, then Failed

Limits: no podFailurePolicy, successPolicy or backoffLimitPerIndex; such fields are stored and not read.
"""

from collections.abc import Iterator, Mapping
from functools import partial

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time, timestamp
from kscheduler.api.machinery.resources import JOBS, PODS, ServedResource
from kscheduler.embedded.controllers import reading
from kscheduler.embedded.controllers.engine.plan import Concerned, Create, Delete, News, Plan, Update
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import (
    find,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    phase_of,
    with_condition,
)
from kscheduler.embedded.controllers.workloads.jobs import pods as job_pods
from kscheduler.embedded.controllers.workloads.pod_changes import BURST, create_pod, delete_pod, in_deletion_order
from kscheduler.embedded.objects.store import Change, Key

_COMPONENT = "job-controller"
_TOO_MANY = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
_TOO_LATE = ("DeadlineExceeded", "Job was active longer than specified deadline")
_ENOUGH = ("CompletionsReached", "Reached expected number of succeeded pods")


def finished_condition(job: Object) -> Object | None:
    """The condition Complete or Failed."""
    conditions = (job.get("status") or {}).get("conditions") or []
    for kind in ("Complete", "Failed"):
        found = find(conditions, kind)
        if found is not None and found.get("status") == "True":
            return found
    return None


class JobController:
    """Runs Jobs to completion."""

    name = "job-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Jobs, and pods that they own or might adopt."""
        return {JOBS: reading.itself, PODS: partial(reading.concerned_owner, JOBS)}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Count ended pods, then create or delete pods."""
        plan = Plan()
        job = view.get(JOBS, key)
        if (
            job is None
            or job["spec"].get("managedBy", "kubernetes.io/job-controller") != "kubernetes.io/job-controller"
        ):
            return plan
        claimed = reading.claim(view, job, PODS)
        plan.add(*claimed.updates)
        if finished_condition(job) is not None:
            plan.add(*(Update(PODS, job_pods.untracked(pod)) for pod in claimed.values if job_pods.is_tracked(pod)))
        else:
            _JobStep(view, job, claimed.values, plan).take()
        return plan


class _JobStep:
    """A step of an unfinished Job."""

    def __init__(self, view: View, job: Object, pods: list[Object], plan: Plan) -> None:
        self._view = view
        self._job = job
        self._spec = job["spec"]
        self._plan = plan
        self._pods = pods
        self._active = [pod for pod in pods if is_active(pod)]
        self._status: Object = dict(job.get("status") or {})
        self._status["conditions"] = list(self._status.get("conditions") or [])
        self._done: set[int] = set()

    def take(self) -> None:
        """Plan the writes and the status."""
        self._count()
        if not self._spec.get("suspend"):
            self._status.setdefault("startTime", timestamp(self._view.now))
        failure = self._failure()
        if failure is not None:
            self._fail(*failure)
        elif not is_terminating(self._job):
            active = self._manage()
            if self._is_complete(active):
                self._conclude("SuccessCriteriaMet", "Complete", *_ENOUGH)
            else:
                self._note_suspension()
        self._write()

    # --- ended pods ---------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        uncounted = [pod for pod in self._pods if job_pods.is_tracked(pod)]
        succeeded = [pod for pod in uncounted if phase_of(pod) == "Succeeded"]
        failed = [pod for pod in uncounted if job_pods.has_failed(self._job, pod)]
        if job_pods.is_indexed(self._job):
            self._count_indexes(succeeded)
        else:
            self._raise("succeeded", len(succeeded))
        self._raise("failed", len(failed))
        self._plan.add(*(Update(PODS, job_pods.untracked(pod)) for pod in (*succeeded, *failed)))

    def _count_indexes(self, succeeded: list[Object]) -> None:
        self._done = job_pods.parse_indexes(self._status.get("completedIndexes", ""))
        numbers = {job_pods.index_of(pod) for pod in succeeded}
        size = int(self._spec.get("completions") or 0)
        self._done |= {number for number in numbers if number is not None and number < size}
        if self._done:
            self._status["completedIndexes"] = job_pods.format_indexes(self._done)
            self._status["succeeded"] = len(self._done)

    def _raise(self, field: str, amount: int) -> None:
        if amount:
            self._status[field] = int(self._status.get(field, 0)) + amount

    # --- failure ------------------------------------------------------------------------------------------------------

    def _failure(self) -> tuple[str, str] | None:
        target = find(self._status["conditions"], "FailureTarget")
        if target is not None:
            return target["reason"], target["message"]
        limit = int(self._spec.get("backoffLimit", 6))
        if int(self._status.get("failed", 0)) > limit or self._restarts() > limit:
            return _TOO_MANY
        deadline = self._spec.get("activeDeadlineSeconds")
        started = parse_time(self._status.get("startTime"))
        if deadline is None or started is None or self._spec.get("suspend"):
            return None
        left = int(deadline) - (self._view.now - started).total_seconds()
        if left <= 0:
            return _TOO_LATE
        self._plan.look_again(left)
        return None

    def _restarts(self) -> int:
        """Restarts of containers, which count if failed containers are restarted in their pod."""
        if self._spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return 0
        statuses = (
            container for pod in self._active for container in (pod.get("status") or {}).get("containerStatuses") or ()
        )
        return sum(int(container.get("restartCount", 0)) for container in statuses)

    def _fail(self, reason: str, message: str) -> None:
        for pod in self._active:
            self._plan.add(Update(PODS, job_pods.untracked(pod)), delete_pod(pod, self._job, _COMPONENT))
        self._raise("failed", sum(job_pods.is_tracked(pod) for pod in self._active))
        self._conclude("FailureTarget", "Failed", reason, message)
        self._active = []

    def _conclude(self, first: str, last: str, reason: str, message: str) -> None:
        """Add the condition `first`, and `last` once no pod is terminating any more."""
        now = self._view.now
        probed = {"lastProbeTime": timestamp(now)}
        conditions = with_condition(self._status["conditions"], first, "True", reason, message, now, **probed)
        if not self._leaving() and (first == "SuccessCriteriaMet" or not self._active):
            conditions = with_condition(conditions, last, "True", reason, message, now, **probed)
            if last == "Complete":
                self._status["completionTime"] = timestamp(now)
                self._plan.add(News(self._job, _COMPONENT, "Completed", "Job completed"))
            else:
                self._plan.add(News(self._job, _COMPONENT, reason, message, is_warning=True))
        self._status["conditions"] = conditions

    def _leaving(self) -> list[Object]:
        return [pod for pod in self._pods if is_terminating(pod) and not is_finished(pod)]

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _manage(self) -> int:
        """Create or delete pods; returns the number of active pods afterwards."""
        wanted = self._wanted()
        occupied = len(self._active) + (len(self._leaving()) if job_pods.waits_for_failure(self._job) else 0)
        surplus = len(self._active) - wanted
        if surplus > 0:
            ordered = in_deletion_order(self._active, self._active, self._view.now)
            for pod in ordered[: min(surplus, BURST)]:
                self._plan.add(Update(PODS, job_pods.untracked(pod)), delete_pod(pod, self._job, _COMPONENT))
            self._active = ordered[min(surplus, BURST) :]
        elif occupied < wanted:
            return self._make(min(wanted - occupied, BURST))
        return len(self._active)

    def _make(self, count: int) -> int:
        pause = job_pods.backoff_seconds(self._job, self._pods, self._view.now)
        if pause:
            self._plan.look_again(pause)
            return len(self._active)
        under_way = {job_pods.index_of(pod) for pod in self._active}
        taken = self._done | {number for number in under_way if number is not None}
        made = job_pods.next_pods(self._job, count, taken)
        self._plan.add(*(create_pod(pod, self._job, _COMPONENT) for pod in made))
        return len(self._active) + len(made)

    def _wanted(self) -> int:
        if self._spec.get("suspend"):
            return 0
        parallelism, completions = int(self._spec.get("parallelism", 1)), self._spec.get("completions")
        succeeded = int(self._status.get("succeeded", 0))
        if completions is None:
            return parallelism if not succeeded else len(self._active)
        return min(parallelism, max(int(completions) - succeeded, 0))

    def _is_complete(self, active: int) -> bool:
        completions, succeeded = self._spec.get("completions"), int(self._status.get("succeeded", 0))
        if completions is None:
            return succeeded > 0 and active == 0
        return succeeded >= int(completions) and active == 0

    def _note_suspension(self) -> None:
        conditions, now = self._status["conditions"], self._view.now
        known = find(conditions, "Suspended")
        was_suspended = known is not None and known.get("status") == "True"
        if bool(self._spec.get("suspend")) == was_suspended:
            return
        if self._spec.get("suspend"):
            status, reason, message = "True", "JobSuspended", "Job suspended"
            self._status.pop("startTime", None)
        else:
            status, reason, message = "False", "JobResumed", "Job resumed"
            self._status["startTime"] = timestamp(now)
        probed = timestamp(now)
        self._status["conditions"] = with_condition(
            conditions, "Suspended", status, reason, message, now, lastProbeTime=probed
        )
        self._plan.add(News(self._job, _COMPONENT, reason.removeprefix("Job"), message))

    # --- status -------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        made = sum(isinstance(action, Create) for action in self._plan.actions)
        deleted = sum(isinstance(action, Delete) for action in self._plan.actions)
        status = {**self._status, "active": len(self._active) + made}
        status["ready"] = sum(is_ready(pod) for pod in self._active)
        status["terminating"] = len(self._leaving()) + deleted
        status["uncountedTerminatedPods"] = {}
        if not status["active"]:
            del status["active"]
        if not status["conditions"]:
            del status["conditions"]
        self._plan.set_status(JOBS, self._job, status)


class JobPodController:
    """Removes the finalizer from pods whose Job is gone, so that they can be deleted."""

    name = "job-pod-finalizer"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Pods that are tracked by a Job that does not exist."""
        return {PODS: self._strays}

    def _strays(self, view: View, change: Change) -> Iterator[Key]:
        pod = change.record.value
        if job_pods.is_tracked(pod) and not _has_job(view, pod):
            yield change.key

    def reconcile(self, view: View, key: Key) -> Plan:
        """Remove the pod's finalizer."""
        pod = view.get(PODS, key)
        if pod is None or not job_pods.is_tracked(pod) or _has_job(view, pod):
            return Plan()
        return Plan([Update(PODS, job_pods.untracked(pod))])


class FinishedJobController:
    """Deletes finished Jobs after their time to live."""

    name = "ttl-after-finished-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        return {JOBS: reading.itself}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Delete, or wait."""
        job = view.get(JOBS, key)
        condition = finished_condition(job) if job is not None else None
        if job is None or condition is None or job["spec"].get("ttlSecondsAfterFinished") is None:
            return Plan()
        since = parse_time(condition.get("lastTransitionTime")) or view.now
        left = int(job["spec"]["ttlSecondsAfterFinished"]) - (view.now - since).total_seconds()
        return Plan(again_seconds=left) if left > 0 else Plan([Delete(JOBS, job)])


def _has_job(view: View, pod: Object) -> bool:
    reference, key = reading.controller_of(pod), reading.owner_key(pod, JOBS)
    job = view.get(JOBS, key) if key is not None else None
    return reference is not None and job is not None and job["metadata"]["uid"] == reference["uid"]
