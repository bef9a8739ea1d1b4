"""`kscheduler cluster` on the command line: what it refuses, what it says of scheduling, and that it schedules."""

import asyncio
import os
import re
import shlex
import signal
import time
from pathlib import Path

import msgspec
import pytest

from kscheduler.cli import kubectl_plugin, main
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from tests.embedded.cluster_client import pod
from tests.embedded.demo.programs import answers, children, command_of, kscheduler, typed_as_it_stands

PROCESSES = pytest.mark.slow("starts kscheduler as a process, with all its imports")

PODS = "/api/v1/namespaces/default/pods"
DEADLINE_SECONDS = 60.0


def exit_code(*argv: str) -> int:
    """What the process would end with, whatever refuses."""
    try:
        return main(argv)
    except SystemExit as end:
        return int(str(end.code))


@pytest.mark.parametrize("verb", ["cluster", "demo"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--port", "99999"], "argument --port: '99999' must be between 0 and 65535"),
        (["--port", "-1"], "argument --port: '-1' must be between 0 and 65535"),
        (["--nodes", "-1"], "--nodes -1: must be at least"),
    ],
    ids=["large port", "negative port", "negative nodes"],
)
def test_what_cannot_be_is_refused(
    verb: str, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(verb, *flags) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--kubeconfig", "/nope/x"], "--kubeconfig /nope/x: there is no directory /nope"),
        (["--kubeconfig", "/"], "--kubeconfig /: is a directory"),
        (["--kubeconfig", ""], "argument --kubeconfig: it is empty"),
        (["--kubeconfig", "/proc/x"], "/proc/x"),
        (["--host", ""], "argument --host: it is empty"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--host", "192.0.2.1"], "on 192.0.2.1: Cannot assign requested address"),
        (["--scheduler-name", "x"], "--scheduler-name: needs --schedule"),
        (["--config", "x"], "--config: needs --schedule"),
        (["--gpus", "-1"], "--gpus -1: must be at least 0"),
        (["--emulated-version", "1.20"], "is none of the versions that are followed"),
        (["--feature-gates", "NoSuchGate=true"], "NoSuchGate"),
        (["--plugin", "x.py"], "--plugin: needs --schedule"),
        (["--schedule", "--record-redact"], "--record-redact: needs --record"),
        (["--schedule", "--plugin", "/nope/x.py"], "--plugin: /nope/x.py cannot be read"),
        (["--schedule", "--scheduler-name", ""], "argument --scheduler-name: it is empty"),
        (["--schedule", "--config", "/nope/x"], "--config /nope/x: "),
        (["--schedule", "--config", "/nope/x", "--scheduler-name", "a"], "names the profiles; give one of the two"),
        (["--nodes", "-2", "--kubeconfig", "/"], "--nodes -2: must be at least 0\nkscheduler: --kubeconfig /: "),
        (["-v", "-3"], "argument -v/--v: '-3' is not a whole number from 0"),
        (["--log-format", "text", "--logging-format", "json"], "mean the same: give one"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_served_is_refused(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = [] if "--port" in flags else ["--port", "54321" if "--host" in flags else "0"]
    assert exit_code("cluster", *port, *flags) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert message in written.err
    assert "Traceback" not in written.err


def test_gates_and_file_of_another_followed_version_are_no_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {placementFeasible: {enabled: []}}}]\n"
    )
    flags = ["cluster", "--port", "0", "--kubeconfig", "/nope/x", "--schedule", "--config", str(config)]
    another = "kscheduler: --kubeconfig /nope/x: there is no directory /nope\n"
    assert exit_code(*flags, "--feature-gates", "ManagedFieldsOptOutClient=true") == 2
    assert capsys.readouterr().err == another
    assert exit_code(*flags, "--feature-gates", "PodGroupPreemptionPolicy=false") == 2
    assert "has it: see --emulated-version" in capsys.readouterr().err, "no version has both"
    assert exit_code(*flags, "--feature-gates", "Nonsense=true") == 2
    assert capsys.readouterr().err == f"kscheduler: --feature-gates: unrecognized feature gate: Nonsense\n{another}"


async def bound_node(client: APIClient, name: str) -> str:
    """The node of a pod, waited for."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        value = msgspec.json.decode(await client.get(f"{PODS}/{name}"))
        node: str = value["spec"].get("nodeName", "")
        if node:
            return node
    raise AssertionError(f"{name} has no node")


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def size_of(path: str) -> int:
    return Path(path).stat().st_size


def manifest(name: str, scheduler: str) -> bytes:
    return msgspec.json.encode(pod(name, schedulerName=scheduler))


async def test_the_greeting_says_that_nobody_schedules_and_how_to_start_a_scheduler() -> None:
    async with kscheduler("cluster", "--nodes", "2", "--port", "0") as cluster:
        await cluster.until("schedulerName: kscheduler")
        assert "no scheduler runs here yet: pods stay Pending." in cluster.output
        (command,) = re.findall(r"^  \S*kscheduler (run .*default-scheduler)$", cluster.output, re.MULTILINE)
        ((host, port),) = cluster.urls()
        async with kscheduler(*shlex.split(command), "--port", "0") as scheduler:
            async with APIClient(plain_connection(f"http://{host}:{port}")) as client:
                await client.post(PODS, manifest("newcomer", "default-scheduler"))
                assert await bound_node(client, "newcomer")
            scheduler.process.send_signal(signal.SIGTERM)
            assert await scheduler.end() == 0, scheduler.output


@PROCESSES
async def test_with_schedule_pods_of_both_names_are_bound_and_all_ends_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with kscheduler("cluster", "--nodes", "2", "--port", "0", "--schedule") as cluster:
        await cluster.until("its screen: ")
        assert "kscheduler schedules the pods for default-scheduler and kscheduler" in cluster.output
        (log,) = re.findall(r"its log: (.*)$", cluster.output, re.MULTILINE)
        (scheduler,) = children(cluster.process.pid)
        own_port = re.findall(r"http://127.0.0.1:(\d+)/metrics", cluster.output)[0]
        (api_port,) = {port for _, port in cluster.urls()} - {int(own_port)}
        async with APIClient(plain_connection(f"http://127.0.0.1:{api_port}")) as client:
            for name in ("default-scheduler", "kscheduler"):
                await client.post(PODS, manifest(name, name))
                assert await bound_node(client, name)
        assert size_of(log) > 0
        flags = ["--master", f"http://127.0.0.1:{api_port}"]
        assert await asyncio.to_thread(kubectl_plugin.main, ["top", "--once", *flags]) == 0
        reported = capsys.readouterr()
        assert "2 scheduled" in reported.out
        assert "answered by the service kscheduler-system/kscheduler:10259" in reported.err
        commands = dict(re.findall(r"^  (why pending|why a pod|its screen): (.*)$", cluster.output, re.MULTILINE))
        assert set(commands) == {"why pending", "why a pod", "its screen"}
        for command in (
            commands["why pending"],
            commands["why a pod"].replace("NAMESPACE/POD", "default/kscheduler"),
            f"{commands['its screen']} --once",
        ):
            await typed_as_it_stands(command)
        pod = ["default/kscheduler", *flags]
        assert (
            await asyncio.to_thread(kubectl_plugin.main, ["why", *pod, "--service", "kscheduler-system/other:1"]) == 1
        )
        assert 'services "other" not found' in capsys.readouterr().err
        cluster.process.send_signal(signal.SIGINT)
        assert await cluster.end() == 0, cluster.output
    assert not runs(scheduler)
    assert not answers(("127.0.0.1", int(own_port)))


@PROCESSES
async def test_a_policy_of_ones_own_decides_for_both_names(tmp_path: Path) -> None:
    policy = tmp_path / "attr.py"  # which aiohttp would import, if the working directory counted
    policy.write_text(
        "from kscheduler.framework.per_node import plugin\n@plugin('Only')\ndef filter(pod, node):\n"
        "    return None if node.name == 'node-002' else 'not here'\n"
    )
    flags = ["--nodes", "4", "--port", "0", "--schedule", "--plugin", str(policy)]
    async with kscheduler("cluster", *flags, cwd=tmp_path) as cluster:
        await cluster.until("kscheduler explain ")
        own_port = re.findall(r"http://127.0.0.1:(\d+)/metrics", cluster.output)[0]
        (api_port,) = {port for _, port in cluster.urls()} - {int(own_port)}
        assert f"--plugin={policy}" in cluster.output.partition("kscheduler explain ")[2]
        async with APIClient(plain_connection(f"http://127.0.0.1:{api_port}")) as client:
            for name in ("default-scheduler", "kscheduler"):
                await client.post(PODS, manifest(name, name))
                assert await bound_node(client, name) == "node-002"
        right = policy.read_text()
        policy.write_text(right.replace("return", "retrun"))
        await cluster.until(f"goes on as before: --plugin: {policy}:4: SyntaxError")
        policy.write_text(right.replace("002", "001"))
        await cluster.until("is taken over: plugin Only")


@PROCESSES
async def test_names_of_a_configuration_are_reported_and_so_is_a_pod_that_names_another(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: c}]\n"
    )
    async with kscheduler("cluster", "--nodes", "1", "--port", "0", "--schedule", "--config", str(config)) as cluster:
        await cluster.until("kscheduler explain ")
        assert "kscheduler schedules the pods for a, b and c\n" in cluster.output
        own_port = re.findall(r"http://127.0.0.1:(\d+)/metrics", cluster.output)[0]
        (api_port,) = {port for _, port in cluster.urls()} - {int(own_port)}
        async with APIClient(plain_connection(f"http://127.0.0.1:{api_port}")) as client:
            for name, scheduler in (("served", "b"), ("lost", "cheapest"), ("too", "cheapest"), ("last", "other")):
                await client.post(PODS, manifest(name, scheduler))
            await cluster.until("other")
    reported = [line for line in cluster.output.splitlines() if line.startswith("pod ")]
    assert reported == [
        "pod default/lost waits for schedulerName cheapest, which no profile here serves: a, b, c are served",
        "pod default/last waits for schedulerName other, which no profile here serves: a, b, c are served",
    ]


@PROCESSES
@pytest.mark.parametrize("exists", [False, True])
async def test_a_kubeconfig_that_a_configuration_names_is_not_read_which_is_reported(
    tmp_path: Path, exists: bool
) -> None:
    """As each file of kubeadm names one. If it exists it is of another cluster, whose credentials go nowhere."""
    config, kubeconfig = tmp_path / "config.yaml", tmp_path / "scheduler.conf"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"clientConnection: {{kubeconfig: {kubeconfig}}}\nleaderElection: {{leaderElect: true}}\n"
    )
    if exists:
        kubeconfig.write_text(
            "{apiVersion: v1, kind: Config, current-context: real, contexts: [{name: real, context: {cluster: real, "
            "user: real}}], clusters: [{name: real, cluster: {server: 'https://127.0.0.1:1'}}], "
            f"users: [{{name: real, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, "
            f"args: ['{tmp_path}/was-run'], interactiveMode: Never}}}}}}]}}"
        )
    async with kscheduler("cluster", "--nodes", "1", "--port", "0", "--schedule", "--config", str(config)) as cluster:
        await cluster.until("kscheduler explain ")
        assert f"  not read: clientConnection.kubeconfig of {config} ({kubeconfig})" in cluster.output
        (log,) = re.findall("its log: (.*)", cluster.output)
        assert "scheduler.conf: context" not in await asyncio.to_thread(Path(log).read_text)
    assert not (tmp_path / "was-run").exists()


@PROCESSES
async def test_a_cluster_whose_scheduler_dies_ends_and_says_why() -> None:
    async with kscheduler("cluster", "--nodes", "1", "--port", "0", "--schedule") as cluster:
        await cluster.until("its log: ")
        (scheduler,) = [pid for pid in children(cluster.process.pid) if "run" in command_of(pid)]
        os.kill(scheduler, signal.SIGKILL)
        assert await cluster.end() == 1
    assert "kscheduler cluster: the scheduler ended by itself with exit code -9; the end of its log:" in cluster.output


async def test_ctrl_c_while_the_scheduler_starts_leaves_nothing_behind() -> None:
    async with kscheduler("cluster", "--nodes", "1", "--port", "0", "--schedule") as cluster:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (started := children(cluster.process.pid)) and time.monotonic() < deadline:
            pass
        cluster.process.send_signal(signal.SIGINT)
        assert await cluster.end() == 130, cluster.output
    assert "Traceback" not in cluster.output
    assert not any(map(runs, started))
