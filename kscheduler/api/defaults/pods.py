"""The API server's defaults for pods that a scheduler relies on.

A scheduler does not see a user's manifest, but requests copied from limits, tolerations for unready nodes, selectors
merged from matchLabelKeys. All functions change the given pod, a fresh copy of the request, in place.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kscheduler.api import quantity
from kscheduler.api.machinery import pod_amounts
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME, NOT_READY, UNREACHABLE
from kscheduler.cel.kubernetes.quantities import QuantityTextError

# Defaults of the parts of a pod spec: ports, probes, references to fields, volumes.
#
# They are written into templates as well as into pods, so that what is stored is what a real server stores, and
# `kubectl diff` of a manifest shows the user's changes and nothing else. Each function changes its argument in place.

_MODE = 0o644
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Mapping[str, int] = MappingProxyType(
    {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
)
# Defaults of the sources of volumes, also of PersistentVolumes.
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


GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"
_TOLERATION_SECONDS = 300
_AFFINITY_TERMS = ("podAffinity", "podAntiAffinity")
_LISTS = (
    "containers",
    "initContainers",
    "imagePullSecrets",
    "readinessGates",
    "resourceClaims",
    "schedulingGates",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
)
_MAPS = ("affinity", "nodeSelector", "overhead", "resources", "securityContext")
_TEXTS = ("nodeName", "priorityClassName", "restartPolicy", "schedulerName", "serviceAccountName")
_TYPES: dict[str, type] = dict.fromkeys(_LISTS, list) | dict.fromkeys(_MAPS, dict) | dict.fromkeys(_TEXTS, str)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def containers_of(spec: Object, *, with_init: bool = True) -> Iterator[Object]:
    """Init containers, then containers, of a pod spec."""
    if with_init:
        yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def check_types(spec: Object) -> None:
    """Raises TypeError for fields of the wrong JSON type, before other code walks through them."""
    for name, expected in _TYPES.items():
        value = spec.get(name)
        if value is not None and not isinstance(value, expected):
            raise TypeError(
                f"cannot unmarshal {type(value).__name__} into field spec.{name} of type {expected.__name__}"
            )


def default_pod_spec(spec: Object) -> None:
    """Fill in the defaults of a pod spec wherever one stands: in a pod and in a template, which keeps what was written.

    What only a pod gets (requests from limits, service links, host ports) is `default_pod`'s: written into a template,
    it would contradict the next manifest.
    """
    check_types(spec)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", DEFAULT_SCHEDULER_NAME)
    _same_account(spec)
    for container in containers_of(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        default_volume(volume)


def _same_account(spec: Object) -> None:
    """`serviceAccount` is the old name of `serviceAccountName`, which wins; either stands for both."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def default_pod(spec: Object) -> None:
    """Fill in the defaults of a pod's own spec."""
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in containers_of(spec):
        _requests_from_limits(container["resources"])
        for port in container.get("ports") or () if spec.get("hostNetwork") else ():
            if not port.get("hostPort") and "containerPort" in port:
                port["hostPort"] = port["containerPort"]
    default_pod_level_resources(spec)


def _default_container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", pull_policy(str(container.get("image", ""))))
    container.setdefault("resources", {})
    default_parts(container)


def _requests_from_limits(resources: Any) -> None:
    if isinstance(resources, dict) and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def default_pod_level_resources(spec: Object, *, needs_limits: bool = True) -> None:
    """Fill in pod-level limits and requests of a pod that has some: from its containers together, else from its limits.

    Limits of hugepages come from the containers' first, because hugepages cannot be overcommitted. `needs_limits`:
    whether a pod with requests alone keeps those, as in 1.36.
    """
    resources = spec.get("resources")
    if not isinstance(resources, dict) or not (resources.get("limits") or resources.get("requests")):
        return
    requests, limits = {**(resources.get("requests") or {})}, {**(resources.get("limits") or {})}
    try:
        limited, requested = (pod_amounts.of_containers(spec, field) for field in ("limits", "requests"))
    except QuantityTextError:
        return  # the rules refuse it
    for name, amount in limited.items():
        if name.startswith(pod_amounts.HUGE_PAGES) and name not in requests:
            limits.setdefault(name, amount.text())
    if limits or not needs_limits:
        for name, amount in requested.items():
            if pod_amounts.may_be_pod_level(name) and not name.startswith(pod_amounts.HUGE_PAGES):
                requests.setdefault(name, amount.text())
        requests = {name: limit for name, limit in limits.items() if pod_amounts.may_be_pod_level(name)} | requests
    for field, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[field] = amounts


def add_default_tolerations(spec: Object) -> None:
    """Tolerate an unready or unreachable node for 300 s, unless the pod has a toleration for that taint."""
    tolerations = spec.setdefault("tolerations", [])
    for key in (NOT_READY, UNREACHABLE):
        if not any(_is_about(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
            )


def _is_about(toleration: Object, key: str) -> bool:
    return toleration.get("key", "") in {"", key} and toleration.get("effect", "") in {"", "NoExecute"}


def merge_label_keys(pod: Object) -> None:
    """Add requirements for matchLabelKeys and mismatchLabelKeys to their selectors, from the pod's own labels."""
    labels = pod["metadata"].get("labels") or {}
    for term in _affinity_terms(pod["spec"].get("affinity") or {}):
        _merge_keys(term, term.get("matchLabelKeys"), "In", labels)
        _merge_keys(term, term.get("mismatchLabelKeys"), "NotIn", labels)
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        _merge_keys(constraint, constraint.get("matchLabelKeys"), "In", labels)


def _affinity_terms(affinity: Object) -> Iterator[Object]:
    for name in _AFFINITY_TERMS:
        rules = affinity.get(name) or {}
        yield from rules.get(_REQUIRED) or ()
        yield from (weighted.get("podAffinityTerm") or {} for weighted in rules.get(_PREFERRED) or ())


def _merge_keys(term: Object, keys: list[str] | None, operator: str, labels: Object) -> None:
    selector = term.get("labelSelector")
    if not keys or not isinstance(selector, dict):
        return
    present = [key for key in keys if key in labels]
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in present]
    known = selector.get("matchExpressions") or []
    expressions = [*known, *(requirement for requirement in added if requirement not in known)]
    if expressions:
        selector["matchExpressions"] = expressions


def initial_status(pod: Object) -> Object:
    """The status of a new pod: Pending, its quality of service, and a condition if it has gates."""
    status: Object = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": GATED_MESSAGE}
        condition["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
        status["conditions"] = [condition]
    return status


def qos_class(spec: Object) -> str:
    """Guaranteed if each container's limits equal its requests for CPU and memory, BestEffort without requests."""
    pod_level = spec.get("resources") or {}
    if pod_level.get("requests") or pod_level.get("limits"):
        return _class_of([pod_level])
    return _class_of([container.get("resources") or {} for container in containers_of(spec)])


def _class_of(resources: list[Object]) -> str:
    if not any(_amounts(part, field) for part in resources for field in ("requests", "limits")):
        return "BestEffort"
    for part in resources:
        limits, requests = _amounts(part, "limits"), _amounts(part, "requests")
        if limits.keys() != {"cpu", "memory"} or limits != requests:
            return "Burstable"
    return "Guaranteed"


def _amounts(resources: Object, field: str) -> dict[str, int]:
    amounts = {}
    for name in ("cpu", "memory"):
        amount = quantity.milli_value((resources.get(field) or {}).get(name, 0))
        if amount > 0:
            amounts[name] = amount
    return amounts


def default_new_pod(tree: dict[str, Any]) -> None:
    """Fill in what a pod gets that is only a manifest yet, in place: defaults and the admission of every cluster."""
    tree["metadata"].setdefault("labels", {})
    default_pod(tree["spec"])
    add_default_tolerations(tree["spec"])
    merge_label_keys(tree)
