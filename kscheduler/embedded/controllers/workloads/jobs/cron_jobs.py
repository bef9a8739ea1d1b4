"""CronJobs: creates Jobs by schedule, and deletes finished Jobs beyond the history limits."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kscheduler.api.machinery import schedules
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time, timestamp
from kscheduler.api.machinery.resources import CRON_JOBS, JOBS, ServedResource
from kscheduler.embedded.controllers import reading
from kscheduler.embedded.controllers.engine.plan import Concerned, Create, Delete, News, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import created, is_terminating
from kscheduler.embedded.controllers.workloads.jobs.controller import finished_condition
from kscheduler.embedded.objects.store import Key

_COMPONENT = "cronjob-controller"
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
# How many missed times are searched for the latest.
_MAX_MISSED = 1000


class CronJobController:
    """Creates Jobs by schedule."""

    name = "cronjob-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """CronJobs and their Jobs."""
        return {CRON_JOBS: reading.itself, JOBS: partial(reading.concerned_owner, CRON_JOBS)}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Create the Job that is due, delete old Jobs, update the status."""
        plan = Plan()
        cron_job = view.get(CRON_JOBS, key)
        if cron_job is None:
            return plan
        jobs = view.controlled(JOBS, cron_job)
        self._delete_old(plan, cron_job, jobs)
        status = dict(cron_job.get("status") or {})
        active = [job for job in jobs if finished_condition(job) is None]
        if not is_terminating(cron_job) and not cron_job["spec"].get("suspend"):
            active = self._start_due(plan, view.now, cron_job, status, active)
        status["active"] = [_reference(job) for job in active]
        if not status["active"]:
            del status["active"]
        ends = [(job.get("status") or {}).get("completionTime", "") for job in jobs]
        last = max([*ends, status.get("lastSuccessfulTime", "")], default="")
        if last:
            status["lastSuccessfulTime"] = last
        plan.set_status(CRON_JOBS, cron_job, status)
        return plan

    def _start_due(
        self, plan: Plan, now: datetime, cron_job: Object, status: Object, active: list[Object]
    ) -> list[Object]:
        """Create the Job of the latest due time; returns the Jobs that are active then."""
        spec = cron_job["spec"]
        try:
            schedule, zone = schedules.parse(spec["schedule"]), ZoneInfo(spec.get("timeZone") or "UTC")
        except (ValueError, ZoneInfoNotFoundError) as error:
            text = f"unparseable schedule: {spec['schedule']!r} : {error}"
            plan.add(News(cron_job, _COMPONENT, "UnparseableSchedule", text, is_warning=True))
            return active
        since = parse_time(status.get("lastScheduleTime")) or parse_time(created(cron_job)) or now
        due = _latest(schedule, since.astimezone(zone), now)
        following = schedule.after(now.astimezone(zone))
        if following is not None:
            plan.look_again((following - now).total_seconds())
        if due is None or self._is_too_late(plan, cron_job, due, now):
            return active
        if active and spec.get("concurrencyPolicy") == "Forbid":
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            plan.add(News(cron_job, _COMPONENT, "JobAlreadyActive", text))
            return active
        if spec.get("concurrencyPolicy") == "Replace":
            plan.add(*(Delete(JOBS, job) for job in active))
            active = []
        job = _job_of(cron_job, due)
        name = job["metadata"]["name"]
        plan.add(Create(JOBS, job, News(cron_job, _COMPONENT, "SuccessfulCreate", f"Created job {name}")))
        status["lastScheduleTime"] = timestamp(due.astimezone(now.tzinfo))
        return active

    def _is_too_late(self, plan: Plan, cron_job: Object, due: datetime, now: datetime) -> bool:
        deadline = cron_job["spec"].get("startingDeadlineSeconds")
        if deadline is None or due + timedelta(seconds=int(deadline)) >= now:
            return False
        text = f"Missed scheduled time to start a job: {due:%a, %d %b %Y %H:%M:%S %z}"
        plan.add(News(cron_job, _COMPONENT, "MissSchedule", text, is_warning=True))
        return True

    def _delete_old(self, plan: Plan, cron_job: Object, jobs: list[Object]) -> None:
        for kind, field in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            ended = [job for job in jobs if (end := finished_condition(job)) is not None and end["type"] == kind]
            ended.sort(key=created)
            for job in ended[: max(len(ended) - int(cron_job["spec"].get(field, 0)), 0)]:
                text = f"Deleted job {job['metadata']['name']}"
                plan.add(Delete(JOBS, job, done=News(cron_job, _COMPONENT, "SuccessfulDelete", text)))


def _latest(schedule: schedules.Schedule, since: datetime, now: datetime) -> datetime | None:
    """The latest time of the schedule after `since` and not after `now`."""
    found = None
    for _ in range(_MAX_MISSED):
        moment = schedule.after(since)
        if moment is None or moment > now:
            break
        found = since = moment
    return found


def _job_of(cron_job: Object, due: datetime) -> Object:
    """The Job of a scheduled time, with a name made from it, so that no Job is created twice."""
    template = cron_job["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    annotations = {**(given.get("annotations") or {}), _SCHEDULED: due.strftime("%Y-%m-%dT%H:%M:%SZ")}
    metadata = {
        "name": f"{cron_job['metadata']['name']}-{int(due.timestamp()) // 60}",
        "namespace": cron_job["metadata"]["namespace"],
        "labels": dict(given.get("labels") or {}),
        "annotations": annotations,
        "ownerReferences": [reading.reference_to(cron_job)],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
