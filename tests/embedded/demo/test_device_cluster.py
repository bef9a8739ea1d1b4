"""`kscheduler cluster --gpus`, and with pod groups: docs/embedded-cluster.md as it stands there, kinds by version."""

import asyncio
import re
import shlex
from typing import Any

import msgspec
import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import APIError
from kscheduler.client.rest import APIClient
from tests.embedded.demo.pages import commands_of, needs_kubectl, typed
from tests.embedded.demo.programs import children, command_of, kscheduler

PROCESSES = pytest.mark.slow("a cluster, a scheduler and kubectl as processes, as the page has them typed")

PAGE = "docs/embedded-cluster.md"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


@PROCESSES
@needs_kubectl
async def test_the_section_about_devices_holds() -> None:
    (start,), (apply, rollout, claims, slices, delete) = commands_of(PAGE, "## Devices")
    async with kscheduler(*shlex.split(start)[1:], "--nodes", "3", "--port", "0") as cluster:
        await cluster.until("its log: ")
        assert "8 devices on each node, of DeviceClass gpu.example.com" in cluster.output
        url = cluster.api_url()
        assert "deployment.apps/inference created" in await typed(url, apply)
        assert "successfully rolled out" in await typed(url, rollout)
        shown = (await typed(url, claims)).splitlines()
        assert len([line for line in shown if re.search(r"^inference-\S+-gpu-\S+ +allocated,reserved", line)]) == 3
        assert len((await typed(url, slices)).splitlines()) == 1 + 3
        await typed(url, delete)
        async with APIClient(plain_connection(url)) as client, asyncio.timeout(60):
            while msgspec.json.decode(await client.get(CLAIMS))["items"]:  # noqa: ASYNC110 - asks a server
                await asyncio.sleep(0.1)


@PROCESSES
@needs_kubectl
async def test_the_section_about_gangs_holds() -> None:
    (start,), (apply, placed, waits, shown, delete), topology = commands_of(PAGE, "## Gangs")
    async with kscheduler(*shlex.split(start)[1:], "--nodes", "9", "--port", "0") as cluster:
        await cluster.until("its log: ")
        url = cluster.api_url()
        assert "podgroup.scheduling.k8s.io/training created" in await typed(url, apply)
        assert "condition met" in await typed(url, placed)
        assert "condition met" in await typed(url, waits)
        lines = (await typed(url, shown)).splitlines()
        assert len([line for line in lines if re.search(r"^pod/training-\S+ ", line)]) == 4
        waiting = [line for line in lines if re.search(r"^pod/(too-large-\S+|leader) ", line)]
        assert len(waiting) == 3
        assert all(" Pending " in line for line in waiting)
        await typed(url, delete)
        answers = [await typed(url, command) for command in topology]
        assert [answer.count("condition met") for answer in answers] == [0, 0, 0, 0, 1, 1, 0, 0]
        nodes = {found for line in answers[-2].splitlines() for found in re.findall(r"^pod/near-.* (node-\d+) ", line)}
        assert nodes <= {"node-003", "node-007"}, "the rack with the least room that holds them"
        assert nodes


@PROCESSES
@needs_kubectl
async def test_the_page_about_pod_groups_is_tried_on_the_kinds_of_both_projects() -> None:
    (start,), (apply, placed, shown, delete) = commands_of("docs/pod-groups.md", "## Try it")
    async with kscheduler(*shlex.split(start)[1:], "--nodes", "3", "--port", "0") as cluster:
        await cluster.until("its log: ")
        url = cluster.api_url()
        applied = await typed(url, apply)
        assert "podgroup.scheduling.x-k8s.io/training created" in applied
        assert "podgroup.scheduling.volcano.sh/half created" in applied
        assert (await typed(url, placed)).count("condition met") == 2
        lines = (await typed(url, shown)).splitlines()
        assert len([line for line in lines if re.search(r"^pod/half-\S+ .* Pending ", line)]) == 2
        assert [line.split()[0] for line in lines if line.startswith("podgroup.")] == [
            "podgroup.scheduling.x-k8s.io/training",
            "podgroup.scheduling.volcano.sh/half",
        ]
        await typed(url, delete)


def resource_pod(name: str, resource: str) -> bytes:
    container = {"name": "main", "image": "example/app:1", "resources": {"limits": {resource: "1"}}}
    spec = {"schedulerName": "kscheduler", "containers": [container]}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


@PROCESSES
async def test_devices_for_extended_resources_are_started_by_the_kubelet() -> None:
    """By the class's own name, and by the name that a class gives itself."""
    by_class = "deviceclass.resource.kubernetes.io/gpu.example.com"
    spec = {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "example.com/named"}
    named = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "named"}, "spec": spec}
    async with kscheduler("cluster", "--schedule", "--gpus", "2", "--nodes", "1", "--port", "0") as cluster:
        await cluster.until("its log: ")
        async with APIClient(plain_connection(cluster.api_url())) as client:
            await client.post("/apis/resource.k8s.io/v1/deviceclasses", msgspec.json.encode(named))
            for name, resource in (("by-class", by_class), ("by-name", "example.com/named")):
                await client.post("/api/v1/namespaces/default/pods", resource_pod(name, resource))
            phases: list[str] = []
            async with asyncio.timeout(60):
                while not phases or "Pending" in phases:
                    await asyncio.sleep(0.1)  # asks a server
                    pods = msgspec.json.decode(await client.get("/api/v1/namespaces/default/pods"))["items"]
                    phases = [pod["status"]["phase"] for pod in pods]
            assert phases == ["Running", "Running"]


async def code_of(client: APIClient, path: str) -> int:
    try:
        await client.get(path)
    except APIError as error:
        return error.code
    return 200


@PROCESSES
@pytest.mark.parametrize("given", ["--emulated-version=1.37", ""], ids=["a version", "the oldest that has the gate"])
async def test_version_and_gates_are_those_of_both_servers(given: str) -> None:
    flags = [*filter(None, [given]), "--feature-gates", "GenericWorkload=true"]
    async with kscheduler("cluster", "--nodes", "1", "--port", "0", "--schedule", *flags) as cluster:
        await cluster.until("its log: ")
        (scheduler,) = [pid for pid in children(cluster.process.pid) if "run" in command_of(pid)]
        assert {"--feature-gates=GenericWorkload=true", *filter(None, [given])} <= set(command_of(scheduler))
        async with APIClient(plain_connection(cluster.api_url())) as client:
            version: Any = msgspec.json.decode(await client.get("/version"))
            assert version["gitVersion"] == "v1.37.0"
            for path in ("scheduling.k8s.io/v1beta1/podgroups", "resource.k8s.io/v1/devicetaintrules"):
                assert await code_of(client, f"/apis/{path}") == 200


async def test_without_them_it_is_as_before() -> None:
    async with kscheduler("cluster", "--nodes", "1", "--port", "0") as cluster:
        await cluster.until("schedulerName: kscheduler")
        async with APIClient(plain_connection(cluster.api_url())) as client:
            for path in ("scheduling.k8s.io/v1beta1/podgroups", "resource.k8s.io/v1/devicetaintrules"):
                assert await code_of(client, f"/apis/{path}") == 404
            slices: Any = msgspec.json.decode(await client.get("/apis/resource.k8s.io/v1/resourceslices"))
            assert slices["items"] == []
