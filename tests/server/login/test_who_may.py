"""Over HTTPS: health is open, everything else is for whom the API server knows and allows; without an answer nobody."""

import asyncio
from pathlib import Path

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import ConfigurationError
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.server import HTTPServing
from kscheduler.server.login.authorities import AuthenticationSettings
from kscheduler.server.login.permissions import AuthorizationSettings
from tests.server.secure_site import NOTE, READER, secure_site, token_of

CLOSED = ("/metrics", "/configz", "/", "/nowhere", "/livez/ping", "/debug/stacks", "/waiting-pods")
REVIEWS = "/apis/*reviews"


async def test_without_credentials_only_health_is_open() -> None:
    async with secure_site() as site:
        for path in ("/livez", "/readyz", "/healthz"):
            assert await site.get(path) == (200, "ok")
        for path in CLOSED:
            assert await site.status(path) == 403, path
        assert site.requests("authn") == 0, "nobody asks whose an absent token is"


async def test_the_refusals_are_kubernetes_own() -> None:
    async with secure_site() as site:
        assert (await site.get("/metrics"))[1] == (
            '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            '"message":"forbidden: User \\"system:anonymous\\" cannot get path \\"/metrics\\"",'
            '"reason":"Forbidden","details":{},"code":403}'
        )
        unauthorized = (
            '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            '"message":"Unauthorized","reason":"Unauthorized","code":401}'
        )
        assert await site.get("/metrics", token="wrong") == (401, unauthorized)
        status, text = await site.get("/metrics", User_Agent="curl/8.1")
        assert (status, text.splitlines()[:2]) == (403, ["{", '  "kind": "Status",'])


async def test_a_path_cannot_write_html_into_the_refusal() -> None:
    async with secure_site() as site:
        status, text = await site.get("/<script>alert(1)</script>")
        assert status == 403
        assert "<script>" not in text


async def test_who_may_get_a_path_gets_it_and_no_other() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/metrics")
        token = token_of(READER)
        assert await site.status("/metrics", token) == 200
        assert await site.status("/configz", token) == 403
        assert await site.status("/metrics", token_of("system:serviceaccount:monitoring:other")) == 403


@pytest.mark.parametrize("group", ["system:authenticated", "system:serviceaccounts:monitoring"])
async def test_groups_of_the_user_are_queried_about(group: str) -> None:
    async with secure_site() as site:
        await site.grant(f"group:{group}", "/metrics", name="by-group")
        assert await site.status("/metrics", token_of(READER)) == 200
        assert await site.status("/metrics") == 403, "nobody is authenticated without credentials"


async def test_the_verb_counts() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/waiting-pods", "/waiting-pods/*")
        token = token_of(READER)
        assert await site.status("/waiting-pods", token) == 200
        assert (await site.get("/waiting-pods/x/allow", token, method="POST"))[0] == 403


async def test_names_of_objects_are_for_who_may_read_the_configuration() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/configz")
        assert NOTE not in (await site.get("/readyz?verbose"))[1]
        assert NOTE in (await site.get("/readyz?verbose", token_of(READER)))[1]
        assert NOTE not in (await site.get("/readyz?verbose", token_of("system:serviceaccount:a:b")))[1]


async def test_an_answer_is_remembered_and_then_queried_for_again() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/metrics")
        token = token_of(READER)
        for _ in range(5):
            assert await site.status("/metrics", token) == 200
        assert (site.requests("authn"), site.requests("authz")) == (1, 1)
        await site.grant(READER)  # the role is taken away
        assert await site.status("/metrics", token) == 200, "for ten seconds nobody asks"
        await site.clock.advance(10.1)
        assert await site.status("/metrics", token) == 403
        assert (site.requests("authn"), site.requests("authz")) == (2, 2)


async def test_a_no_is_remembered_as_long_as_its_flag_says() -> None:
    serving = HTTPServing(authorization=AuthorizationSettings(unauthorized_seconds=60.0))
    async with secure_site(serving) as site:
        token = token_of(READER)
        assert await site.status("/metrics", token) == 403
        await site.grant(READER, "/metrics")
        await site.clock.advance(30)
        assert await site.status("/metrics", token) == 403
        await site.clock.advance(31)
        assert await site.status("/metrics", token) == 200


async def test_without_a_time_to_remember_each_request_is_reviewed() -> None:
    serving = HTTPServing(
        authentication=AuthenticationSettings(token_cache_seconds=0),
        authorization=AuthorizationSettings(authorized_seconds=0, unauthorized_seconds=0),
    )
    async with secure_site(serving) as site:
        for _ in range(3):
            await site.status("/metrics", token_of(READER))
        assert (site.requests("authn"), site.requests("authz")) == (3, 3)


async def test_equal_queries_at_the_same_time_are_one() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/metrics")
        site.api.faults.add(InjectedFault("delay", path=REVIEWS, seconds=0.3))
        token = token_of(READER)
        answers = await asyncio.gather(*(site.status("/metrics", token) for _ in range(10)))
        assert set(answers) == {200}
        assert (site.requests("authn"), site.requests("authz")) == (1, 1)


async def test_the_api_server_away_closes_everything_but_health() -> None:
    nowhere = plain_connection("http://127.0.0.1:1")
    async with secure_site(connection=nowhere) as site:
        querying = [asyncio.create_task(site.get("/metrics", token)) for token in ("", token_of(READER))]
        while not all(task.done() for task in querying):
            assert await site.get("/livez") == (200, "ok")
            await site.clock.advance(1.0)
        anonymous, named = [task.result() for task in querying]
        assert anonymous[0] == 500
        assert anonymous[1].startswith('Internal Server Error: "/metrics": ')
        assert named[0] == 401
        assert await site.get("/readyz", token="whatever") == (200, "ok"), "health needs no login at all"


async def test_an_error_is_not_remembered() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/metrics")
        site.api.faults.add(InjectedFault("answer", path=REVIEWS, code=403, count=1))
        assert await site.status("/metrics", token_of(READER)) == 401
        assert await site.status("/metrics", token_of(READER)) == 200


async def test_an_answer_that_promises_to_get_better_is_queried_for_again() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/metrics")
        site.api.faults.add(InjectedFault("answer", path=REVIEWS, code=503, count=2))
        queried = asyncio.create_task(site.status("/metrics", token_of(READER)))
        while not queried.done():
            await site.clock.advance(0.5)
        assert queried.result() == 200
        assert site.requests("authn") == 3


@pytest.mark.parametrize("path", ["/metrics", "/m*"])
async def test_a_path_that_is_always_allowed_needs_no_login(path: str) -> None:
    async with secure_site(HTTPServing(authorization=AuthorizationSettings(always_allow_paths=(path,)))) as site:
        assert await site.status("/metrics") == 200
        assert await site.status("/livez") in (200, 403), "what is open is said by the flag"
        assert await site.status("/configz") == 403


SPELLINGS = (
    *("/%6detrics", "/metrics/", "//metrics", "/livez/../metrics", "/livez/%2e%2e/metrics", "/livez%2f..%2fmetrics"),
    *("/metrics;livez", "/metrics?x=/livez", "/METRICS", "/livez%00/metrics", "/livez?/metrics", "/./metrics"),
)


async def test_no_path_reaches_what_another_path_is_refused() -> None:
    """Spellings that a router and a check could read differently."""
    async with secure_site() as site:
        for path in SPELLINGS:
            status, text = await site.get(path)
            assert status != 200 or text == "ok", path


async def test_the_permit_token_opens_what_it_opened_before_and_is_not_sent_on(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("correct horse battery staple")
    async with secure_site(token_file=file) as site:
        for path in ("/waiting-pods", "/configz"):
            assert await site.status(path, "correct horse battery staple") == 200, path
        assert site.requests("authn") == 0
        assert await site.status("/metrics", "correct horse battery staple") == 401
        assert await site.status("/waiting-pods", "wrong horse battery staple") == 401


async def test_the_series_count_what_happened_without_a_name() -> None:
    async with secure_site() as site:
        await site.grant(READER, "/metrics")
        for token, path in ((token_of(READER), "/metrics"), (token_of(READER), "/configz"), ("wrong", "/"), ("", "/")):
            await site.status(path, token)
        metrics = site.login.metrics
        assert metrics.attempts == {("success",): 3, ("error",): 1}
        assert metrics.users == {("other",): 3}
        assert metrics.decisions == {("allowed",): 1, ("no-opinion",): 2}
        names = [sample.series.name for sample in site.login.samples()]
        assert {"authentication_attempts", "authenticated_user_requests", "authorization_attempts_total"} <= set(names)


async def test_a_lookup_that_must_succeed_ends_the_start() -> None:
    serving = HTTPServing(authentication=AuthenticationSettings(tolerate_lookup_failure=False))
    with pytest.raises(ConfigurationError, match="tolerate-lookup-failure"):
        async with secure_site(serving, connection=plain_connection("http://127.0.0.1:1")):
            pass


async def test_a_compressed_body_is_refused_unread() -> None:
    async with secure_site() as site:
        assert (await site.get("/livez", method="POST", Content_Encoding="gzip"))[0] == 415
