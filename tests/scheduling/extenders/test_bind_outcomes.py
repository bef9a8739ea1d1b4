"""A pod that was given to an extender keeps its room until it is known where it is, and no longer."""

from collections.abc import Callable
from typing import Any

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.client.extenders.caller import (
    ExtenderError,
    ExtenderNotReachedError,
    ExtenderStatusError,
    ExtenderTimeoutError,
)
from kscheduler.framework.status import Fault, Status
from kscheduler.scheduling.extenders.bind_outcomes import MAX_SECONDS, UNKNOWN_PLACE, BindOutcomes, PodPlace
from kscheduler.scheduling.extenders.http_extenders import HTTPExtenders
from tests.builders import make_pod
from tests.scheduling.extenders.fake_extenders import NamedObjects, fake_extender

POD = make_pod("p")
NOWHERE, HERE, ELSEWHERE = PodPlace(), PodPlace("n"), PodPlace("m")
GONE, UNREAD = PodPlace(is_gone=True), UNKNOWN_PLACE
LATE, LOST = ExtenderTimeoutError("no answer within 5 s"), ExtenderError("connection reset")
AWAY, STATUS = ExtenderNotReachedError("connection refused"), ExtenderStatusError("code 500")
REFUSED = {"Error": "the device is gone"}
NOT_SEEN = "extender http://x says that it has bound the pod to node n, and the API server shows no node"


class Impatient(VirtualClock):
    """A clock on which every sleep is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = 0.0

    def monotonic(self) -> float:
        return self.slept

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


class SubQueues:
    """Where the pod is, look by look; the last place forever."""

    def __init__(self, *sub_queues: PodPlace) -> None:
        self.sub_queues = list(sub_queues)
        self.looks = 0

    async def __call__(self, pod: Pod) -> PodPlace:
        assert pod is POD
        self.looks += 1
        return self.sub_queues[min(self.looks, len(self.sub_queues)) - 1]


async def bound(
    answer: Any,
    sub_queues: SubQueues,
    clock: VirtualClock,
    may_bind: Callable[[], bool] = lambda: True,
    **settings: Any,
) -> Status | None:
    extender, calls = fake_extender("http://x", {"bind": answer}, **settings)
    outcomes = BindOutcomes(sub_queues, may_bind, clock)
    status = await HTTPExtenders([extender], NamedObjects(), may_bind=lambda: True, outcomes=outcomes).bind(POD, "n")
    assert len(calls.queried) == 1, "it may count what it gives out"
    return status


@pytest.mark.parametrize(
    ("answer", "sub_queues", "expected"),
    [
        pytest.param({}, [HERE], "", id="bound"),
        pytest.param({}, [NOWHERE, UNREAD, HERE], "", id="bound, seen late"),
        pytest.param({}, [ELSEWHERE], "pod default/p is on node m already", id="bound elsewhere"),
        pytest.param({}, [GONE], "pod default/p is gone", id="bound, and deleted"),
        pytest.param({}, [NOWHERE], NOT_SEEN, id="it lies"),
        pytest.param(REFUSED, [NOWHERE], "the device is gone", id="refused"),
        pytest.param(REFUSED, [HERE], "", id="refused, and bound all the same"),
        pytest.param(REFUSED, [UNREAD, UNREAD, HERE], "", id="refused, bound, and nobody could look at first"),
        pytest.param(
            REFUSED, [UNREAD] * 50 + [NOWHERE], "the device is gone", id="refused in a long outage of the API"
        ),
        pytest.param(STATUS, [NOWHERE], "code 500", id="a status that is an answer"),
        pytest.param(LATE, [HERE], "", id="too slow, and bound"),
        pytest.param(LATE, [NOWHERE, NOWHERE, HERE], "", id="too slow, bound later"),
        pytest.param(LATE, [NOWHERE], "no answer within 5 s", id="too slow, never bound"),
        pytest.param(LOST, [UNREAD] * 50 + [HERE], "", id="connection lost in a long outage of the API"),
        pytest.param(LOST, [ELSEWHERE], "pod default/p is on node m already: connection reset", id="lost, elsewhere"),
        pytest.param(b"<html>", [NOWHERE], "the answer is not JSON", id="nonsense"),
    ],
)
async def test_the_api_server_decides_what_an_answer_means(
    answer: Any, sub_queues: list[PodPlace], expected: str
) -> None:
    status = await bound(answer, SubQueues(*sub_queues), Impatient())
    assert status is not None
    assert status.is_success is not bool(expected)
    assert status.message.startswith(expected)


@pytest.mark.parametrize(
    ("answer", "place", "expected"),
    [
        pytest.param({}, NOWHERE, None, id="it lies"),
        pytest.param(REFUSED, NOWHERE, None, id="refused"),
        pytest.param(LATE, NOWHERE, None, id="too slow"),
        pytest.param(AWAY, NOWHERE, None, id="not reached"),
        pytest.param(LATE, HERE, "", id="too slow, and bound"),
        pytest.param(LATE, ELSEWHERE, "pod default/p is on node m already: no answer within 5 s", id="elsewhere"),
    ],
)
async def test_the_plugins_bind_what_an_ignorable_extender_has_not(
    answer: Any, place: PodPlace, expected: str | None
) -> None:
    status = await bound(answer, SubQueues(place), Impatient(), ignorable=True)
    assert (status.message if status is not None else None) == expected


async def test_who_was_not_reached_has_bound_nothing_and_nobody_looks() -> None:
    sub_queues = SubQueues(HERE)
    status = await bound(AWAY, sub_queues, Impatient())
    assert status is not None
    assert (status.message, sub_queues.looks) == ("connection refused", 0)


@pytest.mark.parametrize("answer", [{}, LATE, LOST], ids=["it lies", "too slow", "lost"])
async def test_the_room_is_kept_for_a_while_and_not_for_ever(answer: Any) -> None:
    clock = Impatient()
    await bound(answer, SubQueues(NOWHERE), clock)
    assert MAX_SECONDS <= clock.slept < 2 * MAX_SECONDS


async def test_the_room_is_kept_as_long_as_the_api_server_is_away() -> None:
    clock, sub_queues = Impatient(), SubQueues(*[UNREAD] * 100, HERE)
    status = await bound(LATE, sub_queues, clock)
    assert status is not None
    assert status.is_success
    assert clock.slept > 5 * MAX_SECONDS
    assert sub_queues.looks == 101, "each look is a request: they come slower and slower"


async def test_a_pod_that_is_gone_is_nobodys_fault() -> None:
    status = await bound(LATE, SubQueues(GONE), Impatient())
    assert status is not None
    assert status.fault is Fault.GONE


async def test_an_extender_that_says_it_has_bound_and_has_not_is_named_in_the_log() -> None:
    with structlog.testing.capture_logs() as lines:
        await bound({}, SubQueues(NOWHERE), Impatient())
        await bound({}, SubQueues(NOWHERE, HERE), Impatient())
        await bound(LATE, SubQueues(NOWHERE), Impatient())
    (line,) = (line for line in lines if line["event"] == "extender_bind_not_seen")
    assert (line["log_level"], line["extender"], line["pod"], line["node"]) == (
        "warning",
        "http://x",
        "default/p",
        "n",
    )
    assert line["seconds"] >= MAX_SECONDS


async def test_a_process_that_has_lost_its_lease_looks_no_more() -> None:
    sub_queues = SubQueues(UNREAD)
    status = await bound(LATE, sub_queues, Impatient(), may_bind=lambda: sub_queues.looks < 3)
    assert status is not None
    assert (status.message, sub_queues.looks) == ("no answer within 5 s", 3)
