"""Each ready policy in the scheduler as a process, on the configuration that is shipped."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kscheduler.api.well_known import SCHEDULER_NAME_ANNOTATION
from tests.controlplane import kscheduler_process
from tests.controlplane.process import Process
from tests.controlplane.rest import Object
from tests.e2e.scenario import SECONDS, Scenario
from tests.e2e.servers import RealServer

ROOT: Final = Path(__file__).parents[3]
SHIPPED: Final = ROOT / "deploy" / "examples" / "policies" / "config.yaml"
FOUR_REQUIREMENTS: Final = ROOT / "deploy" / "examples" / "four-requirements.yaml"
COST: Final = "hightower.com/cost"
TAINT: Final = {"key": "kept", "value": "free", "effect": "NoSchedule"}

pytestmark = pytest.mark.usefixtures("only_kscheduler")


class Policies:
    """A scenario whose scheduler has the shipped profiles."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.file = folder / "config.yaml"
        self.tree: Any = yaml.safe_load(SHIPPED.read_text())

    def set_args(self, profile: str, plugin: str, **args: Any) -> None:
        """Other arguments than the shipped ones."""
        (found,) = (each for each in self.tree["profiles"] if each["schedulerName"] == profile)
        found["pluginConfig"] = [{"name": plugin, "args": args}]

    def start(self) -> Process:
        self.file.write_text(yaml.safe_dump(self.tree))
        return self.scenario.start_scheduler("--config", str(self.file), wait_started=True)

    def add_nodes(self, **annotations: Mapping[str, str]) -> None:
        """Nodes with annotations, and two on which no pod of these tests fits: one is tainted, one is too small."""
        for name, each in annotations.items():
            self.scenario.add_node(name, cpu="2")
            self.scenario.patch_node(name, {"metadata": {"annotations": dict(each)}})
        self.scenario.add_node("tainted", taints=[TAINT])
        self.scenario.add_node("tiny", cpu="50m")

    def add_pod(self, name: str, policy: str, annotations: Mapping[str, str] | None = None, cpu: str = "100m") -> None:
        container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": name, "namespace": self.scenario.namespace, "annotations": dict(annotations or {})}
        spec = {"schedulerName": policy, "containers": [container], "terminationGracePeriodSeconds": 1}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.scenario.api.create(self.scenario.pods_path, pod)

    def place(self, name: str, policy: str, **options: Any) -> str:
        """Where a new pod goes."""
        self.add_pod(name, policy, **options)
        self.scenario.wait_bound(name)
        return self.scenario.node_of(name)


@pytest.fixture
def policies(scenario: Scenario, tmp_path: Path) -> Policies:
    return Policies(scenario, tmp_path)


@contextmanager
def answering(answer: Callable[[str], Any]) -> Iterator[str]:
    """An HTTP server on loopback with a JSON answer by path; yields its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
            """Not to the terminal."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_random_goes_to_any_node_that_fits(policies: Policies) -> None:
    policies.add_nodes(a={}, b={}, c={})
    policies.start()
    for number in range(60):
        policies.add_pod(f"p{number}", "random")
    policies.scenario.wait_bound()
    assert {policies.scenario.node_of(f"p{number}") for number in range(60)} == {"a", "b", "c"}


def test_round_robin_goes_on_after_a_restart(policies: Policies) -> None:
    policies.add_nodes(a={}, b={}, c={})
    first = policies.start()
    assert [policies.place(f"p{number}", "round-robin") for number in range(6)] == [*"abcabc"]
    policies.scenario.terminate(first)
    policies.start()
    assert [policies.place(f"q{number}", "round-robin") for number in range(4)] == [*"abca"]


def test_cheapest_follows_prices_as_they_change(policies: Policies) -> None:
    policies.add_nodes(cheap={COST: "0.05"}, dear={COST: "0.5"}, unknown={})
    policies.start()
    assert policies.place("one", "cheapest", cpu="1500m") == "cheap"
    assert policies.place("two", "cheapest", cpu="1") == "dear", "the cheap one is full"
    policies.scenario.patch_node("unknown", {"metadata": {"annotations": {COST: "0.01"}}})
    policies.scenario.wait("the new price", lambda: _goes(policies, "cheapest", "unknown"))


def _goes(policies: Policies, policy: str, node: str) -> bool:
    """Whether a new pod goes there by now; the pod is removed again. A changed node takes a moment to be seen."""
    found = policies.place("probe", policy)
    policies.scenario.delete_pod("probe")
    return found == node


def test_annotation_match_waits_for_a_node_that_says_so(policies: Policies) -> None:
    policies.add_nodes(pi={"cluster.type": "raspberry"}, other={"cluster.type": "intel"}, silent={})
    policies.start()
    assert policies.place("pi-app", "annotation-match", annotations={"cluster.type": "raspberry"}) == "pi"
    policies.add_pod("mips-app", "annotation-match", annotations={"cluster.type": "mips"})
    policies.scenario.wait_rejected("mips-app", "node(s) didn't match the Pod's annotations")
    policies.scenario.patch_node("silent", {"metadata": {"annotations": {"cluster.type": "mips"}}})
    policies.scenario.wait_bound("mips-app")
    assert policies.scenario.node_of("mips-app") == "silent"


def test_load_aware_by_prometheus(policies: Policies) -> None:
    shares = {"a": "0.9", "b": "0.1", "c": "0.8"}

    def answer(_: str) -> Object:
        now = datetime.now(UTC).timestamp()
        result = [{"metric": {"node": name}, "value": [now, share]} for name, share in shares.items()]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}

    with answering(answer) as url:
        source = {"url": url, "cpuQuery": "cpu", "memoryQuery": "memory"}
        policies.set_args("load-aware", "LoadAware", prometheus=source, refreshInterval="1s")
        policies.add_nodes(a={}, b={}, c={})
        policies.start()
        policies.scenario.wait("the first measurement", lambda: _goes(policies, "load-aware", "b"))
        shares.update(a="0.05", b="0.95")
        policies.scenario.wait("the next measurement", lambda: _goes(policies, "load-aware", "a"))


CRD: Final = yaml.safe_load("""
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: nodes.metrics.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, stands in for metrics-server"}
spec:
  group: metrics.k8s.io
  scope: Cluster
  names: {plural: nodes, kind: NodeMetrics}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
""")
RIGHT: Final = {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get", "list"]}
METRICS: Final = "/apis/metrics.k8s.io/v1beta1/nodes"


@pytest.fixture
def metrics_api(scenario: Scenario) -> Iterator[None]:
    """The aggregated API of metrics-server, with kscheduler's right to list it: a kind of the same name and shape."""
    if not isinstance(scenario.server, RealServer):
        pytest.skip("the embedded server has no definitions of kinds")
    api = scenario.api
    definitions, roles = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/rbac.authorization.k8s.io/v1"
    (binding,) = (
        each for each in api.items(f"{roles}/clusterrolebindings") if each["metadata"]["name"] == "kscheduler"
    )
    named = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "node-metrics"}}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "node-metrics"}
    api.create(definitions, CRD)
    api.create(f"{roles}/clusterroles", {**named, "kind": "ClusterRole", "rules": [RIGHT]})
    bound = {**named, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": binding["subjects"]}
    api.create(f"{roles}/clusterrolebindings", bound)
    try:
        scenario.wait("the metrics API", lambda: api.answers(METRICS))
        yield
    finally:
        api.delete(f"{definitions}/nodes.metrics.k8s.io")
        for kind in ("clusterroles", "clusterrolebindings"):
            api.delete(f"{roles}/{kind}/node-metrics")


@pytest.mark.usefixtures("metrics_api")
def test_load_aware_by_the_metrics_api(policies: Policies) -> None:
    api = policies.scenario.api

    def measure(name: str, cpu: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        figures = {"timestamp": now, "window": "15s", "usage": {"cpu": cpu, "memory": "1Gi"}}
        if api.answers(f"{METRICS}/{name}"):
            api.patch(f"{METRICS}/{name}", figures, "application/merge-patch+json")
        else:
            kind = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": name}}
            api.create(METRICS, {**kind, **figures})

    policies.set_args("load-aware", "LoadAware", refreshInterval="1s")
    policies.add_nodes(a={}, b={}, c={})
    for name, cpu in (("a", "1800m"), ("b", "100m"), ("c", "1500m")):
        measure(name, cpu)
    process = policies.start()
    policies.scenario.wait("the first measurement", lambda: _goes(policies, "load-aware", "b"))
    measure("b", "1900m")
    measure("a", "50m")
    policies.scenario.wait("the next measurement", lambda: _goes(policies, "load-aware", "a"))
    metrics = kscheduler_process.own_page(process, "/metrics")[1]
    assert 'kscheduler_plugin_refreshes_total{plugin="LoadAware",profile="load-aware",result="success"}' in metrics


def test_external_follows_its_source_and_does_without(policies: Policies) -> None:
    numbers = {"a": 1.0, "b": 7.0, "c": 3.0}
    policies.add_nodes(a={}, b={}, c={})
    with answering(lambda path: numbers if path == "/scores" else {}) as url:
        policies.set_args("external", "ExternalScore", url=f"{url}/scores", refreshInterval="1s", staleAfter="1s")
        process = policies.start()
        policies.scenario.wait("the first numbers", lambda: _goes(policies, "external", "b"))
        numbers["c"] = 70.0
        policies.scenario.wait("the next numbers", lambda: _goes(policies, "external", "c"))
    policies.scenario.wait(
        "the outage to be told", lambda: "ExternalScore" in kscheduler_process.own_page(process, "/readyz?verbose")[1]
    )
    assert policies.place("web", "external") in ("a", "b", "c")
    lines = [line for line in kscheduler_process.log_lines(process) if line["msg"] == "plugin_not_refreshed"]
    assert {line["plugin"] for line in lines} == {"ExternalScore"} | _without_metrics(policies)


def _without_metrics(policies: Policies) -> set[str]:
    """The shipped configuration has LoadAware, too, and nobody serves metrics here."""
    return set() if policies.scenario.api.answers(METRICS) else {"LoadAware"}


def test_pods_that_name_their_policy_by_the_old_annotation(policies: Policies) -> None:
    policies.tree["honorSchedulerNameAnnotation"] = True
    policies.add_nodes(cheap={COST: "0.05"}, dear={COST: "0.5"})
    policies.start()
    named = {SCHEDULER_NAME_ANNOTATION: "cheapest"}
    assert policies.place("old", "default-scheduler", annotations=named) == "cheap"
    policies.add_pod("foreign", "default-scheduler", annotations={SCHEDULER_NAME_ANNOTATION: "somebody"})
    assert policies.place("new", "cheapest", annotations={SCHEDULER_NAME_ANNOTATION: "somebody"}) == "cheap"
    assert not policies.scenario.node_of("foreign")


def test_four_requirements_in_one_shop(policies: Policies) -> None:
    scenario = policies.scenario
    for name in ("fast-0", "fast-1"):
        scenario.add_node(name, cpu="2", labels={"disk": "fast"})
    scenario.add_node("plain", cpu="2")
    scenario.add_node("kept", cpu="2", taints=[{"key": "reports", "value": "only", "effect": "NoSchedule"}])
    policies.start()
    *others, checkout = FOUR_REQUIREMENTS.read_text().split("---\n")
    without, all_of_it = policies.file.parent / "without.yaml", policies.file.parent / "all.yaml"
    without.write_text("---\n".join(others))
    all_of_it.write_text("---\n".join((*others, checkout)))

    def nodes_of(app: str) -> list[str]:
        pods = [pod for pod in scenario.pods() if pod["metadata"]["labels"]["app"] == app]
        return sorted(pod["spec"].get("nodeName", "") for pod in pods if "deletionTimestamp" not in pod["metadata"])

    try:
        scenario.kubectl("apply", "--filename", str(without))
        fast = ["fast-0", "fast-1"]
        scenario.wait("caches and web", lambda: nodes_of("cache") == nodes_of("web") == fast, 2 * SECONDS)
        scenario.wait("reports", lambda: nodes_of("report") == ["fast-0", "fast-1", "kept", "kept", "plain", "plain"])
        scenario.kubectl("apply", "--filename", str(all_of_it))
        scenario.wait("checkout, where reports were", lambda: nodes_of("checkout") == ["plain"], 2 * SECONDS)
        assert nodes_of("cache") == nodes_of("web") == fast
        scenario.wait("reports give way", lambda: nodes_of("report") == ["", "", *fast, "kept", "kept"], 2 * SECONDS)
    finally:
        scenario.kubectl("delete", "--filename", str(all_of_it), "--wait=false")
