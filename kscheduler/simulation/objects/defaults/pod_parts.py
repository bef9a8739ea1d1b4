"""Defaults of the parts of a pod spec: ports, probes, references to fields, volumes.

They are written into templates as well as into pods, so that what is stored is what a real server stores, and
`kubectl diff` of a manifest shows the user's changes and nothing else. Each function changes its argument in place.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kscheduler.simulation.kinds.api_errors import Object

_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Mapping[str, int] = MappingProxyType(
    {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
)
_SOURCES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
        "configMap": {"defaultMode": _MODE},
        "downwardAPI": {"defaultMode": _MODE},
        "hostPath": {"type": ""},
        "iscsi": {"iscsiInterface": "default"},
        "projected": {"defaultMode": _MODE},
        "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
        "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
        "secret": {"defaultMode": _MODE},
    }
)
"""Defaults of the sources of volumes, also of PersistentVolumes."""


def pull_policy(image: str) -> str:
    """Images without a tag, or of the tag `latest`, are pulled each time."""
    last = image.rpartition("/")[2]
    if "@" in last:
        return "IfNotPresent"
    return "Always" if last.rpartition(":")[2] == "latest" or ":" not in last else "IfNotPresent"


def default_parts(container: Object) -> None:
    """Fill in the parts of a container."""
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        _default_reference(variable.get("valueFrom"))
    for name in _PROBES:
        probe = container.get(name)
        if isinstance(probe, dict):
            for field, number in _PROBE.items():
                probe[field] = probe.get(field) or number
            _default_action(probe)
            if isinstance(probe.get("grpc"), dict):
                probe["grpc"].setdefault("service", "")
    for hook in (container.get("lifecycle") or {}).values():
        _default_action(hook)


def _default_action(holder: Any) -> None:
    action = holder.get("httpGet") if isinstance(holder, dict) else None
    if isinstance(action, dict):
        action["path"] = action.get("path") or "/"
        action["scheme"] = action.get("scheme") or "HTTP"


def _default_reference(holder: Any) -> None:
    for name, field, default in (("fieldRef", "apiVersion", "v1"), ("resourceFieldRef", "divisor", "0")):
        reference = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(reference, dict):
            reference[field] = reference.get(field) or default


def default_volume(volume: Object) -> None:
    """Fill in a pod's volume: without a source it is an empty directory."""
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    default_source(volume)
    image = volume.get("image")
    if isinstance(image, dict) and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(str(image.get("reference", "")))
    ephemeral = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if isinstance(ephemeral, dict) and isinstance(ephemeral.get("spec"), dict):
        ephemeral.setdefault("metadata", {})
        ephemeral["spec"].setdefault("volumeMode", "Filesystem")


def default_source(holder: Object) -> None:
    """Fill in the source of a volume, in a pod's volume or in the spec of a PersistentVolume."""
    for name in holder.keys() & _SOURCES.keys():
        source = holder[name]
        if isinstance(source, dict):
            for field, value in _SOURCES[name].items():
                source.setdefault(field, value)
            _default_items(source)
            for part in source.get("sources") or () if name == "projected" else ():
                _default_items(part.get("downwardAPI") or {})
                if isinstance(part.get("serviceAccountToken"), dict):
                    part["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def _default_items(source: Object) -> None:
    for item in source.get("items") or ():
        _default_reference(item)
