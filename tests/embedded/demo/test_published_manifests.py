"""What published manifests meet on `kscheduler cluster`, applied by kubectl: as on a real cluster."""

import json
from pathlib import Path

from tests.embedded.demo.pages import commands_of, needs_kubectl, typed
from tests.embedded.demo.programs import kscheduler

PAGE = "docs/embedded-cluster.md"
CUSTOM = "apiVersion: example.org/v1\nkind: Training\nmetadata: {name: first}\nspec: {gpus: 8}\n"


@needs_kubectl
async def test_manifests_are_taken_as_by_a_real_cluster(tmp_path: Path) -> None:
    """Labels that kubelets set, the taint of a new node, kinds of one's own (tests/e2e/reported has the others)."""
    files = {
        "custom": CUSTOM,
        "node": "apiVersion: v1\nkind: Node\nmetadata: {name: late}\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    ((define, established, none, delete),) = commands_of(PAGE, "## Kinds that no scheduling rule reads")
    async with kscheduler("cluster", "--nodes", "3", "--port", "0") as cluster:
        await cluster.until("no scheduler runs")
        url = cluster.api_url()

        async def apply(name: str, *flags: str) -> str:
            return await typed(url, " ".join(["kubectl apply", *flags, "-f", str(tmp_path / f"{name}.yaml")]))

        labels = await typed(url, "kubectl get nodes -l beta.kubernetes.io/os=linux -o name")
        assert len(labels.split()) == 3
        dry = json.loads(await typed(url, f"kubectl create --dry-run=server -o json -f {tmp_path / 'node.yaml'}"))
        assert dry["spec"]["taints"] == [{"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}]
        assert "customresourcedefinition.apiextensions.k8s.io/trainings.example.org created" in await typed(url, define)
        assert "condition met" in await typed(url, established)
        assert "No resources found" in await typed(url, none)
        assert "training.example.org/first created" in await apply("custom")
        assert "first" in await typed(url, none)
        (tmp_path / "custom.yaml").write_text(CUSTOM.replace("8", "9"))
        assert (await apply("custom")).strip() == "training.example.org/first configured"
        await typed(url, delete)
