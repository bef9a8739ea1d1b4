"""Anyone who adds a write to the scheduler passes the fence, or a test here fails.

Two walks. The first finds every client of the API server that the ports of the scheduler can reach, and asks whether it
is fenced. The second calls each method that writes, on a process that does not lead, and nothing must change.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kscheduler import client
from kscheduler.api.core import PodExtendedResourceClaimStatus
from kscheduler.api.devices import ResourceClaimConsumerReference
from kscheduler.api.meta import Condition
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.claim_writes import ApiClaimWriter, ApiVolumeWriter, StoredClaim
from kscheduler.client.errors import FencedError
from kscheduler.client.pod_writes import PodGroupStatusPatcher, PodStatusPatcher, PodWriter
from kscheduler.client.rest import APIClient
from kscheduler.config.loader import default_configuration
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.service import Options
from kscheduler.service.parts import Parts
from tests.builders import make_pod

READS = {"get_pod", "get_claim"}
CONDITION = Condition(type="PodScheduled", status="False", reason="Unschedulable")


@asynccontextmanager
async def parts() -> Any:
    async with EmbeddedAPIServer(seed=1) as server:
        found = Parts(Options(default_configuration()), plain_connection(server.url))
        async with found.client:
            yield found


def clients_within(root: object) -> Iterator[tuple[str, APIClient]]:
    """Every `APIClient` that can be reached over attributes of kscheduler's own objects, with the way to it."""
    seen: set[int] = set()
    ahead: list[tuple[str, object]] = [("", root)]
    while ahead:
        way, one = ahead.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, APIClient):
            yield way, one
            continue
        for name, child in parts_of(one):
            ahead.append((f"{way}.{name}", child))


def parts_of(one: object) -> Iterator[tuple[str, object]]:
    bound_to = getattr(one, "__self__", None)
    if inspect.ismethod(one) and bound_to is not None:
        yield "__self__", bound_to
    if not type(one).__module__.startswith("kscheduler."):
        return
    names = {*getattr(one, "__dict__", {}), *(name for kind in type(one).__mro__ for name in slots_of(kind))}
    for name in sorted(names):
        if hasattr(one, name):
            yield name, getattr(one, name)


def slots_of(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


async def test_every_client_that_the_scheduler_can_reach_is_fenced_or_known() -> None:
    """Known without a fence: the one for Events, and the lease's own."""
    async with parts() as found:
        ports = found.assembly.ports
        reached = {
            client: way for port in ports.__struct_fields__ for way, client in clients_within(getattr(ports, port))
        }
        known = {found.client, found.plugin_client, found.event_client, found.leadership.client}
        assert set(reached) <= known, reached.values()
        assert found.plugin_client._fence is found.leadership.fence
        assert found.client in reached
        assert found.client._fence is found.leadership.fence
        assert found.recorder._client is found.event_client


async def test_without_election_there_is_no_fence() -> None:
    from tests.service.running import alone

    found = Parts(Options(alone()), plain_connection("http://127.0.0.1:1"))
    assert found.client._fence is None
    assert found.election is None


Call = Callable[[APIClient], Awaitable[object]]
POD = make_pod("p")
CLAIM = StoredClaim.from_json(b'{"metadata": {"name": "c", "namespace": "default"}}')
CONSUMER = ResourceClaimConsumerReference(resource="pods", name="p", uid="u")
# Each method that writes. Anyone who adds one adds a line.
CALLS: dict[str, Call] = {
    "PodWriter.bind": lambda client: PodWriter(client).bind("default", "p", "u", "n"),
    "PodWriter.patch_pod_status": lambda client: PodWriter(client).patch_pod_status(POD, CONDITION),
    "PodWriter.evict_pod": lambda client: PodWriter(client).evict_pod(POD, CONDITION),
    "PodWriter.evict_as_seen": lambda client: PodWriter(client).evict_as_seen(POD),
    "PodWriter.delete_pod": lambda client: PodWriter(client).delete_pod("default", "p", "u"),
    "PodStatusPatcher.patch_status": lambda client: PodStatusPatcher(client).patch_status(POD, CONDITION, "n"),
    "PodGroupStatusPatcher.patch_condition": lambda client: PodGroupStatusPatcher(client).patch_condition(
        "scheduling.k8s.io/v1beta1/podgroups", "default", "g", "u", CONDITION, None
    ),
    "ApiVolumeWriter.bind_volume": lambda client: ApiVolumeWriter(client).bind_volume(PersistentVolume()),
    "ApiClaimWriter.protect": lambda client: ApiClaimWriter(client).protect(CLAIM.claim),
    "ApiClaimWriter.unprotect": lambda client: ApiClaimWriter(client).unprotect(CLAIM),
    "ApiClaimWriter.reserve": lambda client: ApiClaimWriter(client).reserve(CLAIM, CONSUMER, None, None),
    "ApiClaimWriter.free": lambda client: ApiClaimWriter(client).free(CLAIM),
    "ApiClaimWriter.release": lambda client: ApiClaimWriter(client).release("default", "c", "u", "p"),
    "ApiClaimWriter.create": lambda client: ApiClaimWriter(client).create(CLAIM.claim, "p-"),
    "ApiClaimWriter.delete": lambda client: ApiClaimWriter(client).delete(CLAIM.claim),
    "ApiClaimWriter.report_pod": lambda client: ApiClaimWriter(client).report_pod(
        POD, PodExtendedResourceClaimStatus()
    ),
    "ApiVolumeWriter.select_node": lambda client: ApiVolumeWriter(client).select_node(PersistentVolumeClaim()),
}


def methods_that_write() -> set[str]:
    """All public coroutines of all classes in modules such as `client.pod_writes`, but those that read."""
    found = set()
    for module in pkgutil.iter_modules(client.__path__):
        if not module.name.endswith("_writes"):
            continue
        loaded = importlib.import_module(f"{client.__name__}.{module.name}")
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            if kind.__module__ != loaded.__name__:
                continue
            for method, function in inspect.getmembers(kind, inspect.iscoroutinefunction):
                if not method.startswith("_") and method not in READS:
                    found.add(f"{name}.{function.__name__}")
    return found


def test_the_table_of_calls_is_complete() -> None:
    assert set(CALLS) == methods_that_write()


@pytest.mark.parametrize("name", CALLS)
async def test_a_process_that_does_not_lead_sends_nothing(name: str) -> None:
    async with parts() as found:
        with pytest.raises(FencedError):
            await CALLS[name](found.client)
        assert found.client.statistics().requests.get(("<error>", "GET"), 0) == 0
        assert found.leadership.fence.refusals == 1
