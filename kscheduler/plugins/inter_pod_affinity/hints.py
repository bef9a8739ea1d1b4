"""Which events may help a pod that affinity has rejected."""

from collections.abc import Hashable, Iterable, Iterator

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.events import QueueingHint
from kscheduler.framework.hint_index import HintIndex, keys_of_labels, keys_of_match
from kscheduler.framework.pods.affinity_terms import PodMatch, affinity_terms
from kscheduler.framework.pods.pod_info import PodInfo


def satisfies_itself(counters: TopologyCounters, pod: PodInfo) -> bool:
    """Whether the pod matches its own required affinity."""
    wanted = pod.affinity_terms.all_required_affinity
    return wanted is not None and counters.selects(wanted, pod.pod)


def after_pod_change(
    counters: TopologyCounters, pod: PodInfo, old: KubeObject | None, new: KubeObject | None
) -> QueueingHint:
    """Whether a pod now satisfies the affinity or no longer violates the anti-affinity, by moving or by its labels."""
    before = old if isinstance(old, Pod) else None
    after = new if isinstance(new, Pod) else None
    if before is not None and after is not None and after.metadata.uid == pod.pod.metadata.uid:
        return QueueingHint.QUEUE  # the anti-affinity of other pods may have matched its former labels
    if _is_nowhere(before) or _is_nowhere(after):
        return QueueingHint.SKIP  # it is neither near nor in the way
    if _came_near(counters, pod, before, after) or _went_away(counters, pod, before, after):
        return QueueingHint.QUEUE
    if pod.affinity_terms.select_namespaces and _is_unsure(counters, pod, before, after):
        return QueueingHint.QUEUE
    if before is not None and after is None and _may_have_repelled(counters, pod, before):
        return QueueingHint.QUEUE
    return QueueingHint.SKIP


# --- the pods for which `after_pod_change` may return QUEUE -----------------------------------------------------------

# What a parked pod is indexed by: a pod that comes near, or that goes away, may help it.
_NEAR, _AWAY = "near", "away"


def _pod_keys(pod: PodInfo) -> Iterator[Hashable]:
    terms = pod.affinity_terms
    # Of the group that it wants to be near, a pod may come or be the last one to go (`_own_group`).
    both = [] if terms.all_required_affinity is None else [terms.all_required_affinity]
    avoided = [term.match for term in terms.required_anti_affinity]
    if terms.select_namespaces:  # a single term that cannot be judged is enough, for either version (`_is_unsure`)
        both += [*(term.match for term in terms.required_affinity), *avoided]
    for match in both:
        for key in keys_of_match(match):
            yield _NEAR, key
            yield _AWAY, key
    for match in avoided:
        for key in keys_of_match(match):
            yield _AWAY, key


def _event_keys(old: KubeObject | None, new: KubeObject | None) -> Iterable[Hashable] | None:
    before, after = (version if isinstance(version, Pod) else None for version in (old, new))
    if (before is None and after is None) or _is_nowhere(before) or _is_nowhere(after):
        return None
    if before is not None and after is None and affinity_terms(before).required_anti_affinity:
        return None  # it may have repelled any pod, by its labels
    versions = ((_NEAR, after), (_AWAY, before))
    return [
        (way, key)
        for way, version in versions
        if version is not None
        for key in keys_of_labels(version.metadata.namespace, version.metadata.labels)
    ]


POD_CHANGES = HintIndex(_pod_keys, _event_keys)


def _is_nowhere(version: Pod | None) -> bool:
    return version is not None and not (version.spec.node_name or version.status.nominated_node_name)


def _is_unsure(counters: TopologyCounters, pod: PodInfo, before: Pod | None, after: Pod | None) -> bool:
    """Whether a term asks for the labels of the changed pod's namespace, and that is unknown: 1.38 queues then."""
    changed, terms = after or before, pod.affinity_terms
    if changed is None or counters.namespace_labels(changed.metadata.namespace) is not None:
        return False
    avoided = () if before is None else terms.required_anti_affinity
    wanted = () if after is None else terms.required_affinity
    return any(_asks(term.match, version) for term in (*avoided, *wanted) for version in (before, after) if version)


def _may_have_repelled(counters: TopologyCounters, pod: PodInfo, gone: Pod) -> bool:
    """The same of the terms of a pod that is gone and the pod's namespace."""
    terms = affinity_terms(gone)
    if not terms.select_namespaces or counters.namespace_labels(pod.namespace) is not None:
        return False
    return any(_asks(term.match, pod.pod) for term in terms.required_anti_affinity)


def _asks(match: PodMatch, pod: Pod) -> bool:
    return match.asks_for_labels_of(pod.metadata.namespace) and match.selects(pod.metadata.labels)


def _came_near(counters: TopologyCounters, pod: PodInfo, before: Pod | None, after: Pod | None) -> bool:
    """Whether the changed pod satisfies all required affinity terms now, and did not before."""
    wanted = pod.affinity_terms.all_required_affinity
    if wanted is None or after is None or not counters.selects(wanted, after):
        return False
    return before is None or not counters.selects(wanted, before)


def _went_away(counters: TopologyCounters, pod: PodInfo, before: Pod | None, after: Pod | None) -> bool:
    """Whether the changed pod violated *any* anti-affinity term, the pod's or its own (Q14: upstream needs all)."""
    if before is None:
        return False
    if after is None:
        repelled = affinity_terms(before).required_anti_affinity
        if any(counters.selects(term.match, pod.pod, held=True) for term in repelled):
            return True
    avoided = [term.match for term in pod.affinity_terms.required_anti_affinity]
    return any(_selects_no_longer(counters, match, before, after) for match in (*avoided, *_own_group(counters, pod)))


def _selects_no_longer(counters: TopologyCounters, match: PodMatch, before: Pod, after: Pod | None) -> bool:
    return counters.selects(match, before) and not (after is not None and counters.selects(match, after))


def _own_group(counters: TopologyCounters, pod: PodInfo) -> Iterable[PodMatch]:
    """The group that a pod which satisfies itself belongs to: once no pod of it is left, the pod may go anywhere."""
    wanted = pod.affinity_terms.all_required_affinity
    return (wanted,) if wanted is not None and satisfies_itself(counters, pod) else ()


def after_node_change(
    counters: TopologyCounters, pod: PodInfo, old: KubeObject | None, new: KubeObject | None
) -> QueueingHint:
    """Whether a node is new or joined a domain that affinity may require, or left a domain that anti-affinity avoids.

    Upstream misses pods that only the anti-affinity of other pods keeps away: a new node must wake them, too. It also
    misses that the first pod of a group may go anywhere once no pod of the group is in any domain.
    """
    if not isinstance(new, Node):
        return QueueingHint.QUEUE
    terms, labels = pod.affinity_terms, new.metadata.labels
    wanted = {term.topology_key for term in terms.required_affinity}
    if not isinstance(old, Node):
        helps = not wanted or bool(terms.required_anti_affinity) or any(key in labels for key in wanted)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP
    before = old.metadata.labels
    avoided = {term.topology_key for term in terms.required_anti_affinity}
    avoided |= {term.topology_key for term in counters.required_anti_affinity(pod)}
    avoided |= wanted if satisfies_itself(counters, pod) else set()
    joins = any(key in labels and before.get(key) != labels[key] for key in wanted)
    leaves = any(key in before and labels.get(key) != before[key] for key in avoided)
    return QueueingHint.QUEUE if joins or leaves else QueueingHint.SKIP


def after_namespace_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """Whether it is the pod's namespace, which other pods' terms may select, or the pod itself selects namespaces."""
    names = {version.metadata.name for version in (old, new) if version is not None}
    helps = pod.affinity_terms.select_namespaces or pod.namespace in names
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
