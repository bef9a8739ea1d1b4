"""The watchdog ends what hangs, and only that; the fence keeps writes in. The real thread and real signals."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kscheduler.election.fence import boot_time
from kscheduler.election.watchdog import EXIT_CODE, Watchdog

REPOSITORY = Path(__file__).parents[2]
SECONDS = 60.0

# A process whose main thread hangs in a loop without end, while it decides about a pod.
STANDING_STILL = """
import sys
from kscheduler.election.fence import boot_time
from kscheduler.election.watchdog import Watchdog, end_process
from kscheduler.api.core import Pod
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.decision_time import (DECISION_TIME)
from kscheduler.telemetry.logs.pipeline import configure

configure(json=True)
DECISION_TIME.pod = PodInfo(Pod(metadata=ObjectMeta(namespace="shop", name="giant")))
Watchdog(boot_time, end_process).expect_before(boot_time() + float(sys.argv[1]), "it stands still")
print("armed", flush=True)
while True:  # the main thread never comes back
    pass
"""
STOOD_STILL = "it stands still; pod shop/giant was being decided about"


def test_its_clock_counts_on_and_is_no_slower_than_the_monotonic_one() -> None:
    began, other = boot_time(), time.monotonic()
    assert boot_time() >= began
    assert boot_time() - began < time.monotonic() - other + 1.0


@contextmanager
def armed(seconds: float) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-c", STANDING_STILL, str(seconds)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "armed\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


def test_a_process_whose_main_thread_hangs_is_ended_with_a_line() -> None:
    with armed(0.2) as process:
        process.wait(SECONDS)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == EXIT_CODE
    line = json.loads(errors)
    assert (line["msg"], line["level"], line["reason"]) == ("ended_by_watchdog", "error", STOOD_STILL)


def test_a_process_that_was_stopped_past_its_deadline_ends_when_it_goes_on() -> None:
    with armed(1.0) as process:
        process.send_signal(signal.SIGSTOP)
        with_deadline_over = threading.Event()
        threading.Timer(2.0, with_deadline_over.set).start()
        with_deadline_over.wait(SECONDS)
        assert process.poll() is None
        process.send_signal(signal.SIGCONT)
        process.wait(SECONDS)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == EXIT_CODE
    assert "it stands still" in errors


async def test_a_deadline_that_is_moved_or_lifted_ends_nothing() -> None:
    now, ended = [0.0], list[str]()
    watchdog = Watchdog(lambda: now[0], ended.append)
    watchdog.expect_before(10.0, "first")
    now[0] = 9.0
    watchdog.expect_before(20.0, "second")
    now[0] = 19.0
    watchdog.lift()
    now[0] = 100.0
    assert watchdog._thread is not None
    await asyncio.to_thread(watchdog._thread.join, SECONDS)
    assert not watchdog._thread.is_alive()
    assert ended == []


async def test_a_deadline_that_passes_is_reported_once_with_the_newest_reason() -> None:
    now, ended = [0.0], list[str]()
    watchdog = Watchdog(lambda: now[0], ended.append)
    watchdog.expect_before(10.0, "first")
    watchdog.expect_before(20.0, "second")
    now[0] = 30.0
    assert watchdog._thread is not None
    await asyncio.to_thread(watchdog._thread.join, SECONDS)
    assert ended == ["second"]
