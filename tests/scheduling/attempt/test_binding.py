"""Binding: every outcome is known before it is believed."""

from collections.abc import Callable, Mapping

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Pod
from kscheduler.client.errors import (
    APIError,
    ClientError,
    CredentialsError,
    ForeignResponseError,
    NotSentError,
    UnknownOutcomeError,
)
from kscheduler.client.errors import APIStatus as WireStatus
from kscheduler.client.retry_after import LONGEST_RETRY_AFTER_SECONDS
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.status import Code, Fault, Status
from kscheduler.scheduling.attempt.binding import BindingWriter
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.pod_log import PodLog
from tests.builders import make_pod

POD = make_pod("p", uid="uid-1")
ELSEWHERE = make_pod("p", uid="uid-1", node="other")
HERE = make_pod("p", uid="uid-1", node="node")
ANEW = make_pod("p", uid="uid-2")


def refusal(code: int, message: str = "no") -> APIError:
    """The server's answer."""
    return APIError(WireStatus(code=code, message=message))


LOST = UnknownOutcomeError("no answer")
A_PAGE = ForeignResponseError("answered 200 with a page")
NOT_SENT = NotSentError("connection refused")


class ScriptedPods:
    """An API server that answers as told. Implements `PodBinder`."""

    def __init__(self, binds: list[ClientError | None], reads: list[Pod | Exception]) -> None:
        self.binds = binds
        self.reads = reads
        self.sent: list[tuple[str, str, str, str]] = []

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str] = NO_ANNOTATIONS
    ) -> None:
        self.sent.append((namespace, name, uid, node))
        answer = self.binds.pop(0)
        if answer is not None:
            raise answer

    async def get_pod(self, namespace: str, name: str) -> Pod:
        answer = self.reads.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Impatient(VirtualClock):
    """A clock on which every sleep is over at once, and written down."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def bound(
    binds: list[ClientError | None],
    reads: list[Pod | Exception],
    on_throttled: Callable[[str, APIError], None] = lambda _namespace, _failure: None,
) -> tuple[Status, ScriptedPods, Impatient]:
    """What becomes of a bind to `node` under this script, all of which must be used."""
    pods, clock, observations = ScriptedPods(binds, reads), Impatient(), Observations()
    observers = Observers(observations, PodLog())
    status = await BindingWriter(pods, clock, observations, on_throttled, observers).bind(POD, "node")
    assert not pods.binds
    assert not pods.reads
    assert set(pods.sent) == {("default", "p", "uid-1", "node")}
    return status, pods, clock


BOUND = ""


@pytest.mark.parametrize(
    ("binds", "reads", "text"),
    [
        pytest.param([None], [], BOUND, id="created"),
        pytest.param([refusal(409)], [HERE], BOUND, id="409, and an earlier try was applied"),
        pytest.param([refusal(409)], [ELSEWHERE], "on node other already", id="409, bound elsewhere"),
        pytest.param([refusal(409)], [ANEW], "made again with another UID", id="409, made again under its name"),
        pytest.param([refusal(409)], [refusal(404)], "is gone", id="409, gone"),
        pytest.param([refusal(409, "being deleted")], [POD], "being deleted", id="409, without a node: refused"),
        pytest.param([refusal(409), refusal(409)], [refusal(500), HERE], BOUND, id="409, unreadable at first"),
        pytest.param([LOST], [HERE], BOUND, id="no answer, then applied"),
        pytest.param([LOST, None], [POD], BOUND, id="no answer, not applied: sent again"),
        pytest.param([LOST, refusal(409)], [POD, HERE], BOUND, id="no answer, applied late: the second try says so"),
        pytest.param([LOST, None], [UndecodableError("?")], BOUND, id="no answer, and what was read makes no sense"),
        pytest.param([LOST, LOST, LOST, None], [LOST, NOT_SENT, LOST], BOUND, id="a long outage ends well"),
        pytest.param([NOT_SENT, NOT_SENT, None], [], BOUND, id="not sent: sent again without reading"),
        pytest.param([refusal(429), None], [], BOUND, id="429: later"),
        pytest.param([refusal(500), None], [POD], BOUND, id="500: read, then again"),
        pytest.param([refusal(504)], [HERE], BOUND, id="504, applied all the same"),
        pytest.param([refusal(408)], [HERE], BOUND, id="408 of a proxy, applied all the same"),
        pytest.param(
            [refusal(500, "webhook down")] * 3, [POD] * 3, "webhook down", id="5xx three times: taken at its word"
        ),
        pytest.param([refusal(500)] * 4, [POD, POD, LOST, HERE], BOUND, id="5xx thrice, but nobody could read"),
        pytest.param([A_PAGE], [HERE], BOUND, id="a page, and it was applied all the same"),
        pytest.param([A_PAGE, None], [POD], BOUND, id="a page, not applied: sent again"),
        pytest.param([A_PAGE] * 3, [POD] * 3, "a page", id="a page each time: the node is given up"),
        pytest.param([refusal(403, "denied by webhook")], [], "denied by webhook", id="403: refused"),
        pytest.param([refusal(404, "not found")], [], "not found", id="404: refused"),
        pytest.param([refusal(422, "not valid")], [], "not valid", id="422: refused"),
        pytest.param([CredentialsError("no token")], [], "no token", id="no credentials: nothing was sent"),
        pytest.param([LOST, refusal(403)], [LOST, HERE], BOUND, id="403 to the second try says nothing of the first"),
        pytest.param(
            [LOST, refusal(403, "denied")], [LOST, POD], "denied", id="403 to the second try, and the first was lost"
        ),
        pytest.param(
            [LOST, CredentialsError("no token"), None], [LOST, CredentialsError("no token")], BOUND, id="no token later"
        ),
    ],
)
async def test_outcomes(binds: list[ClientError | None], reads: list[Pod | Exception], text: str) -> None:
    status, _, clock = await bound(list(binds), list(reads))
    if text == BOUND:
        assert status.is_success
    else:
        assert status.code is Code.ERROR
        assert text in status.message
    assert len(clock.slept) == len(binds) - 1, "a pause before each new try"


NO_RIGHTS = 'pods "p" is forbidden: User "u" cannot create resource "pods/binding" in API group "" in the namespace "d"'


@pytest.mark.parametrize(
    ("binds", "reads", "fault"),
    [
        pytest.param([refusal(403, "denied by webhook")], [], Fault.REFUSED, id="a webhook"),
        pytest.param([refusal(403, "exceeded quota: q")], [], Fault.REFUSED, id="a quota"),
        pytest.param([refusal(422)], [], Fault.REFUSED, id="a validation"),
        pytest.param([refusal(400)], [], Fault.REFUSED, id="a webhook without a code"),
        pytest.param([LOST, refusal(403)], [POD, POD], Fault.REFUSED, id="at the second try"),
        pytest.param([refusal(403, NO_RIGHTS)], [], Fault.PASSING, id="it is we who have no rights"),
        pytest.param([refusal(404)], [], Fault.GONE, id="gone"),
        pytest.param([refusal(409)], [ELSEWHERE], Fault.PASSING, id="bound elsewhere"),
        pytest.param([refusal(500)] * 3, [POD] * 3, Fault.PASSING, id="a webhook that fails itself"),
        pytest.param([CredentialsError("no token")], [], Fault.PASSING, id="no credentials"),
    ],
)
async def test_whose_fault_a_failed_bind_is(
    binds: list[ClientError | None], reads: list[Pod | Exception], fault: Fault
) -> None:
    status, _, _ = await bound(list(binds), list(reads))
    assert status.fault is fault


async def test_a_refusal_is_reported_in_the_servers_words_only() -> None:
    """As kube-scheduler tells it: no method, no path."""
    failure = APIError(WireStatus(code=403, message="denied: no"), method="POST", path="/api/v1/pods/p/binding")
    status, _, _ = await bound([failure], [])
    assert status.message == "denied: no"


async def test_pauses_grow_to_ten_seconds_and_differ_between_pods() -> None:
    status, _, clock = await bound([NOT_SENT] * 12 + [None], [])
    assert status.is_success
    assert all(0.1 * 2**n <= pause < 0.15 * 2**n for n, pause in enumerate(clock.slept[:6]))
    assert all(10 <= pause < 15 for pause in clock.slept[-3:])


async def test_throttling_is_reported_to_the_limit() -> None:
    reported: list[str] = []
    await bound([refusal(429), refusal(429), None], [], lambda namespace, _: reported.append(namespace))
    assert reported == ["default", "default"]


async def test_a_worker_is_held_for_half_a_minute_at_most_however_long_the_server_wants() -> None:
    """A proxy that says `Retry-After: 86400` would have kept the pod, its node and the worker for a day."""
    queried = APIError(WireStatus(code=429, message="busy"), retry_after_seconds=86_400.0)
    status, _, clock = await bound([queried, None], [])
    assert status.is_success
    assert clock.slept == [LONGEST_RETRY_AFTER_SECONDS]
