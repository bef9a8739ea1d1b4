"""Writing volume decisions: failures of the client become statuses, and no request is repeated here.

A refused write (409: another writer was faster) and a lost answer mean the same for the pod: it is tried again later,
based on what the watch shows by then. A claim reference that was applied although the answer was lost does no harm:
it names the claim that the volume was chosen for, and the next attempt finds it.
"""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from kscheduler.api.codec import UndecodableError
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.client.errors import ClientError
from kscheduler.framework.status import Status, error

T = TypeVar("T")


class StorageWriter(Protocol):
    """The part of `client.claim_writes.ApiVolumeWriter` that volume binding needs."""

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
        """Write the volume's claim reference. Returns the new version of the volume, or an Error."""
        return await _written_or_error(self._storage.bind_volume(volume))

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        """Write the claim's selected node. Returns the new version of the claim, or an Error."""
        return await _written_or_error(self._storage.select_node(claim))


async def _written_or_error(write: Awaitable[T]) -> T | Status:
    try:
        return await write
    except (ClientError, UndecodableError) as failure:
        return error(str(failure))
