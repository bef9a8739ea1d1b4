"""The pages of a running service: what they say, in plain HTML, for every client and whatever things are called."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import App
from tests.builders import node_tree, pod_tree
from tests.service.running import SECONDS, node_of, put, running, until


@dataclass
class Scene:
    server: EmbeddedAPIServer
    app: App
    session: aiohttp.ClientSession

    async def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        url = f"http://127.0.0.1:{self.app.server.port}{path}"
        async with self.session.get(url, headers=headers, allow_redirects=False) as response:
            return (
                response.status,
                await response.text(),
                {str(name): value for name, value in response.headers.items()},
            )

    async def page(self, path: str) -> str:
        status, text, _ = await self.get(path)
        assert status == 200, text
        return text

    async def page_with(self, path: str, *texts: str) -> str:
        """The page, as soon as it says all of this."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = await self.page(path)
                if all(text in found for text in texts):
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with EmbeddedAPIServer(seed=1) as server:
        for number in range(3):
            labels = {"topology.kubernetes.io/zone": f"zone-{number % 2}"}
            put(server, "nodes", node_tree(f"node-{number}", cpu="4", labels=labels))
        async with running(server) as (app, _, _), aiohttp.ClientSession() as session:
            put(server, "pods", pod_tree("small", requests={"cpu": "1"}))
            await until(server, lambda: bool(node_of(server, "small")))
            yield Scene(server, app, session)


async def test_the_overview_shows_nodes_queues_and_what_was_decided(scene: Scene) -> None:
    page = await scene.page_with("/ui/", "/ui/pods/default/small")
    for text in ('<h2 id="h-queues">', "zone-0", "zone-1", "unschedulable", "No pod waits for a node."):
        assert text in page


async def test_a_pod_that_fits_nowhere_is_among_the_reasons(scene: Scene) -> None:
    put(scene.server, "pods", pod_tree("huge", requests={"cpu": "64"}))
    page = await scene.page_with("/ui/", "0/3 nodes are available: 3 Insufficient cpu")
    assert "/ui/pods/default/huge" in page
    assert "NodeResourcesFit" in page


async def test_a_pods_story_reports_its_place_its_attempts_and_who_turned_nodes_down(scene: Scene) -> None:
    put(scene.server, "pods", pod_tree("huge", requests={"cpu": "64"}))
    page = await scene.page_with("/ui/pods/default/huge", "Nodes rejected", "0/3 nodes are available")
    assert "Unschedulable" in page
    assert "tried again when" in page
    assert 'title="NodeAdd, NodeUpdateNodeAllocatable' in page
    assert ">a node is added or changes its room" in page
    assert "<code>AssignedPodDelete</code>" in page


async def test_a_pod_that_is_kept_out_says_by_subject_why_and_what_is_missing(scene: Scene) -> None:
    claim = {"name": "gpu", "resourceClaimName": "one-gpu"}
    for number in range(2):
        put(scene.server, "pods", pod_tree(f"waits-{number}", resourceClaims=[claim]))
    why = "could not find ResourceClaim &#34;default/one-gpu&#34;"
    page = await scene.page_with("/ui/pods/default/waits-0", "What would help", why)
    assert f"is gated by DynamicResources: {why}" in page
    assert "Nothing yet: there was no attempt." in page
    assert "turned down by" not in page
    assert "<code>ResourceClaim one-gpu</code>" in page
    assert "It waits for a missing object: create ResourceClaim one-gpu in namespace default." in page
    overview = await scene.page_with("/ui/", "waits-1", why)
    assert overview.count(why) == 1, "both pods are one row"


async def test_a_reason_names_the_change_that_frees_most_of_its_pods(scene: Scene) -> None:
    for number in range(3):
        put(scene.server, "pods", pod_tree(f"big-{number}", requests={"cpu": "5"}))
    page = await scene.page_with("/ui/", "would fit:", "of cpu instead of 5", "helps all 3")
    assert "request 3 of cpu instead of 5" in page
    assert "(3 nodes; helps all 3)" in page
    assert '<a class="name" href="/ui/pods/default/big-0">default/big-0</a> would fit:' in page
    assert "kubectl" in page


async def test_the_change_of_a_reason_is_for_most_of_its_pods_and_names_the_pod_that_it_was_tried_for(
    scene: Scene,
) -> None:
    put(scene.server, "pods", pod_tree("aa-typo", nodeSelector={"disktype": "sdd"}))
    for number in range(2):
        put(scene.server, "pods", pod_tree(f"web-{number}", nodeSelector={"dedicated": "x"}))
    for path in ("/ui/", "/ui/pending"):
        page = await scene.page_with(path, "default/aa-typo", "default/web-0</a> would fit:", "dedicated=x")
        assert (
            "(3 nodes; 2 of the 3 have the same spec: helps both; 1 other has another spec and was not tried)" in page
        )


async def test_a_gated_pod_that_nothing_helps_is_reported_that_its_gate_must_go_first(scene: Scene) -> None:
    gates = [{"name": "x/quota"}]
    put(scene.server, "pods", pod_tree("held", requests={"cpu": "64"}, nodeSelector={"a": "b"}, schedulingGates=gates))
    page = await scene.page_with("/ui/", "default/held</a> first:")
    assert "remove the scheduling gates x/quota, or let their owner do it" in page
    assert "kubectl patch pod held -n default" in page
    assert "With that alone it does not fit yet" in page
    assert "no single change" not in page


async def test_pods_that_nobody_here_serves_are_counted_with_the_name_that_may_be_meant(scene: Scene) -> None:
    for name, scheduler in (("web-0", "kschedular"), ("web-1", "kschedular"), ("other", "volcano")):
        put(scene.server, "pods", pod_tree(name, schedulerName=scheduler))
    await scene.page_with("/ui/search?q=e", "/ui/pods/default/other")
    page = await scene.page("/ui/pending")
    assert "<code>volcano</code>: 1 pod</li>" in page
    assert "<code>kschedular</code>: 2 pods; do you mean <code>kscheduler</code>?" in page
    page = await scene.page("/ui/pods/default/web-0")
    assert "is for scheduler kschedular, which is not served here; do you mean kscheduler?" in page


async def test_a_pending_pods_page_reports_what_would_help_and_a_nodes_page_who_is_rejected(scene: Scene) -> None:
    put(scene.server, "pods", pod_tree("huge", requests={"cpu": "64"}))
    page = await scene.page_with("/ui/pods/default/huge", "PodScheduled has been False for", "What would help")
    assert "request 4 of cpu instead of 64" in page
    assert "<h3>Details</h3>" in page
    assert "cpu: asks for 64; node-1 has 4 free of 4 (60 short); node-2 has" in page
    assert page.count("0/3 nodes are available: 3 Insufficient cpu.") == 1
    assert "with the message above" in page
    page = await scene.page_with("/ui/nodes/node-0", "/ui/pods/default/huge")
    assert '<span class="plugin">NodeResourcesFit</span> Insufficient cpu' in page


async def test_a_bound_pods_page_has_the_points_of_the_best_nodes(scene: Scene) -> None:
    page = await scene.page_with("/ui/pods/default/small", "If it were scheduled again now", "</html>")
    assert "NodeResourcesBalancedAllocation" in page
    assert '<tr class="total">' in page


async def test_a_bound_pods_story_names_its_node(scene: Scene) -> None:
    page = await scene.page_with("/ui/pods/default/small", "bound</span> to")
    assert f"/ui/nodes/{node_of(scene.server, 'small')}" in page


async def test_a_nodes_story_reports_who_is_on_it_and_what_is_left(scene: Scene) -> None:
    page = await scene.page(f"/ui/nodes/{node_of(scene.server, 'small')}")
    assert "/ui/pods/default/small" in page
    assert '<td class="right figure">3</td>' in page


async def test_a_search_leads_to_the_only_match_or_lists_all(scene: Scene) -> None:
    status, _, headers = await scene.get("/ui/search?q=smal")
    assert (status, headers["Location"]) == (303, "/ui/pods/default/small")
    assert "/ui/nodes/node-2" in await scene.page("/ui/search?q=NODE-")


async def test_what_was_never_seen_is_not_found(scene: Scene) -> None:
    for path in ("/ui/pods/default/nobody", "/ui/nodes/nowhere"):
        status, text, headers = await scene.get(path)
        assert status == 404
        assert "never seen" in text
        assert headers["Content-Type"].startswith("text/html")


HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>\u202e{{ 7*7 }}'


async def test_hostile_texts_are_shown_as_text(scene: Scene) -> None:
    node = node_tree("evil", cpu="4", labels={"topology.kubernetes.io/zone": HOSTILE, "x": HOSTILE})
    node["spec"] = {"taints": [{"key": "k", "value": HOSTILE, "effect": "NoSchedule"}]}
    put(scene.server, "nodes", node)
    pod = pod_tree("huge", requests={"cpu": "64"})
    pod["metadata"]["name"] = HOSTILE.replace("/", "")
    put(scene.server, "pods", pod)
    story = f"/ui/pods/default/{quote(HOSTILE.replace('/', ''), safe='')}"
    for path in ("/ui/", "/ui/nodes", "/ui/nodes/evil", "/ui/pending", "/ui/search?q=e", story):
        page = await scene.page_with(path, "&lt;script&gt;")
        assert "<script>" not in page
        assert "<img" not in page
        assert "\u202e" not in page
        assert "{{ 7*7 }}" in page


async def test_every_answer_forbids_what_the_page_does_not_need(scene: Scene) -> None:
    for path in ("/ui/", "/ui/nodes.json", "/ui/nodes/nowhere", "/ui/assets/live.js", "/ui/search?q="):
        _, _, headers = await scene.get(path)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Frame-Options"] == "DENY"


async def test_pages_are_kept_nowhere_and_files_for_ever(scene: Scene) -> None:
    page = await scene.page("/ui/")
    address = page.partition('href="/ui/assets/page.css?')[2].partition('"')[0]
    _, _, headers = await scene.get("/ui/")
    assert headers["Cache-Control"] == "no-store"
    _, _, headers = await scene.get(f"/ui/assets/page.css?{address}")
    assert "immutable" in headers["Cache-Control"]
    status, _, _ = await scene.get("/ui/assets/..%2fsite.py")
    assert status == 404


async def test_nodes_are_drawn_and_listed_by_extended_resources_too(scene: Scene) -> None:
    plenty = {f"devices.kubevirt.io/{name}": "1k" for name in ("kvm", "tun", "vhost-net")}
    gpus: dict[str, Any] = {"nvidia.com/gpu": "8", **plenty}
    for number in range(2):
        put(scene.server, "nodes", node_tree(f"gpu-{number}", cpu="64", **gpus))
    put(scene.server, "pods", pod_tree("train", requests={"cpu": "1", "nvidia.com/gpu": "6"}))
    await until(scene.server, lambda: bool(node_of(scene.server, "train")))
    page = await scene.page_with("/ui/", 'href="?by=nvidia.com%2Fgpu"')
    assert "has none" not in page
    by_gpu = await scene.page_with("/ui/?by=nvidia.com%2Fgpu", "nvidia.com/gpu requested", 'class="h8"', 'class="hn"')
    assert "has none" in by_gpu
    listed = await scene.page("/ui/nodes?sort=nvidia.com%2Fgpu")
    assert "6 / 8" in listed
    rows = [row.partition('"')[0] for row in listed.split('<td><a class="name" href="/ui/nodes/')[1:]]
    assert rows[0] == node_of(scene.server, "train")
    assert "0 / 1,000" in await scene.page("/ui/nodes?sort=devices.kubevirt.io%2Fvhost-net")
    assert (await scene.get("/ui/events?by=amd.com%2Fgpu"))[0] == 400


async def test_a_browser_that_follows_hears_of_a_change(scene: Scene) -> None:
    url = f"http://127.0.0.1:{scene.app.server.port}/ui/events?by=use"
    async with asyncio.timeout(SECONDS), scene.session.get(url) as response:
        assert response.content_type == "text/event-stream"
        lines = aiter(response.content)
        first = await _message(lines)
        assert first["letters"].count("0") == 2
        put(scene.server, "pods", pod_tree("huge", requests={"cpu": "64"}))
        while True:
            later = await _message(lines)
            assert "letters" not in later
            if "default/huge" in later["sections"].get("pending", ""):
                break


async def _message(lines: AsyncIterator[bytes]) -> dict[str, Any]:
    async for line in lines:
        if line.startswith(b"data: "):
            found: dict[str, Any] = msgspec.json.decode(line[6:])
            return found
    raise AssertionError("the stream has ended")
