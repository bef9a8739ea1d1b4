"""What the API server accepts and warns about: fields that do nothing any more, and what is rarely meant.

A warning is a header of the answer, which kubectl prints. The texts are the real server's. A template is looked at when
it is new or changed, a pod when it is new.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from kscheduler.api import quantity
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.field_rules import dns_label
from kscheduler.api.machinery.resources import ServedResource
from kscheduler.api.validation.placement import PREFERRED, REQUIRED
from kscheduler.api.well_known import BETA_ARCH, BETA_OS, BETA_REGION, BETA_ZONE

_NODE_LABELS: Mapping[str, str] = MappingProxyType(
    {
        BETA_ARCH: 'deprecated since v1.14; use "kubernetes.io/arch" instead',
        BETA_OS: 'deprecated since v1.14; use "kubernetes.io/os" instead',
        BETA_REGION: ('deprecated since v1.17; use "topology.kubernetes.io/region" instead'),
        BETA_ZONE: 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
        "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
        "app.kubernetes.io/created-by": "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
    }
)
_POD_ANNOTATIONS: Mapping[str, str] = MappingProxyType(
    {
        "scheduler.alpha.kubernetes.io/critical-pod": (
            'non-functional in v1.16+; use the "priorityClassName" field instead'
        ),
        "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
        "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    }
)
# Sources of volumes that no kubelet mounts any more.
_DEAD_SOURCES: Mapping[str, str] = MappingProxyType(
    {
        "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
        "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
        "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
        "flocker": "deprecated in v1.22, non-functional in v1.25+",
        "storageos": "deprecated in v1.22, non-functional in v1.25+",
        "quobyte": "deprecated in v1.22, non-functional in v1.25+",
        "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
        "cephfs": "deprecated in v1.28, non-functional in v1.31+",
        "rbd": "deprecated in v1.28, non-functional in v1.31+",
    }
)
# Fields that a warning writes in another way.
_SHOWN: Mapping[str, str] = MappingProxyType({"storageos": "storageOS"})
_DEAD_PERSISTENT = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")
_VOLUME_ANNOTATIONS: Mapping[str, str] = MappingProxyType(
    {
        "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
        "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
    }
)
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
_SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
_TOKENS_IN_SECRETS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)
# Where the object's name shows, of kinds whose name should be a DNS label.
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "pods": "the Pod's hostname",
        "replicationcontrollers": "Pod names and hostnames",
        "deployments.apps": "Pod names and hostnames",
        "replicasets.apps": "Pod names and hostnames",
        "jobs.batch": "Pod names and hostnames",
        "cronjobs.batch": "Pod names and hostnames",
    }
)
_TEMPLATES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "podtemplates": ("template",),
        "replicationcontrollers": ("spec", "template"),
        "daemonsets.apps": ("spec", "template"),
        "deployments.apps": ("spec", "template"),
        "replicasets.apps": ("spec", "template"),
        "statefulsets.apps": ("spec", "template"),
        "jobs.batch": ("spec", "template"),
        "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
    }
)


# Kinds that the server warns about whatever is asked of them.
DEPRECATED: Mapping[str, str] = MappingProxyType(
    {"endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
)
ORPHANED_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


def warnings_of(resource: ServedResource, old: Object | None, new: Object) -> tuple[str, ...]:
    """The warnings about an object that was written over `old`, or is new (None)."""
    key = resource.key
    found: list[str] = []
    if old is None and key in _NAMES:
        reason = f"metadata.name: this is used in {_NAMES[key]}, which can result in surprising behavior; "
        wrong = [cause.message.rpartition('": ')[2] for cause in dns_label("", new["metadata"]["name"])]
        found += [f"{reason}a DNS label is recommended: [{text}]" for text in wrong]
    if key == "pods":
        found += _pod(new, "") if old is None else ()
    elif key in _TEMPLATES:
        template = _at(new, _TEMPLATES[key])
        if template and (old is None or _at(old, _TEMPLATES[key]) != template):
            found += _pod(template, f"{'.'.join(_TEMPLATES[key])}.")
    rule = _OTHERS.get(key)
    if rule is not None:
        found += rule(new, old)
    return tuple(dict.fromkeys(found))


def _at(value: Object, path: tuple[str, ...]) -> Object:
    for name in path:
        value = value.get(name) or {}
    return value


def _pod(holder: Object, path: str) -> Iterator[str]:
    """Warnings about a pod, or a template at `path`."""
    spec, annotations = holder.get("spec") or {}, (holder.get("metadata") or {}).get("annotations") or {}
    where = f"{path}spec"
    for key in spec.get("nodeSelector") or {}:
        if key in _NODE_LABELS:
            yield f"{where}.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    affinity = spec.get("affinity") or {}
    yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{where}.affinity.nodeAffinity")
    for place, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        at, key = f"{where}.topologySpreadConstraints[{place}]", constraint.get("topologyKey")
        if key in _NODE_LABELS:
            yield f"{at}.topologyKey: {key} is {_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{at}.labelSelector: {_NO_SELECTOR}"
    for key, text in _POD_ANNOTATIONS.items():
        if key in annotations:
            yield f"{path}metadata.annotations[{key}]: {text}"
    yield from _volumes(spec.get("volumes") or (), f"{where}.volumes")
    yield from _repeated(spec.get("hostAliases") or (), "ip", f"{where}.hostAliases")
    yield from _repeated(spec.get("imagePullSecrets") or (), "name", f"{where}.imagePullSecrets")
    for place, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if not secret.get("name"):
            yield f'{where}.imagePullSecrets[{place}].name: invalid empty name ""'
    yield from _fractions(spec.get("overhead") or {}, f"{where}.overhead")
    yield from _containers(holder, annotations, path)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{where}.terminationGracePeriodSeconds: {text}"
    yield from _pod_affinity(affinity, f"{where}.affinity")


def _node_affinity(affinity: Object, path: str) -> Iterator[str]:
    for place, term in enumerate((affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from _node_term(term, f"{path}.{REQUIRED}.nodeSelectorTerms[{place}]")
    for place, weighted in enumerate(affinity.get(PREFERRED) or ()):
        yield from _node_term(weighted.get("preference") or {}, f"{path}.{PREFERRED}[{place}].preference")


def _node_term(term: Object, path: str) -> Iterator[str]:
    for place, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key")
        if key in _NODE_LABELS:
            yield f"{path}.matchExpressions[{place}].key: {key} is {_NODE_LABELS[key]}"


def _pod_affinity(affinity: Object, path: str) -> Iterator[str]:
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for place, term in enumerate(terms.get(REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{path}.{name}.{REQUIRED}[{place}].labelSelector: {_NO_SELECTOR}"
        for place, weighted in enumerate(terms.get(PREFERRED) or ()):
            if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
                yield f"{path}.{name}.{PREFERRED}[{place}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"


def _volumes(volumes: Sequence[Object], path: str) -> Iterator[str]:
    for place, volume in enumerate(volumes):
        for source in volume:
            if source in _DEAD_SOURCES:
                yield f"{path}[{place}].{_SHOWN.get(source, source)}: {_DEAD_SOURCES[source]}"
        claim = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if claim:
            yield from _claim_spec(claim.get("spec") or {}, f"{path}[{place}].ephemeral.volumeClaimTemplate.spec")


def _repeated(elements: Sequence[Object], name: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for place, element in enumerate(elements):
        value = element.get(name) or ""
        if value in seen:
            yield f'{path}[{place}].{name}: duplicate {name} "{value}"'
        seen.add(value)


def _fractions(amounts: Object, path: str, names: tuple[str, ...] = ("memory", "ephemeral-storage")) -> Iterator[str]:
    for name in names:
        if name in amounts and quantity.milli_value(amounts[name]) % 1000:
            yield f'{path}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _containers(holder: Object, annotations: Object, path: str) -> Iterator[str]:
    spec = holder.get("spec") or {}
    profile = (spec.get("securityContext") or {}).get("seccompProfile")
    if not profile and "seccomp.security.alpha.kubernetes.io/pod" in annotations:
        yield f"{path}metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: {_SECCOMP}"
    listed = [
        (container, f"{path}spec.{field}[{place}]")
        for field in ("initContainers", "containers")
        for place, container in enumerate(spec.get(field) or ())
    ]
    for container, at in listed:
        key = f"container.seccomp.security.alpha.kubernetes.io/{container.get('name')}"
        if key in annotations and not (container.get("securityContext") or {}).get("seccompProfile"):
            yield f"{path}metadata.annotations[{key}]: {_SECCOMP}"
        amounts = container.get("resources") or {}
        for name in ("memory", "ephemeral-storage"):
            for field in ("limits", "requests"):
                yield from _fractions(amounts.get(field) or {}, f"{at}.resources.{field}", (name,))
        yield from _hidden_variables(container.get("env") or (), f"{at}.env")
    yield from _ports([(port, f"{at}.ports[{n}]") for c, at in listed for n, port in enumerate(c.get("ports") or ())])


def _hidden_variables(variables: Sequence[Object], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for place, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            text = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{path}[{place}]: {text}"
        seen.add(name)


def _ports(ports: list[tuple[Object, str]]) -> Iterator[str]:
    """Ports that are defined twice, and names that are; over all containers."""
    known: dict[tuple[int, str], list[tuple[Object, str]]] = {}
    for port, at in ports:
        same = known.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
        for other, other_at in same:
            host, others = port.get("hostPort") or 0, other.get("hostPort") or 0
            address, others_address = port.get("hostIP") or "", other.get("hostIP") or ""
            if (host, address) == (others, others_address):
                yield f"{at}: duplicate port definition with {other_at}"
            elif not host or not others:
                yield f"{at}: overlapping port definition with {other_at}"
            elif host == others and (not address) != (not others_address):
                yield f"{at}: dangerously ambiguous port definition with {other_at}"
        same.append((port, at))
    names: dict[str, str] = {}
    for port, at in ports:
        name = port.get("name")
        if name in names:
            use = f"services and probes that select ports by name will use {names[name]}"
            yield f'{at}: duplicate port name "{name}" with {names[name]}, {use}'
        elif name:
            names[name] = at


def _claim_spec(spec: Object, path: str) -> Iterator[str]:
    for field in ("requests", "limits"):
        amounts = (spec.get("resources") or {}).get(field) or {}
        yield from _fractions(amounts, f"{path}.resources.{field}", ("storage",))


def _claim(claim: Object, old: Object | None) -> Iterator[str]:
    del old
    key = "volume.beta.kubernetes.io/storage-class"
    if key in (claim["metadata"].get("annotations") or {}):
        yield f"metadata.annotations[{key}]: {_VOLUME_ANNOTATIONS[key]}"
    yield from _claim_spec(claim.get("spec") or {}, "spec")


def _volume(volume: Object, old: Object | None) -> Iterator[str]:
    del old
    spec, annotations = volume.get("spec") or {}, volume["metadata"].get("annotations") or {}
    for key, text in _VOLUME_ANNOTATIONS.items():
        if key in annotations:
            yield f"metadata.annotations[{key}]: {text}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    for place, term in enumerate(required.get("nodeSelectorTerms") or ()):
        yield from _node_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{place}]")
    for source in _DEAD_PERSISTENT:
        if source in spec:
            yield f"spec.{_SHOWN.get(source, source)}: {_DEAD_SOURCES[source]}"


def _stateful_set(value: Object, old: Object | None) -> Iterator[str]:
    spec = value.get("spec") or {}
    for place, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        path = f"spec.volumeClaimTemplates[{place}]"
        yield from _claim_spec(claim.get("spec") or {}, path if old is None else f"{path}.Spec")
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


def _node(node: Object, old: Object | None) -> Iterator[str]:
    del old
    spec = node.get("spec") or {}
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"


def _service(service: Object, old: Object | None) -> Iterator[str]:
    del old
    spec, kind = service.get("spec") or {}, (service.get("spec") or {}).get("type")
    hints = "service.kubernetes.io/topology-aware-hints"
    if hints in (service["metadata"].get("annotations") or {}):
        yield f"annotation {hints} is deprecated, please use service.kubernetes.io/topology-mode instead"
    if kind == "ClusterIP" and spec.get("clusterIP") == "None":
        if spec.get("loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if spec.get("externalIPs"):
            yield "spec.externalIPs is ignored for headless services"
        if spec.get("sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    elif spec.get("externalIPs") and kind != "ExternalName":
        yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if kind == "ExternalName" and spec.get("externalIPs"):
        yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
    if kind != "ExternalName" and spec.get("externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _ingress(ingress: Object, old: Object | None) -> Iterator[str]:
    key = "kubernetes.io/ingress.class"
    has_class = (ingress.get("spec") or {}).get("ingressClassName") is not None
    if old is None and not has_class and key in (ingress["metadata"].get("annotations") or {}):
        yield f"annotation \"{key}\" is deprecated, please use 'spec.ingressClassName' instead"


def _storage_class(value: Object, old: Object | None) -> Iterator[str]:
    del old
    for place, topology in enumerate(value.get("allowedTopologies") or ()):
        for at, expression in enumerate(topology.get("matchLabelExpressions") or ()):
            key = expression.get("key")
            if key in _NODE_LABELS:
                yield f"allowedTopologies[{place}].matchLabelExpressions[{at}].key: {_NODE_LABELS[key]}"


def _runtime_class(value: Object, old: Object | None) -> Iterator[str]:
    del old
    for key in (value.get("scheduling") or {}).get("nodeSelector") or {}:
        if key in _NODE_LABELS:
            yield f"scheduling.nodeSelector: {_NODE_LABELS[key]}"


def _csi_driver(value: Object, old: Object | None) -> Iterator[str]:
    spec = value.get("spec") or {}
    changed = old is None or ((old.get("spec") or {}).get("tokenRequests") != spec.get("tokenRequests"))
    if changed and spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None:
        yield _TOKENS_IN_SECRETS


def _account(value: Object, old: Object | None) -> Iterator[str]:
    def is_set(account: Object) -> bool:
        return _MOUNTABLE_SECRETS in (account["metadata"].get("annotations") or {})

    if is_set(value) and not (old is not None and is_set(old)):
        text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        yield f"metadata.annotations[{_MOUNTABLE_SECRETS}]: {text}"


_OTHERS: Mapping[str, Callable[[Object, Object | None], Iterator[str]]] = MappingProxyType(
    {
        "nodes": _node,
        "persistentvolumeclaims": _claim,
        "persistentvolumes": _volume,
        "serviceaccounts": _account,
        "services": _service,
        "statefulsets.apps": _stateful_set,
        "ingresses.networking.k8s.io": _ingress,
        "storageclasses.storage.k8s.io": _storage_class,
        "csidrivers.storage.k8s.io": _csi_driver,
        "runtimeclasses.node.k8s.io": _runtime_class,
    }
)
