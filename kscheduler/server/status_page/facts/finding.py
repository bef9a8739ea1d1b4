"""Pods and nodes by a part of their names, and the nodes of a zone as a list."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kscheduler.aio.tasks import Slicer
from kscheduler.server.status_page.facts.heat import HeatMap, share_of, share_of_cpu, share_of_memory
from kscheduler.server.status_page.sources import PageSources

MAX_FOUND: Final = 100
PAGE_SIZE: Final = 100
_SLICE_SECONDS: Final = 0.002
SORTED_BY: Final = ("name", "cpu", "memory", "pods")


class FoundPod(msgspec.Struct, frozen=True):
    """A pod whose name matches."""

    key: str
    node_name: str
    phase: str


class NameSearchResult(msgspec.Struct, frozen=True):
    """What was found; each list stops at `MAX_FOUND`."""

    pods: tuple[FoundPod, ...]
    more_pods: bool
    nodes: tuple[str, ...]
    more_nodes: bool


class ListedNode(msgspec.Struct, frozen=True):
    """A row of the list of nodes."""

    name: str
    zone: str
    cpu: float
    memory: float
    pods: int
    allowed_pods: int
    extended: tuple[tuple[int, int], ...]
    """Requested and allocatable of what else is shown."""
    is_cordoned: bool
    taints: int


class NodeList(msgspec.Struct, frozen=True):
    """A page of the list."""

    rows: tuple[ListedNode, ...]
    total: int
    page: int
    pages: int


async def find(sources: PageSources, text: str) -> NameSearchResult:
    """Pods and nodes whose names contain the text, upper and lower case alike; the shortest names first.

    A text with a slash means namespace and name. Walks over all names, in slices.
    """
    wanted = text.casefold()
    slicer = Slicer(_SLICE_SECONDS)
    keys = await _matching(sources.pods.keys(), wanted, slicer)
    names = await _matching(sources.cache.nodes.names(), wanted, slicer)
    pods = [_found(sources, key) for key in keys[:MAX_FOUND]]
    nodes = tuple(names[:MAX_FOUND])
    return NameSearchResult(tuple(pod for pod in pods if pod), len(keys) > MAX_FOUND, nodes, len(names) > MAX_FOUND)


async def _matching(names: Iterable[str], wanted: str, slicer: Slicer) -> list[str]:
    found: list[str] = []
    for at, name in enumerate(names):
        if wanted in name.casefold() and name:
            found.append(name)
        if at % 256 == 0 and slicer.used_up():
            await slicer.turn()
    return sorted(found, key=lambda name: (len(name), name))


def _found(sources: PageSources, key: str) -> FoundPod | None:
    pod = sources.pods.get(key)
    return None if pod is None else FoundPod(key, pod.spec.node_name, pod.status.phase)


def listed(
    sources: PageSources, heat: HeatMap, zone: str | None, sorted_by: str, page: int, extended: Sequence[str] = ()
) -> NodeList:
    """A page of the nodes of a zone; `None`: of all.

    `extended`: what is shown beside CPU and memory, of `HeatMap.scarce`. `sorted_by`: of `SORTED_BY` or `extended`, the
    fullest first.
    """
    nodes, cells = sources.cache.nodes, heat.cells()
    zones = [name.name if not name.is_rest else None for name in cells.zones for _ in range(name.count)]
    chosen = [at for at in range(len(cells.names)) if zone is None or zones[at] == zone]
    rows = cells.rows[chosen]
    cpu, memory, pods = share_of_cpu(nodes, rows), share_of_memory(nodes, rows), nodes.pod_count[rows]
    column = {"cpu": cpu, "memory": memory, "pods": pods}.get(sorted_by)
    amounts = [heat.amounts(name, rows) for name in extended]
    if sorted_by in extended:
        column = share_of(*amounts[extended.index(sorted_by)])
    order = sorted(range(len(chosen)), key=lambda at: (0 if column is None else -column[at], cells.names[chosen[at]]))
    pages = max((len(order) + PAGE_SIZE - 1) // PAGE_SIZE, 1)
    page = min(max(page, 1), pages)
    shown = [
        ListedNode(
            name=cells.names[chosen[at]],
            zone=zones[chosen[at]] or "",
            cpu=float(cpu[at]),
            memory=float(memory[at]),
            pods=int(pods[at]),
            allowed_pods=int(nodes.allowed_pods[rows[at]]),
            extended=tuple((int(requested[at]), int(allocatable[at])) for requested, allocatable in amounts),
            is_cordoned=bool(nodes.unschedulable[rows[at]]),
            taints=len(nodes.taint_sets[int(nodes.taint_set[rows[at]])]),
        )
        for at in order[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    ]
    return NodeList(tuple(shown), len(order), page, pages)
