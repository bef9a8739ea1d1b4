"""Volume decisions, written: the client's failures become statuses, and nothing is tried again here.

A refused write (409: somebody was faster) and a lost answer mean the same for the pod: it is tried again later, from
what the watch shows by then. A claim reference that was applied without our knowing does no harm: it names the claim
that the volume was meant for, and the next attempt finds it so.
"""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from kscheduler.api.codec import UndecodableError
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.errors import ClientError
from kscheduler.framework.status import Status, error

T = TypeVar("T")


class StorageWriter(Protocol):
    """The part of `client.writes.volumes.ApiVolumeWriter` that is needed."""

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write the claim reference."""
        ...

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Write the selected node."""
        ...


class VolumeBindingWriter:
    """Implements `framework.cluster.volumes.VolumeWriter`."""

    def __init__(self, storage: StorageWriter) -> None:
        self._storage = storage

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume | Status:
        """Write the volume's claim reference; the volume as it is now, or an Error."""
        return await _or_error(self._storage.bind_volume(volume))

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        """Write the claim's selected node; the claim as it is now, or an Error."""
        return await _or_error(self._storage.select_node(claim))


async def _or_error(write: Awaitable[T]) -> T | Status:
    try:
        return await write
    except (ClientError, UndecodableError) as failure:
        return error(str(failure))
