"""Inputs that were reported as got wrong, asked as a user asks: each in `cases/`, with what is right beside it.

The files are the reporters' own. What asks a cluster (limits that are lowered, applies in sequence, node ports, bodies,
long names) is in tests/e2e/reported, on both API servers; decisions beside the real kube-scheduler are in
tests/e2e/parity/test_reported_decisions.py, and the chart is in tests/deploy/chart/test_umbrella.py.
"""

import asyncio
import json
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.client.http.test_proxied import CERTIFICATES, Tunnels
from tests.explain.input.test_forms_of_files import node

CASES = Path(__file__).with_name("cases")
Ask = Callable[..., tuple[int, str, str]]

versions = pytest.mark.parametrize("version", ["1.36", "1.37"])


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Runs kscheduler where the cases are; the answer is exit code, output and errors, each in one line."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.chdir(CASES)
        code = main([*words])
        out, err = (" ".join(text.split()) for text in capsys.readouterr())
        return code, out, err

    return run


# --- decisions --------------------------------------------------------------------------------------------------------

FULL = "NodeVolumeLimits rejected 1 node 1 node(s) exceed max volume count"


@versions
@pytest.mark.parametrize(
    ("file", "pod", "answers"),
    [
        ("limit-inline-aws", "default/asker", ("fits on no node", FULL)),
        ("limit-pending-claims", "default/asker", ("fits on no node", FULL)),
        # 1.36 says otherwise: docs/differences.md
        ("namespace-notin", "blue/asker", ("goes to n1",)),
    ],
)
def test_a_decision_is_kube_schedulers(ask: Ask, version: str, file: str, pod: str, answers: tuple[str, ...]) -> None:
    words = ("--scheduler-name", "default-scheduler", "--emulated-version", version, "--from", f"{file}.yaml", pod)
    code, out, err = ask("explain", *words)
    assert (code, err) == (0, "")
    assert out.startswith(f"{pod}: ")
    assert all(answer in out for answer in answers), out


# --- forms of files ---------------------------------------------------------------------------------------------------


@versions
@pytest.mark.parametrize("file", ["dump.yaml", "dump-utf16.yaml", "dump-bom.json", "dump-two-json.json"])
def test_a_dump_is_read_whole(ask: Ask, version: str, file: str) -> None:
    words = ("--scheduler-name", "default-scheduler", "--emulated-version", version, "--from", file, "default/p")
    code, out, err = ask("explain", *words)
    assert (code, err) == (0, "")
    assert "default/p: goes to n1" in out


def test_two_lists_without_a_separator_are_refused_by_name(ask: Ask) -> None:
    code, out, err = ask("explain", "--from", "dump-two-lists.yaml", "default/p")
    assert (code, out) == (2, "")
    assert err.startswith("kscheduler: dump-two-lists.yaml:15: not YAML: 'apiVersion' is there twice")


# --- manifests --------------------------------------------------------------------------------------------------------

OLD = "Deployment (1) of extensions/v1beta1 (served: apps/v1), PodDisruptionBudget (1) of policy/v1beta1"
UNKNOWN = "kinds that are not known here are left out, and make no pods: "
NOT_SERVED = "versions that API servers since 1.36 do not serve are left out: "
MANIFESTS: dict[str, tuple[int, str, str]] = {
    "gated": (0, "default/gated: gated: waiting for scheduling gates: [example.com/foo]", ""),
    "kruise": (
        0,
        "1 pod would get a node on 1 node default/p",
        f"{UNKNOWN}Service (1) of serving.knative.dev/v1, StatefulSet (1) of apps.kruise.io/v1beta1",
    ),
    "oldapi": (
        2,
        "",
        f"{NOT_SERVED}{OLD} (served: policy/v1)",
    ),
    "vjob": (2, "", f"{UNKNOWN}Job (1) of batch.volcano.sh/v1alpha1"),
    "dra-v1beta1": (0, "device class gpu.example.com does not exist", ""),
    "ds": (
        0,
        "2 pods would get a node on 2 nodes default/agent-new-a a new default/agent-new-b b new requested of",
        "DaemonSet default/agent: a pod on 2 of 3 nodes",
    ),
    "pvc-noclass": (0, "default/pc: 0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims", ""),
}


@pytest.fixture
def nodes(tmp_path: Path) -> str:
    """Three nodes, of which one has a taint."""
    trees: list[dict[str, Any]] = [node(name) for name in ("a", "b", "tainted")]
    trees[2]["spec"] = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    path = tmp_path / "nodes.json"
    path.write_text("\n".join(map(json.dumps, trees)))
    return str(path)


@versions
@pytest.mark.parametrize("file", MANIFESTS)
def test_a_manifest_is_simulated_with_nothing_dropped_in_silence(ask: Ask, nodes: str, version: str, file: str) -> None:
    expected, answer, note = MANIFESTS[file]
    code, out, err = ask("simulate", "--emulated-version", version, "--from", nodes, "-f", f"manifests/{file}.yaml")
    assert code == expected, err
    assert answer in out
    assert note in err
    assert bool(note) is bool(err)


@versions
def test_an_explanation_names_the_gate_and_the_class_that_is_not_there(ask: Ask, nodes: str, version: str) -> None:
    explain = partial(ask, "explain", "--emulated-version", version, "--from", nodes, "-f")
    code, out, err = explain("manifests/gated.yaml")
    assert (code, err) == (0, "")
    assert "1. remove the scheduling gates example.com/foo" in out
    code, out, err = explain("manifests/pvc-noclass.yaml")
    assert (code, err) == (0, "")
    assert "StorageClass rook-ceph-block does not exist" in out
    assert "binds at once" not in out


# --- kubeconfigs ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def over_tls() -> AsyncIterator[Tunnels]:
    """An embedded API server behind TLS, and a proxy that leads every name to it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "first.crt", CERTIFICATES / "first.key")
    async with EmbeddedAPIServer(seed=1, accept_hosts=["kube.internal.example"]) as server:
        plain = Tunnels(int(server.url.rpartition(":")[2]))
        listener = await asyncio.start_server(plain.pass_on, "127.0.0.1", 0, ssl=context)
        proxy = Tunnels(listener.sockets[0].getsockname()[1])
        proxying = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        proxy.port = proxying.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            proxying.close()
            listener.close()


@versions
@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("kubeconfig-environment-proxy", ""),
        ("kubeconfig-exec-cluster", ""),
        ("kubeconfig-scheme", ""),
        ("kubeconfig-ca-and-insecure", "insecure-skip-tls-verify"),
    ],
)
async def test_a_kubeconfig_leads_where_client_go_goes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    file: str,
    problem: str,
) -> None:
    shutil.copy(CASES / "exec-needs-cluster.sh", tmp_path)
    shutil.copy(CERTIFICATES / "first.crt", tmp_path / "ca.crt")
    async with over_tls() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        # The files name the usual port of this machine.
        text = (CASES / f"{file}.yaml").read_text().replace("127.0.0.1:6443", f"127.0.0.1:{proxy.port_behind}")
        path = tmp_path / "config"
        path.write_text(text)
        words = ["pending", "--kubeconfig", str(path), "--emulated-version", version]
        code = await asyncio.to_thread(main, words)
    out, err = capsys.readouterr()
    assert code == (2 if problem else 0), err
    assert problem in err
    assert bool(out) is not bool(problem)
    through = ["CONNECT kube.internal.example:6443"] if "proxy" in file else []
    assert sorted({head.partition(" HTTP/")[0] for head in proxy.heads}) == through
