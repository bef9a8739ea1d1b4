"""Pods and nodes as the API server has them, with every field, for extenders.

The problem: the informers keep what scheduling reads, and an extender may read anything: environment variables, the
addresses of a node. kube-scheduler sends what it has, which is everything but `metadata.managedFields`.

The idea: the pod is read once for each question about it, beside the call that follows. A node is read again when the
watch has shown another version of it, so that 5,000 whole nodes are read once and kept as bytes, without any parsing:
only while an extender is configured that knows no nodes itself.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

from kscheduler.aio.tasks import all_of
from kscheduler.api.core import Node, Pod
from kscheduler.client.errors import ClientError

# Up to so many changed nodes are read one by one, however few nodes there are.
LEAST_LISTED: Final = 32
# More than these are always read by one list, which takes few requests. Measured on a real API server with 2,000 nodes
# of 7 kB: a list takes 130 ms, 80 ms of our CPU; 32 nodes one by one 27 and 14 ms, 100 55 and 21, 400 100 and 50.
MAX_SINGLY: Final = 128
# In between, up to one in so many is read singly: heartbeats alone change 17 of 5,000 nodes per second.
NODES_FOR_ONE: Final = 8
# Nodes that are read one by one at the same time; binds must find a connection.
_AT_ONCE: Final = 16
_PAGE: Final = 500
_NODES: Final = "/api/v1/nodes"

_Members = dict[str, msgspec.Raw]
_members: Final = msgspec.json.Decoder(_Members)
_encode: Final = msgspec.json.Encoder().encode


class ObjectReadError(Exception):
    """An object cannot be sent, because the API server does not give it."""


class _Identity(msgspec.Struct):
    name: str = ""
    uid: str = ""


class _Named(msgspec.Struct):
    metadata: _Identity


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] = []
    metadata: dict[str, Any] = {}


_named: Final = msgspec.json.Decoder(_Named)
_page: Final = msgspec.json.Decoder(_Page)


class ObjectReader(Protocol):
    """The part of `client.rest.APIClient` that is needed."""

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """The body. Raises `ClientError`."""
        ...


class WholeObjects:
    """Reads whole objects, and keeps nodes. Implements `scheduling.extenders.http_extender.ObjectSource`."""

    def __init__(self, reader: ObjectReader, node_of: Callable[[str], Node | None]) -> None:
        """`node_of`: the node as the watch has shown it."""
        self._reader = reader
        self._node_of = node_of
        self._nodes: dict[str, tuple[str, msgspec.Raw]] = {}
        """By name: the version that the watch had shown when it was read, and the node."""
        self._reading = asyncio.Lock()
        self._singly = asyncio.Semaphore(_AT_ONCE)

    def __len__(self) -> int:
        """How many nodes are kept."""
        return len(self._nodes)

    async def pod(self, pod: Pod) -> msgspec.Raw:
        """The pod. Raises `ObjectReadError`, also if another pod has its name."""
        meta = pod.metadata
        names = quote(meta.namespace, safe=""), quote(meta.name, safe="")
        body = await self._read("/api/v1/namespaces/{}/pods/{}".format(*names))
        if _named.decode(body).metadata.uid != meta.uid:
            message = f"pod {pod.key} was made again meanwhile"
            raise ObjectReadError(message)
        return _sent(body)

    async def nodes(self, names: Sequence[str]) -> Sequence[msgspec.Raw]:
        """The nodes, without those that are gone. Raises `ObjectReadError`."""
        async with self._reading:  # the second who asks finds what the first has read
            versions = {name: self._version_of(name) for name in names}
            stale = [name for name, version in versions.items() if version and self._kept_version(name) != version]
            if len(stale) > max(LEAST_LISTED, min(MAX_SINGLY, len(names) // NODES_FOR_ONE)):
                await self._list(names)
            else:
                await all_of("node for extenders", (self._read_node(name) for name in stale))
            if len(self._nodes) > 2 * len(names) + MAX_SINGLY:
                self._forget_those_gone()
            return [self._nodes[name][1] for name, version in versions.items() if version and name in self._nodes]

    def _version_of(self, name: str) -> str:
        """Empty if the node is gone."""
        node = self._node_of(name)
        return node.metadata.resource_version or "0" if node is not None else ""

    def _kept_version(self, name: str) -> str:
        found = self._nodes.get(name)
        return found[0] if found is not None else ""

    async def _read_node(self, name: str) -> None:
        """By a list of one: a scheduler may list nodes, and its role has no `get`."""
        async with self._singly:
            version = self._version_of(name)
            items = _page.decode(await self._read(_NODES, {"fieldSelector": f"metadata.name={name}"})).items
        if items:
            self._nodes[name] = version, _sent(items[0])
        else:
            self._nodes.pop(name, None)

    async def _list(self, names: Sequence[str]) -> None:
        token, found = "", dict[str, tuple[str, msgspec.Raw]]()
        # as the watch had them before: a node that changes while it is read is read again
        versions = {name: self._version_of(name) for name in names}
        while True:
            params = {"limit": str(_PAGE), **({"continue": token} if token else {})}
            page = _page.decode(await self._read(_NODES, params))
            for item in page.items:
                name = _named.decode(item).metadata.name
                found[name] = versions.get(name, ""), _sent(item)
            token = page.metadata.get("continue") or ""
            if not token:
                break
            await asyncio.sleep(0)  # a page of whole nodes takes milliseconds: decisions come in between
        self._nodes = found

    async def _read(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        try:
            return await self._reader.get(path, params)
        except ClientError as error:
            raise ObjectReadError(str(error)) from None

    def _forget_those_gone(self) -> None:
        self._nodes = {name: kept for name, kept in self._nodes.items() if self._node_of(name) is not None}


def _sent(body: bytes | msgspec.Raw) -> msgspec.Raw:
    """The object without `metadata.managedFields`, a third of most objects that nobody reads."""
    members = _members.decode(body)
    metadata = _members.decode(members["metadata"])
    if metadata.pop("managedFields", None) is not None:
        members["metadata"] = msgspec.Raw(_encode(metadata))
    return msgspec.Raw(_encode(members))
