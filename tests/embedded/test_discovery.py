"""Discovery, OpenAPI and the pieces of HTTP that clients depend on before the first object."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
import yaml

from kscheduler.api.machinery.api_errors import ApiError
from kscheduler.api.machinery.durations import human_duration
from kscheduler.api.machinery.kind_table import parse_path
from kscheduler.api.machinery.resources import BY_KEY, RESOURCES
from kscheduler.api.typed.api_types import table, type_of_resource
from kscheduler.api.typed.decoding import Decoding
from kscheduler.embedded.apiserver import openapi
from kscheduler.embedded.apiserver.bodies.protobuf import decode
from kscheduler.embedded.apiserver.negotiation import AnswerForm, form_of
from kscheduler.embedded.apiserver.server import EmbeddedAPIServer, serve
from tests.embedded.cluster_client import Client, pod, refusal_code

AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


async def test_both_forms_of_discovery_name_the_same_resources(client: Client) -> None:
    plain = set()
    groups = (await client.get("/apis"))["groups"]
    for path in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        listed = await client.get(path)
        plain |= {(listed["groupVersion"], r["name"]) for r in listed["resources"] if "/" not in r["name"]}
    aggregated = set()
    for path in ("/api", "/apis"):
        for item in (await client.get(path, headers=AGGREGATED))["items"]:
            version = item["versions"][0]
            group = item["metadata"].get("name")
            name = f"{group}/{version['version']}" if group else version["version"]
            aggregated |= {(name, resource["resource"]) for resource in version["resources"]}
    assert plain == aggregated == {(resource.group_version, resource.plural) for resource in RESOURCES}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/readyz/ping"])
async def test_health_is_text(client: Client, path: str) -> None:
    async with client.session.get(client.url + path) as response:
        assert (response.status, await response.text()) == (200, "ok")


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/apis/nothing/v1", 404),
        ("GET", "/api/v1/nothings", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/nothing", 404),
        ("POST", "/api/v1/pods", 405),
        ("PATCH", "/api/v1/namespaces/default/pods", 405),
        ("GET", "/api/v1/namespaces/default/bindings", 405),
    ],
)
async def test_paths_and_verbs_that_are_not_served(client: Client, method: str, path: str, code: int) -> None:
    status, body = await client.request(method, path, {})
    assert (status, body["kind"], body["code"]) == (code, "Status", code)


async def test_openapi_has_a_document_per_group_version(client: Client) -> None:
    index = (await client.get("/openapi/v3"))["paths"]
    assert set(index) >= {"api/v1", "apis/apps/v1", "apis/coordination.k8s.io/v1"}
    core = await client.get(index["api/v1"]["serverRelativeURL"])
    patch = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    containers = core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]


def test_every_served_kind_has_a_schema() -> None:
    assert [resource.key for resource in RESOURCES if type_of_resource(resource) is None] == []


def test_unknown_fields_are_found_at_any_depth() -> None:
    value = pod(foo=1)
    value["spec"]["containers"][0]["resources"]["request"] = {}
    kind = type_of_resource(BY_KEY["pods"])
    assert kind is not None
    decoding = Decoding()
    decoding.read(kind, value)
    assert decoding.unknown == ["spec.containers[0].resources.request", "spec.foo"]


def test_descriptions_are_our_own_and_name_what_is_there() -> None:
    for name in openapi.descriptions():
        if name in table():
            continue
        struct, _, field = name.rpartition(".")
        assert field in table().type_of(struct).fields, name


async def test_descriptions_come_from_our_table_only(client: Client) -> None:
    own = {*openapi.descriptions().values(), *openapi.COMMON.values()}
    core = await client.get("/openapi/v3/api/v1")
    schemas = core["components"]["schemas"].values()
    shown = {schema["description"] for schema in schemas if "description" in schema}
    for schema in schemas:
        shown |= {part["description"] for part in schema.get("properties", {}).values() if "description" in part}
    assert "A node must fit one of these terms." in shown
    assert shown <= own


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/nodes", ("nodes", "", "", "")),
        ("/api/v1/namespaces", ("namespaces", "", "", "")),
        ("/api/v1/namespaces/a", ("namespaces", "", "a", "")),
        ("/api/v1/namespaces/a/status", ("namespaces", "", "a", "status")),
        ("/api/v1/namespaces/a/pods/b/binding", ("pods", "a", "b", "binding")),
        ("/apis/apps/v1/deployments", ("deployments.apps", "", "", "")),
        ("/apis/policy/v1/namespaces/a/poddisruptionbudgets/b", ("poddisruptionbudgets.policy", "a", "b", "")),
    ],
)
def test_paths_are_taken_apart(path: str, expected: tuple[str, str, str, str]) -> None:
    parsed = parse_path(path)
    assert parsed is not None
    assert (parsed.resource.key, parsed.namespace, parsed.name, parsed.subresource) == expected


@pytest.mark.parametrize(
    "path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/api/v1/namespaces/a/nodes", "/api/v2/pods"]
)
def test_paths_of_no_resource(path: str) -> None:
    assert parse_path(path) is None


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", AnswerForm.PLAIN),
        ("*/*", AnswerForm.PLAIN),
        ("application/vnd.kubernetes.protobuf, application/json", AnswerForm.PLAIN),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", AnswerForm.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", AnswerForm.PLAIN),
        ("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json", AnswerForm.PLAIN),
    ],
)
def test_the_first_acceptable_form_wins(accept: str, form: AnswerForm) -> None:
    assert form_of(accept) is form


def test_a_client_that_takes_no_json_is_reported_so() -> None:
    with pytest.raises(ApiError) as caught:
        form_of("application/cbor")
    assert caught.value.code == 406


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (3600, "60m"),
        (5 * 3600 + 60, "5h1m"),
        (30 * 3600, "30h"),
        (3 * 86_400, "3d"),
        (3 * 86_400 + 7200, "3d2h"),
        (30 * 86_400, "30d"),
        (-9, "<invalid>"),
    ],
)
def test_ages_read_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert human_duration(seconds) == text


# What kubectl 1.32 sends for `create namespace team`.
NAMESPACE = base64.b64decode("azhzAAoPCgJ2MRIJTmFtZXNwYWNlEhwKFAoEdGVhbRIAGgAiACoAMgA4AEIAEgAaAgoAGgAiAA==")


def test_protobuf_of_kubectl_is_read() -> None:
    assert decode(NAMESPACE) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}


@pytest.mark.parametrize("length", range(len(NAMESPACE)))
def test_damaged_protobuf_is_refused_and_never_a_defect(length: int) -> None:
    assert refusal_code(lambda: decode(NAMESPACE[:length])) in {None, 400, 415}


async def test_services_run_beside_the_server_and_end_before_it() -> None:
    happened: list[str] = []
    ready = asyncio.Event()

    @asynccontextmanager
    async def service(server: EmbeddedAPIServer) -> AsyncIterator[None]:
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/livez") as response:
            happened.append(await response.text())
        try:
            yield
        finally:
            async with aiohttp.ClientSession() as session, session.get(f"{server.url}/livez") as response:
                happened.append(await response.text())

    task = asyncio.create_task(serve(EmbeddedAPIServer(), 0, [service], on_ready=lambda _: ready.set()))
    await ready.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert happened == ["ok", "ok"]


async def test_the_kubeconfig_names_the_server(server: EmbeddedAPIServer) -> None:
    loaded = yaml.safe_load(server.kubeconfig_text())
    assert loaded["clusters"][0]["cluster"] == {"server": server.url}
    assert loaded["current-context"] == loaded["contexts"][0]["name"]
