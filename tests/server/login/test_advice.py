"""What is said when the login cannot ask the API server: the advice belongs to the cause, and rights to 403 alone."""

import pytest
from structlog.testing import capture_logs

from kscheduler.aio.clock import VirtualClock
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.server.login.authorities import AuthenticationSettings, ClientAuthorities
from kscheduler.server.login.cluster_authentication import ClusterAuthentication
from kscheduler.server.login.login_metrics import LoginMetrics
from kscheduler.server.login.reviews import ReviewError, Reviews
from tests.client.scripted import reply, scripted_server

REFUSED = '{"kind":"Status","code":%d,"message":"no"}'
CASES = [
    pytest.param(401, "the credentials are not accepted", id="a token that has expired"),
    pytest.param(403, "Role", id="no right"),
    pytest.param(500, "the API server answers and fails", id="an error of the server"),
]


async def lines_of_authorities(code: int, *seconds: float) -> list[str]:
    """The advice of each line, where the ConfigMap is asked for at these times."""
    clock = VirtualClock()
    async with scripted_server(reply(REFUSED % code, code)) as api, APIClient(plain_connection(api.url)) as client:
        cluster = ClusterAuthentication(client, ClientAuthorities(AuthenticationSettings(), lambda _: None), clock)
        with capture_logs() as lines:
            for moment in seconds:
                await clock.advance(moment - clock.monotonic())
                await cluster._read()
    assert {line["event"] for line in lines} <= {"cluster_authorities_not_read"}
    return [str(line["advice"]) for line in lines]


async def lines_of_reviews(code: int, *seconds: float) -> list[str]:
    """The advice of each line, where a review is asked for at these times."""
    clock = VirtualClock()
    async with scripted_server(reply(REFUSED % code, code)) as api, APIClient(plain_connection(api.url)) as client:
        metrics = LoginMetrics()
        reviews = Reviews(client, "/review", metrics.token_reviews, metrics.token_review_seconds, clock)
        with capture_logs() as lines:
            for moment in seconds:
                await clock.advance(moment - clock.monotonic())
                with pytest.raises(ReviewError):
                    await reviews.create({})
    return [str(line["advice"]) for line in lines]


@pytest.mark.parametrize(("code", "advice"), CASES)
async def test_the_authorities_of_the_cluster(code: int, advice: str) -> None:
    (line,) = await lines_of_authorities(code, 0.0, 10.0)
    assert advice in line
    assert ("RoleBinding" in line) == (code == 403)


@pytest.mark.parametrize(("code", "advice"), CASES[:2])
async def test_reviews(code: int, advice: str) -> None:
    (line,) = await lines_of_reviews(code, 0.0, 10.0)
    assert advice in line
    assert ("ClusterRole" in line) == (code == 403)


async def test_a_server_that_refuses_once_while_it_starts_is_not_reported() -> None:
    assert await lines_of_authorities(403, 0.0) == []
    assert await lines_of_reviews(403, 0.0, 1.5) == []
