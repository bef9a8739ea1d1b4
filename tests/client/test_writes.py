"""Bodies of the writes, and when a status patch is not sent at all."""

import asyncio
import json
from typing import Any

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.meta import Condition, ObjectMeta
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError, NetworkError, UnknownOutcomeError
from kscheduler.client.pod_writes import (
    BIND_SECONDS,
    UNCHANGED,
    PodWriter,
    Unchanged,
    binding_body,
    pod_path,
    status_patch,
)
from kscheduler.client.rest import STRATEGIC_MERGE, APIClient
from tests.client.scripted import SUCCESS, Explanation, applied, reply, scripted_server, vanish

NOW = "2026-11-21T12:00:00Z"
UNSCHEDULABLE = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")


def pod(*conditions: Condition, nominated: str = "", generation: int = 3) -> Pod:
    metadata = ObjectMeta(name="a", namespace="ns", uid="u", generation=generation)
    return Pod(metadata=metadata, status=PodStatus(conditions=conditions, nominated_node_name=nominated))


def patch(of: Pod, condition: Condition | None, nominated: str | Unchanged = UNCHANGED) -> Any:
    body = status_patch(of, condition, nominated, NOW)
    return None if body is None else json.loads(body)


def test_a_binding_names_the_pods_uid() -> None:
    assert json.loads(binding_body("ns", 'a"b', "u", "n1")) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": 'a"b', "namespace": "ns", "uid": "u"},
        "target": {"kind": "Node", "name": "n1"},
    }


def test_a_binding_may_bring_annotations() -> None:
    body = json.loads(binding_body("ns", "a", "u", "n1", {"example.com/gpu-index": '0,"1"'}))
    assert body["metadata"] == {
        "name": "a",
        "namespace": "ns",
        "uid": "u",
        "annotations": {"example.com/gpu-index": '0,"1"'},
    }
    assert body["target"] == {"kind": "Node", "name": "n1"}


class Deadlines(APIClient):
    """Remembers how long each POST might have taken."""

    def __init__(self) -> None:
        super().__init__(plain_connection("http://127.0.0.1:1"))
        self.seconds: list[float | None] = []

    async def post(
        self,
        path: str,
        body: bytes,
        content_type: str = "",
        *,
        retries: int = 0,
        timeout_seconds: float | None = None,
        joins: str = "",
        accept: str = "",
    ) -> bytes:
        self.seconds.append(timeout_seconds)
        return b""


async def test_a_binding_waits_for_the_answer_of_a_webhook_that_takes_all_its_thirty_seconds() -> None:
    """Hanging up at the same moment would make each failure of the webhook an unknown outcome, pursued forever."""
    client = Deadlines()
    await PodWriter(client).bind("ns", "a", "u", "n1")
    assert client.seconds == [BIND_SECONDS]
    assert BIND_SECONDS > 30.0, "the longest timeoutSeconds of a webhook"
    assert BIND_SECONDS < 55.0, "a Binding that was lost in a fault is sent again within a minute of its end"


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert pod_path("ns", "a/../b?x") == "/api/v1/namespaces/ns/pods/a%2F..%2Fb%3Fx"


def test_a_new_condition_is_stamped_and_carries_the_generation() -> None:
    (condition,) = patch(pod(), UNSCHEDULABLE)["status"]["conditions"]
    assert condition["lastTransitionTime"] == NOW
    assert condition["observedGeneration"] == 3
    assert patch(pod(), UNSCHEDULABLE)["metadata"] == {"uid": "u"}


def test_the_transition_time_moves_only_with_the_status() -> None:
    earlier = Condition(
        type="PodScheduled",
        status="False",
        reason="Old",
        last_transition_time="2026-01-01T00:00:00Z",
        observed_generation=3,
    )
    (condition,) = patch(pod(earlier), UNSCHEDULABLE)["status"]["conditions"]
    assert (condition["lastTransitionTime"], condition["reason"]) == ("2026-01-01T00:00:00Z", "Unschedulable")


def test_nothing_is_sent_when_nothing_changes() -> None:
    (written,) = patch(pod(), UNSCHEDULABLE)["status"]["conditions"]
    same = Condition(
        type="PodScheduled",
        status="False",
        reason=written["reason"],
        message=written["message"],
        last_transition_time=NOW,
        observed_generation=3,
    )
    assert patch(pod(same), UNSCHEDULABLE) is None
    assert patch(pod(nominated="n1"), None, "n1") is None
    assert patch(pod(nominated="n1"), None) is None


@pytest.mark.parametrize(
    ("nominated", "sent"), [pytest.param("n2", "n2", id="set"), pytest.param("", None, id="cleared")]
)
def test_the_nominated_node_is_set_or_cleared(nominated: str, sent: str | None) -> None:
    assert patch(pod(nominated="n1"), None, nominated)["status"] == {"nominatedNodeName": sent}


def test_a_message_that_is_gone_is_cleared_by_the_merge() -> None:
    (condition,) = patch(pod(UNSCHEDULABLE), Condition(type="PodScheduled", status="True"))["status"]["conditions"]
    assert (condition["message"], condition["reason"]) == (None, None)


@pytest.mark.parametrize(
    ("code", "tries"),
    [
        pytest.param(409, 4, id="conflict is tried four times"),
        pytest.param(500, 4, id="internal error too"),
        pytest.param(403, 1, id="forbidden is not"),
    ],
)
async def test_a_status_patch_is_tried_again_where_that_can_help(code: int, tries: int) -> None:
    clock = VirtualClock()
    async with (
        scripted_server(reply(b'{"message":"m"}', code)) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        patching = asyncio.create_task(PodWriter(client, clock).patch_pod_status(pod(), UNSCHEDULABLE))
        for _ in range(tries - 1):
            await clock.run_to_next()
        with pytest.raises(APIError):
            await patching
        assert len(server.requests) == tries
        assert server.requests[0].headers["Content-Type"] == "application/strategic-merge-patch+json"


async def test_bind_read_and_delete_ask_for_the_right_things() -> None:
    answers: list[Explanation] = [applied, reply(OURS), reply(OURS)]
    async with scripted_server(*answers) as server, APIClient(plain_connection(server.url)) as client:
        writer = PodWriter(client)
        await writer.bind("ns", "a", "u", "n1")
        assert (await writer.get_pod("ns", "a")).key == "ns/a"
        await writer.delete_pod("ns", "a", "u", grace_period_seconds=0)
        assert [(request.method, request.path) for request in server.requests] == [
            ("POST", "/api/v1/namespaces/ns/pods/a/binding"),
            ("GET", "/api/v1/namespaces/ns/pods/a"),
            ("DELETE", "/api/v1/namespaces/ns/pods/a"),
        ]
        options = json.loads(server.requests[2].body)
        assert (options["preconditions"], options["gracePeriodSeconds"]) == ({"uid": "u"}, 0)


# --- evictions

DISRUPTED = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler", message="m")
OURS = b'{"kind":"Pod","metadata":{"name":"a","namespace":"ns","uid":"u"}}'
ANOTHERS = b'{"kind":"Pod","metadata":{"name":"a","namespace":"ns","uid":"another"}}'
REFUSED = b'{"message":"m"}'


async def evicted(*answers: Explanation) -> tuple[bool | int, list[str]]:
    """Evict a pod on a clock that runs by itself: what came of it (a refusal's code), and what was asked for."""
    clock = VirtualClock()
    async with scripted_server(*answers) as server, APIClient(plain_connection(server.url), clock=clock) as client:
        evicting = asyncio.create_task(PodWriter(client, clock).evict_pod(pod(), DISRUPTED))
        while not evicting.done():
            waking = asyncio.create_task(clock.run_to_next())
            await asyncio.wait({evicting, waking}, return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
            await asyncio.wait({waking})
        requests = [f"{one.method} {one.path.removeprefix('/api/v1/namespaces/ns/pods/')}" for one in server.requests]
        for one in server.requests:
            if one.method == "DELETE":
                assert json.loads(one.body)["preconditions"] == {"uid": "u"}
        failure = evicting.exception()
        assert failure is None or isinstance(failure, APIError)
        return (evicting.result() if failure is None else failure.code), requests


@pytest.mark.parametrize(
    ("answers", "outcome", "requests"),
    [
        pytest.param([reply(OURS)], True, ["PATCH a/status", "DELETE a"], id="condition-then-deletion"),
        pytest.param([reply(REFUSED, 404)], False, ["PATCH a/status"], id="gone-before"),
        pytest.param([reply(OURS), reply(REFUSED, 404)], False, ["PATCH a/status", "DELETE a"], id="gone-between"),
        pytest.param(
            [reply(OURS), *[reply(REFUSED, 503)] * 3, reply(OURS)],
            True,
            ["PATCH a/status", *["DELETE a"] * 4],
            id="unavailable-for-a-while",
        ),
        pytest.param([reply(OURS), reply(REFUSED, 500)], 500, ["PATCH a/status", *["DELETE a"] * 4], id="broken"),
        pytest.param([reply(REFUSED, 403)], 403, ["PATCH a/status"], id="forbidden"),
        pytest.param(
            [reply(OURS), reply(REFUSED, 504), reply(OURS)],
            True,
            ["PATCH a/status", "DELETE a", "DELETE a"],
            id="the-server-gave-up-and-may-have-deleted-it",
        ),
        pytest.param(
            [vanish, reply(OURS)], True, ["PATCH a/status", "PATCH a/status", "DELETE a"], id="an-answer-that-was-lost"
        ),
        pytest.param(
            [reply(OURS), reply(REFUSED, 429, Retry_After="7"), reply(OURS)],
            True,
            ["PATCH a/status", "DELETE a", "DELETE a"],
            id="not-now-but-later",
        ),
        pytest.param(
            [reply(OURS), *[reply(REFUSED, 409)] * 4, reply(ANOTHERS)],
            False,
            ["PATCH a/status", *["DELETE a"] * 4, "GET a"],
            id="another-has-the-name",
        ),
        pytest.param(
            [reply(OURS), *[reply(REFUSED, 409)] * 4, reply(OURS)],
            409,
            ["PATCH a/status", *["DELETE a"] * 4, "GET a"],
            id="a-conflict-that-stays",
        ),
        pytest.param(
            [reply(OURS), *[reply(REFUSED, 409)] * 4, reply(REFUSED, 404)],
            False,
            ["PATCH a/status", *["DELETE a"] * 4, "GET a"],
            id="gone-after-conflicts",
        ),
    ],
)
async def test_an_eviction_reports_the_pod_and_deletes_it(
    answers: list[Explanation], outcome: bool | int, requests: list[str]
) -> None:
    """`True`: it was deleted; `False`: it was gone already, or another pod has its name."""
    assert await evicted(*answers) == (outcome, requests)


# --- answers that are none

PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>"
LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}'
FAILURE = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","code":500}'
NODE = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","uid":"u"}}'
FOREIGN: dict[str, tuple[bytes, int]] = {
    "a page": (PAGE, 200),
    "nothing": (b"", 200),
    "204": (b"", 204),
    "an empty object": (b"{}", 200),
    "a list": (LIST, 200),
    "a failure told with 200": (FAILURE, 200),
    "another pod": (OURS.replace(b'"a"', b'"b"'), 200),
    "another kind": (NODE, 200),
    "half an object": (OURS[:-2], 200),
    "a number": (b"1", 201),
    "206": (OURS, 206),
}

PATH = "/api/v1/namespaces/ns/pods/a"
EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"
WRITES: dict[str, tuple[str, str, bytes]] = {
    "a Binding": ("POST", f"{PATH}/binding", binding_body("ns", "a", "u", "n")),
    "an eviction": ("POST", f"{PATH}/eviction", b"{}"),
    "a patch": ("PATCH", f"{PATH}/status", b'{"metadata":{"uid":"u"}}'),
    "a deletion": ("DELETE", PATH, b'{"preconditions":{"uid":"u"}}'),
    "a new Event": ("POST", EVENTS, b'{"metadata":{"name":"a.1"}}'),
    "a patch of an Event": ("PATCH", f"{EVENTS}/a.1", b'{"series":{"count":2}}'),
    "a claim replaced": ("PUT", f"{CLAIM}/status", b'{"metadata":{"name":"c","uid":"u"}}'),
    "a new claim": ("POST", CLAIM.rpartition("/")[0], b'{"metadata":{"generateName":"c-"}}'),
    "a volume": ("PATCH", "/api/v1/persistentvolumes/v", b'{"metadata":{"uid":"u"}}'),
    "a Lease": ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", b'{"metadata":{"name":"l"}}'),
}


async def written(write: str, answer: Explanation) -> bytes:
    method, path, body = WRITES[write]
    async with scripted_server(answer) as server, APIClient(plain_connection(server.url)) as client:
        if method == "PATCH":
            return await client.patch(path, body, STRATEGIC_MERGE, retries=0)
        if method == "PUT":
            return await client.put(path, body, retries=0)
        return await (client.post if method == "POST" else client.delete)(path, body, retries=0)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("answer", FOREIGN)
async def test_what_no_api_server_answers_leaves_the_outcome_of_a_write_unknown(write: str, answer: str) -> None:
    body, status = FOREIGN[answer]
    with pytest.raises(UnknownOutcomeError, match=f"answered {status} with"):
        await written(write, reply(body, status))


def reported(kind: str, name: str, uid: str = "u") -> bytes:
    return json.dumps({"kind": kind, "apiVersion": "any/v9", "metadata": {"name": name, "uid": uid}}).encode()


@pytest.mark.parametrize(
    ("write", "body", "status"),
    [
        pytest.param("a Binding", SUCCESS, 201, id="a Binding"),
        pytest.param("a Binding", SUCCESS.replace(b'"metadata":{}', b'"metadata": {}'), 200, id="spaced otherwise"),
        pytest.param("an eviction", SUCCESS, 201, id="an eviction"),
        pytest.param("an eviction", b'{"status":"Success","kind":"Status"}', 200, id="an eviction, in another order"),
        pytest.param("a patch", reported("Pod", "a"), 200, id="a patch"),
        pytest.param("a deletion", reported("Pod", "a"), 200, id="a pod that terminates"),
        pytest.param("a deletion", SUCCESS, 200, id="a deletion"),
        pytest.param("a deletion", reported("Pod", "a"), 202, id="a deletion that was accepted"),
        pytest.param("a new Event", reported("Event", "a.1"), 201, id="a new Event"),
        pytest.param("a patch of an Event", reported("Event", "a.1"), 200, id="a patch of an Event"),
        pytest.param("a claim replaced", reported("ResourceClaim", "c"), 200, id="a claim replaced"),
        pytest.param("a new claim", reported("ResourceClaim", "c-x7"), 201, id="a claim that the server has named"),
        pytest.param("a volume", reported("PersistentVolume", "v"), 200, id="a volume"),
        pytest.param("a Lease", reported("Lease", "l"), 200, id="a Lease"),
    ],
)
async def test_what_an_api_server_answers_is_believed(write: str, body: bytes, status: int) -> None:
    assert await written(write, reply(body, status)) == body


@pytest.mark.parametrize(
    "body", [PAGE, b"", b"{}", OURS.replace(b'"a"', b'"b"'), NODE], ids=["page", "nothing", "empty", "other", "kind"]
)
async def test_a_pod_is_not_gone_because_something_else_was_read_in_its_place(body: bytes) -> None:
    """An empty object would be a pod with another UID: ours would count as made again, and its node be given away."""
    async with scripted_server(reply(body)) as server, APIClient(plain_connection(server.url)) as client:
        reading = asyncio.create_task(client.get(PATH, retries=0))
        with pytest.raises(NetworkError, match="GET /api/v1/namespaces/ns/pods/a: answered 200 with"):
            await reading
