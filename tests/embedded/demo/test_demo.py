"""The demo: its judgement, its display, and the whole of it as processes."""

import asyncio
import io
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.cli import main
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.http.lines import LineStream
from kscheduler.client.rest import APIClient, server_version_of
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.embedded.demo.cluster import ClusterOptions, embedded_cluster, reachable_url, write_kubeconfig
from kscheduler.embedded.demo.processes import ChildProcess, DemoFailedError
from kscheduler.embedded.demo.progress import PlainDisplay, Snapshot
from kscheduler.embedded.demo.report import could_ever_be_bound, judge, report, verdict
from tests.embedded.demo.programs import answers, children, command_of, kscheduler, typed_as_it_stands

PROCESSES = pytest.mark.slow("the three processes of the demo")

Object = dict[str, Any]


def node_of(name: str = "node-0", cpu: str = "4") -> Node:
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return convert({"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}, Node)


def pod_of(name: str, node: str = "", cpu: str = "1", *, phase: str = "", why: str = "", **spec: Any) -> Pod:
    containers = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    tree = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": containers, "nodeName": node, **spec},
        "status": {"phase": phase or ("Running" if node else "Pending"), "conditions": [condition] if why else []},
    }
    return convert(tree, Pod)


# --- judgement --------------------------------------------------------------------------------------------------------


def test_a_run_is_good_when_what_is_pending_fits_nowhere() -> None:
    pods = [pod_of("runs", "node-0"), pod_of("big", cpu="500", why="0/1 nodes are available: 1 Insufficient cpu.")]
    outcome = judge([node_of()], pods, {"default/runs": 0.25}, 0.5)
    assert outcome.is_good
    assert (outcome.pods, outcome.bound) == (2, 1)
    assert [(group.reason, group.pods) for group in outcome.pending] == [
        ("Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.", ("default/big",))
    ]
    assert verdict(outcome).startswith("OK")


def test_a_pod_that_is_pending_despite_room_is_found_whatever_the_scheduler_says() -> None:
    outcome = judge([node_of()], [pod_of("left", why="0/1 nodes are available: 1 Insufficient cpu.")], {}, 0.0)
    assert outcome.missed == ("default/left fits on node-0",)
    assert not outcome.is_good
    assert verdict(outcome) == "FAILED: 1 pods are pending although there is room for them."


def test_an_overcommitted_node_is_found() -> None:
    outcome = judge([node_of()], [pod_of("a", "node-0", "3"), pod_of("b", "node-0", "2")], {}, 0.0)
    assert outcome.overcommitted == ("node-0: cpu 5000 of 4000",)
    assert not outcome.is_good
    assert "node-0: cpu 5000 of 4000" in report(outcome)


def test_pods_that_have_ended_take_no_room() -> None:
    pods = [pod_of("a", "node-0", "3", phase="Succeeded"), pod_of("b", "node-0", "2")]
    outcome = judge([node_of()], pods, {}, 0.0)
    assert outcome.is_good
    assert (outcome.finished, outcome.loads[0].cpu) == (1, 0.5)


def test_a_rejected_pod_is_no_success() -> None:
    outcome = judge([node_of()], [pod_of("a", "node-0", phase="Failed")], {}, 0.0)
    assert outcome.rejected == ("default/a on node-0",)
    assert not outcome.is_good


def test_what_can_never_be_bound_is_not_waited_for() -> None:
    spread = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    pods = [
        pod_of("fits"),
        pod_of("big", cpu="5"),
        pod_of("gated", schedulingGates=[{"name": "g"}]),
        pod_of("spread", topologySpreadConstraints=spread),
    ]
    assert could_ever_be_bound(pods, [node_of()]) == {"default/fits"}


def test_percentiles_are_of_the_sorted_latencies() -> None:
    latencies = {f"default/{number}": number / 100 for number in range(100, 0, -1)}
    outcome = judge([node_of()], [], latencies, 2.0)
    assert (outcome.percentile(0.5), outcome.percentile(0.9), outcome.percentile(0.99)) == (0.51, 0.91, 1.0)
    assert "50 pods/s" in report(outcome)


def test_the_report_names_busiest_and_emptiest_nodes() -> None:
    nodes = [node_of(f"node-{number}") for number in range(8)]
    text = report(judge(nodes, [pod_of("a", "node-5", "3")], {}, 0.0))
    assert re.search(r"busiest +node-5 .* 75% ", text)
    assert re.search(r"emptiest +node-[0-7] .* 0% ", text)


def test_without_a_terminal_progress_is_a_line_a_second_and_one_at_the_end() -> None:
    out = io.StringIO()
    shown = PlainDisplay(out)
    for tenth in range(1, 25):
        shown.show(Snapshot(tenth / 10, 100, 4 * tenth, 3 * tenth, 2 * tenth), last=tenth == 24)
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["1.0", "2.0", "2.4"]
    assert lines[1].split()[-2:] == ["30", "pods/s"]


# --- processes --------------------------------------------------------------------------------------------------------


async def test_a_program_that_ends_by_itself_shows_the_end_of_its_log(tmp_path: Path) -> None:
    script = "print('first line'); raise SystemExit(3)"
    child = ChildProcess("the oracle", [sys.executable, "-c", script], tmp_path / "log")
    with pytest.raises(DemoFailedError, match=r"the oracle ended by itself with exit code 3; .*\n  \| first line"):
        await child.run()


async def test_a_program_ends_with_its_parent_even_if_that_is_killed(tmp_path: Path) -> None:
    """A pipe says when: its end comes as soon as the program no longer holds it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = f"import signal; held = open({str(pipe)!r}, 'w'); print('alive', file=held, flush=True); signal.pause()"
    parent = (
        "import asyncio, sys; from pathlib import Path; from kscheduler.embedded.demo.processes import ChildProcess\n"
        f"asyncio.run(ChildProcess('x', [sys.executable, '-c', {program!r}], Path({str(tmp_path / 'log')!r})).run())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", parent)

    def read() -> str:
        with pipe.open() as held:
            assert held.readline() == "alive\n"
            process.kill()
            return held.read()

    async with asyncio.timeout(60):
        assert await asyncio.to_thread(read) == ""
        await process.wait()


def bound_pod(node: str) -> Object:
    containers = [{"name": "main", "image": "example/app:1"}]
    header = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    return {**header, "spec": {"nodeName": node, "containers": containers}}


async def first_line_with(stream: LineStream, text: bytes) -> bytes:
    async for lines in stream:
        for line in lines:
            if text in line:
                return line
    return b""


async def test_the_embedded_cluster_has_nodes_and_kubelets(tmp_path: Path) -> None:
    async with embedded_cluster(ClusterOptions(nodes=5, port=0)) as server:
        write_kubeconfig(tmp_path / "kubeconfig", server)
        config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
        assert config["clusters"][0]["cluster"]["server"] == reachable_url(server) == server.url
        async with APIClient(plain_connection(server.url)) as client:
            await client.post("/api/v1/namespaces/default/pods", msgspec.json.encode(bound_pod("node-000")))
            async with asyncio.timeout(10):
                async with client.stream("/api/v1/pods", {"watch": "1"}) as stream:
                    assert await first_line_with(stream, b'"phase":"Running"')
        assert len(server.store.collection("nodes").records) == 5


@pytest.mark.parametrize("version", BEHAVIOURS)
async def test_kubelets_are_of_the_servers_release(version: str) -> None:
    options = ClusterOptions(nodes=2, port=0, version=version, gates=parse_feature_gates("", version=version))
    async with embedded_cluster(options) as server:
        async with APIClient(plain_connection(server.url)) as client:
            release = await server_version_of(client)
        nodes = [record.value["status"]["nodeInfo"] for record in server.store.collection("nodes").records.values()]
    assert release.startswith(f"v{version}.")
    assert {(node["kubeletVersion"], node["kubeProxyVersion"]) for node in nodes} == {(release, release)}


async def test_a_cluster_on_all_addresses_is_reached_on_the_loopback() -> None:
    async with embedded_cluster(ClusterOptions(nodes=1, host="0.0.0.0", port=0)) as server:
        assert reachable_url(server).startswith("http://127.0.0.1:")


def test_a_missing_optional_package_gives_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jsonpatch", None)
    assert main(["demo"]) == 2
    assert capsys.readouterr().err == (
        "kscheduler: `kscheduler demo` needs the package jsonpatch, which is not installed: "
        "in a checkout pip install '.[simulation]', from a wheel pip install "
        "'kscheduler-VERSION-py3-none-any.whl[simulation]'\n"
    )


async def test_the_demo_binds_all_that_can_be_bound() -> None:
    async with kscheduler("demo", "--nodes", "10", "--pods", "50") as demo:
        assert await demo.end() == 0, demo.output
    assert re.search(r"\n  bound +47\b", demo.output), demo.output
    assert re.search(r"\n  overcommitted nodes +0\n  rejected by kubelets +0\n", demo.output), demo.output
    assert "\nOK: " in demo.output


@PROCESSES
async def test_a_demo_that_is_kept_answers_until_ctrl_c_and_leaves_nothing_behind() -> None:
    async with kscheduler("demo", "--nodes", "10", "--pods", "30", "--keep") as demo:
        await demo.until("logs ")
        servers = demo.urls()
        assert len(servers) == 2
        assert all(map(answers, servers))
        (why,) = re.findall(r"why pending .*kscheduler (pending --kubeconfig .*)", demo.output)
        async with kscheduler(*why.split()) as queried:
            assert await queried.end() == 0, queried.output
        assert re.search(r"pods? (is|are) pending", queried.output), queried.output
        (url,) = re.findall(r"API server +(\S+)", demo.output)
        await _a_pod_without_a_scheduler_name_gets_a_node(url)
        (screen,) = re.findall(r"its screen +(\S+ top --kubeconfig .*)", demo.output)
        await typed_as_it_stands(f"{screen} --once")
        demo.process.send_signal(signal.SIGINT)
        assert await demo.end() == 0, demo.output
    assert not any(map(answers, servers))


async def _a_pod_without_a_scheduler_name_gets_a_node(url: str) -> None:
    """As those of `kubectl create deployment`."""
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "first"}, "spec": {"containers": [{"name": "app", "image": "app"}]}}
    async with APIClient(plain_connection(url)) as client:
        await client.post(pods, msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", **pod}))
        async with asyncio.timeout(20):
            while b"nodeName" not in await client.get(f"{pods}/first"):  # noqa: ASYNC110 - asks a server
                await asyncio.sleep(0.1)


@PROCESSES
async def test_ctrl_c_in_the_middle_ends_all_processes() -> None:
    async with kscheduler("demo", "--nodes", "10", "--pods", "3000") as demo:
        await demo.until("creating 3,000 pods")
        servers = demo.urls()
        assert all(map(answers, servers))
        demo.process.send_signal(signal.SIGINT)
        assert await demo.end() == 130, demo.output
    assert not any(map(answers, servers))


async def test_a_cluster_serves_until_sigterm(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    arguments = ("--nodes", "3", "--port", "0", "--kubeconfig", str(kubeconfig), "--enable-faults")
    async with kscheduler("cluster", *arguments) as cluster:
        await cluster.until("/_faults")
        assert f"export KUBECONFIG={kubeconfig}" in cluster.output
        (server,) = cluster.urls()
        async with APIClient(plain_connection(f"http://{server[0]}:{server[1]}")) as client:
            assert b"node-002" in await client.get("/api/v1/nodes/node-002")
        cluster.process.send_signal(signal.SIGTERM)
        assert await cluster.end() == 0, cluster.output
    assert not answers(server)


@pytest.fixture
def taken_port() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield str(taken.getsockname()[1])


async def test_a_taken_port_is_one_clear_line(taken_port: str) -> None:
    async with kscheduler("cluster", "--nodes", "1", "--port", taken_port) as cluster:
        assert await cluster.end() == 2
    assert len(cluster.output.splitlines()) == 1
    assert taken_port in cluster.output
    assert "another program listens there (kubectl proxy, or another `kscheduler cluster`?): " in cluster.output


async def test_a_demo_on_a_taken_port_is_refused_before_anything_starts(taken_port: str) -> None:
    async with kscheduler("demo", "--nodes", "2", "--pods", "5", "--port", taken_port) as demo:
        assert await demo.end() == 2
    said = f"kscheduler: --port {taken_port} on 127.0.0.1: Address already in use; another program listens there"
    assert demo.output.startswith(said)
    assert f"`ss -ltnp 'sport = :{taken_port}'` names it, or --port 0 takes any that is free" in demo.output


@PROCESSES
async def test_a_demo_whose_cluster_dies_says_why() -> None:
    async with kscheduler("demo", "--nodes", "2", "--pods", "5000") as demo:
        await demo.until("creating 5,000 pods")
        (cluster,) = [pid for pid in children(demo.process.pid) if "cluster" in command_of(pid)]
        os.kill(cluster, signal.SIGKILL)
        assert await demo.end() == 1
    assert "kscheduler demo: the embedded cluster ended by itself with exit code -9; the end of its log:" in demo.output
