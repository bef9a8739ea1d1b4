"""Each answer says by which kube-scheduler's rules it was decided: the API server's version chooses."""

import json
from pathlib import Path

import pytest

from kscheduler.api.machinery.resources import NODES, PODS, served_kinds
from kscheduler.api.releases import BEHAVIOURS, RELEASE, VERSION
from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from tests.explain.scenarios import node_tree, pod_tree
from tests.explain.test_command import run_beside

# What only 1.37 has: 1.38 does not know it any more, 1.36 not yet.
OF_1_37 = "--feature-gates=GenericWorkload=true,PodGroupPreemptionPolicy=true"
OF_1_38 = "--feature-gates=ManagedFieldsOptOutClient=true"
UNKNOWN_IN_1_38 = (
    "--feature-gates: unrecognized feature gate: PodGroupPreemptionPolicy "
    "(Kubernetes 1.37 has it: see --emulated-version)"
)
CHOICES = "--emulated-version chooses: 1.36, 1.37 or 1.38"


def release_of(version: str) -> str:
    return RELEASE if version == VERSION else f"v{version}.0"


def dump(tmp_path: Path) -> str:
    path = tmp_path / "cluster.json"
    pod = {**pod_tree(), "spec": {**pod_tree()["spec"], "schedulerName": "default-scheduler"}}
    items = [{"kind": "Node", "apiVersion": "v1", **node_tree("a")}, {"kind": "Pod", "apiVersion": "v1", **pod}]
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return str(path)


@pytest.mark.parametrize(
    ("server", "flags", "version", "why"),
    [
        *(pytest.param(each, (), each, "", id=f"a server of {each}") for each in BEHAVIOURS),
        pytest.param(
            "1.38",
            (OF_1_37,),
            "1.37",
            f"the API server is v1.38.0, whose rules the configuration does not fit: {UNKNOWN_IN_1_38}",
            id="a gate of an older version",
        ),
        pytest.param("1.38", (OF_1_38,), "1.38", "", id="a gate of the server's version"),
        pytest.param(
            "1.37",
            (OF_1_38,),
            "1.38",
            "the API server is v1.37.0, whose rules the configuration does not fit: --feature-gates: unrecognized "
            "feature gate: ManagedFieldsOptOutClient (Kubernetes 1.38 has it: see --emulated-version)",
            id="a gate of a newer version",
        ),
    ],
)
async def test_of_a_live_cluster_by_the_api_servers_version_as_far_as_the_configuration_takes_it(
    server: str, flags: tuple[str, ...], version: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedAPIServer(seed=1, kinds=served_kinds(server, lambda _: False)) as api:
        api.registry.create(NODES, "", node_tree("a"))
        api.registry.create(PODS, "default", pod_tree())
        ask = ["default/web", "--master", api.url, *flags]
        assert await run_beside(*ask) == 0
        words = capsys.readouterr().out.rpartition("by the rules of ")[2].split()
        assert words == f"kube-scheduler {version}: {why or f'the API server is {release_of(server)}'}".split()
        assert await run_beside(*ask, "-o", "json") == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["emulationVersion"] == version
        expected = [f"by the rules of kube-scheduler {version}: {why}"] if why else []
        assert [note for note in answer["notes"] if "kube-scheduler" in note] == expected


async def test_a_version_that_was_given_beside_another_one_of_the_api_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with EmbeddedAPIServer(seed=1) as api:
        api.registry.create(NODES, "", node_tree("a"))
        api.registry.create(PODS, "default", pod_tree())
        ask = ["default/web", "--master", api.url]
        assert await run_beside(*ask, "--emulated-version=1.38") == 0
        why = f"which --emulated-version names: the API server is {RELEASE}"
        assert capsys.readouterr().out.endswith(f"\n\nby the rules of kube-scheduler 1.38, {why}\n")
        api.faults.add(InjectedFault("answer", path="/version", code=500))
        assert await run_beside(*ask) == 0
        why = "the API server does not tell its version"
        assert capsys.readouterr().out.endswith(f"\n\nby the rules of kube-scheduler {VERSION}: {why}\n")


@pytest.mark.parametrize("verb", ["explain", "pending", "simulate"])
def test_of_files_by_the_oldest_version_that_takes_the_configuration(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flags, version, why in (
        ((), "1.36", f", the oldest that takes the configuration; {CHOICES}"),
        ((OF_1_37,), "1.37", f", the oldest that takes the configuration; {CHOICES}"),
        (("--emulated-version=1.38",), "1.38", ""),
    ):
        assert main([verb, "--from", dump(tmp_path), *flags]) == 0
        last = capsys.readouterr().out.rpartition("\n\n")[2]
        assert last.split() == f"by the rules of kube-scheduler {version}{why}".split()
        assert main([verb, "--from", dump(tmp_path), *flags, "-o", "json"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["emulationVersion"] == version
        assert "by the rules" not in printed.err + printed.out


def test_nothing_is_said_of_rules_where_nothing_was_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pending", "--from", dump(tmp_path), "-n", "nowhere"]) == 0
    assert capsys.readouterr().out == "no pod is pending\n"
