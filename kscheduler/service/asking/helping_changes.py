"""What would help pods that wait for the same reason, worked out in a copy of the process."""

from collections.abc import Iterable, Sequence

import msgspec

from kscheduler.answers.suggestions import CommonSuggestion, HelpingChange
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, REPLICA_SETS, STATEFUL_SETS
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.as_answer import common_suggestion, suggestion_answer
from kscheduler.explain.suggestions.for_many import common_change, most_alike
from kscheduler.explain.suggestions.kinds.scheduling_gates import RemoveGates
from kscheduler.explain.suggestions.object_changes import ObjectChange
from kscheduler.explain.suggestions.search_time import SharedTime
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.owners import owners_in
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.scheduling.profile import Profile
from kscheduler.service.parts import Parts


def pending_of(parts: Parts, keys: Iterable[str]) -> Iterable[tuple[PodInfo, Profile]]:
    """Those of the pods that are there, without a node, and served; without their nominations."""
    for key in keys:
        pod: Pod | None = parts.informers.informer(PODS).store.get(key)
        profile = None if pod is None else parts.assembly.profiles.get(pod.spec.scheduler_name)
        if pod is None or profile is None or pod.spec.node_name or pod.is_terminal:
            continue
        status = msgspec.structs.replace(pod.status, nominated_node_name="")
        yield PodInfo(msgspec.structs.replace(pod, status=status)), profile


def changes_by_reason(parts: Parts, reasons: Iterable[Sequence[str]]) -> dict[str, HelpingChange]:
    """The change that frees most pods of each reason, by the key of the reason's first pod.

    Each reason has its part of the time, so that others are answered whatever its pods are.
    """
    objects = ClusterObjects(
        replicasets=tuple(parts.informers.informer(REPLICA_SETS).store.list()),
        statefulsets=tuple(parts.informers.informer(STATEFUL_SETS).store.list()),
    )
    budgets, owners = parts.assembly.ports.budgets, owners_in(objects.replicasets)
    found: dict[str, HelpingChange] = {}
    queried = list(reasons)
    times = SharedTime(len(queried))
    for keys in queried:
        time, pods = times.part(), [*pending_of(parts, keys)]
        if not pods or parts.assembly.queue.group_of(pods[0][0].pod) is not None:
            continue  # a group is decided about as a whole
        cache, first = parts.assembly.cache, keys[0]
        # A pod that may not even enter the queue (its claim was deleted since) says nothing about the others.
        pods.sort(key=lambda entry: not entry[1].run_pre_enqueue(entry[0]).is_success)
        best = common_change(pods[0][1], [pod for pod, _ in pods], cache, budgets, owners, time)
        if best is not None:
            change = common_suggestion(best, len(pods), objects, parts.assembly.config)
            found[first] = HelpingChange(change, left_off=time.left_off or None)
        elif time.left_off:
            found[first] = HelpingChange(left_off=time.left_off)
    return found


def gates_to_remove(parts: Parts, keys: Iterable[str]) -> CommonSuggestion | None:
    """What must be done first for most of a reason's pods, if they have scheduling gates; it does not suffice.

    As a change is, of 0 nodes. Who has set the gates is not known here: the watch leaves that out.
    """
    pods = [pod for pod, _ in pending_of(parts, keys)]
    example = most_alike(pods)[0] if pods else None
    if example is None or not example.pod.spec.scheduling_gates:
        return None
    (gates,) = RemoveGates.demands(example, parts.assembly.cache)
    change = ObjectChange("pods", example.namespace, example.pod.metadata.name, gates.patch)
    suggestion = Suggestion((gates.step(change),), (change,), 0)
    scenario = Scenario(ClusterObjects(), example.pod, parts.assembly.config)
    return CommonSuggestion.of(example.key, suggestion_answer(suggestion, scenario, NO_SITUATION))
