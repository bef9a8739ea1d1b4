"""Jobs and CronJobs: from the first pod to the end, good or bad."""

from datetime import UTC, datetime

import pytest

from kscheduler.api.machinery import schedules
from kscheduler.api.machinery.api_errors import Object
from kscheduler.embedded.controllers.workloads.jobs.pods import format_indexes, parse_indexes
from tests.embedded.controllers.miniature import Miniature, condition, job

JOBS = "jobs.batch"


@pytest.fixture
def mini() -> Miniature:
    return Miniature()


def status(mini: Miniature, name: str = "sums") -> Object:
    found: Object = mini.get(JOBS, name)["status"]
    return found


def running(mini: Miniature) -> list[str]:
    return [pod["metadata"]["name"] for pod in mini.pods() if pod["status"]["phase"] == "Running"]


def test_a_job_runs_so_many_pods_at_a_time_until_enough_have_succeeded(mini: Miniature) -> None:
    mini.create(job(parallelism=2, completions=3))
    mini.run_pods()
    assert (status(mini)["active"], status(mini)["ready"]) == (2, 2)
    mini.end_pod(running(mini)[0])
    mini.run_pods()
    assert (len(mini.pods()), status(mini)["succeeded"], status(mini)["active"]) == (3, 1, 2)
    mini.end_pod(running(mini)[0])
    mini.end_pod(running(mini)[0])
    done = mini.get(JOBS, "sums")
    assert (
        condition(done, "Complete")["reason"] == condition(done, "SuccessCriteriaMet")["reason"] == "CompletionsReached"
    )
    assert done["status"]["succeeded"] == 3
    assert "completionTime" in done["status"]
    assert "active" not in done["status"]
    assert mini.events("Completed") == ["Job completed"]
    assert not any(pod["metadata"].get("finalizers") for pod in mini.pods())


def test_its_pods_carry_the_labels_that_its_selector_asks_for(mini: Miniature) -> None:
    mini.create(job())
    made = mini.get(JOBS, "sums")
    labels = mini.pods()[0]["metadata"]["labels"]
    assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["batch.kubernetes.io/job-name"] == "sums"


def test_failures_are_repeated_after_a_pause_that_doubles_until_the_limit(mini: Miniature) -> None:
    mini.create(job(backoffLimit=1))
    mini.run_pods()
    mini.end_pod(running(mini)[0], "Failed")
    assert running(mini) == []
    mini.advance(9)
    assert len(mini.pods()) == 1
    mini.advance(1)
    mini.run_pods()
    assert len(mini.pods()) == 2
    mini.end_pod(running(mini)[0], "Failed")
    failed = mini.get(JOBS, "sums")
    assert condition(failed, "Failed")["reason"] == "BackoffLimitExceeded"
    assert failed["status"]["failed"] == 2
    assert mini.events("BackoffLimitExceeded") == ["Job has reached the specified backoff limit"]


def test_a_job_that_fails_ends_its_other_pods_before_it_says_so(mini: Miniature) -> None:
    mini.create(job(parallelism=2, completions=2, backoffLimit=0))
    mini.run_pods()
    mini.end_pod(running(mini)[0], "Failed")
    assert condition(mini.get(JOBS, "sums"), "FailureTarget")["status"] == "True"
    assert not condition(mini.get(JOBS, "sums"), "Failed")
    mini.run_pods()
    assert condition(mini.get(JOBS, "sums"), "Failed")["status"] == "True"


def test_a_deadline_ends_a_job(mini: Miniature) -> None:
    mini.create(job(activeDeadlineSeconds=30))
    mini.run_pods()
    mini.advance(30)
    mini.run_pods()
    assert condition(mini.get(JOBS, "sums"), "Failed")["reason"] == "DeadlineExceeded"


def test_suspended_it_has_no_pods_and_no_clock(mini: Miniature) -> None:
    mini.create(job(suspend=True))
    assert mini.pods() == []
    assert "startTime" not in status(mini)
    mini.change(JOBS, "sums", suspend=False)
    mini.run_pods()
    assert len(running(mini)) == 1
    assert "startTime" in status(mini)
    mini.change(JOBS, "sums", suspend=True)
    mini.run_pods()
    assert mini.pods() == []
    assert condition(mini.get(JOBS, "sums"), "Suspended")["status"] == "True"
    assert status(mini).get("failed", 0) == 0


def test_an_indexed_job_gives_each_completion_its_number(mini: Miniature) -> None:
    mini.create(job(completionMode="Indexed", parallelism=2, completions=3))
    mini.run_pods()
    names = sorted(running(mini))
    assert [name.rsplit("-", 1)[0] for name in names] == ["sums-0", "sums-1"]
    mini.end_pod(names[1])
    mini.run_pods()
    assert status(mini)["completedIndexes"] == "1"
    assert sorted(name.rsplit("-", 1)[0] for name in running(mini)) == ["sums-0", "sums-2"]
    for name in running(mini):
        mini.end_pod(name)
    assert status(mini)["completedIndexes"] == "0-2"
    assert condition(mini.get(JOBS, "sums"), "Complete")


def test_a_pod_deleted_from_outside_counts_as_failed_and_is_replaced(mini: Miniature) -> None:
    mini.create(job())
    mini.run_pods()
    mini.delete("pods", running(mini)[0])
    mini.run_pods()
    assert status(mini)["failed"] == 1
    mini.advance(600)
    mini.run_pods()
    assert len(running(mini)) == 1


def test_finished_jobs_go_when_their_time_to_live_is_over(mini: Miniature) -> None:
    mini.create(job(ttlSecondsAfterFinished=60))
    mini.run_pods()
    mini.end_pod(running(mini)[0])
    mini.advance(59)
    assert mini.has(JOBS, "sums")
    mini.advance(1)
    assert not mini.has(JOBS, "sums")
    assert mini.pods() == []


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_deleted_job_takes_its_tracked_pods_along(mini: Miniature, propagation: str) -> None:
    mini.create(job(parallelism=3, completions=3))
    mini.run_pods()
    mini.delete(JOBS, "sums", propagation=propagation)
    mini.run_pods()
    assert mini.pods() == []
    assert not mini.has(JOBS, "sums")


def test_orphaned_pods_lose_the_finalizer_that_nobody_else_takes_off(mini: Miniature) -> None:
    mini.create(job())
    mini.run_pods()
    mini.delete(JOBS, "sums", propagation="Orphan")
    (pod,) = mini.pods()
    assert not pod["metadata"].get("finalizers")


@pytest.mark.parametrize("text", ["", "0", "1,3-5", "0,1", "0-2,7,9-11"])
def test_indexes_read_as_they_are_written(text: str) -> None:
    assert format_indexes(parse_indexes(text)) == text


# --- CronJobs ---------------------------------------------------------------------------------------------------------


def cron_job(schedule: str = "*/5 * * * *", **spec: object) -> Object:
    template = {"spec": job()["spec"]}
    body = {"schedule": schedule, "jobTemplate": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tidy"}, "spec": body}


def test_a_cron_job_makes_a_job_when_its_time_has_come(mini: Miniature) -> None:
    mini.create(cron_job())
    assert mini.all(JOBS) == []
    mini.advance(300)
    (made,) = mini.all(JOBS)
    assert made["metadata"]["name"] == f"tidy-{int(mini.time.timestamp()) // 60}"
    assert mini.get("cronjobs.batch", "tidy")["status"]["active"][0]["name"] == made["metadata"]["name"]
    mini.run_pods()
    mini.end_pod(running(mini)[0])
    assert "active" not in mini.get("cronjobs.batch", "tidy")["status"]
    assert mini.get("cronjobs.batch", "tidy")["status"]["lastSuccessfulTime"]


def test_forbid_skips_a_time_while_a_job_runs_and_replace_ends_it(mini: Miniature) -> None:
    mini.create(cron_job(concurrencyPolicy="Forbid"))
    mini.advance(300)
    mini.advance(300)
    assert len(mini.all(JOBS)) == 1
    mini.change("cronjobs.batch", "tidy", concurrencyPolicy="Replace")
    first = mini.names(JOBS)
    mini.advance(300)
    assert len(mini.all(JOBS)) == 1
    assert mini.names(JOBS) != first


def test_old_jobs_go_beyond_the_history_limit_and_suspended_none_come(mini: Miniature) -> None:
    mini.create(cron_job(successfulJobsHistoryLimit=2))
    for _ in range(5):
        mini.advance(300)
        mini.run_pods()
        mini.end_pod(running(mini)[0])
    assert len(mini.all(JOBS)) == 2
    mini.change("cronjobs.batch", "tidy", suspend=True)
    mini.advance(3600)
    assert len(mini.all(JOBS)) == 2


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("*/15 * * * *", "2026-01-01 10:45"),
        ("0 0 * * *", "2026-01-02 00:00"),
        ("@hourly", "2026-01-01 11:00"),
        ("30 4 1,15 * 5", "2026-01-02 04:30"),
        ("0 9 * * mon-fri", "2026-01-02 09:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 0 * * 0", "2026-01-04 00:00"),
        ("5/20 10 * * *", "2026-01-01 10:45"),
    ],
)
def test_schedules_mean_what_they_mean_to_cron(schedule: str, expected: str) -> None:
    found = schedules.parse(schedule).after(datetime(2026, 1, 1, 10, 31, tzinfo=UTC))
    assert found is not None
    assert f"{found:%Y-%m-%d %H:%M}" == expected


@pytest.mark.parametrize("schedule", ["", "* * * *", "60 * * * *", "* * * * mon-xyz", "*/0 * * * *", "0 0 * * 7"])
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        schedules.parse(schedule)
