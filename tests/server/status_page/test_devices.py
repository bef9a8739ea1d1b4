"""Devices on the pages: what a node has by class, who holds them, and what a pod's claims have."""

from typing import Any

import pytest
from msgspec.structs import replace

from kscheduler.answers.pending_in_queue import PendingInQueue
from kscheduler.answers.scarce_resources import ScarceResource, scarcest
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.server.status_page.facts.devices import MAX_HOLDERS, DeviceTotals, claims_of
from kscheduler.server.status_page.facts.finding import listed
from kscheduler.server.status_page.facts.heat import HeatMap
from kscheduler.server.status_page.facts.node_story import node_story
from kscheduler.server.status_page.facts.overview import OverviewReader
from kscheduler.server.status_page.facts.pod_story import pod_story
from kscheduler.server.status_page.rendering import Templates
from kscheduler.service.monitors.devices import MAX_NAMES, OfferedDevices
from tests.builders import make_pod
from tests.server.status_page.page_scene import PageScene, page_scene

Tree = dict[str, Any]
DRIVER = "gpu.example.com"
GPU = "nvidia.com/gpu"
OF_CLASS = "deviceclass.resource.kubernetes.io/gpus"
NOTHING_PENDING = PendingInQueue(count=0, reasons=())
CLASS: Tree = {
    "metadata": {"name": "gpus"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}
REQUESTS = [
    {"name": "one", "exactly": {"deviceClassName": "gpus"}},
    {
        "name": "list",
        "firstAvailable": [
            {"name": "many", "deviceClassName": "gpus", "count": 4},
            {"name": "every", "deviceClassName": "old", "allocationMode": "All"},
        ],
    },
]


def publish(scene: PageScene, node: str, *devices: Tree, slices: int = 1) -> None:
    pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": list(devices)}
    scene.assembly.cache.devices.put_slice(convert({"metadata": {"name": f"{node}-s"}, "spec": spec}, ResourceSlice))


def claim_of(name: str, node: str = "", *devices: str, pod: Pod | None = None, **more: Any) -> ResourceClaim:
    """A claim; with devices it is allocated, with a pod it is reserved for it."""
    results = [{"request": "one", "driver": DRIVER, "pool": node, "device": each, **more} for each in devices]
    reserved = [] if pod is None else [{"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}]
    allocated = {"allocation": {"devices": {"results": results}}} if devices else {}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    spec = {"devices": {"requests": REQUESTS}}
    return convert({"metadata": meta, "spec": spec, "status": {**allocated, "reservedFor": reserved}}, ResourceClaim)


def with_claims(name: str, *claims: str, **fields: Any) -> Pod:
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    return make_pod(name, resourceClaims=entries, **fields)


def scene_with_devices() -> PageScene:
    scene = page_scene()
    scene.add_node("node")
    scene.assembly.cache.devices.put_class(convert(CLASS, DeviceClass))
    broken = {"taints": [{"key": "broken", "effect": "NoExecute"}]}
    publish(scene, "node", {"name": "0"}, {"name": "1"}, {"name": "2", **broken}, {"name": "3"})
    return scene


async def rendered(template: str, **values: Any) -> str:
    templates = Templates(lambda: 1000.0)
    await templates.load()
    return templates.render(template, **values)


async def test_a_nodes_page_has_its_devices_by_class_and_who_holds_them() -> None:
    scene = scene_with_devices()
    pod = scene.add_pod("p", node="node", resourceClaims=[{"name": "a", "resourceClaimName": "c"}])
    scene.assembly.cache.devices.claims.add(claim_of("c", "node", "0", "1", pod=pod))
    story = node_story(scene.sources, "node")
    assert story is not None
    (count,) = story.devices.counts
    assert (count.device_class, count.driver) == ("gpus", DRIVER)
    assert (count.devices, count.taken, count.tainted, count.free) == (4, 2, 1, 1)
    (holder,) = story.holders
    assert (holder.pod, holder.claim) == ("default/p", "c")
    assert holder.devices == (f"{DRIVER}/node/0", f"{DRIVER}/node/1")
    page = await rendered("node_now.html", story=story)
    assert "<h3>Devices</h3>" in page
    assert 'aria-label="gpus, gpu.example.com: 50 %"' in page
    assert f"<code>{DRIVER}/node/1</code>" in page


def test_devices_are_counted_by_driver() -> None:
    """Devices by driver, those of older generations of a pool left out; what is taken follows claims."""
    scene = scene_with_devices()
    cache = scene.assembly.cache
    totals = DeviceTotals(cache.devices)
    publish(scene, "node", *({"name": str(number)} for number in range(4)))
    publish(scene, "other", *({"name": str(number)} for number in range(6)))
    assert totals.by_driver() == (ScarceResource(DRIVER, 0, 10),)
    cache.devices.claims.add(claim_of("c", "node", "0", "1"))
    assert totals.by_driver() == (ScarceResource(DRIVER, 2, 10),)
    cache.devices.claims.add(claim_of("gone", "nowhere", "7"))
    assert totals.by_driver() == (ScarceResource(DRIVER, 2, 10),)


def test_the_scarcest_are_those_of_which_most_is_requested_not_those_of_which_there_is_most() -> None:
    """KubeVirt gives each node a thousand of devices that nearly nobody asks for."""
    found = [ScarceResource(f"devices.kubevirt.io/{name}", 0, 4000) for name in ("kvm", "tun", "vhost-net")]
    gpus = ScarceResource("nvidia.com/gpu", 12, 16)
    assert scarcest([*found, gpus, ScarceResource("idle", 0, 8)]) == (gpus, ScarceResource("idle", 0, 8), found[0])


async def test_the_overview_shows_how_many_gpus_are_requested() -> None:
    scene = page_scene()
    scene.add_node("node", **{GPU: "8"})
    scene.add_node("without")
    scene.assembly.cache.add_pod(make_pod("a", requests={GPU: "3"}, nodeName="node"))
    assert list(HeatMap(scene.assembly.cache.nodes).extended()) == [ScarceResource(GPU, 3, 8)]
    figures = OverviewReader(scene.sources, HeatMap(scene.assembly.cache.nodes)).sections(NOTHING_PENDING)["figures"]
    assert f'<dd class="quiet">3 of 8 {GPU}</dd>' in await rendered("sections/figures.html", facts=figures)


def test_series_of_devices_and_resources_are_bounded_and_fall_to_zero() -> None:
    scene = scene_with_devices()
    offered = OfferedDevices(scene.assembly.cache)
    scene.assembly.cache.devices.claims.add(claim_of("c", "node", "0"))
    assert offered.devices() == {(DRIVER, "taken"): 1, (DRIVER, "free"): 3}
    many = {f"a.b/r-{number}": "2" for number in range(MAX_NAMES + 3)}
    scene.add_node("many", **many)
    found = offered.extended_resources()
    assert len(found) == 2 * (MAX_NAMES + 1)
    assert found["other", "allocatable"] == 6
    scene.assembly.cache.remove_node("many")
    assert set(offered.extended_resources().values()) == {0}


async def test_an_incomplete_pool_is_named_and_a_node_without_devices_has_no_such_part() -> None:
    scene = page_scene()
    scene.add_node("node")
    scene.add_node("plain")
    publish(scene, "node", {"name": "0"}, slices=2)
    page = await rendered("node_now.html", story=node_story(scene.sources, "node"))
    assert f"Pool incomplete</span> <code>{DRIVER}/node</code>" in page
    assert "Devices" not in await rendered("node_now.html", story=node_story(scene.sources, "plain"))


async def test_the_overview_the_map_and_the_list_show_devices_by_class() -> None:
    scene = scene_with_devices()
    scene.add_node("plain")
    scene.assembly.cache.devices.claims.add(claim_of("c", "node", "0", "1"))
    page = scene.page.view
    snapshot = await page.fresh()
    assert '<dd class="quiet">2 of 4 class gpus</dd>' in snapshot.sections["figures"].html
    assert DRIVER not in snapshot.sections["figures"].html, "its devices stand there already"
    assert snapshot.choices[OF_CLASS] == "class gpus"
    assert snapshot.letters[OF_CLASS] == "5n"
    rows = listed(scene.sources, page.heat, None, OF_CLASS, 1, [OF_CLASS]).rows
    assert [(row.name, row.extended) for row in rows] == [("node", ((2, 4),)), ("plain", ((0, 0),))]


async def test_the_overview_says_what_of_the_free_room_is_of_no_use_and_why() -> None:
    scene = page_scene()
    found = [
        ResourceFragmentation(resource="memory", free=4 * 2**30, cordoned=2**30, lacking={}),
        ResourceFragmentation(resource="cpu", free=4000, cordoned=0, lacking={}),
        ResourceFragmentation(resource=GPU, free=16, cordoned=2, lacking={"cpu": 6}),
    ]
    sources = replace(scene.sources, fragments=lambda: found)
    figures = OverviewReader(sources, HeatMap(sources.cache.nodes)).sections(NOTHING_PENDING)["figures"]
    page = await rendered("sections/figures.html", facts=figures)
    assert "<dt>Free, of no use</dt><dd>50 %</dd>" in page
    assert f'<dd class="quiet">of {GPU}: 6 for lack of cpu, 2 on cordoned nodes</dd>' in page
    assert '<dd class="quiet">25 % of memory</dd>' in page
    nothing = OverviewReader(scene.sources, HeatMap(sources.cache.nodes)).sections(NOTHING_PENDING)["figures"]
    assert "of no use" not in await rendered("sections/figures.html", facts=nothing)


def test_a_story_of_many_holders_says_how_many_more_there_are() -> None:
    scene = scene_with_devices()
    for number in range(MAX_HOLDERS + 2):
        scene.assembly.cache.add_pod(with_claims(f"p{number}", "c", node="node"))
    scene.assembly.cache.devices.claims.add(claim_of("c", "node", "0"))
    story = node_story(scene.sources, "node")
    assert story is not None
    assert (len(story.holders), story.more_holders) == (MAX_HOLDERS, 2)


POD = with_claims("p", "c")
TAKEN = claim_of("c", "node", "0", pod=POD)
STATES: list[Any] = [
    pytest.param(None, "is not there: no ResourceClaim c", "bad", id="missing"),
    pytest.param(claim_of("c"), "has no devices", "quiet", id="not allocated"),
    pytest.param(TAKEN, "has devices, reserved for this pod", "good", id="reserved"),
    pytest.param(claim_of("c", "node", "0"), "has devices, reserved for nobody", "quiet", id="for nobody"),
    pytest.param(
        claim_of("c", "node", "0", pod=with_claims("q", "c")), "has devices, reserved for 1 other", "quiet", id="other"
    ),
    pytest.param(
        claim_of("c", "node", "0", bindingConditions=["Attached"], bindingFailureConditions=["Broken"]),
        "has devices that are not ready yet",
        "busy",
        id="not ready",
    ),
]


@pytest.mark.parametrize(("claim", "state", "tone"), STATES)
def test_a_pods_claim_says_how_it_stands(claim: ResourceClaim | None, state: str, tone: str) -> None:
    claims = page_scene().assembly.cache.devices.claims
    if claim is not None:
        claims.add(claim)
    (reported,) = claims_of(POD, claims)
    assert (reported.name, reported.state, reported.tone) == ("c", state, tone)
    if claim is not None:
        assert reported.requests == ("one: 1 of class gpus", "list: 4 of class gpus, or else all of class old")
        assert reported.devices == ((f"{DRIVER}/node/0",) if claim.status.allocation else ())


def test_devices_that_are_chosen_and_not_written_are_shown_as_such() -> None:
    claims = page_scene().assembly.cache.devices.claims
    claims.add(claim_of("c"))
    claims.signal_pending("uid-c", TAKEN)
    (reported,) = claims_of(POD, claims)
    assert (reported.state, reported.tone) == ("has devices that are not written yet", "busy")
    assert reported.devices == (f"{DRIVER}/node/0",)


async def test_a_pods_page_shows_its_claims_with_template_requests_and_devices() -> None:
    scene = page_scene()
    made = [{"name": "a", "resourceClaimName": "p-a-x7"}, {"name": "unused"}]
    entries = [{"name": name, "resourceClaimTemplateName": "gpus"} for name in ("a", "unused", "later")]
    for_resources = {"resourceClaimName": "extended", "requestMappings": []}
    status = {"resourceClaimStatuses": made, "extendedResourceClaimStatus": for_resources}
    pod = scene.add_pod("p", node="node", resourceClaims=entries, status=status)
    scene.assembly.cache.devices.claims.add(claim_of("p-a-x7", "node", *map(str, range(10)), pod=pod))
    scene.assembly.cache.devices.claims.add(claim_of("extended", "node", "11", pod=pod))
    page = await rendered("pod_now.html", story=pod_story(scene.sources, pod))
    assert '<code>ResourceClaim p-a-x7</code> <span class="quiet">of template gpus</span>' in page
    assert "<code>ResourceClaim of template gpus</code>" in page
    assert "has not been made yet" in page
    assert "devices for resources" in page
    assert "<summary>and 2 more</summary>" in page
    assert page.count("of template gpus") == 2, "an entry that needs no claim is not shown"
