"""A pod of a live cluster as a scenario: its objects are read once, nothing is written, no service is needed."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kscheduler.api.codec import Decoder
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import KINDS, NODES, PODS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.client.errors import APIError
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import ListDecoder
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.whatif.scenario import ClusterObjects, Scenario
from kscheduler.whatif.unreadable import unreadable_quantity

_PAGE = 500
_RETRIES = 2
"""A person waits for the answer: a server that does not answer three times is named, not waited for."""

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
    """Read a pod and whatever the plugins read. Without `config` the pod's profile is the default one, under any name.

    Nodes and pods must be readable; another kind that the reader may not list, or that the server does not have,
    gets a note. Raises `ClientError` (not found included) and `UndecodableError`.
    """
    pod = _POD.decode(await client.get(PODS.object_path(name, namespace), retries=_RETRIES))
    notes: list[str] = []
    objects: dict[str, Any] = {kind.plural: tuple(await _list(client, kind, notes)) for kind in KINDS.values()}
    if config is None:
        config = default_configuration(pod.spec.scheduler_name)
    if pod.spec.node_name:
        notes.append(f"pod {pod.key} is on node {pod.spec.node_name} already; this is how it would be placed now")
    unplaced = replace(pod, spec=replace(pod.spec, node_name=""))
    return LiveScenario(Scenario(ClusterObjects(**objects), unplaced, config, where="cluster"), tuple(notes))


async def _list(client: APIClient, kind: Kind, notes: list[str]) -> list[KubeObject]:
    """All objects of a kind that can be read, and a note about each that cannot, or about the kind."""
    try:
        return await _pages(client, kind, notes)
    except APIError as error:
        if kind in (NODES, PODS) or not (error.is_forbidden or error.is_not_found):
            raise
        notes.append(f"{kind.plural} are left out, and the answer may be wrong where they matter: {error}")
        return []


async def _pages(client: APIClient, kind: Kind, notes: list[str]) -> list[KubeObject]:
    decoder: ListDecoder[Any] = ListDecoder(kind)
    params = {"limit": str(_PAGE)}
    if kind.field_selector:
        params["fieldSelector"] = kind.field_selector
    objects: list[KubeObject] = []
    while True:
        page = decoder.decode(await client.get(kind.path, params, retries=_RETRIES))
        notes.extend(f"{kind.plural} {one.key} is left out: {one.error}" for one in page.undecodable)
        for found in page.items:
            problem = unreadable_quantity(found) if isinstance(found, (Node, Pod)) else ""
            if problem:
                notes.append(f"{kind.plural} {found.key} is left out: {problem}")
            else:
                objects.append(found)
        if not page.continue_token:
            return objects
        params["continue"] = page.continue_token
