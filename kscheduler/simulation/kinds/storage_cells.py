"""Cells of the tables of claims and volumes."""

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.table_cells import field

UNSET = "<unset>"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def claim_modes(claim: Object) -> str:
    """Access modes of the bound volume, which may be more than the claim requested."""
    return _short(field(claim, "status.accessModes", ()))


def volume_modes(volume: Object) -> str:
    """Access modes of a volume."""
    return _short(field(volume, "spec.accessModes", ()))


def phase(value: Object) -> str:
    """The phase, or Terminating."""
    return "Terminating" if "deletionTimestamp" in value["metadata"] else str(field(value, "status.phase", ""))


def _short(modes: list[str] | tuple[str, ...]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)
