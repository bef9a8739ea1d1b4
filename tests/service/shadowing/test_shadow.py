"""A shadow on the embedded API server, beside a kscheduler that decides. KSCHEDULER_LONG=1: thousands of pods."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kscheduler.assembly import configured_kinds
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.reachability import DOUBT_SECONDS
from kscheduler.client.rest import WriteRefusedError
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import LoadedConfig, default_configuration, from_tree
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service.shadowing import ShadowApp, ShadowOptions, service
from kscheduler.service.shadowing.options import following
from kscheduler.shadow.comparison import KSCHEDULER, KUBE_SCHEDULER, Comparison, DifferenceKind
from kscheduler.shadow.report import LeftPendingPod, ShadowReport
from tests.builders import node_tree, pod_tree
from tests.service.running import SECONDS, node_of, put, running, until

PODS = 3_000 if os.environ.get("KSCHEDULER_LONG") == "1" else 150
BATCH = 30
PACKING: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "kscheduler",
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ],
            "plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 50}]}},
        }
    ],
}


@asynccontextmanager
async def shadowing(
    server: EmbeddedAPIServer, config: LoadedConfig | None = None, **options: Any
) -> AsyncIterator[ShadowApp]:
    """A shadow from its first comparison to its orderly end."""
    given = ShadowOptions(config or default_configuration(), settle_seconds=0.3, **{"followed": KSCHEDULER, **options})
    app = ShadowApp(given, plain_connection(server.url))
    stop = asyncio.Event()
    task = asyncio.ensure_future(app.run(stop))
    try:
        async with asyncio.timeout(SECONDS):
            await app.parts.follower.begun.wait()
        yield app
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS):
            await task


async def compared(app: ShadowApp, count: int) -> None:
    """Wait until so many bindings have been compared."""
    follower, changed = app.parts.follower, asyncio.Event()
    log = follower.on_comparison

    def heard(verdict: Comparison) -> None:
        log(verdict)
        changed.set()

    follower.on_comparison = heard
    async with asyncio.timeout(4 * SECONDS + count):
        while follower.sums.judged < count:
            changed.clear()
            await changed.wait()


async def page(app: ShadowApp, path: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{app.server.port}{path}") as answer:
        return answer.status, await answer.text(), answer.headers.get("Content-Security-Policy", "")


async def crowd(server: EmbeddedAPIServer) -> None:
    """Pods come and go, while bindings are under way."""
    waiting: list[str] = []
    for number in range(PODS):
        name = f"p{number:04}"
        cpu = ("100m", "200m", "500m")[number % 3]
        put(server, "pods", pod_tree(name, requests={"cpu": cpu, "memory": "64Mi"}, labels={"app": f"a{number % 5}"}))
        waiting.append(name)
        if number % 10 == 0:
            await asyncio.sleep(0)
        if number % 4 == 0 and node_of(server, waiting[0]):
            server.store.remove("pods", ("default", waiting.pop(0)))
        if number % BATCH == BATCH - 1:
            last = waiting[-1]
            await until(server, lambda last=last: bool(node_of(server, last)))  # type: ignore[misc]
    await until(server, lambda: all(node_of(server, name) for name in waiting))


async def test_a_shadow_of_the_same_rules_differs_by_order_at_most_and_writes_nothing() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(40):
            zone = {"topology.kubernetes.io/zone": f"z{number % 3}"}
            put(server, "nodes", node_tree(f"n{number:02}", labels=zone, cpu="16"))
        reports: list[ShadowReport] = []
        async with running(server), shadowing(server, report=reports.append) as shadow:
            await crowd(server)
            await compared(shadow, PODS)
            status, text, _ = await page(shadow, "/metrics")
            ready, _, _ = await page(shadow, "/readyz")
            requests = shadow.parts.client.statistics().requests
    (report,) = reports
    kinds = {kind: count for kind, count in report.kinds.items() if count}
    assert set(kinds) <= {"same", "order"}, report.examples
    assert (report.compared, report.differences, report.agreement) == (PODS, 0, 1.0)
    assert report.placements.elsewhere == 0
    assert set(report.placements.theirs.pods_by_zone) == {"z0", "z1", "z2"}
    assert (status, ready) == (200, 200)
    assert 'kscheduler_shadow_comparisons_total{kind="same",scheduler="kscheduler"}' in text
    assert "kscheduler_shadow_differences_total 0.0" in text
    assert {method for _, method in requests} == {"GET"}


async def test_another_policy_is_reported_with_the_points_of_both_nodes() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(6):
            put(server, "nodes", node_tree(f"n{number}", cpu="16"))
        async with running(server), shadowing(server, from_tree(PACKING, "new.yaml")) as shadow:
            for number in range(12):
                put(server, "pods", pod_tree(f"<b>web-{number}", requests={"cpu": "2", "memory": "1Gi"}))
                await until(server, lambda name=f"<b>web-{number}": bool(node_of(server, name)))  # type: ignore[misc]
            await compared(shadow, 12)  # all that were bound
            _, body, _ = await page(shadow, "/shadow.json")
            status, html, policy = await page(shadow, "/shadow")
    report = json.loads(body)
    assert report["kinds"]["different score"] >= 5
    assert report["differences"] == report["compared"] - report["kinds"]["same"] - report["kinds"]["order"]
    assert report["reasons"][0]["reason"] == "NodeResourcesFit gives our node more points"
    example = report["examples"]["different score"][0]
    assert example["against"]["behind"] > 0
    assert {each["plugin"] for each in example["against"]["points"]} >= {"NodeResourcesFit"}
    assert status == 200
    assert "&lt;b&gt;web-" in html
    assert "<b>web-" not in html, "names are text, never markup"
    assert policy.startswith("default-src 'none'")


async def test_a_shadow_ends_by_itself_when_its_time_is_over() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        reports: list[ShadowReport] = []
        options = ShadowOptions(default_configuration(), seconds=0.05, report=reports.append)
        async with asyncio.timeout(SECONDS):
            await ShadowApp(options, plain_connection(server.url)).run(asyncio.Event())
    assert [report.compared for report in reports] == [0]


async def test_its_time_is_over_at_an_api_server_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "SYNC_SECONDS", 0.1)
    reports: list[ShadowReport] = []
    options = ShadowOptions(default_configuration(), seconds=0.05, report=reports.append)
    callers: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _reader, writer: callers.append(writer), "127.0.0.1", 0)
    async with silent, asyncio.timeout(SECONDS):
        port = silent.sockets[0].getsockname()[1]
        await ShadowApp(options, plain_connection(f"http://127.0.0.1:{port}")).run(asyncio.Event())
        for writer in callers:
            writer.close()
            await writer.wait_closed()
    assert callers
    assert [report.compared for report in reports] == [0]


async def test_it_is_not_ready_as_soon_as_the_api_server_has_gone() -> None:
    async with EmbeddedAPIServer(seed=1) as server, shadowing(server) as shadow:
        assert (await page(shadow, "/readyz?verbose"))[0] == 200
        reachability, now = shadow.parts.reachability, shadow.parts.clock.monotonic()
        reachability.failed(ConnectionRefusedError(), now - DOUBT_SECONDS)
        status, text, _ = await page(shadow, "/readyz?verbose")
    assert status == 500
    assert "has not served us for 2" in text


async def test_what_is_left_pending_by_the_other_is_reported() -> None:
    """Nobody decides here: the pod bears the other's condition, and there is room."""
    refused = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("n0"))
        put(server, "pods", pod_tree("web", status=refused))
        async with shadowing(server, grace_seconds=0.0, followed=KUBE_SCHEDULER) as shadow:
            shadow.parts.follower.look_at_pending()
            report = shadow.report()
    assert report.left_pending.pods == (LeftPendingPod("default/web", "n0", 0),)


async def test_no_verb_but_get_leaves_a_shadow() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "pods", pod_tree("web"))
        app = ShadowApp(ShadowOptions(default_configuration()), plain_connection(server.url))
        async with app.parts.client as client, app.parts.plugin_client as of_plugins:
            for each in (client, of_plugins):
                path = "/api/v1/namespaces/default/pods/web"
                assert b"web" in await each.get(path)
                for write in (
                    each.post(path, b"{}"),
                    each.put(path, b"{}"),
                    each.patch(path, b"{}"),
                    each.delete(path),
                ):
                    with pytest.raises(WriteRefusedError, match="nothing was sent"):
                        await write
        ports = app.parts.follower.assembly.ports
    assert type(ports.binder).__name__ == "NoBinder"
    assert type(ports.evictor).__name__ == "NoEviction"
    assert (ports.volume_writer, ports.claim_storage) == (None, None)


def test_one_profile_decides_for_every_name_that_is_followed() -> None:
    config = following(default_configuration(), ("default-scheduler", "batch"))
    assert [profile.scheduler_name for profile in config.configuration.profiles] == ["default-scheduler", "batch"]


def test_of_several_profiles_a_name_that_none_has_is_refused() -> None:
    two = {**PACKING, "profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}]}
    with pytest.raises(ConfigError, match="three: no profile has this name, and there are several: one, two"):
        following(from_tree(two, "new.yaml"), ("three",))
    only = following(from_tree(two, "new.yaml"), ("two",))
    assert [profile.scheduler_name for profile in only.configuration.profiles] == ["two"]


def test_every_kind_has_a_meaning_in_the_report() -> None:
    from kscheduler.shadow.as_text import KINDS

    assert set(KINDS) == {kind.value for kind in DifferenceKind}


@pytest.mark.parametrize(
    ("follows", "reported"),
    [
        pytest.param("kscheduler", [], id="followed"),
        pytest.param(
            "nobody",
            ["no pod names scheduler nobody; pods name kscheduler (--follow-scheduler NAME follows one of these)"],
            id="misspelt",
        ),
    ],
)
async def test_a_shadow_says_where_its_report_is_and_subject_nobody_names(follows: str, reported: list[str]) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "pods", pod_tree("web"))
        said: list[str] = []
        config = following(default_configuration(), (follows,))
        async with shadowing(server, config, say=said.append) as shadow:
            async with asyncio.timeout(SECONDS):
                while len(said) < 1 + len(reported):  # noqa: ASYNC110  it rings no bell
                    await asyncio.sleep(0.01)
            url = said[0].removeprefix("the report so far: ")
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                assert answer.status == 200
            assert url.endswith(f":{shadow.server.port}/shadow")
    assert said[1:] == reported


async def test_a_shadow_watches_what_the_configuration_asks_for_as_the_service_does() -> None:
    asks = {"podGroupAPIs": ["volcano"], "topologyAPIs": ["kueue", "volcano"]}
    config = from_tree({**PACKING, **asks}, "test")
    async with EmbeddedAPIServer(seed=1) as server, shadowing(server, config) as app:
        watched = {each.resource for each in app.parts.informers.statistics()}
    assert {"topologies.kueue.x-k8s.io", "hypernodes.topology.volcano.sh"} <= watched
    assert watched >= {kind.resource for kind in configured_kinds(config)}
