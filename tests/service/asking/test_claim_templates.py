"""Templates of claims that nobody watches are read when somebody asks about a pod whose claim was made from one."""

import json
from typing import Any

import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.service.asking import live_queries
from tests.builders import Tree
from tests.explain.suggestions.test_every_kind import template_scenario
from tests.service.running import answer, put, running, until

KINDS = {"resourceclaims": "ResourceClaim", "resourceslices": "ResourceSlice", "deviceclasses": "DeviceClass"}
PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates/some"


def store(server: EmbeddedAPIServer, plural: str, kind: str, tree: Tree) -> None:
    metadata = {"uid": f"{kind}-{tree['metadata']['name']}", **tree["metadata"]}
    known = {"apiVersion": "resource.k8s.io/v1", "kind": kind}
    server.store.put(f"{plural}.resource.k8s.io", {**known, **tree, "metadata": metadata})


async def suggested(server: EmbeddedAPIServer, *, count: int | None, fault: InjectedFault | None = None) -> list[str]:
    """The changes that the service suggests for a pod with a claim to two devices, where there is one.

    `count`: how many its template asks for by now; `None`: there is no such template any more.
    """
    tree: Any = template_scenario(schedulerName="kscheduler")
    async with running(server) as (app, _, _):
        for plural, kind in KINDS.items():
            for each in tree["objects"][plural]:
                store(server, plural, kind, each)
        for node in tree["objects"]["nodes"]:
            put(server, "nodes", node)
        if count is not None:
            exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
            spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
            template = {"metadata": {"name": "some", "namespace": "default", "uid": "some"}, "spec": {"spec": spec}}
            store(server, "resourceclaimtemplates", "ResourceClaimTemplate", template)
        put(server, "pods", tree["pod"])
        await until(server, lambda: _is_rejected(server))
        if fault is not None:
            server.faults.add(fault)
        status, text = await answer(app, "/explain?pod=default/web")
        assert status == 200, text
    return ["+".join(step["kind"] for step in each["steps"]) for each in json.loads(text)["suggestions"]]


def _is_rejected(server: EmbeddedAPIServer) -> bool:
    record = server.store.get("pods", "default", "web")
    return record is not None and bool(record.value["status"].get("conditions"))


async def test_a_template_that_was_changed_is_known_to_the_service_as_to_a_file() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        assert "newClaim" in await suggested(server, count=1)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(InjectedFault("answer", path=PATH, code=403), id="forbidden"),
        pytest.param(InjectedFault("answer", path=PATH, code=500), id="broken"),
        pytest.param(InjectedFault("delay", path=PATH, seconds=30), id="too late"),
    ],
)
async def test_what_cannot_be_read_is_unknown_and_the_pod_is_explained_all_the_same(
    fault: InjectedFault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_queries, "FETCH_SECONDS", 0.2)
    async with EmbeddedAPIServer(seed=1) as server:
        found = await suggested(server, count=1, fault=fault)
        assert "deviceCount" in found
        assert "newClaim" not in found
