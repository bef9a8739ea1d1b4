"""A real Prometheus that scrapes a running scheduler of an embedded cluster, where something of every kind happens.

The cluster has kubelets, controllers and a provisioner; the workload fits, does not fit, preempts, and waits for
volumes. Prometheus scrapes each second, under the job label of ours and under kube-scheduler's, and evaluates the
chart's rules.
"""

import http.server
import itertools
import json
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane import kscheduler_process
from tests.controlplane.process import Process, free_port, wait_until
from tests.controlplane.rest import Api
from tests.deploy import prometheus

NODES: Final = 12
READY_SECONDS: Final = 60.0
JOBS: Final = ("kscheduler", "kube-scheduler")
# What dashboards' `$__rate_interval` stands for where scrapes come each second.
WINDOW: Final = "30s"

CONFIGURATION: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: kscheduler}
profiles:
- schedulerName: kscheduler
  pluginConfig:
  - name: ExternalScore
    args: {url: "URL/scores", refreshInterval: 5s}
  plugins: {score: {enabled: [{name: ExternalScore}]}}
extenders:
- urlPrefix: URL
  prioritizeVerb: prioritize
  weight: 1
  nodeCacheCapable: true
  managedResources: [{name: example.com/licence, ignoredByScheduler: true}]
"""
OPTIONS: Final = (
    "--cache-check-period=2s",
    "--store-audit-period=5s",
    # the embedded API server gives no tokens that a review would know
    "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
)
# Series that are there only where leader election, a configuration file or a certificate is in use.
IN_USE: Final = frozenset(
    {
        *("leader_election_master_status", "kscheduler_leader_election_renewal_age_seconds"),
        *("kscheduler_config_reload_last_successful", "kscheduler_config_reload_info"),
        "kscheduler_serving_certificate_expiration_timestamp_seconds",
        "kscheduler_serving_certificate_reloads_total",
    }
)


class Neighbour(http.server.BaseHTTPRequestHandler):
    """A server beside the cluster: an extender that prioritizes, and a source of numbers per node."""

    def do_GET(self) -> None:
        self._result({f"node-{number:03}": number for number in range(NODES)})

    def do_POST(self) -> None:
        queried = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._result([{"Host": name, "Score": 5} for name in queried["NodeNames"]])

    def _result(self, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Nothing: what is asked is not of interest."""


class NeighbourServer(http.server.ThreadingHTTPServer):
    request_queue_size = 64
    """By default five connections may wait to be taken; the others lose a second each."""


@contextmanager
def neighbour() -> Iterator[str]:
    """Its address."""
    with NeighbourServer(("127.0.0.1", 0), Neighbour) as server:
        thread = threading.Thread(target=server.serve_forever, name="neighbour")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Prometheus:
    """What a running one knows."""

    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query. Raises `HTTPError` for a wrong one."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series of a query over a time, in seconds since the epoch."""
        queried = {"query": expression, "start": start, "end": end, "step": step}
        found: list[dict[str, Any]] = self._get(f"/api/v1/query_range?{urllib.parse.urlencode(queried)}")["data"][
            "result"
        ]
        return found

    def has_numbers(self, expression: str) -> bool:
        """Whether a query gives at least one sample that is a number; 0/0 is none."""
        return any(sample["value"][1] != "NaN" for sample in self.query(expression))

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with their health."""
        return [rule for group in self._get("/api/v1/rules")["data"]["groups"] for rule in group["rules"]]

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=10) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(self._url + path, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


@contextmanager
def monitored_cluster(folder: Path, rules: Path) -> Iterator[Prometheus]:
    """All of it, until the block is left."""
    with ExitStack() as stack:
        kubeconfig = folder / "kubeconfig.yaml"
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "kscheduler",
            "cluster",
            "--nodes",
            str(NODES),
            "--port",
            "0",
            "--kubeconfig",
            kubeconfig,
        ]
        cluster = Process("cluster", command, folder / "cluster.log")
        _run(stack, cluster, "the embedded cluster", kubeconfig.is_file)
        configuration = folder / "config.yaml"
        configuration.write_text(CONFIGURATION.replace("URL", stack.enter_context(neighbour())))
        scheduler = kscheduler_process.process(
            kubeconfig, folder, f"--config={configuration}", *OPTIONS, elects=True, ports=kscheduler_process.HTTPS
        )
        _run(stack, scheduler, "the scheduler", lambda: _ready(scheduler))
        api = Api(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        stack.callback(api.close)
        work(api)
        target = {"targets": [f"127.0.0.1:{kscheduler_process.http_port(scheduler)}"]}
        settings = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {
                    "job_name": job,
                    "scheme": "https",
                    "tls_config": {"insecure_skip_verify": True},
                    "static_configs": [target],
                }
                for job in JOBS
            ],
        }
        running = stack.enter_context(running_prometheus(folder, settings))
        with working(api):
            yield running


@contextmanager
def working(api: Api) -> Iterator[None]:
    """Two Deployments grow and shrink every two seconds: rates and quantiles need something to happen all the time."""
    over = threading.Event()

    def scale() -> None:
        sizes = itertools.cycle((60, 20))
        while not over.wait(2.0):
            size = next(sizes)
            for name, replicas in (("web", size), ("licensed", size // 4)):
                api.patch(f"/apis/apps/v1/namespaces/default/deployments/{name}", {"spec": {"replicas": replicas}})
        api.close()

    thread = threading.Thread(target=scale, name="scaling")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _run(stack: ExitStack, process: Process, what: str, condition: Any) -> None:
    process.start()
    stack.callback(process.stop)
    process.wait_until(what, condition, READY_SECONDS)


def _ready(scheduler: Process) -> bool:
    try:
        return kscheduler_process.own_page(scheduler, "/readyz")[0] == 200
    except OSError:
        return False


@contextmanager
def running_prometheus(folder: Path, settings: dict[str, Any]) -> Iterator[Prometheus]:
    """A Prometheus with this configuration, until the block is left."""
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(settings))
    port = free_port()
    command: list[str | Path] = [
        prometheus.find("prometheus"),
        f"--config.file={path}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    running = Prometheus(f"http://127.0.0.1:{port}")
    with ExitStack() as stack:
        _run(stack, Process("prometheus", command, folder / "prometheus.log"), "Prometheus", running.ready)
        yield running


def work(api: Api) -> None:
    """Deployments that fit, that fit nowhere, that preempt; a claim that waits for its first consumer."""
    for name, replicas, cpu, extra in (
        ("web", 60, "250m", {}),
        ("too-large", 3, "500", {}),
        ("filler", 200, "1", {"priorityClassName": "demo-batch"}),
        ("urgent", 10, "1", {"priorityClassName": "demo-critical"}),
        ("licensed", 20, "10m", {}),
    ):
        api.create("/apis/apps/v1/namespaces/default/deployments", deployment(name, replicas, cpu, extra))
    api.create(
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
    )
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    api.create("/apis/apps/v1/namespaces/default/deployments", deployment("store", 1, "10m", {"volumes": volumes}))
    path = "/apis/apps/v1/namespaces/default/deployments/store"
    wait_until("the pod with the claim", lambda: api.get(path).get("status", {}).get("readyReplicas"), READY_SECONDS)


def deployment(name: str, replicas: int, cpu: str, extra: dict[str, Any]) -> dict[str, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": "16Mi"}}
    if name == "licensed":
        resources["limits"] = {"example.com/licence": "1"}
    container = {"name": "main", "image": "registry.example/main:1", "resources": resources}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"schedulerName": "kscheduler", "containers": [container], **extra},
            },
        },
    }
