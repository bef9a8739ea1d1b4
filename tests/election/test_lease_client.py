"""What the API server, or something in between, answers to requests for the Lease."""

import json
from collections.abc import Callable

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError, ClientError, UnknownOutcomeError
from kscheduler.client.rest import APIClient
from kscheduler.election.lease import LeaseRecord, StoredLease
from kscheduler.election.lease_client import LeaseClient
from kscheduler.election.rules import Write
from tests.client.scripted import Explanation, reply, scripted_server

RECORD = LeaseRecord("me", 15, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:02.000000Z", 3)
OVER = StoredLease(RECORD, "1", {"name": "x", "namespace": "ns", "uid": "u"})


def lease(version: str = "2", name: str = "x", **spec: object) -> str:
    metadata = {"name": name, "namespace": "ns", "uid": "u", "resourceVersion": version}
    return json.dumps({"kind": "Lease", "metadata": metadata, "spec": RECORD.spec() | spec})


NO_LEASES = [
    pytest.param(reply("<html>log in</html>"), id="a page"),
    pytest.param(reply(""), id="nothing"),
    pytest.param(reply("", status=204), id="no content"),
    pytest.param(reply("[]"), id="a list"),
    pytest.param(reply("3"), id="a number"),
    pytest.param(reply('"Lease"'), id="a word"),
    pytest.param(reply("{}"), id="an empty object"),
    pytest.param(reply('{"kind": "Status", "status": "Success", "metadata": {}}'), id="a Status"),
    pytest.param(reply('{"kind": "Pod", "metadata": {"name": "x", "resourceVersion": "2"}}'), id="another kind"),
    pytest.param(reply(lease(name="y")), id="another Lease"),
    pytest.param(reply("[" * 100_000), id="too deep"),
    pytest.param(reply(b"\xff\xfe{}"), id="no text"),
]
OTHERS = [
    pytest.param(reply(lease(holderIdentity="other")), id="somebody else's"),
    pytest.param(reply(lease(holderIdentity="")), id="released"),
    pytest.param(reply(lease(renewTime="2026-01-01T00:00:01.000000Z")), id="an older one of ours"),
    pytest.param(reply(lease(renewTime=None)), id="without a time"),
]


async def outcome(answer: Explanation, request: Callable[[LeaseClient], object]) -> object:
    """What the request returns or raises."""
    async with scripted_server(answer) as server, APIClient(plain_connection(server.url)) as client:
        try:
            return await request(LeaseClient(client, "ns", "x"))  # type: ignore[misc]
        except ClientError as failure:
            return failure


@pytest.mark.parametrize("over", [None, OVER], ids=["create", "replace"])
@pytest.mark.parametrize("answer", [*NO_LEASES, *OTHERS])
async def test_an_answer_that_does_not_show_what_was_written_is_an_unknown_outcome(
    answer: Explanation, over: StoredLease | None
) -> None:
    """Taken for a success it would mean leading without a Lease."""
    found = await outcome(answer, lambda client: client.write(Write(RECORD, over, 5.0)))
    assert isinstance(found, UnknownOutcomeError)


@pytest.mark.parametrize("answer", NO_LEASES)
async def test_an_answer_to_a_read_that_is_no_lease_is_a_failure_like_any_other(answer: Explanation) -> None:
    assert isinstance(await outcome(answer, lambda client: client.read(5.0)), ClientError)


async def test_what_was_written_is_returned_as_stored() -> None:
    found = await outcome(reply(lease("7")), lambda client: client.write(Write(RECORD, OVER, 5.0)))
    assert isinstance(found, StoredLease)
    assert (found.version, found.record) == ("7", RECORD)


@pytest.mark.parametrize("retry_after", ["3600", "9" * 40, "-1", "soon"])
async def test_no_retry_after_delays_a_renewal(retry_after: str) -> None:
    """The rules decide when the Lease is asked for again: there are only a few seconds."""
    refusing = reply("{}", status=429, Retry_After=retry_after)
    found = await outcome(refusing, lambda client: client.write(Write(RECORD, OVER, 5.0)))
    assert isinstance(found, APIError)
    assert found.is_too_many_requests


@pytest.mark.parametrize("seconds", [-5, 2**40, 10**300, "15", None, 1.5, True])
async def test_odd_durations_of_others_do_no_harm(seconds: object) -> None:
    found = await outcome(reply(lease(leaseDurationSeconds=seconds)), lambda client: client.read(5.0))
    assert isinstance(found, StoredLease | UnknownOutcomeError)
    if isinstance(found, StoredLease):
        assert 0 <= found.record.duration_seconds < 2**31
