"""Conditions behind the binds: the newest word per pod, and none that is out of date."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, ClientError, NotSentError
from kscheduler.client.errors import Status as WireStatus
from kscheduler.scheduling.status_writer import WORKERS, StatusWriter
from tests.builders import make_pod
from tests.scheduling.around import Heard


def saying(message: str) -> Condition:
    """A condition."""
    return Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)


class SlowPatcher:
    """Patches wait until they are let through. Implements `PodPatcher`."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self.gate = asyncio.Event()
        self.failure: ClientError | None = None

    async def patch_pod_status(self, pod: Pod, condition: Condition | None) -> bool:
        assert condition is not None
        self.begun.append(f"{pod.metadata.name}: {condition.message}")
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.done.append(f"{pod.metadata.name}: {condition.message}")
        return True


async def turns() -> None:
    """Let every task do what it can."""
    for _ in range(20):
        await asyncio.sleep(0)


@asynccontextmanager
async def running(writer: StatusWriter) -> AsyncIterator[None]:
    """The writer at work."""
    task = asyncio.ensure_future(writer.run())
    await turns()
    yield
    task.cancel()
    await asyncio.wait({task})


@pytest.fixture
async def patcher() -> SlowPatcher:
    return SlowPatcher()


@pytest.fixture
def writer(patcher: SlowPatcher) -> StatusWriter:
    return StatusWriter(patcher, Heard())


async def test_only_the_newest_word_about_a_pod_is_sent(patcher: SlowPatcher, writer: StatusWriter) -> None:
    for message in ("one", "two", "three"):
        writer.report(make_pod("p"), saying(message), "note")
    assert len(writer) == 1
    patcher.gate.set()
    async with running(writer):
        assert patcher.done == ["p: three"]


async def test_a_few_are_sent_at_a_time_in_order(patcher: SlowPatcher, writer: StatusWriter) -> None:
    for number in range(10):
        writer.report(make_pod(f"p{number}"), saying("no"), "note")
    async with running(writer):
        assert patcher.begun == [f"p{number}: no" for number in range(WORKERS)]
        patcher.gate.set()
        await turns()
        assert len(patcher.done) == 10


async def test_two_patches_of_one_pod_never_overtake_each_other(patcher: SlowPatcher, writer: StatusWriter) -> None:
    async with running(writer):
        writer.report(make_pod("p"), saying("old"), "note")
        await turns()
        writer.report(make_pod("p"), saying("new"), "note")
        writer.report(make_pod("q"), saying("new"), "note")
        await turns()
        assert patcher.begun == ["p: old", "q: new"]
        patcher.gate.set()
        await turns()
        assert sorted(patcher.done) == ["p: new", "p: old", "q: new"]
        assert patcher.done.index("p: old") < patcher.done.index("p: new")


async def test_nothing_is_sent_where_the_pod_says_so_already(patcher: SlowPatcher, writer: StatusWriter) -> None:
    shown = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no",
        "lastProbeTime": "t",
    }
    pod = make_pod("p", status={"conditions": [{"type": "Ready", "status": "False"}, shown]})
    writer.report(pod, saying("other"), "note")
    writer.report(pod, saying("no"), "note")
    assert len(writer) == 0, "the queued patch would have been out of date as well"


async def test_a_pod_that_is_about_to_be_bound_is_spoken_of_no_more(patcher: SlowPatcher, writer: StatusWriter) -> None:
    writer.report(make_pod("p"), saying("no"), "note")
    writer.withdraw("uid-of-p")
    writer.withdraw("uid-of-nobody")
    patcher.gate.set()
    async with running(writer):
        assert patcher.begun == []


async def test_every_failure_is_an_event_even_where_the_condition_stays(writer: StatusWriter) -> None:
    heard = writer._recorder
    assert isinstance(heard, Heard)
    for _ in range(2):
        writer.report(make_pod("p"), saying("no"), "0/1 nodes are available: 1 no.")
    assert heard.notes == ["Warning FailedScheduling: 0/1 nodes are available: 1 no."] * 2


@pytest.mark.parametrize(
    "failure",
    [NotSentError("down"), *(APIError(WireStatus(code=code)) for code in (404, 409, 500, 403))],
    ids=str,
)
async def test_a_patch_that_fails_ends_no_worker(
    patcher: SlowPatcher, writer: StatusWriter, failure: ClientError
) -> None:
    patcher.failure = failure
    patcher.gate.set()
    for number in range(2 * WORKERS):
        writer.report(make_pod(f"p{number}"), saying("no"), "note")
    async with running(writer):
        assert len(patcher.begun) == 2 * WORKERS
        patcher.failure = None
        writer.report(make_pod("q"), saying("no"), "note")
        await turns()
        assert patcher.done == ["q: no"]
