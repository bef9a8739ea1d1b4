"""Commands that an answer suggests go to the cluster that was asked about, and to no other."""

import argparse
import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from tests.builders import node_tree, pod_tree
from tests.service.running import put

PATCH = """'[{"op":"add","path":"/spec/nodeSelector","value":{"note":"a | kubectl && kubectl get it'"'"'s"}}]'"""


def flags(master: str = "", kubeconfig: str = "", context: str = "") -> KubectlFlags:
    return KubectlFlags.of(argparse.Namespace(master=master, kubeconfig=kubeconfig, context=context))


@pytest.mark.parametrize(
    ("given", "command", "expected"),
    [
        pytest.param({}, "kubectl uncordon a", "kubectl uncordon a", id="none given"),
        pytest.param(
            {"kubeconfig": "my config", "context": "prod"},
            "kubectl uncordon a",
            "kubectl '--kubeconfig=my config' --context=prod uncordon a",
            id="quoted",
        ),
        pytest.param(
            {"master": "http://127.0.0.1:8001"},
            "kubectl taint node a b- && kubectl label node a --overwrite c=d",
            "kubectl --server=http://127.0.0.1:8001 taint node a b- "
            "&& kubectl --server=http://127.0.0.1:8001 label node a --overwrite c=d",
            id="one after the other",
        ),
        pytest.param(
            {"context": "x"},
            f"kubectl get pod kubectl -o yaml | kubectl patch --local -f - -p {PATCH} | kubectl replace --force -f -",
            f"kubectl --context=x get pod kubectl -o yaml | kubectl --context=x patch --local -f - -p {PATCH} "
            "| kubectl --context=x replace --force -f -",
            id="a pipe, and a patch that reads like one",
        ),
        pytest.param({"context": "x"}, "", "", id="no command"),
    ],
)
def test_each_kubectl_of_a_line_gets_the_flags_and_nothing_else(
    given: dict[str, str], command: str, expected: str
) -> None:
    assert flags(**given).in_command(command) == expected


def test_text_has_them_in_its_commands_alone() -> None:
    text = "kubectl get nodes\n  1. drop it\n     \x1b[2mkubectl uncordon a\x1b[0m\n  (kubectl drain a)\n"
    said = flags(context="x").in_text(text)
    assert said == text.replace("kubectl uncordon", "kubectl --context=x uncordon")


@pytest.fixture
async def server() -> Any:
    async with EmbeddedAPIServer() as started:
        put(started, "nodes", node_tree("node", cpu="2"))
        put(started, "pods", pod_tree("big", requests={"cpu": "9"}))
        yield started


async def queried(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert await asyncio.to_thread(main, list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", [["explain", "default/big"], ["pending"]])
async def test_answers_about_a_live_cluster_have_them_in_text_and_in_json(
    verb: list[str], server: EmbeddedAPIServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "config of prod"
    cluster = {"name": "c", "cluster": {"server": server.url}}
    context = {"name": "prod", "context": {"cluster": "c", "user": "u"}}
    user: dict[str, Any] = {"name": "u", "user": {}}
    tree = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context], "users": [user]}
    kubeconfig.write_text(yaml.safe_dump(tree))
    reached = ["--kubeconfig", str(kubeconfig), "--context", "prod"]
    expected = [f"--kubeconfig={kubeconfig}", "--context=prod"]
    text = await queried(capsys, *verb, *reached)
    (line,) = [line for line in text.splitlines() if line.strip().startswith("kubectl ") and "get pod" in line]
    explanation = json.loads(await queried(capsys, *verb, *reached, "-o", "json"))
    suggestion = (
        explanation["suggestions"][0] if "suggestions" in explanation else explanation["reasons"][0]["suggestion"]
    )
    for command in (line, suggestion["command"]):
        parts = shlex.split(command)
        assert [parts[at + 1 : at + 3] for at, word in enumerate(parts) if word == "kubectl"] == [expected] * 3
    by_address = await queried(capsys, *verb, "--master", server.url)
    assert by_address.count(f"kubectl --server={server.url} ") == 3


async def test_objects_of_a_file_are_of_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = tmp_path / "dump.json"
    objects = [
        {"kind": "Node", **node_tree("node", cpu="2")},
        {"kind": "Pod", **pod_tree("big", requests={"cpu": "9"})},
    ]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert "\n     kubectl get pod big -n default" in await queried(
        capsys, "explain", "default/big", "--from", str(dump)
    )
