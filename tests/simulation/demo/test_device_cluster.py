"""`kscheduler cluster --gpus`, and with pod groups: sections of the README as they stand there, kinds by version."""

import asyncio
import re
import shlex
import shutil
from typing import Any

import msgspec
import pytest

from kscheduler.client import APIClient, APIError, plain_connection
from tests.simulation.demo.programs import REPOSITORY, Program, children, command_of, kscheduler

SECTION = "### Devices on an embedded cluster"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def section(heading: str = SECTION) -> list[list[str]]:
    """The commands of the section: those of its first block start the cluster, those of the second use it."""
    text = re.split(r"\n###? ", (REPOSITORY / "README.md").read_text().partition(heading)[2])[0]
    return [block.strip().splitlines() for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]


async def run(url: str, command: str) -> str:
    words = shlex.split(command)
    process = await asyncio.create_subprocess_exec(
        *(words[0], "--server", url, *words[1:]),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(90):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


def url_of(cluster: Program) -> str:
    (port,) = re.findall(r"nodes on http://127.0.0.1:(\d+)", cluster.output)
    return f"http://127.0.0.1:{port}"


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH: the README's section is UNTESTED")
async def test_the_section_of_the_readme_holds() -> None:
    (start,), (apply, rollout, claims, slices, delete) = section()
    async with kscheduler(*shlex.split(start)[1:], "--nodes", "3", "--port", "0") as cluster:
        await cluster.until("its log: ")
        assert "8 devices on each node, of DeviceClass gpu.example.com" in cluster.output
        url = url_of(cluster)
        assert "deployment.apps/inference created" in await run(url, apply)
        assert "successfully rolled out" in await run(url, rollout)
        shown = (await run(url, claims)).splitlines()
        assert len([line for line in shown if re.search(r"^inference-\S+-gpu-\S+ +allocated,reserved", line)]) == 3
        assert len((await run(url, slices)).splitlines()) == 1 + 3
        await run(url, delete)
        async with APIClient(plain_connection(url)) as client, asyncio.timeout(60):
            while msgspec.json.decode(await client.get(CLAIMS))["items"]:  # noqa: ASYNC110 - asks a server
                await asyncio.sleep(0.1)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH: the README's section is UNTESTED")
async def test_the_section_of_the_readme_about_gangs_holds() -> None:
    (start,), (apply, placed, waits, shown, delete) = section("### Gangs on an embedded cluster")
    async with kscheduler(*shlex.split(start)[1:], "--nodes", "3", "--port", "0") as cluster:
        await cluster.until("its log: ")
        url = url_of(cluster)
        assert "podgroup.scheduling.k8s.io/training created" in await run(url, apply)
        assert "condition met" in await run(url, placed)
        assert "condition met" in await run(url, waits)
        lines = (await run(url, shown)).splitlines()
        assert len([line for line in lines if re.search(r"^pod/training-\S+ ", line)]) == 4
        waiting = [line for line in lines if re.search(r"^pod/(too-large-\S+|leader) ", line)]
        assert len(waiting) == 3
        assert all(" Pending " in line for line in waiting)
        await run(url, delete)


async def code_of(client: APIClient, path: str) -> int:
    try:
        await client.get(path)
    except APIError as error:
        return error.code
    return 200


async def test_version_and_gates_are_those_of_both_servers() -> None:
    flags = ["--emulated-version", "1.37", "--feature-gates", "GenericWorkload=true"]
    async with kscheduler("cluster", "--nodes", "1", "--port", "0", "--schedule", *flags) as cluster:
        await cluster.until("its log: ")
        (scheduler,) = [pid for pid in children(cluster.process.pid) if "run" in command_of(pid)]
        assert {"--feature-gates=GenericWorkload=true", "--emulated-version=1.37"} <= set(command_of(scheduler))
        async with APIClient(plain_connection(url_of(cluster))) as client:
            version: Any = msgspec.json.decode(await client.get("/version"))
            assert version["gitVersion"] == "v1.37.0"
            for path in ("scheduling.k8s.io/v1beta1/podgroups", "resource.k8s.io/v1/devicetaintrules"):
                assert await code_of(client, f"/apis/{path}") == 200


async def test_without_them_it_is_as_before() -> None:
    async with kscheduler("cluster", "--nodes", "1", "--port", "0") as cluster:
        await cluster.until("schedulerName: kscheduler")
        async with APIClient(plain_connection(url_of(cluster))) as client:
            for path in ("scheduling.k8s.io/v1beta1/podgroups", "resource.k8s.io/v1/devicetaintrules"):
                assert await code_of(client, f"/apis/{path}") == 404
            slices: Any = msgspec.json.decode(await client.get("/apis/resource.k8s.io/v1/resourceslices"))
            assert slices["items"] == []
