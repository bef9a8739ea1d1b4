"""Rules of storage: a pod's volumes, claims, volumes, storage classes."""

from typing import Any

from kscheduler.api import quantity
from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.validation.placement import validate_node_selector

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_OF_ONE_POD = "ReadWriteOncePod"
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
# Fields of a PersistentVolume's spec that are not volume sources.
_NO_SOURCES = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


def validate_pod_volumes(volumes: Any, path: str) -> tuple[set[str], list[FieldCause]]:
    """The names that containers may mount, and all violated rules of the volumes."""
    names: set[str] = set()
    causes: list[FieldCause] = []
    for place, volume in enumerate(volumes or ()):
        where, name = f"{path}[{place}]", volume.get("name") or ""
        wrong = _source(volume, where)
        wrong += rules.dns_label(f"{where}.name", name) if name else [rules.required(f"{where}.name")]
        if name in names:
            wrong.append(rules.duplicate(f"{where}.name", name))
        if not wrong:
            names.add(name)
        causes += wrong
    return names, causes


def _source(volume: Object, path: str) -> list[FieldCause]:
    """A volume has one source; further sources are reported in the server's order, `emptyDir` and `hostPath` first."""
    kinds = sorted((name for name in volume if name != "name"), key=_source_order)
    reason = "may not specify more than 1 volume type"
    causes = [rules.forbidden_field(f"{path}.{name}", reason) for name in kinds[1:]]
    claim = volume.get("persistentVolumeClaim")
    if claim is not None and not claim.get("claimName"):
        causes.append(rules.required(f"{path}.persistentVolumeClaim.claimName"))
    if volume.get("hostPath") is not None and not volume["hostPath"].get("path"):
        causes.append(rules.required(f"{path}.hostPath.path"))
    return causes


def _source_order(name: str) -> tuple[int, str]:
    first = ("emptyDir", "hostPath")
    return (first.index(name) if name in first else len(first), name)


def _access_modes(modes: Any, path: str) -> list[FieldCause]:
    causes = [rules.unsupported(path, mode, _ACCESS_MODES) for mode in modes or () if mode not in _ACCESS_MODES]
    if _OF_ONE_POD in (modes or ()) and any(mode != _OF_ONE_POD for mode in modes):
        causes.append(rules.forbidden_field(path, "may not use ReadWriteOncePod with other access modes"))
    return causes


def validate_claim(claim: Object) -> list[FieldCause]:
    """A PersistentVolumeClaim: modes, amount, selector."""
    return validate_claim_spec(claim.get("spec") or {}, "spec")


def validate_claim_spec(spec: Object, path: str) -> list[FieldCause]:
    """A claim's spec, also of a template."""
    modes = spec.get("accessModes")
    causes = [] if modes else [rules.required(f"{path}.accessModes", "at least 1 access mode is required")]
    causes += rules.label_selector(f"{path}.selector", spec.get("selector"))
    causes += _access_modes(modes, f"{path}.accessModes")
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if storage is None:
        causes.append(rules.required(f"{path}.resources[storage]"))
    elif quantity.milli_value(storage) <= 0:
        causes.append(rules.bad_value(f"{path}.resources[storage]", str(storage), "must be greater than zero"))
    if spec.get("storageClassName"):
        causes += rules.subdomain(f"{path}.storageClassName", spec["storageClassName"])
    return causes + rules.enumerated(f"{path}.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def validate_claim_update(old: Object, new: Object) -> list[FieldCause]:
    """A claim may get a volume and a class if it has none, and request more; nothing else may change."""
    before, after = (_frozen_claim(value.get("spec") or {}) for value in (old, new))
    for name in ("volumeName", "storageClassName"):
        if before.get(name) is None:
            after.pop(name, None)
    if before == after:
        return []
    reason = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [rules.forbidden_field("spec", reason)]


def _frozen_claim(spec: Object) -> Object:
    return {name: value for name, value in spec.items() if name not in {"resources", "volumeAttributesClassName"}}


def validate_volume(volume: Object) -> list[FieldCause]:
    """A PersistentVolume: capacity, modes, exactly one source."""
    spec = volume.get("spec") or {}
    modes, capacity = spec.get("accessModes"), spec.get("capacity") or {}
    causes = [] if modes else [rules.required("spec.accessModes")]
    causes += _access_modes(modes, "spec.accessModes")
    if not capacity:
        causes.append(rules.required("spec.capacity"))
    if "storage" not in capacity or len(capacity) > 1:
        causes.append(rules.unsupported("spec.capacity", capacity, ("storage",)))
    for name, amount in capacity.items():
        if quantity.milli_value(amount) <= 0:
            causes.append(rules.bad_value(f"spec.capacity[{name}]", str(amount), "must be greater than zero"))
    policy = spec.get("persistentVolumeReclaimPolicy")
    causes += rules.enumerated("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES)
    affinity = spec.get("nodeAffinity") or {}
    if affinity.get("required") is not None:
        causes += validate_node_selector(affinity["required"], "spec.nodeAffinity.required")
    causes += _volume_source(spec)
    return causes + rules.enumerated("spec.volumeMode", spec.get("volumeMode"), _VOLUME_MODES)


def _volume_source(spec: Object) -> list[FieldCause]:
    kinds = sorted((name for name in spec if name not in _NO_SOURCES), key=_source_order)
    if not kinds:
        return [rules.required("spec", "must specify a volume type")]
    reason = "may not specify more than 1 volume type"
    causes = [rules.forbidden_field(f"spec.{name}", reason) for name in kinds[1:]]
    if "local" in spec and not (spec.get("nodeAffinity") or {}).get("required"):
        causes.append(rules.required("spec.nodeAffinity", "Local volume requires node affinity"))
    return causes


def validate_volume_update(old: Object, new: Object) -> list[FieldCause]:
    """A volume's source is immutable."""
    before, after = ({k: v for k, v in o["spec"].items() if k not in _NO_SOURCES} for o in (old, new))
    if before == after:
        return []
    reason = "spec.persistentvolumesource is immutable after creation"
    return [rules.forbidden_field("spec.persistentvolumesource", reason)]


def validate_storage_class(value: Object) -> list[FieldCause]:
    """A StorageClass: provisioner, reclaim policy, binding mode."""
    provisioner = value.get("provisioner")
    causes = rules.qualified_name("provisioner", provisioner.lower()) if provisioner else []
    if not provisioner:
        causes.append(rules.required("provisioner"))
    policies = tuple(policy for policy in _RECLAIM_POLICIES if policy != "Recycle")
    causes += rules.enumerated("reclaimPolicy", value.get("reclaimPolicy"), policies)
    return causes + rules.enumerated("volumeBindingMode", value.get("volumeBindingMode"), _BINDING_MODES)
