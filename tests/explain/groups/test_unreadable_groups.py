"""A pod group that is there and cannot be decoded: an answer that it "does not exist" would send its reader astray."""

import asyncio
from pathlib import Path

import pytest
import yaml

from kscheduler.api.machinery.resources import NODES, PODS, served_kinds
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.explain.groups.test_new_groups import AS_1_37, CONFIG, GATE, NODE, gang, members
from tests.explain.scenarios import Tree, node_tree
from tests.explain.test_command import run

WAITS = "is not tried: waits for PodGroup default/g ({}), which exists, but cannot be read: "


def unreadable(api: str) -> Tree:
    spec = {"schedulingPolicy": 3} if api == "kubernetes" else {"minMember": "two"}
    return {**gang(api, namespace="default", uid="u", resourceVersion="7"), "spec": spec}


@pytest.mark.parametrize("is_new", [False, True], ids=["of the cluster", "of the file"])
def test_a_file_that_holds_it(
    is_new: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(CONFIG)
    bad = unreadable("scheduler-plugins")
    Path("there.yaml").write_text(yaml.safe_dump_all([NODE] if is_new else [NODE, bad, *members()]))
    Path("new.yaml").write_text(yaml.safe_dump_all([bad, *members()]))
    of_file = ("-f", "new.yaml") if is_new else ()
    assert run("--from", "there.yaml", *of_file, "--config", "config.yaml") == 0
    waits = WAITS.format("podgroups.scheduling.x-k8s.io")
    head = capsys.readouterr().out.splitlines()[0]
    assert head.startswith(f"pod group default/g {waits}")
    assert head.endswith(" (PodGroup g): Expected `int`, got `str` - at `$.spec.minMember`")


async def test_an_api_server_that_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedAPIServer(seed=1, kinds=served_kinds("1.37", lambda gate: gate == GATE)) as server:
        server.registry.create(NODES, "", node_tree("a", cpu="2"))
        server.store.put("podgroups.scheduling.k8s.io", unreadable("kubernetes"))
        for member in members(api="kubernetes"):
            server.registry.create(PODS, "default", member)
        flags = ("--master", server.url, "--scheduler-name", "default-scheduler", *AS_1_37)
        assert await asyncio.to_thread(run, "podgroup/g", *flags) == 0
    waits = WAITS.format("podgroups.scheduling.k8s.io")
    assert capsys.readouterr().out.startswith(f"pod group default/g {waits}")
