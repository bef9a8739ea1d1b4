"""`/metrics/resources`: requests and limits of each pod, as kube-scheduler sums and labels them."""

from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kscheduler.api.core import Pod
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.pods.requests import spec_limits, spec_requests
from kscheduler.server.pages.pod_resources import lines_of, unit_of
from tests.builders import pod_tree
from tests.service.running import answer, put, running

UNITS = {
    "cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes", "hugepages-2Mi": "bytes",
    "attachable-volumes-csi": "integer", "example.com/gpu": "",
}  # fmt: skip


@pytest.mark.parametrize(("resource", "unit"), UNITS.items())
def test_units(resource: str, unit: str) -> None:
    assert unit_of(resource) == unit


def container(requests: dict[str, str], limits: dict[str, str], **more: str) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}, **more}


def pod(**spec: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}, Pod)


BILLION = 10**9
SUMS: dict[str, tuple[dict[str, Any], dict[str, float], dict[str, float]]] = {
    "containers add up": (
        {"containers": [container({"cpu": "500m"}, {"cpu": "1"}), container({"cpu": "250m"}, {})]},
        {"cpu": 0.75},
        {"cpu": 1},
    ),
    "an init container that needs more": (
        {"containers": [container({"cpu": "1"}, {})], "initContainers": [container({"cpu": "2"}, {"cpu": "3"})]},
        {"cpu": 2},
        {"cpu": 3},
    ),
    "sidecars add up, and to init containers after them": (
        {
            "containers": [container({"cpu": "1"}, {})],
            "initContainers": [
                container({"cpu": "1"}, {}, restartPolicy="Always"),
                container({"cpu": "3"}, {}),
            ],
        },
        {"cpu": 4},
        {},
    ),
    "overhead is added to requests, and to limits that there are": (
        {"containers": [container({"cpu": "1"}, {"memory": "1"})], "overhead": {"cpu": "1", "memory": "2"}},
        {"cpu": 2, "memory": 2},
        {"memory": 3},
    ),
    "resources of the pod win for cpu and memory": (
        {
            "containers": [container({"cpu": "1", "example.com/gpu": "2"}, {"cpu": "1"})],
            "resources": {"requests": {"cpu": "5"}, "limits": {"cpu": "6", "example.com/gpu": "9"}},
        },
        {"cpu": 5, "example.com/gpu": 2},
        {"cpu": 6},
    ),
}


@pytest.mark.parametrize("case", SUMS)
def test_sums_are_of_the_spec(case: str) -> None:
    spec, requests, limits = SUMS[case]
    assert {name: amount / BILLION for name, amount in spec_requests(pod(**spec)).items()} == requests
    assert {name: amount / BILLION for name, amount in spec_limits(pod(**spec)).items()} == limits


def test_a_line_has_kube_schedulers_labels_and_escapes_what_it_is_given() -> None:
    hostile = msgspec.convert(
        {"metadata": {"name": 'a"\n\\b', "namespace": "n"}, "spec": {"priority": 7, "schedulerName": "s"}}, Pod
    )
    (line,) = lines_of("kube_pod_resource_request", hostile, {"memory": 2**30 * BILLION, "cpu": 0})
    assert line == (
        'kube_pod_resource_request{namespace="n",pod="a\\"\\n\\\\b",node="",scheduler="s",priority="7",'
        'resource="memory",unit="bytes"} 1.073741824e+09\n'
    )


async def test_the_page_has_every_pod_that_has_not_ended() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        for name, phase, node in (("a", "Running", "x"), ("b", "Succeeded", "x"), ("c", "Pending", "")):
            tree = pod_tree(name, requests={"cpu": "1"}, node=node)
            put(server, "pods", {**tree, "status": {"phase": phase}})
        await app.parts.informers.wait_for_sync(20)
        text = ""
        while text.count("resource=") < 2:
            status, text = await answer(app, "/metrics/resources")
            assert status == 200
        families = {family.name: family for family in text_string_to_metric_families(text)}
        shown = {sample.labels["pod"]: sample.value for sample in families["kube_pod_resource_request"].samples}
        assert shown == {"a": 1.0, "c": 1.0}
        app.http_app.is_scheduling = False
        assert await answer(app, "/metrics/resources") == (200, ""), "a follower tells nothing: pods would count twice"


async def test_many_pods_come_in_parts() -> None:
    async with EmbeddedAPIServer(seed=1) as server, running(server) as (app, _, _):
        for number in range(2000):
            put(server, "pods", pod_tree(f"p{number}", requests={"cpu": "1", "memory": "1Gi"}, node="x"))
        text = ""
        while text.count("kube_pod_resource_request{") < 4000:
            text = (await answer(app, "/metrics/resources"))[1]
        assert text.count("\n") == 4000 + 4
