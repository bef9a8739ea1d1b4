"""What it costs to decide about a pod: the number of entries in its lists and maps.

A pod may be as large as the API server takes it, 1.5 MiB: tens of thousands of labels, terms or tolerations. Nearly all
rules cost a step per entry, and per node at most. So the number of entries is a price that is known before any rule
runs. Pods that people write have a few dozen entries; `COSTLY` is far above those. A pod above it is *costly*: it waits
in a line of its own, its decision has a small budget, and nothing is kept for others like it.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from kscheduler.api.core import Affinity, LabelSelector, NodeSelectorTerm, Pod, PodAffinityTerm

# Entries. Kubernetes' own limits let a node run 110 pods by default; nobody has seen a pod with 1,000 containers.
COSTLY: Final = 1_000
_NAMED_PARTS: Final = 2
# Entries of a list of terms. Further counting would only take time: the pod is too large.
_MAX_COUNTED: Final = 20_000


def weight_of(pod: Pod) -> int:
    """The number of entries in the pod's lists and maps, as far as rules look at them; of a costly pod, or fewer."""
    # Hot: it is called once for each pod.
    spec, metadata = pod.spec, pod.metadata
    containers = (*spec.containers, *spec.init_containers) if spec.init_containers else spec.containers
    parts: list[Collection[Any]] = [
        containers,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
        spec.node_selector,
        spec.tolerations,
        spec.volumes,
        spec.scheduling_gates,
        spec.resource_claims,
        spec.overhead,
    ]
    for container in containers:
        resources = container.resources
        parts += (resources.requests, resources.limits, container.ports, container.volume_mounts)
    weight = sum(map(len, parts))
    if spec.affinity is not None or spec.topology_spread_constraints:
        for _, size in _terms(pod):
            weight += size
            if weight > COSTLY:
                break
    return weight


def largest_parts(pod: Pod) -> str:
    """Which of the pod's fields have the most entries, such as `spec.nodeSelector has 70,000 entries`."""
    spec, metadata, more = pod.spec, pod.metadata, ""
    containers = (*spec.containers, *spec.init_containers)
    sizes = {
        "metadata.labels": len(metadata.labels),
        "metadata.annotations": len(metadata.annotations),
        "metadata.ownerReferences": len(metadata.owner_references),
        "spec.nodeSelector": len(spec.node_selector),
        "spec.tolerations": len(spec.tolerations),
        "spec.volumes": len(spec.volumes),
        "spec.schedulingGates": len(spec.scheduling_gates),
        "spec.resourceClaims": len(spec.resource_claims),
        "spec.overhead": len(spec.overhead),
        "spec.containers and spec.initContainers": len(containers),
        "spec.containers[*].resources": sum(
            len(each.resources.requests) + len(each.resources.limits) for each in containers
        ),
        "spec.containers[*].ports": sum(len(each.ports) for each in containers),
        "spec.containers[*].volumeMounts": sum(len(each.volume_mounts) for each in containers),
    }
    for name, size in _terms(pod):
        sizes[name] = sizes.get(name, 0) + size
        if sizes[name] > _MAX_COUNTED:
            sizes[name] = _MAX_COUNTED
            more = name
            break
    ordered = sorted(sizes.items(), key=lambda part: -part[1])
    shown = [
        f"{name} has {'more than ' if name == more else ''}{size:,} entries"
        for name, size in ordered
        if 10 * size >= ordered[0][1] > 0
    ]
    return ", ".join(shown[:_NAMED_PARTS]) or "it has no entries"


def _terms(pod: Pod) -> Iterator[tuple[str, int]]:
    """The path of each list of terms, with the entries of one of its terms."""
    affinity = pod.spec.affinity
    if affinity is not None:
        yield from _terms_of(affinity)
    for constraint in pod.spec.topology_spread_constraints:
        entries = 1 + _of_selector(constraint.label_selector) + len(constraint.match_label_keys)
        yield "spec.topologySpreadConstraints", entries


def _terms_of(affinity: Affinity) -> Iterator[tuple[str, int]]:
    nodes = affinity.node_affinity
    if nodes is not None:
        required = nodes.required_during_scheduling_ignored_during_execution
        terms: Iterable[NodeSelectorTerm] = () if required is None else required.node_selector_terms
        preferred = (each.preference for each in nodes.preferred_during_scheduling_ignored_during_execution)
        for term in (*terms, *preferred):
            parts = (*term.match_expressions, *term.match_fields)
            yield "spec.affinity.nodeAffinity", 1 + sum(1 + len(part.values) for part in parts)
    for name, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is None:
            continue
        weighted = (each.pod_affinity_term for each in pods.preferred_during_scheduling_ignored_during_execution)
        for about_pods in (*pods.required_during_scheduling_ignored_during_execution, *weighted):
            yield f"spec.affinity.{name}", _of_term(about_pods)


def _of_term(term: PodAffinityTerm) -> int:
    keys = len(term.match_label_keys) + len(term.mismatch_label_keys)
    selectors = _of_selector(term.label_selector) + _of_selector(term.namespace_selector)
    return 1 + len(term.namespaces) + keys + selectors


def _of_selector(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + sum(1 + len(each.values) for each in selector.match_expressions)
