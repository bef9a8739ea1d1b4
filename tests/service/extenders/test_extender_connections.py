"""Extenders come and go with the configuration: drafts open nothing, and what is replaced is closed."""

import subprocess
import sys
from collections.abc import Mapping

import msgspec
import pytest

from kscheduler.api.core import Pod
from kscheduler.client.errors import APIError, APIStatus, NetworkError
from kscheduler.config.types import Extender
from kscheduler.scheduling.extenders.bind_outcomes import UNKNOWN_PLACE, PodPlace
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.service.extender_connections import ExtenderConnections
from tests.builders import make_pod, pod_info
from tests.client.http.raw_server import Peer, raw_server
from tests.scheduling.eviction.stage import turns

POD = make_pod("p")


class OnePod:
    """An API server with one pod, or with a failure."""

    def __init__(self, answer: Pod | Exception = POD) -> None:
        self.answer = answer

    async def get_pod(self, namespace: str, name: str) -> Pod:
        assert (namespace, name) == ("default", "p")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class WholePods:
    """An API server that answers every request with the pod."""

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        del path, params
        return msgspec.json.encode(POD)


def connections(pods: OnePod | None = None, shown: Pod | None = None) -> ExtenderConnections:
    """`shown`: the pod as the watch has it."""
    return ExtenderConnections(pods or OnePod(), WholePods(), lambda _: None, lambda _: shown, lambda: True)


async def leave_all(peer: Peer) -> None:
    while True:
        await peer.request()
        body = b'{"NodeNames":["a"]}'
        peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def left(querying: Extenders | None) -> str:
    """The node that is left, or the failure."""
    assert querying is not None
    answers = await querying.about_nodes(pod_info("p"), ["a"])
    return answers.status.message or "".join(answers.left)


async def test_what_is_replaced_is_closed_and_a_draft_that_was_dropped_changes_nothing() -> None:
    async with raw_server(leave_all) as server:
        extender = Extender(server.url, filter_verb="f", node_cache_capable=True)
        made = connections()
        first = made([extender])
        made.apply(first)
        assert await left(first) == "a"
        made([extender, extender])  # drafted, and refused
        assert await left(first) == "a"
        made.in_use = lambda: [first]
        second = made([extender, extender])
        made.apply(second)
        await turns()
        assert await left(first) == "a", "an attempt has it"
        made.in_use = list
        made.look()
        await turns()
        assert "no longer configured" in await left(first)
        assert await left(second) == "a"
        await made.aclose()
        assert "no longer configured" in await left(second)


async def test_a_configuration_with_the_same_extenders_keeps_their_connections() -> None:
    extender = Extender("http://a", filter_verb="f")
    made = connections()
    first = made([extender])
    made.apply(first)
    assert made([extender]) is first
    made.apply(first)
    assert made([extender, extender]) is not first
    assert made([extender]) is first, "the draft was dropped"
    await made.aclose()


async def test_without_extenders_there_is_nobody_to_ask() -> None:
    made = connections()
    assert made([]) is None
    made.apply(None)
    await made.aclose()


HERE = make_pod("p", node="n")
GONE = PodPlace(is_gone=True)


@pytest.mark.parametrize(
    ("shown", "answer", "expected"),
    [
        (HERE, NetworkError("away"), PodPlace("n")),
        (POD, HERE, PodPlace("n")),
        (None, HERE, PodPlace("n")),
        (POD, POD, PodPlace()),
        (make_pod("p", node="m", uid="another"), HERE, PodPlace("n")),
        (POD, make_pod("p", node="n", uid="another"), GONE),
        (POD, APIError(APIStatus(code=404)), GONE),
        (POD, APIError(APIStatus(code=500)), UNKNOWN_PLACE),
        (POD, NetworkError("away"), UNKNOWN_PLACE),
    ],
    ids=[
        "shown",
        "the watch is late",
        "the watch has lost it",
        "not bound",
        "the watch has another pod",
        "made again",
        "deleted",
        "refused",
        "away",
    ],
)
async def test_where_a_pod_is(shown: Pod | None, answer: Pod | Exception, expected: PodPlace) -> None:
    assert await connections(OnePod(answer), shown).place_of(POD) == expected


def test_who_has_no_extenders_imports_no_client_for_them() -> None:
    program = (
        "import sys; from kscheduler.service.extender_connections import ExtenderConnections; "
        "assert ExtenderConnections(None, None, None, None, None)([]) is None; "
        "print([name for name in sys.modules if 'extenders.' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "kscheduler.client.extenders.caller" not in ran.stdout
    assert "kscheduler.scheduling.extenders.extender_results" in ran.stdout
