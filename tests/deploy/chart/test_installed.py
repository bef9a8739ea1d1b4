"""The chart on a real API server with its controllers: installed by Helm, run by kubelets, used, changed, and removed.

kube-scheduler places the chart's own pods, as in a cluster; kubelets start them as processes with their tokens, mounts
and probes (`process_kubelets`). The audit log tells which of the granted rights were used, and that none was missing.
The tests of this file follow each other: what one has installed the next one changes.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane import binaries, kube_scheduler
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.process import NotReadyError, wait_until
from tests.controlplane.rest import Api, Object
from tests.deploy import helm
from tests.deploy.chart import audited
from tests.deploy.chart.audited import Right
from tests.deploy.chart.monitored import IN_USE, running_prometheus
from tests.deploy.chart.process_kubelets import ProcessKubelets
from tests.deploy.chart.schedulers_work import SchedulersWork, node

SECONDS: Final = 90.0
NAMESPACE: Final = helm.NAMESPACE
VALUES: Final[dict[str, object]] = {
    # each pod has an address of its own on the loopback
    "extraEnv": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    "extraArgs": ["--bind-address=$(POD_IP)"],
    "podDisruptionBudget.maxUnavailable": 1,
}
REPLICAS: Final = 2

# Rights that a quiet minute does not need, each with what needs it.
UNUSED: Final = {
    Right("", "pods", "get"): "a Binding whose answer was lost is settled by reading the pod",
    Right("resource.k8s.io", "devicetaintrules", "watch"): "served in v1 since 1.37",
    Right("resource.k8s.io", "devicetaintrules", "list"): "served in v1 since 1.37",
    Right("resource.k8s.io", "resourceclaimtemplates", "get"): "somebody asks about a pod with a claim of a template",
    Right("resource.k8s.io", "resourceclaims", "get"): "a claim that has changed, or has devices already, is read",
    Right("resource.k8s.io", "resourceclaims", "delete"): "a pod with extended resources is not bound after all",
    Right("resource.k8s.io", "resourceclaims/status", "patch"): "a pod that is not bound after all gives claims back",
    Right("resource.k8s.io", "resourceclaims/binding", "patch"): "asked for by the API server within the same request",
    Right("resource.k8s.io", "resourceclaims/binding", "update"): "asked for by the API server within other requests",
}


@dataclass(frozen=True)
class Cluster:
    """A control plane with nodes and kubelets."""

    plane: ControlPlane
    kubelets: ProcessKubelets
    audit: Path

    @property
    def api(self) -> Api:
        return self.plane.api

    def helm(self, *arguments: str | Path, settings: dict[str, object] | None = None) -> str:
        """Helm as the administrator; `settings` are values beside `VALUES`."""
        flags = [] if settings is None else helm.value_arguments([], VALUES | settings)
        common: list[str | Path] = ["--kubeconfig", self.plane.admin_kubeconfig, "--namespace", NAMESPACE]
        return helm.run_helm(*arguments, *flags, *common, seconds=300)

    def pods(self) -> list[Object]:
        """Pods of the Deployment that stay."""
        chosen = {"labelSelector": "app.kubernetes.io/component=scheduler"}
        found = self.api.items(f"/api/v1/namespaces/{NAMESPACE}/pods", **chosen)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    @property
    def work(self) -> SchedulersWork:
        """Pods that name kscheduler."""
        return SchedulersWork(self.api, "kscheduler", SECONDS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("installed")
    programs = binaries.find()
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(programs, Settings(apiserver_options=audited.options(folder))))
        for number in range(3):
            plane.api.create("/api/v1/nodes", node(f"node-{number}"))
        scheduler = kube_scheduler.process(programs, plane.kube_scheduler_kubeconfig, folder)
        scheduler.start()
        stack.callback(scheduler.stop)
        restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}}
        plane.api.create("/api/v1/namespaces", namespace)
        kubelets = stack.enter_context(ProcessKubelets(plane.api, "kscheduler", folder))
        yield Cluster(plane, kubelets, folder)


def scheduled_by(cluster: Cluster, pod: str) -> str:
    """Who says in an Event that it has placed the pod."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"

    def reported() -> list[Object]:
        events = cluster.api.items(path)
        return [one for one in events if one["regarding"]["name"] == pod and one["reason"] == "Scheduled"]

    wait_until(f"the Event of {pod}", reported, SECONDS)
    return str(reported()[0]["reportingController"])


def test_it_installs_and_becomes_ready(cluster: Cluster) -> None:
    cluster.helm("install", helm.RELEASE, helm.CHART, "--wait", "--timeout", "3m", settings={})
    pods = cluster.pods()
    assert len(pods) == REPLICAS
    assert all(status["ready"] for pod in pods for status in pod["status"]["containerStatuses"])
    assert sum(status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"]) == 0
    lease = cluster.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/kscheduler")
    assert lease["spec"]["holderIdentity"]


def test_a_pod_is_placed_by_what_was_installed(cluster: Cluster) -> None:
    cluster.work.schedule("first")
    assert scheduled_by(cluster, "first") == "kscheduler"


def test_helm_test_passes_inside_the_namespaces_restrictions(cluster: Cluster) -> None:
    said = cluster.helm("test", helm.RELEASE, "--timeout", "3m", "--logs=false")
    assert "Phase:          Succeeded" in said
    assert not [name for name in (pod["metadata"]["name"] for pod in cluster.pods()) if name.endswith("-test")]


def test_a_real_prometheus_scrapes_it_as_the_service_monitor_says(cluster: Cluster, tmp_path: Path) -> None:
    rendered = helm.objects(helm.render(settings={"metrics.serviceMonitor.enabled": True}))
    (monitor,) = (one for one in rendered if one["kind"] == "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    (relabeling,) = endpoint["relabelings"]
    cluster.plane.kubectl("create", "serviceaccount", "prometheus", "--namespace", "default")
    token = tmp_path / "token"
    token.write_text(cluster.plane.service_account_token("default", "prometheus"))
    scrape = {
        "job_name": "serviceMonitor/kscheduler/0",
        "scrape_interval": "1s",
        "scheme": endpoint["scheme"],
        "metrics_path": endpoint["path"],
        "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
        # the operator's `bearerTokenFile`
        "authorization": {"credentials_file": str(token)},
        "relabel_configs": [{"target_label": relabeling["targetLabel"], "replacement": relabeling["replacement"]}],
        "static_configs": [{"targets": [f"{address}:10259" for address in cluster.kubelets.addresses("kscheduler-")]}],
    }
    with running_prometheus(tmp_path, {"scrape_configs": [scrape]}) as prometheus:
        up = 'up{job="kscheduler"}'
        wait_until("a scrape", lambda: len(prometheus.query(up)) == REPLICAS, SECONDS)
        # a login alone opens nothing
        assert not prometheus.query(f"{up} == 1")
        role = ("--clusterrole=kscheduler-metrics-reader", "--serviceaccount=default:prometheus")
        cluster.plane.kubectl("create", "clusterrolebinding", "prometheus", *role)
        wait_until("metrics of each", lambda: len(prometheus.query(f"{up} == 1")) == REPLICAS, SECONDS)
        assert prometheus.has_numbers('scheduler_schedule_attempts_total{job="kscheduler"}')
        for name in sorted(IN_USE):
            wait_until(name, partial(prometheus.has_numbers, f'{name}{{job="kscheduler"}}'), SECONDS)


def test_its_log_has_no_warning_about_a_flag_or_a_setting(cluster: Cluster) -> None:
    for text in cluster.kubelets.logs().values():
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        assert [one for one in lines if one["msg"] in {"flag_not_honoured", "setting_not_honoured"}] == []


def test_every_right_is_used_and_none_is_missing(cluster: Cluster) -> None:
    cluster.work.use_rights()
    # a first list streams over a watch; an API server that does not do that yet is asked for a plain one
    wanted = {one for one in audited.granted(cluster.api, helm.RELEASE) - UNUSED.keys() if one.verb != "list"}
    lists = {one for one in audited.granted(cluster.api, helm.RELEASE) - UNUSED.keys() if one.verb == "list"}
    assert {Right(one.group, one.resource, "watch") for one in lists} <= wanted
    cluster.work.count_an_event_up()
    with suppress(NotReadyError):
        wait_until("every right used", lambda: wanted <= audited.used(cluster.audit), SECONDS, 1.0)
    unused = sorted(wanted - audited.used(cluster.audit))
    assert unused == [], "\n".join(map(str, unused))
    assert audited.refused(cluster.audit) == set()


def test_an_upgrade_and_a_rollback_replace_the_pods_and_scheduling_goes_on(cluster: Cluster) -> None:
    before = {pod["metadata"]["uid"] for pod in cluster.pods()}
    cluster.helm("upgrade", helm.RELEASE, helm.CHART, "--wait", "--timeout", "3m", settings={"logs.level": 4})
    upgraded = cluster.pods()
    assert not before & {pod["metadata"]["uid"] for pod in upgraded}
    assert all("--v=4" in pod["spec"]["containers"][0]["args"] for pod in upgraded)
    cluster.work.schedule("after-upgrade", containers=small())
    cluster.helm("rollback", helm.RELEASE, "1", "--wait", "--timeout", "3m")
    assert all("--v=2" in pod["spec"]["containers"][0]["args"] for pod in cluster.pods())
    cluster.work.schedule("after-rollback", containers=small())
    assert audited.refused(cluster.audit) == set()


def small() -> list[Object]:
    return [{"name": "main", "image": "registry.example/main:1"}]


def test_nothing_is_left_behind(cluster: Cluster) -> None:
    cluster.helm("uninstall", helm.RELEASE, "--wait", "--timeout", "3m")
    wait_until("the pods' end", lambda: not cluster.kubelets.running(), SECONDS)
    kinds = cluster.plane.kubectl("api-resources", "--verbs=list,delete", "--output=name").split()
    # the slices of a Service follow it
    with suppress(NotReadyError):
        wait_until("nothing left", lambda: not remains(cluster, kinds), SECONDS, 1.0)
    assert remains(cluster, kinds) == []


def remains(cluster: Cluster, kinds: list[str]) -> list[str]:
    """Names of all objects that the release has made."""
    listed = "--selector=app.kubernetes.io/instance=kscheduler"
    said = cluster.plane.kubectl("get", ",".join(kinds), "--all-namespaces", listed, "--output=name")
    return [line for line in said.splitlines() if "/" in line and not line.startswith("Warning:")]
