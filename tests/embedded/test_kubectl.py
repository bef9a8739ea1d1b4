"""The real kubectl against the embedded API server: the main judge of whether it behaves like one."""

import asyncio
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.machinery.resources import NODES, PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.objects.deletion import DeleteOptions
from kscheduler.embedded.objects.store import Change, ChangeType
from tests.embedded.cluster_client import node, pod

KUBECTL = pytest.mark.slow("runs kubectl a dozen times")

pytestmark = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on PATH: whether it accepts the embedded server is UNTESTED"
)

MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "app:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]},
}


@dataclass(frozen=True)
class Explanation:
    """What a kubectl command printed and how it ended."""

    code: int
    out: str
    err: str


class Kubectl:
    """Runs kubectl commands against one server, with a home of their own."""

    def __init__(self, server: EmbeddedAPIServer, home: Path) -> None:
        self.server = server
        self._config = home / "kubeconfig"
        self._environment = {**os.environ, "HOME": str(home), "KUBECONFIG": str(self._config)}

    async def try_(self, *arguments: str, stdin: Any = None, **environment: str) -> Explanation:
        text = b"" if stdin is None else json.dumps(stdin).encode()
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._environment, **environment},
        )
        async with asyncio.timeout(30):
            out, err = await process.communicate(text)
        assert process.returncode is not None
        return Explanation(process.returncode, out.decode(), err.decode())

    async def __call__(self, *arguments: str, stdin: Any = None, **environment: str) -> str:
        answer = await self.try_(*arguments, stdin=stdin, **environment)
        assert answer.code == 0, f"kubectl {' '.join(arguments)}: {answer.err}"
        return answer.out.strip()

    async def object(self, *arguments: str) -> Any:
        return json.loads(await self("get", *arguments, "-o", "json"))


@pytest.fixture
def kubectl(server: EmbeddedAPIServer, tmp_path: Path) -> Kubectl:
    (tmp_path / "kubeconfig").write_text(server.kubeconfig_text())
    return Kubectl(server, tmp_path)


def words(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


async def test_get_prints_the_columns_of_nodes_and_pods(kubectl: Kubectl) -> None:
    kubectl.server.registry.create(NODES, "", node())
    kubectl.server.registry.create(PODS, "default", pod(nodeName="n1"))
    kubectl.server.registry.create(PODS, "default", pod("g", schedulingGates=[{"name": "x"}]))
    header, row = words(await kubectl("get", "nodes"))
    assert header == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert row[:3] == ["n1", "Ready", "<none>"]
    header, gated, bound = words(await kubectl("get", "pods", "-A", "-o", "wide"))
    assert header[:8] == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert gated[1:4] == ["g", "0/1", "SchedulingGated"]
    assert (bound[1:4], bound[7]) == (["p", "0/1", "Pending"], "n1")


async def test_get_selects_by_labels_and_fields(kubectl: Kubectl) -> None:
    for name in "ab":
        value = pod(name, nodeName=f"n-{name}")
        value["metadata"]["labels"]["which"] = name
        kubectl.server.registry.create(PODS, "default", value)
    assert await kubectl("get", "pods", "-l", "which in (a,c),app=web", "-o", "name") == "pod/a"
    assert await kubectl("get", "pods", "--field-selector", "spec.nodeName=n-b", "-o", "name") == "pod/b"
    refused = await kubectl.try_("get", "pods", "--field-selector", "spec.image=x")
    assert "field label not supported: spec.image" in refused.err


async def test_long_lists_come_in_chunks(kubectl: Kubectl) -> None:
    for count in range(25):
        kubectl.server.registry.create(PODS, "default", pod(f"p{count}"))
    assert len((await kubectl("get", "pods", "--chunk-size=10", "--no-headers")).splitlines()) == 25


async def test_describe_knows_node_pods_and_events(kubectl: Kubectl) -> None:
    kubectl.server.registry.create(NODES, "", node())
    await kubectl("create", "-f", "-", stdin={**MANIFEST, "spec": {**MANIFEST["spec"], "nodeName": "n1"}})
    about = {"kind": "Pod", "namespace": "default", "name": "web", "apiVersion": "v1"}
    about["uid"] = (await kubectl.object("pod", "web"))["metadata"]["uid"]
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about}
    event |= {"type": "Warning", "reason": "FailedScheduling", "message": "0/1 nodes are available"}
    await kubectl("create", "-f", "-", stdin={**event, "source": {"component": "kscheduler"}, "count": 1})
    described = await kubectl("describe", "node", "n1")
    assert "cpu                1 (25%)    1 (25%)" in described
    described = await kubectl("describe", "pod", "web")
    assert "Warning  FailedScheduling" in described
    assert "QoS Class:        Guaranteed" in described
    assert "0/1 nodes are available" in await kubectl("get", "events")
    assert "FailedScheduling" in await kubectl("events")


@KUBECTL
async def test_create_commands_that_send_protobuf(kubectl: Kubectl) -> None:
    assert await kubectl("create", "namespace", "team") == "namespace/team created"
    await kubectl("create", "priorityclass", "high", "--value=10", "--preemption-policy=Never")
    high = await kubectl.object("priorityclass", "high")
    assert (high["value"], high["preemptionPolicy"]) == (10, "Never")
    await kubectl("create", "deployment", "d", "--image=app:1", "--replicas=2", "--port=80", "-n", "team")
    spec = (await kubectl.object("deployment", "d", "-n", "team"))["spec"]
    assert (spec["replicas"], spec["selector"]) == (2, {"matchLabels": {"app": "d"}})
    assert spec["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    await kubectl("create", "poddisruptionbudget", "b", "--selector=app=web", "--min-available=50%")
    assert (await kubectl.object("pdb", "b"))["spec"]["minAvailable"] == "50%"
    await kubectl("scale", "deployment", "d", "--replicas=5", "-n", "team")
    assert (await kubectl("get", "deployment", "d", "-n", "team", "--no-headers")).split()[1] == "0/5"


async def test_refusals_read_as_from_the_real_server(kubectl: Kubectl) -> None:
    assert (await kubectl.try_("get", "pod", "none")).err == 'Error from server (NotFound): pods "none" not found\n'
    twice = await kubectl.try_("create", "namespace", "default")
    assert twice.err == 'Error from server (AlreadyExists): namespaces "default" already exists\n'
    unknown = {**MANIFEST, "spec": {**MANIFEST["spec"], "replicas": 3}}
    strict = await kubectl.try_("create", "-f", "-", stdin=unknown)
    assert 'strict decoding error: unknown field "spec.replicas"' in strict.err
    empty = await kubectl.try_("create", "-f", "-", stdin={**MANIFEST, "spec": {"containers": []}})
    assert empty.err.strip() == 'The Pod "web" is invalid: spec.containers: Required value'


@KUBECTL
async def test_client_side_apply_merges_and_forgets(kubectl: Kubectl) -> None:
    first = {**MANIFEST, "metadata": {**MANIFEST["metadata"], "labels": {"app": "web", "old": "1"}}}
    assert await kubectl("apply", "-f", "-", stdin=first) == "pod/web created"
    assert await kubectl("apply", "-f", "-", stdin=first) == "pod/web unchanged"
    await kubectl("label", "pod", "web", "by-hand=1")
    second = json.loads(json.dumps(MANIFEST).replace("app:1", "app:2"))
    assert await kubectl("apply", "-f", "-", stdin=second) == "pod/web configured"
    value = await kubectl.object("pod", "web")
    assert value["metadata"]["labels"] == {"app": "web", "by-hand": "1"}
    assert value["spec"]["containers"][0]["image"] == "app:2"
    difference = await kubectl.try_("diff", "-f", "-", stdin=MANIFEST)
    assert (difference.code, "-  - image: app:2" in difference.out) == (1, True)


async def test_server_side_apply_owns_conflicts_and_forces(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*apply, "--field-manager=one", stdin=MANIFEST) == "pod/web serverside-applied"
    other = json.loads(json.dumps(MANIFEST).replace("app:1", "app:2"))
    refused = await kubectl.try_(*apply, "--field-manager=two", stdin=other)
    assert 'conflict with "one": .spec.containers[name="c"].image' in refused.err
    await kubectl(*apply, "--field-manager=two", "--force-conflicts", stdin=other)
    value = json.loads(await kubectl("get", "pod", "web", "-o", "json", "--show-managed-fields"))
    assert {entry["manager"] for entry in value["metadata"]["managedFields"]} == {"one", "two"}
    assert value["spec"]["containers"][0]["image"] == "app:2"


async def test_client_side_apply_can_move_to_the_server_side(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert await kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST) == "pod/web serverside-applied"


@KUBECTL
async def test_label_annotate_and_the_three_patches(kubectl: Kubectl) -> None:
    kubectl.server.registry.create(NODES, "", node())
    assert await kubectl("label", "node", "n1", "disk=ssd") == "node/n1 labeled"
    refused = await kubectl.try_("label", "node", "n1", "disk=hdd")
    assert "--overwrite is false" in refused.err
    await kubectl("label", "node", "n1", "disk-")
    await kubectl("annotate", "node", "n1", "note=x")
    await kubectl("patch", "node", "n1", "-p", '{"metadata":{"labels":{"s":"1"}}}')
    await kubectl("patch", "node", "n1", "--type=merge", "-p", '{"metadata":{"labels":{"m":"1"}}}')
    operation = '[{"op":"add","path":"/metadata/labels/j","value":"1"}]'
    await kubectl("patch", "node", "n1", "--type=json", "-p", operation)
    status = '{"status":{"capacity":{"cpu":"8"}}}'
    await kubectl("patch", "node", "n1", "--subresource=status", "-p", status)
    value = await kubectl.object("node", "n1")
    assert value["metadata"]["labels"] == {"s": "1", "m": "1", "j": "1"}
    assert value["metadata"]["annotations"] == {"note": "x"}
    assert value["status"]["capacity"]["cpu"] == "8"


@KUBECTL
async def test_edit_and_replace_write_under_the_version_they_read(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=MANIFEST)
    assert await kubectl("edit", "pod", "web", EDITOR="sed -i s/app:1/app:3/") == "pod/web edited"
    read = await kubectl.object("pod", "web")
    assert read["spec"]["containers"][0]["image"] == "app:3"
    await kubectl("label", "pod", "web", "x=1")
    stale = await kubectl.try_("replace", "-f", "-", stdin=read)
    assert "Error from server (Conflict)" in stale.err


@KUBECTL
async def test_taint_and_cordon_write_the_spec_of_a_node(kubectl: Kubectl) -> None:
    kubectl.server.registry.create(NODES, "", node())
    assert await kubectl("taint", "node", "n1", "k=v:NoSchedule") == "node/n1 tainted"
    assert await kubectl("taint", "node", "n1", "k=w:NoExecute") == "node/n1 tainted"
    taints = (await kubectl.object("node", "n1"))["spec"]["taints"]
    assert {(taint["key"], taint["value"], taint["effect"]) for taint in taints} == {
        ("k", "v", "NoSchedule"),
        ("k", "w", "NoExecute"),
    }
    assert await kubectl("taint", "node", "n1", "k-") == "node/n1 untainted"
    assert await kubectl("cordon", "n1") == "node/n1 cordoned"
    assert words(await kubectl("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
    assert await kubectl("uncordon", "n1") == "node/n1 uncordoned"
    assert "taints" not in (await kubectl.object("node", "n1"))["spec"]


def run_kubelet(server: EmbeddedAPIServer) -> None:
    """End every pod that is told to stop, one turn of the loop later, as its kubelet would."""
    loop = asyncio.get_running_loop()

    def stop(change: Change) -> None:
        if change.type is ChangeType.MODIFIED and "deletionTimestamp" in change.record.value["metadata"]:
            loop.call_soon(server.registry.deletion.delete, PODS, *change.key, DeleteOptions(grace_period_seconds=0))

    server.store.subscribe("pods", stop)


async def test_drain_evicts_what_it_may(kubectl: Kubectl) -> None:
    registry = kubectl.server.registry
    registry.create(NODES, "", node())
    registry.create(PODS, "default", pod(nodeName="n1"))
    registry.create(PODS, "default", pod("elsewhere", nodeName="n2"))
    refused = await kubectl.try_("drain", "n1")
    assert "cannot delete Pods that declare no controller" in refused.err
    run_kubelet(kubectl.server)
    drained = await kubectl("drain", "n1", "--force")
    assert "evicting pod default/p" in drained
    assert drained.endswith("node/n1 drained")
    assert await kubectl("get", "pods", "-o", "name") == "pod/elsewhere"
    assert (await kubectl.object("node", "n1"))["spec"]["unschedulable"] is True


@KUBECTL
async def test_drain_respects_a_budget(kubectl: Kubectl) -> None:
    registry = kubectl.server.registry
    registry.create(NODES, "", node())
    value = registry.create(PODS, "default", pod(nodeName="n1")).value
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    registry.update(PODS, "default", "p", {**value, "status": status}, subresource="status")
    await kubectl("create", "poddisruptionbudget", "b", "--selector=app=web", "--min-available=1")
    refused = await kubectl.try_("drain", "n1", "--force", "--timeout=1s")
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused.err
    assert "deletionTimestamp" not in (await kubectl.object("pod", "p"))["metadata"]


async def test_wait_follows_conditions_fields_and_deletion(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", stdin=MANIFEST)
    async with asyncio.TaskGroup() as group:
        phase = group.create_task(kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/web", "--timeout=20s"))
        scheduled = group.create_task(kubectl("wait", "--for=condition=PodScheduled", "pod/web", "--timeout=20s"))
        conditions = [{"type": "PodScheduled", "status": "True"}]
        status = json.dumps({"status": {"phase": "Running", "conditions": conditions}})
        await kubectl("patch", "pod", "web", "--subresource=status", "-p", status)
    assert (phase.result(), scheduled.result()) == ("pod/web condition met", "pod/web condition met")
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(kubectl("wait", "--for=delete", "pod/web", "--timeout=20s"))
        await kubectl("delete", "pod", "web")
    late = await kubectl.try_("wait", "--for=delete", "pod/web", "--timeout=1s")
    assert (gone.done(), late.code) == (True, 0)


async def test_delete_waits_for_the_kubelet_unless_forced(kubectl: Kubectl) -> None:
    kubectl.server.registry.create(PODS, "default", pod(nodeName="n1"))
    assert await kubectl("delete", "pod", "p", "--wait=false") == 'pod "p" deleted'
    assert words(await kubectl("get", "pods"))[1][2] == "Terminating"
    await kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert (await kubectl.object("pods"))["items"] == []


async def test_delete_of_a_namespace_empties_it(kubectl: Kubectl) -> None:
    await kubectl("create", "namespace", "team")
    await kubectl("run", "x", "--image=app:1", "-n", "team")
    assert await kubectl("delete", "namespace", "team") == 'namespace "team" deleted'
    assert (await kubectl.object("pods", "-A"))["items"] == []
    assert "team" not in await kubectl("get", "namespaces")
    refused = await kubectl.try_("delete", "namespace", "default")
    assert "this namespace may not be deleted" in refused.err


async def test_delete_by_selector(kubectl: Kubectl) -> None:
    for name in "ab":
        kubectl.server.registry.create(PODS, "default", pod(name))
    assert await kubectl("delete", "pods", "-l", "app=web") == 'pod "a" deleted\npod "b" deleted'


async def test_a_dry_run_on_the_server_shows_defaults_and_stores_nothing(kubectl: Kubectl) -> None:
    shown = await kubectl("create", "-f", "-", "--dry-run=server", "-o", "json", stdin=MANIFEST)
    assert json.loads(shown)["spec"]["schedulerName"] == "default-scheduler"
    assert (await kubectl.object("pods"))["items"] == []


async def test_what_the_server_serves_can_be_found_out(kubectl: Kubectl) -> None:
    names = set((await kubectl("api-resources", "-o", "name")).split())
    assert {
        "pods",
        "nodes",
        "events.events.k8s.io",
        "deviceclasses.resource.k8s.io",
        "leases.coordination.k8s.io",
    } <= names
    assert "policy/v1" in (await kubectl("api-versions")).split()
    explained = await kubectl("explain", "pod.spec.containers.ports")
    assert "hostPort" in explained
    assert json.loads(await kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"].startswith("v1.36")
    assert await kubectl("get", "--raw", "/readyz") == "ok"
    kubectl.server.registry.create(PODS, "default", pod())
    assert await kubectl("logs", "p") == "default/p is simulated on no node yet: there is no output."


@KUBECTL
async def test_every_kind_can_be_listed(kubectl: Kubectl) -> None:
    kinds = (await kubectl("api-resources", "--verbs=list", "-o", "name")).split()
    for chunk in (kinds[:15], kinds[15:]):
        assert (await kubectl.try_("get", ",".join(chunk), "-A")).code == 0


@KUBECTL
async def test_our_own_manifests_apply_as_on_a_real_cluster(kubectl: Kubectl) -> None:
    deploy = str(Path(__file__).parents[2] / "deploy")
    first = await kubectl("apply", "-k", deploy)
    assert "clusterrole.rbac.authorization.k8s.io/kscheduler created" in first
    assert "deployment.apps/kscheduler created" in first
    again = (await kubectl("apply", "-k", deploy)).splitlines()
    # A budget's selector is replaced as a whole (patchStrategy), so kubectl sends it each time, to a real server too.
    assert [line.split()[0] for line in again if not line.endswith("unchanged")] == [
        "poddisruptionbudget.policy/kscheduler"
    ]
    assert "workload-high" in await kubectl("get", "flowschemas", "--no-headers")
    account = "--as=system:serviceaccount:kscheduler-system:kscheduler"
    assert await kubectl("auth", "can-i", "create", "pods", "--subresource=binding", account) == "yes"
    refused = await kubectl.try_("auth", "can-i", "get", "secrets", account)
    assert (refused.code, refused.out.strip()) == (1, "no")


async def test_events_are_sorted_by_their_timestamps(kubectl: Kubectl) -> None:
    for second, name in enumerate(("late", "early")):
        moment = f"2026-01-01T00:00:0{1 - second}.000000Z"
        about = {"kind": "Pod", "name": name, "namespace": "default"}
        fields = {"reportingController": "x", "reportingInstance": "y", "action": "Binding", "reason": "Scheduled"}
        metadata = {"name": name, "creationTimestamp": None}
        event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": metadata, "eventTime": moment, **fields}
        await kubectl("create", "-f", "-", stdin={**event, "regarding": about, "note": "n", "type": "Normal"})
    for path in (".lastTimestamp", ".firstTimestamp", ".eventTime"):
        shown = words(await kubectl("get", "events", f"--sort-by={path}", "--no-headers"))
        assert {row[3] for row in shown} == {"pod/early", "pod/late"}, path
    assert [row[3] for row in shown] == ["pod/early", "pod/late"]


async def test_explain_speaks_of_the_api_and_not_of_our_code(kubectl: Kubectl) -> None:
    shown = await kubectl("explain", "pod.spec.tolerations")
    assert "FIELD: tolerations <[]Toleration>" in shown
    assert "Taints that do not keep the pod from a node." in shown
    assert "enum: NoExecute, NoSchedule, PreferNoSchedule" in shown
    assert not {"Gets", "Sets", "noqa", ":param", "rtype", "V1Pod"} & set((await kubectl("explain", "pod")).split())


@KUBECTL
async def test_generators_of_every_kind_are_read(kubectl: Kubectl) -> None:
    for line in (
        "secret generic login --from-literal=user=me",
        "role reader --verb=get --resource=pods",
        "rolebinding reads --role=reader --serviceaccount=default:default",
        "clusterrole nodes --verb=get --resource=nodes",
        "clusterrolebinding nodes --clusterrole=nodes --user=me",
        "quota small --hard=pods=50",
        "ingress web --rule=example.com/=web:80",
        "service nodeport outside --tcp=80",
        "priorityclass high --value=7",
    ):
        assert "created" in await kubectl("create", *line.split()), line
    secret = await kubectl.object("secret", "login")
    assert (secret["type"], secret["data"]) == ("Opaque", {"user": "bWU="})
    assert (await kubectl("create", "token", "default")).startswith("kscheduler-embedded.")


async def test_the_lines_of_the_operations_page_let_the_default_account_read_metrics(kubectl: Kubectl) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    commands = [line for line in page.splitlines() if line.startswith("kubectl create clusterrole")]
    may_read = ("auth", "can-i", "get", "/metrics", "--as=system:serviceaccount:default:default")
    assert (await kubectl.try_(*may_read)).code == 1
    for command in commands:
        await kubectl(*command.split()[1:])
    assert await kubectl(*may_read) == "yes"
