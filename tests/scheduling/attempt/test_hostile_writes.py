"""Requests of one namespace that hang, or are refused again and again: those of others take as long as before."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from statistics import quantiles
from typing import Any

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimConsumerReference
from kscheduler.api.kinds import KINDS
from kscheduler.api.meta import Condition, ObjectMeta
from kscheduler.api.storage import (
    SELECTED_NODE,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.claim_writes import ApiClaimWriter, ApiVolumeWriter, StoredClaim
from kscheduler.client.errors import ClientError
from kscheduler.client.events.recorder import EventRecorder
from kscheduler.client.http.http1 import HttpRequest, Response
from kscheduler.client.http.transport import Transport
from kscheduler.client.pod_writes import PodStatusPatcher, PodWriter
from kscheduler.client.resource_path import parse_resource_path
from kscheduler.client.rest import APIClient
from kscheduler.scheduling.failures.status_writer import StatusWriter
from tests.builders import make_pod
from tests.effort import sampled
from tests.scheduling.around import RecordedEvents

HOSTILE = "hostile"
KIND_OF = {**{plural: kind.name for plural, kind in KINDS.items()}, "events": "Event"}


class Server:
    """Answers in 20 ms, and requests of one namespace as told. Implements `Transport`."""

    def __init__(self, clock: VirtualClock, way: str) -> None:
        self.clock = clock
        self.way = way
        self.answered_at: dict[str, float] = {}
        """When a request of others was answered, by the name of its object."""

    async def send(self, request: HttpRequest, identity: Mapping[str, str], timeout_seconds: float) -> Response:
        place = parse_resource_path(request.target)
        assert place is not None
        if HOSTILE in (place.namespace, request.tenant):
            if self.way == "never answered":
                await self.clock.sleep(timeout_seconds)
                raise TimeoutError
            await self.clock.sleep(0.01)
            refusal = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "message": "not now"}
            return Response(429, {"retry-after": "3"}, json.dumps(refusal).encode(), keep_alive=True)
        await self.clock.sleep(0.02)
        queried = json.loads(request.body) if request.body else {}
        name = place.name or queried["metadata"]["name"].partition(".")[0]
        self.answered_at[name] = self.clock.monotonic()
        if place.subresource == "binding" or request.method == "DELETE":
            return Response(
                200, {}, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}', keep_alive=True
            )
        metadata = {"name": place.name, "namespace": place.namespace, **queried.get("metadata", {})}
        answer = {**queried, "kind": KIND_OF[place.resource], "metadata": metadata}
        return Response(201 if request.method == "POST" else 200, {}, json.dumps(answer).encode(), keep_alive=True)

    async def close(self) -> None:
        """Nothing is open."""


class Client(APIClient):
    """A client of that server."""

    def __init__(self, clock: VirtualClock, way: str) -> None:
        super().__init__(plain_connection("http://server"), clock=clock, max_connections=16)
        self.server = Server(clock, way)

    def _open_transport(self) -> Transport:
        return self.server


# Of a client, a namespace and a name.
Write = Callable[[APIClient, VirtualClock, str, str], Awaitable[object]]
REPORTED = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="m")


def bind(client: APIClient, clock: VirtualClock, namespace: str, name: str) -> Awaitable[object]:
    return PodWriter(client, clock).bind(namespace, name, f"uid-of-{name}", "node")


def evict(client: APIClient, clock: VirtualClock, namespace: str, name: str) -> Awaitable[object]:
    return PodWriter(client, clock).evict_pod(make_pod(name, namespace=namespace), REPORTED)


def report(client: APIClient, clock: VirtualClock, namespace: str, name: str) -> Awaitable[object]:
    return PodWriter(client, clock).patch_pod_status(make_pod(name, namespace=namespace), REPORTED, "node")


def reserve(client: APIClient, clock: VirtualClock, namespace: str, name: str) -> Awaitable[object]:
    tree = {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": "1"}}
    consumer = ResourceClaimConsumerReference(resource="pods", name=name, uid="u")
    return ApiClaimWriter(client).reserve(StoredClaim.from_json(json.dumps(tree).encode()), consumer, None, None)


def bind_volume(client: APIClient, clock: VirtualClock, namespace: str, name: str) -> Awaitable[object]:
    wanted = PersistentVolumeSpec(claim_ref=ObjectReference(namespace=namespace, name=name))
    return ApiVolumeWriter(client).bind_volume(PersistentVolume(metadata=ObjectMeta(name=name, uid="u"), spec=wanted))


def select_node(client: APIClient, clock: VirtualClock, namespace: str, name: str) -> Awaitable[object]:
    meta = ObjectMeta(name=name, namespace=namespace, uid="u", annotations={SELECTED_NODE: "node"})
    return ApiVolumeWriter(client).select_node(PersistentVolumeClaim(metadata=meta))


def record(client: APIClient, clock: VirtualClock, namespace: str, name: str) -> Awaitable[object]:
    body: dict[str, Any] = {"kind": "Event", "metadata": {"name": name, "namespace": namespace}}
    return client.post(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", json.dumps(body).encode())


WRITES = {
    "Bindings": bind,
    "evictions": evict,
    "conditions": report,
    "claims": reserve,
    "volumes": bind_volume,
    "claims of volumes": select_node,
    "Events": record,
}


async def latencies(write: Write, way: str, hostile: int) -> list[float]:
    """How long each of twenty sound writes a second took, for 35 virtual seconds."""
    clock = VirtualClock()
    waited: list[float] = []

    async def timed(namespace: str, name: str) -> None:
        began = clock.monotonic()
        try:
            await write(client, clock, namespace, name)
        except ClientError:
            assert namespace == HOSTILE
        if namespace != HOSTILE:
            waited.append(clock.monotonic() - began)

    async with Client(clock, way) as client:
        tasks = []
        for number in range(700):
            if number == 60:
                tasks += [asyncio.create_task(timed(HOSTILE, f"h{each}")) for each in range(hostile)]
            tasks.append(asyncio.create_task(timed(f"team-{number % 3}", f"s{number}")))
            await clock.advance(0.0)
            await clock.advance(0.05)
        await clock.advance(1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(waited) == 700, "every sound write is done"
    return waited


@pytest.mark.parametrize("way", ["never answered", "429"])
@pytest.mark.parametrize("write", sampled(WRITES.values(), 1, "a thousand writes beside 700"), ids=WRITES)
async def test_writes_of_others_take_as_long_as_before_beside_a_thousand_of_a_hostile_namespace(
    write: Write, way: str
) -> None:
    alone, beside = await latencies(write, way, 0), await latencies(write, way, 1000)
    assert quantiles(beside, n=100)[98] <= 2 * quantiles(alone, n=100)[98]
    assert max(beside) <= 0.35, "until those that hang are found to be late"


async def written_through(sender: str, way: str, hostile: int) -> list[float]:
    """How long each of twenty sound pods a second waited for its Event or condition, from the report to the answer."""
    clock, pods, created = VirtualClock(), dict[str, Pod](), dict[str, float]()
    async with Client(clock, way) as client:
        recorder = EventRecorder(client, reporting_instance="kscheduler-host", clock=clock, queue_size=10_000)
        writer = StatusWriter(PodStatusPatcher(client, clock), RecordedEvents(), pods.get, clock=clock)

        def report(namespace: str, name: str) -> None:
            pod = pods[f"{namespace}/{name}"] = make_pod(name, namespace=namespace)
            if sender == "conditions":
                writer.report(pod, REPORTED, "note")
            else:
                recorder.record(
                    pod, type="Normal", reason="Scheduled", action="Binding", note="m", reporting_controller="k"
                )

        running = [asyncio.create_task(recorder.run()), asyncio.create_task(writer.run())]
        for number in range(700):
            if number == 60:
                for each in range(hostile):
                    report(HOSTILE, f"h{each}")
            created[f"s{number}"] = clock.monotonic()
            report(f"team-{number % 3}", f"s{number}")
            await clock.advance(0.0)
            await clock.advance(0.05)
        await clock.advance(1.0)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return [client.server.answered_at[name] - at for name, at in created.items()]


@pytest.mark.parametrize("way", ["never answered", "429"])
@pytest.mark.parametrize("sender", sampled(["conditions", "Events"], 1, "a thousand writes beside 700"))
async def test_what_is_reported_of_others_is_written_as_soon_as_before(sender: str, way: str) -> None:
    """Through the writers with their few places, queues and rates."""
    alone, beside = await written_through(sender, way, 0), await written_through(sender, way, 1000)
    assert quantiles(beside, n=100)[98] <= 2 * quantiles(alone, n=100)[98]
    assert max(beside) <= 1.1, "until those that hang are found to be late"
