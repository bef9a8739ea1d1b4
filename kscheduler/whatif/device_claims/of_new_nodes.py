"""Devices of a node that is a copy of another one: the slices of the devices in the node, once more.

Devices that several nodes reach stay as they are; a copy with the same labels reaches them, too.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kscheduler.api.devices import Device, ResourceSlice


def slices_like(slices: Iterable[ResourceSlice], like: str, name: str) -> Iterator[ResourceSlice]:
    """The slices of node `like` as its copy `name` has them, in pools of its own."""
    local = [(piece, devices) for piece in slices if (devices := _devices_in(piece, like)) is not None]
    pools = [(piece.spec.driver, piece.spec.pool.name) for piece, _ in local]
    for piece, devices in local:
        spec, pool = piece.spec, piece.spec.pool
        # A pool that spans several nodes has fewer slices here than the whole of it.
        count = pools.count((spec.driver, pool.name)) if spec.per_device_node_selection else pool.resource_slice_count
        own = name if pool.name == like else f"{pool.name}-{name}"
        moved = tuple(replace(device, node_name=name) if device.node_name else device for device in devices)
        metadata = replace(piece.metadata, name=f"{piece.metadata.name}-of-{name}", uid=f"uid-{piece.key}-of-{name}")
        yield replace(
            piece,
            metadata=metadata,
            spec=replace(
                spec,
                node_name=name if spec.node_name else None,
                pool=replace(pool, name=own, resource_slice_count=count),
                devices=moved,
            ),
        )


def _devices_in(piece: ResourceSlice, node: str) -> tuple[Device, ...] | None:
    """The devices of the slice that are in this node and no other; `None`: none is."""
    spec = piece.spec
    if spec.node_name:
        return spec.devices if spec.node_name == node else None
    if not spec.per_device_node_selection:
        return None
    return tuple(device for device in spec.devices if device.node_name == node) or None
