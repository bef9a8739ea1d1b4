"""The truth of a never-stuck run: objects as an API server has them, and one watch stream for each kind.

A change is at once true; the scheduler hears of it when the stream of its kind is delivered, event by event and in
order. Streams of different kinds know no order among each other. A stream may also repeat its last event, or break:
then what it still held is lost and a new list takes its place, so that objects are seen to have gone in a state that
they left long ago (client-go's DeletedFinalStateUnknown).
"""

from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from kscheduler.api.codec import convert
from kscheduler.api.kinds import DEVICE_KINDS, NAMESPACES, NODES, PODS, STORAGE_KINDS, WORKLOAD_KINDS, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.client.watch import WatchEvent
from kscheduler.informers.informer import Informer
from kscheduler.scenario.scenario import ClusterObjects

# A JSON object.
Tree = dict[str, Any]

WATCHED = (PODS, NODES, NAMESPACES, *WORKLOAD_KINDS, *STORAGE_KINDS, *DEVICE_KINDS)


class Server:
    """Objects by kind and key, and what the watches have not delivered yet."""

    def __init__(self, informers: Mapping[Kind, Informer[Any]]) -> None:
        self._informers = informers
        self.objects: dict[Kind, dict[str, Tree]] = {kind: {} for kind in WATCHED}
        self.streams: dict[Kind, deque[WatchEvent[Any]]] = {kind: deque() for kind in WATCHED}
        self._last: dict[Kind, WatchEvent[Any]] = {}
        self.version = 0
        """Of the newest change: resource versions and UIDs are made of it."""

    def fork(self) -> "Server":
        """Another one with the same objects, which nobody watches. Objects are never changed in place."""
        fork = Server({})
        fork.objects = {kind: dict(objects) for kind, objects in self.objects.items()}
        fork.version = self.version
        return fork

    # --- what clients do ----------------------------------------------------------------------------------------------

    def get(self, kind: Kind, key: str) -> Tree | None:
        """A copy of an object, to be changed and put back."""
        return deepcopy(self.objects[kind].get(key))

    def put(self, kind: Kind, tree: Tree) -> Tree:
        """Create an object, or replace the one of its name, which keeps its UID."""
        meta = tree["metadata"]
        if kind.namespaced:
            meta.setdefault("namespace", "default")
        known = self.objects[kind].get(key_of(tree))
        self.version += 1
        meta["uid"] = known["metadata"]["uid"] if known is not None else f"uid-{self.version}"
        meta["resourceVersion"] = str(self.version)
        self.objects[kind][key_of(tree)] = tree
        self._emit(kind, "ADDED" if known is None else "MODIFIED", tree)
        return tree

    def delete(self, kind: Kind, key: str) -> None:
        """Take an object away, if it is there."""
        tree = self.objects[kind].pop(key, None)
        if tree is not None:
            self.version += 1
            gone = deepcopy(tree)
            gone["metadata"]["resourceVersion"] = str(self.version)
            self._emit(kind, "DELETED", gone)

    def _emit(self, kind: Kind, event: str, tree: Tree) -> None:
        self.streams[kind].append(WatchEvent(event, convert(tree, kind.type)))

    # --- what the watches do ------------------------------------------------------------------------------------------

    def deliver(self, kind: Kind, at_most: int = 1_000) -> None:
        """The next events of one kind reach the scheduler."""
        for _ in range(min(at_most, len(self.streams[kind]))):
            event = self._last[kind] = self.streams[kind].popleft()
            self._informers[kind].apply(event)

    def deliver_all(self) -> None:
        """Every stream runs dry."""
        for kind in WATCHED:
            self.deliver(kind)

    def repeat(self, kind: Kind) -> None:
        """The last event once more, unless it was a deletion of what has come back since."""
        last = self._last.get(kind)
        if last is not None:
            self._informers[kind].apply(last)

    def relist(self, kind: Kind) -> None:
        """The stream breaks; a list of what is true now takes the place of what it held."""
        self.streams[kind].clear()
        self._last.pop(kind, None)
        replacing = self._informers[kind].replace(self.typed(kind), ())
        for _ in range(1_000):
            try:
                replacing.send(None)
            except StopIteration:
                return

    # --- what is true -------------------------------------------------------------------------------------------------

    def typed(self, kind: Kind) -> list[Any]:
        """The objects of one kind as structs of their own."""
        return [convert(tree, kind.type) for tree in self.objects[kind].values()]

    def cluster(self) -> ClusterObjects:
        """All that is true, as what-if takes it."""
        fields: dict[str, tuple[KubeObject, ...]] = {kind.plural: tuple(self.typed(kind)) for kind in WATCHED}
        return ClusterObjects(**fields)  # type: ignore[arg-type]  # each field holds the kind that it is named after


def key_of(tree: Tree) -> str:
    """`namespace/name`, or the name alone."""
    meta = tree["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
