"""What the other paths answer."""

import asyncio
import json

import aiohttp
import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kscheduler import __version__
from kscheduler.scheduling.observations import AttemptResult
from kscheduler.server import Address, Limits, Server
from tests.server.site import PLAIN, Site, StartSite
from tests.told import CONFLICT


async def json_of(site: Site, path: str) -> object:
    async with site.client.get(path) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "application/json"
        return json.loads(await response.read())


async def test_configz_reports_the_configuration_in_force(site: Site) -> None:
    assert await json_of(site, "/configz") == {
        "componentconfig": {"kind": "KubeSchedulerConfiguration", "parallelism": 16}
    }


async def test_version_has_the_api_servers_field_names(site: Site) -> None:
    version = await json_of(site, "/version")
    assert isinstance(version, dict)
    assert version["gitVersion"] == f"v{__version__}"
    assert {"major", "minor", "platform"} <= version.keys()


async def test_the_index_lists_paths_that_all_exist(site: Site) -> None:
    index = await json_of(site, "/")
    assert isinstance(index, dict)
    assert {"/livez", "/readyz", "/readyz/sched-handler-sync", "/metrics", "/configz"} <= set(index["paths"])
    statuses = [(await site.text(path))[0] for path in index["paths"]]
    assert statuses == [200] * len(statuses)


async def test_an_unknown_path_is_404_in_text(site: Site) -> None:
    async with site.client.get("/apis") as response:
        assert response.status == 404
        assert response.content_type == "text/plain"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "/livez", id="post-livez"),
        pytest.param("PUT", "/configz", id="put-configz"),
        pytest.param("DELETE", "/configz", id="delete-configz"),
        pytest.param("DELETE", "/metrics", id="delete-metrics"),
        pytest.param("POST", "/readyz/shutdown", id="post-check"),
        pytest.param("PUT", "/version", id="put-version"),
        pytest.param("PATCH", "/metrics", id="patch-metrics"),
        pytest.param("OPTIONS", "/metrics", id="options-metrics"),
        pytest.param("TRACE", "/", id="trace-index"),
    ],
)
async def test_nothing_but_reading_is_allowed(site: Site, method: str, path: str) -> None:
    async with site.client.request(method, path) as response:
        assert response.status == 405
        assert "GET" in response.headers["Allow"]


@pytest.mark.parametrize("path", ["/livez", "/metrics", "/configz"])
async def test_head_answers_like_get_without_a_body(site: Site, path: str) -> None:
    async with site.client.head(path) as response:
        assert response.status == 200
        assert await response.read() == b""


@pytest.mark.parametrize("path", ["/", "/livez", "/metrics", "/nowhere", "/livez/nowhere"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_no_answer_reports_which_python_serves(site: Site, path: str, method: str) -> None:
    async with site.client.request(method, path) as response:
        assert response.headers["Server"] == "kscheduler"
        assert not {"aiohttp", "Python"} & set((await response.text()).split("/"))


async def test_metrics_are_served_as_text(site: Site) -> None:
    site.observations.attempt(AttemptResult.SCHEDULED, "default-scheduler", 0.001)
    async with site.client.get("/metrics") as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        names = {metric.name for metric in text_string_to_metric_families(await response.text())}
    assert {"scheduler_schedule_attempts", "scheduler_scheduling_attempt_duration_seconds"} <= names


async def test_metrics_are_served_as_openmetrics_to_who_asks(site: Site) -> None:
    async with site.client.get("/metrics", headers={"Accept": "application/openmetrics-text"}) as response:
        assert response.content_type == "application/openmetrics-text"
        text = await response.text()
    assert text.endswith("# EOF\n")
    assert "scheduler_preemption_attempts" in {m.name for m in parse_openmetrics(text)}  # type: ignore[no-untyped-call]


async def test_metrics_are_compressed_only_for_who_can_read_it(site: Site) -> None:
    for encoding, expected in (
        ("gzip", "gzip"),
        ("identity", None),
        ("gzip;q=0, identity", None),
        ("br, GZIP", "gzip"),
    ):
        async with site.client.get("/metrics", headers={"Accept-Encoding": encoding}) as response:
            assert response.headers.get("Content-Encoding") == expected
            assert (await response.text()).startswith("# HELP")


async def test_deleting_metrics_is_refused_and_changes_nothing(site: Site) -> None:
    site.observations.bind_in_doubt(CONFLICT)
    async with site.client.delete("/metrics") as response:
        assert (response.status, response.headers["Allow"]) == (405, "GET,HEAD")
    _, text = await site.text("/metrics")
    assert "kscheduler_bind_conflicts_total 1.0\n" in text


async def test_many_scrapes_at_once_all_get_the_whole_exposition(site: Site) -> None:
    answers = await asyncio.gather(*(site.text("/metrics") for _ in range(25)))
    assert {status for status, _ in answers} == {200}
    assert len({len(text) for _, text in answers}) == 1
    assert site.exposition.renderings < 25


async def test_probes_are_answered_while_metrics_are_rendered(site: Site) -> None:
    scrapes = [asyncio.create_task(site.text("/metrics")) for _ in range(5)]
    assert await site.text("/livez") == (200, "ok")
    await asyncio.gather(*scrapes)


async def test_after_the_end_nobody_listens_and_ending_twice_is_harmless(start_site: StartSite) -> None:
    site = await start_site(Limits())
    port = site.server.port
    await site.server.aclose()
    await site.server.aclose()
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(f"http://127.0.0.1:{port}/livez")


async def test_a_port_that_is_taken_is_an_error_of_the_system(site: Site, start_site: StartSite) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        await start_site(Limits(), replace(PLAIN, address=Address("127.0.0.1", site.server.port)))


def test_the_port_is_known_once_the_server_listens(site: Site) -> None:
    assert isinstance(site.server, Server)
    assert site.server.port > 0
