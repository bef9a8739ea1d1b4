"""Which events may help a pod that affinity has turned down."""

from collections.abc import Iterable

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.events import QueueingHint
from kscheduler.framework.pods.affinity_terms import affinity_terms
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_match import PodMatch


def satisfies_itself(counters: TopologyCounters, pod: PodInfo) -> bool:
    """Whether the pod is one of those that it wants to be near."""
    wanted = pod.affinity_terms.all_required_affinity
    return wanted is not None and counters.selects(wanted, pod.pod)


def after_pod_change(
    counters: TopologyCounters, pod: PodInfo, old: KubeObject | None, new: KubeObject | None
) -> QueueingHint:
    """Whether a pod came near, went out of the way, or changed its labels so that it did."""
    changed = [one for one in (old, new) if isinstance(one, Pod)]
    if isinstance(old, Pod) and isinstance(new, Pod) and new.metadata.uid == pod.pod.metadata.uid:
        return QueueingHint.QUEUE  # others may be averse to the labels it had
    if any(not (one.spec.node_name or one.status.nominated_node_name) for one in changed):
        return QueueingHint.SKIP  # it is nowhere, so it is neither near nor in the way
    before = old if isinstance(old, Pod) else None
    after = new if isinstance(new, Pod) else None
    helps = _came_near(counters, pod, before, after) or _went_away(counters, pod, before, after)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _came_near(counters: TopologyCounters, pod: PodInfo, before: Pod | None, after: Pod | None) -> bool:
    """One that is wanted: it satisfies all required affinity terms now, and did not before."""
    wanted = pod.affinity_terms.all_required_affinity
    if wanted is None or after is None or not counters.selects(wanted, after):
        return False
    return before is None or not counters.selects(wanted, before)


def _went_away(counters: TopologyCounters, pod: PodInfo, before: Pod | None, after: Pod | None) -> bool:
    """One that was in the way of *any* anti-affinity term, the pod's or its own (Q14: upstream asks for all)."""
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
    """Whom a pod that satisfies itself wants to join: once nobody of them is left, it may be the first anywhere."""
    wanted = pod.affinity_terms.all_required_affinity
    return (wanted,) if wanted is not None and satisfies_itself(counters, pod) else ()


def after_node_change(
    counters: TopologyCounters, pod: PodInfo, old: KubeObject | None, new: KubeObject | None
) -> QueueingHint:
    """Whether a node came or joined a domain that affinity may ask for, or left one where somebody is in the way.

    Upstream forgets pods that only the anti-affinity of others keeps away: a new node must wake them too. Nor does
    it know that the first of a group may go anywhere once those it wanted to join are in no domain any more.
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
    """The pod's own namespace, which others may ask for, or any where the pod asks for namespaces by their labels."""
    names = {one.metadata.name for one in (old, new) if one is not None}
    terms = pod.affinity_terms
    required = (*terms.required_affinity, *terms.required_anti_affinity)
    asks = any(term.match.namespace_selector is not None for term in required)
    return QueueingHint.QUEUE if asks or pod.namespace in names else QueueingHint.SKIP
