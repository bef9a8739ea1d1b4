"""What a copy of the process works out for the status page: imported with the first question.

It runs in the copy, and may change what it likes.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, REPLICA_SETS
from kscheduler.app.parts import Parts
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.as_json import suggestion_trees
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.server.status_page.sources import NodeVerdict, Tree
from kscheduler.whatif.scenario import ClusterObjects, Scenario
from kscheduler.whatif.suggestions.search import suggestions
from kscheduler.whatif.suggestions.suggestion import Suggestion
from kscheduler.whatif.suggestions.trials.trial import Trials

_TRIED_PODS: Final = 20
"""Of a reason."""
_TRIED_CHANGES: Final = 3
"""Of which the one that frees most is told; the smallest first."""


def _pending(parts: Parts, keys: Iterable[str]) -> Iterable[tuple[PodInfo, Profile]]:
    """Those of the pods that are there, without a node, and served; without their nominations."""
    for key in keys:
        pod: Pod | None = parts.informers.informer(PODS).store.get(key)
        profile = None if pod is None else parts.assembly.profiles.get(pod.spec.scheduler_name)
        if pod is None or profile is None or pod.spec.node_name or pod.is_terminal:
            continue
        status = msgspec.structs.replace(pod.status, nominated_node_name="")
        yield PodInfo(msgspec.structs.replace(pod, status=status)), profile


def helping_changes(parts: Parts, reasons: Iterable[Sequence[str]]) -> dict[str, Tree]:
    """The change that frees most pods of each reason, by the key of the reason's first pod."""
    objects = ClusterObjects(replicasets=tuple(parts.informers.informer(REPLICA_SETS).store.list()))
    found: dict[str, Tree] = {}
    for keys in reasons:
        pods = [*_pending(parts, keys[:_TRIED_PODS])]
        if not pods or parts.assembly.queue.group_of(pods[0][0].pod) is not None:
            continue  # a group is decided about as a whole
        (example, profile), cache = pods[0], parts.assembly.cache
        changes = suggestions(profile, example, cache, parts.assembly.ports.budgets)[:_TRIED_CHANGES]
        alike = [pod for pod, _ in pods if pod.pod.spec == example.pod.spec]
        freed = [(_freed(Trials(profile, example, cache), change, alike), change) for change in changes]
        if freed:
            most, best = max(freed, key=lambda each: each[0])  # the first of equals is the smallest
            scenario = Scenario(objects, example.pod, parts.assembly.config)
            (tree,) = suggestion_trees((best,), scenario, NO_SITUATION)
            found[example.key] = {**tree, "frees": most, "tried": len(alike)}
    return found


def _freed(trials: Trials, suggestion: Suggestion, alike: Sequence[PodInfo]) -> int:
    """How many of like pods would have a node, one after the other, if each of them were changed in this way."""
    cache, profile = trials.cache, trials.profile
    deleted = [(change.namespace, change.name) for change in suggestion.changes if change.delete]
    nodes = [cache.node_info(name) for name in cache.node_names()] if deleted else []
    on_nodes = [pod for info in nodes if info is not None for pod in info.pods.values()]
    gone = [pod for pod in on_nodes if (pod.namespace, pod.name) in deleted]
    assumed: list[str] = []
    with trials.made(suggestion.changes, gone) as changed:
        for pod in alike:
            metadata = pod.pod.metadata
            this = PodInfo(msgspec.structs.replace(changed.pod, metadata=metadata))
            record = schedule(profile, this, cache)
            if not (profile.run_pre_enqueue(this).is_success and record.node_name):
                break
            cache.assume_pod(this, record.node_name)
            assumed.append(this.uid)
        for uid in assumed:
            cache.forget_pod(uid)
    return len(assumed)


def verdicts(parts: Parts, node_name: str, keys: Iterable[str]) -> Iterable[NodeVerdict]:
    """What the cycle says of each of these pending pods on one node."""
    cache = parts.assembly.cache
    for pod, profile in _pending(parts, keys):
        gate = profile.run_pre_enqueue(pod)
        if gate.is_rejected:
            yield NodeVerdict(pod.key, gate.plugin, tuple(gate.reasons))
            continue
        record = schedule(profile, pod, cache)
        whole = record.diagnosis.pre_filter
        if whole.is_rejected:
            yield NodeVerdict(pod.key, whole.plugin, tuple(whole.reasons))
            continue
        status = next((status for name, status in record.diagnosis.by_node() if name == node_name), None)
        search = record.state.find(PreemptionSearch)
        here = () if search is None else [each for each in search.candidates() if each.node_name == node_name]
        victims = tuple(victim.key for candidate in here for victim in candidate.victims)
        if status is None or victims:
            yield NodeVerdict(pod.key, "", (), victims)
        else:
            yield NodeVerdict(pod.key, status.plugin or "PreFilter", tuple(status.reasons))
