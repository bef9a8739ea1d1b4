"""A pod of a live cluster as a scenario: its objects are read once, nothing is written, no service is needed."""

from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from kscheduler.api.codec import Decoder
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import ListDecoder
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.whatif.scenario import ClusterObjects, Scenario
from kscheduler.whatif.unreadable import unreadable_quantity

_PAGE = 500
_RETRIES = 2
"""A person waits for the answer: a server that does not answer three times is named, not waited for."""

T = TypeVar("T", Node, Pod)
_POD = Decoder(Pod)


@dataclass(frozen=True, slots=True)
class LiveScenario:
    """The question, and what a reader should know about it."""

    scenario: Scenario
    notes: tuple[str, ...] = ()
    """Objects that were passed over, and whether the pod has a node already."""


async def live_scenario(
    client: APIClient, namespace: str, name: str, config: LoadedConfig | None = None
) -> LiveScenario:
    """Read a pod, the nodes and the pods. Without `config` the pod's profile is the default one, under any name.

    Raises `ClientError` (not found included) and `UndecodableError`.
    """
    pod = _POD.decode(await client.get(PODS.object_path(name, namespace), retries=_RETRIES))
    nodes, notes = await _list(client, NODES, ListDecoder[Node](NODES))
    pods, more_notes = await _list(client, PODS, ListDecoder[Pod](PODS))
    if config is None:
        config = default_configuration(pod.spec.scheduler_name)
    if pod.spec.node_name:
        place = f"pod {pod.key} is on node {pod.spec.node_name} already; this is how it would be placed now"
        more_notes.append(place)
    unplaced = replace(pod, spec=replace(pod.spec, node_name=""))
    scenario = Scenario(ClusterObjects(tuple(nodes), tuple(pods)), unplaced, config, where="cluster")
    return LiveScenario(scenario, (*notes, *more_notes))


async def _list(client: APIClient, kind: Kind, decoder: ListDecoder[T]) -> tuple[list[T], list[str]]:
    """All objects of a kind that can be read, page by page, and a note about each that cannot."""
    params = {"limit": str(_PAGE)}
    if kind.field_selector:
        params["fieldSelector"] = kind.field_selector
    objects: list[T] = []
    notes: list[str] = []
    while True:
        page = decoder.decode(await client.get(kind.path, params, retries=_RETRIES))
        notes.extend(f"{kind.plural} {one.key} is left out: {one.error}" for one in page.undecodable)
        for found in page.items:
            problem = unreadable_quantity(found)
            if problem:
                notes.append(f"{kind.plural} {found.key} is left out: {problem}")
            else:
                objects.append(found)
        if not page.continue_token:
            return objects, notes
        params["continue"] = page.continue_token
