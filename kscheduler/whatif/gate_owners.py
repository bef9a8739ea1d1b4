"""Who has set a pod's scheduling gates: the API server notes in `managedFields` who has set which field."""

from collections.abc import Iterator
from typing import Any, Final

_GATES: Final = "f:schedulingGates"


def gate_owners(pod: dict[str, Any]) -> tuple[str, ...]:
    """The managers that have set gates of a pod, as JSON has it; empty where nothing says so."""
    return tuple(dict.fromkeys(_managers(pod)))


def _managers(pod: dict[str, Any]) -> Iterator[str]:
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict) or not spec.get("schedulingGates"):
        return
    listed = metadata.get("managedFields")
    for entry in listed if isinstance(listed, list) else ():
        fields = entry.get("fieldsV1") if isinstance(entry, dict) else None
        of_spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(of_spec, dict) and _GATES in of_spec and isinstance(entry.get("manager"), str):
            yield entry["manager"]
