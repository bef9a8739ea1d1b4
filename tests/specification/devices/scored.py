"""The devices that scoring counts on a node, device by device."""

from collections.abc import Callable, Iterable

from kscheduler.api.core import Node, NodeSelector
from kscheduler.api.devices import Device, ResourceClaim, ResourceSlice
from kscheduler.api.selectors import parse_node_term

# Whether a device is of the class; a `LookupError` where its selector fails.
Passes = Callable[[Device], bool]


def devices_on(
    node: Node, slices: Iterable[ResourceSlice], claims: Iterable[ResourceClaim], passes: Passes
) -> tuple[int, int]:
    """How many there are, and how many are taken; none where the selector fails for one of them."""
    held = {
        (result.driver, result.pool, result.device)
        for claim in claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if not result.admin_access
    }
    total = taken = 0
    for piece in slices:
        for device in piece.spec.devices:
            if not _is_for(node, piece, device):
                continue
            try:
                is_of_class = passes(device)
            except LookupError:
                return 0, 0
            total += is_of_class
            taken += is_of_class and (piece.spec.driver, piece.spec.pool.name, device.name) in held
    return total, taken


def _is_for(node: Node, piece: ResourceSlice, device: Device) -> bool:
    spec, name = piece.spec, node.metadata.name
    if spec.per_device_node_selection:
        return bool(device.all_nodes) or device.node_name == name or _selects(device.node_selector, node)
    if spec.all_nodes or spec.node_name == name:
        return True
    return _selects(spec.node_selector, node) if spec.node_selector else not spec.node_name


def _selects(selector: NodeSelector | None, node: Node) -> bool:
    terms = () if selector is None else selector.node_selector_terms
    return any(parse_node_term(term).matches(node.metadata.labels, node.metadata.name) for term in terms)
