"""Probes get the answers that kube-scheduler's probes get, and a person who asks verbosely gets the reasons."""

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.server import Health, ProgressCheck
from tests.server.site import Site

NOT_SYNCED = "handlers are not fully synchronized"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/livez/ping", "/readyz/shutdown"])
async def test_a_healthy_path_says_ok(site: Site, path: str) -> None:
    async with site.client.get(path) as response:
        assert response.status == 200
        assert await response.text() == "ok"
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_verbose_names_each_check(site: Site) -> None:
    assert await site.text("/readyz?verbose") == (
        200,
        "[+]ping ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
    )


async def test_a_failing_check_fails_its_path_and_no_other_and_withholds_the_reason(site: Site) -> None:
    site.condition.reasons["sched-handler-sync"] = NOT_SYNCED
    assert await site.text("/readyz") == (
        500,
        "[+]ping ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
    )
    assert await site.text("/livez") == (200, "ok")


async def test_verbose_reports_the_reason(site: Site) -> None:
    site.condition.reasons["sched-handler-sync"] = NOT_SYNCED
    status, text = await site.text("/readyz?verbose")
    assert status == 500
    assert f"[-]sched-handler-sync failed: {NOT_SYNCED}\n" in text


async def test_a_single_check_reports_its_reason(site: Site) -> None:
    site.condition.reasons["sched-handler-sync"] = NOT_SYNCED
    assert await site.text("/readyz/sched-handler-sync") == (500, f"internal server error: {NOT_SYNCED}\n")
    assert await site.text("/readyz/shutdown") == (200, "ok")


async def test_a_path_has_only_its_own_checks(site: Site) -> None:
    status, _ = await site.text("/livez/sched-handler-sync")
    assert status == 404


async def test_an_excluded_check_does_not_fail_its_path(site: Site) -> None:
    site.condition.reasons["sched-handler-sync"] = NOT_SYNCED
    assert await site.text("/readyz?exclude=sched-handler-sync") == (200, "ok")
    _, text = await site.text("/readyz?verbose&exclude=sched-handler-sync")
    assert "[+]sched-handler-sync excluded: ok\n" in text


async def test_excluding_what_does_not_exist_is_a_warning(site: Site) -> None:
    status, text = await site.text("/readyz?verbose&exclude=etcd&exclude=apiserver")
    assert status == 200
    assert 'warn: some health checks cannot be excluded: no matches for "apiserver","etcd"\n' in text


async def test_health_changes_with_its_checks_while_the_server_runs(site: Site) -> None:
    site.condition.reasons["shutdown"] = "process is shutting down"
    assert (await site.text("/readyz"))[0] == 500
    site.condition.reasons.clear()
    assert (await site.text("/readyz"))[0] == 200


async def test_notes_are_reported_verbosely_and_fail_nothing(site: Site) -> None:
    site.condition.notes = ["undecodable pods default/odd: not a number", "resting: resource.k8s.io/v1"]
    status, text = await site.text("/readyz?verbose")
    assert status == 200
    assert "[i]undecodable pods default/odd: not a number\n[i]resting: resource.k8s.io/v1\n" in text
    assert await site.text("/readyz") == (200, "ok")


def test_an_error_text_cannot_forge_a_line_nor_reach_a_terminal() -> None:
    health = Health("readyz", {"sync": lambda: "bad\n[+]sync ok\x1b[2J"}, lambda: ["a\r\nb"])
    passes, text = health.report(verbose=True)
    assert not passes
    assert text.splitlines() == [
        "[+]ping ok",
        "[-]sync failed: bad [+]sync ok [2J",
        "[i]a  b",
        "readyz check failed",
    ]


def test_ten_thousand_undecodable_objects_do_not_make_a_probe_long() -> None:
    health = Health("readyz", {}, lambda: [f"undecodable pods default/p{i}" for i in range(10_000)])
    _, text = health.report(verbose=True)
    assert len(text.splitlines()) == 103
    assert "[i]... and 9900 more\n" in text


async def test_a_check_that_raises_is_a_failed_probe_that_reports_nothing(site: Site) -> None:
    site.condition.reasons = None  # type: ignore[assignment]  # the bug that the boundary is for
    assert await site.text("/livez") == (500, "500: Internal Server Error")
    assert await site.text("/healthz") == (200, "ok")


class Queue:
    """Work that a test lets wait or be done."""

    def __init__(self) -> None:
        self.done = 0
        self.waiting = True


async def progress_after(seconds: float, queue: Queue, check: ProgressCheck, clock: VirtualClock) -> str | None:
    await clock.advance(seconds)
    return check()


def progress_check(queue: Queue, clock: VirtualClock) -> ProgressCheck:
    return ProgressCheck(
        done=lambda: queue.done, has_work=lambda: queue.waiting, monotonic=clock.monotonic, limit_seconds=60.0
    )


async def test_work_that_waits_too_long_is_a_problem_and_doing_some_ends_it() -> None:
    queue, clock = Queue(), VirtualClock()
    check = progress_check(queue, clock)
    assert check() is None
    assert await progress_after(60.0, queue, check, clock) is None
    assert await progress_after(1.0, queue, check, clock) == "work is waiting and none was done for 61 s"
    queue.done += 1
    assert check() is None


async def test_having_nothing_to_do_for_hours_is_no_problem() -> None:
    queue, clock = Queue(), VirtualClock()
    check = progress_check(queue, clock)
    queue.waiting = False
    for _ in range(10):
        assert await progress_after(3600.0, queue, check, clock) is None
    queue.waiting = True
    assert await progress_after(30.0, queue, check, clock) is None
