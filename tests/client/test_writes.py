"""Bodies of the writes, and when a status patch is not sent at all."""

import asyncio
import json
from typing import Any

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.meta import Condition, ObjectMeta
from kscheduler.client import UNCHANGED, APIClient, APIError, PodWriter, Unchanged, plain_connection
from kscheduler.client.writes.pods import BIND_SECONDS, binding_body, pod_path, status_patch
from tests.client.scripted import Answer, reply, scripted_server, vanish

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
    ) -> bytes:
        self.seconds.append(timeout_seconds)
        return b""


async def test_a_binding_waits_for_the_answer_of_a_webhook_that_takes_all_its_thirty_seconds() -> None:
    """Hanging up at the same moment would make each failure of the webhook an unknown outcome, pursued for ever."""
    client = Deadlines()
    await PodWriter(client).bind("ns", "a", "u", "n1")
    assert client.seconds == [BIND_SECONDS]
    assert BIND_SECONDS > 60.0, "an API server's --request-timeout"


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
    answers: list[Answer] = [reply(b"{}", 201), reply(b'{"metadata":{"name":"a","namespace":"ns"}}'), reply(b"{}")]
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
OURS = b'{"metadata":{"name":"a","namespace":"ns","uid":"u"}}'
ANOTHERS = b'{"metadata":{"name":"a","namespace":"ns","uid":"another"}}'
REFUSED = b'{"message":"m"}'


async def evicted(*answers: Answer) -> tuple[bool | int, list[str]]:
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
async def test_an_eviction_tells_the_pod_and_deletes_it(
    answers: list[Answer], outcome: bool | int, requests: list[str]
) -> None:
    """`True`: it was deleted; `False`: it was gone already, or another pod has its name."""
    assert await evicted(*answers) == (outcome, requests)
