"""The pending pods of a cluster by reason, each reason with the change that would help most of them.

Pods of one template are judged once, all of them over one copy of the cluster: a thousand replicas cost as much as one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.explain.situation import near_name
from kscheduler.explain.suggestions.for_many import CommonChange, common_change, placement_spec
from kscheduler.explain.suggestions.search_time import SearchTime, SharedTime
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.explain.suggestions.suggestion_rules import wants_devices
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.scenario.decide import scenario_ports
from kscheduler.scenario.membership import how_to_follow, unfollowed_group_of
from kscheduler.scenario.owners import owners_in
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving, served_cluster
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.drift.pending import binding_timeout, waits_of
from kscheduler.scheduling.failure import SCHEDULER_ERROR
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.cache import Cache

# Distinct messages to the members of a group that are shown, those of most members first.
_MAX_MESSAGES: Final = 3


class PendingVerdict(Enum):
    """What the cycle says of a pending pod now."""

    FITS = "Fits"
    """It would get a node; it may be in the queue, in back-off, or wait for a plugin."""
    UNSCHEDULABLE = "Unschedulable"
    PREEMPTING = "Preempting"
    """Preemption would make room."""
    GATED = "Gated"
    IN_A_GROUP = "InAGroup"
    """It waits with its pod group and is not judged alone."""
    NOT_SERVED = "NotServed"
    """No profile here has its scheduler's name."""
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Reason:
    """Pods that are pending for one reason."""

    verdict: PendingVerdict
    message: str
    plugins: tuple[str, ...]
    """Who rejected nodes, or the pod; sorted."""
    pods: tuple[Pod, ...]
    """The oldest first."""
    help: CommonChange | None = None
    """The change for most of the pods that are alike."""
    looked: int = 0
    """Among how many of the pods these were counted."""
    left_off: str = ""
    """Why there is no such change, or perhaps a better one: the search was left off."""
    served: tuple[str, ...] = ()
    """The scheduler names that are served, for pods of others."""
    groups: tuple[str, ...] = ()
    """The pod groups that they wait with, as NAMESPACE/NAME."""

    @property
    def suggestion(self) -> Suggestion | None:
        """The change itself."""
        return None if self.help is None else self.help.suggestion

    @property
    def example(self) -> Pod | None:
        """The pod that the change is for."""
        return None if self.help is None else self.help.example.pod

    @property
    def since(self) -> str:
        """When the oldest was created; empty if nobody knows."""
        return next((each.metadata.creation_timestamp for each in self.pods if each.metadata.creation_timestamp), "")


@dataclass(frozen=True, slots=True)
class _Judged:
    verdict: PendingVerdict
    message: str
    plugins: tuple[str, ...] = ()


def pending_reasons(
    objects: ClusterObjects, served: Serving, where: str, namespace: str = "", *, with_suggestions: bool = True
) -> list[Reason]:
    """The reasons, those of most pods first; `namespace`: of its pods alone. Raises `ScenarioError`."""
    pending = [
        pod
        for pod in objects.pods
        if not (pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp)
        and namespace in ("", pod.metadata.namespace)
    ]
    if not pending:
        return []
    cache, profiles = served_cluster(objects, served, where)
    by_template: dict[bytes, _Judged] = {}
    found: dict[_Judged, list[Pod]] = {}
    members: dict[str, list[Pod]] = {}
    for pod in pending:
        template = template_of(pod)
        if template not in by_template:
            by_template[template] = _judged(pod, profiles, cache)
        judged = by_template[template]
        if judged.verdict is PendingVerdict.FITS:
            timeout = binding_timeout(served.config, pod.spec.scheduler_name)
            waits = [wait.text for wait in waits_of(pod, cache.devices.claims, timeout)]
            failure = _failure_of(pod)
            if failure:
                judged = _Judged(PendingVerdict.ERROR, f"{failure}; by the rules known here it would fit now")
            elif waits:
                judged = replace(judged, message=f"fits, and {'; '.join(waits)}")
            elif pod.spec.scheduler_name in served.followed:
                judged = replace(judged, message=_fits_elsewhere(pod.spec.scheduler_name, served))
        key = cache.pod_groups.key_of(pod) if judged.verdict is PendingVerdict.IN_A_GROUP else None
        if key is not None:
            members.setdefault(key.text, []).append(pod)
            continue
        found.setdefault(judged, []).append(pod)
    for pods in members.values():
        found.setdefault(_Judged(PendingVerdict.IN_A_GROUP, _of_group(pods)), []).extend(pods)
    times = SharedTime(len(found))
    reasons = [
        _reason(judged, pods, profiles, cache, objects, times.part() if with_suggestions else None)
        for judged, pods in found.items()
    ]
    return sorted(reasons, key=lambda each: (-len(each.pods), each.message))


def _failure_of(pod: Pod) -> str:
    """What its scheduler says has failed, other than to find a node: an extender, a plugin, the API server.

    Nobody asks these here, so that a pod which fits by the rules alone may wait for them.
    """
    condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    if condition is None or condition.status != "False" or condition.reason != SCHEDULER_ERROR:
        return ""
    return f"its last attempt failed ({SCHEDULER_ERROR}): {condition.message or 'no message'}"


def _of_group(members: Sequence[Pod]) -> str:
    """That they wait with their group, and what their scheduler has told them: the same of groups with one reason."""
    reported: Counter[str] = Counter()
    for pod in members:
        condition = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        reported[condition.message if condition is not None and condition.status == "False" else ""] += 1
    ordered = sorted(
        ((number, message) for message, number in reported.items() if message), key=lambda each: each[::-1]
    )
    texts = [
        message if len(reported) == 1 else f"{message} ({number} {'member' if number == 1 else 'members'})"
        for number, message in sorted(ordered, key=lambda each: -each[0])[:_MAX_MESSAGES]
    ]
    waits = "waits with its pod group, which is explained as a whole"
    return f"{waits}; the last attempt: {'; '.join(texts)}" if texts else waits


def _fits_elsewhere(scheduler_name: str, served: Serving) -> str:
    waits = f"fits now: scheduler {scheduler_name} has it in its queue or in back-off"
    return f"{waits}, or that scheduler is not running{near_name(scheduler_name, served.names)}"


def template_of(pod: Pod) -> bytes:
    """Equal for pods that the cycle cannot tell apart."""
    meta, spec = pod.metadata, placement_spec(pod.spec)
    is_nominated = pod.status.nominated_node_name
    return msgspec.json.encode((meta.namespace, sorted(meta.labels.items()), meta.owner_references, spec, is_nominated))


def _judged(pod: Pod, profiles: Profiles, cache: Cache) -> _Judged:
    profile = profiles.get(pod.spec.scheduler_name)
    if profile is None:
        return _Judged(PendingVerdict.NOT_SERVED, f"not served here: spec.schedulerName is {pod.spec.scheduler_name}")
    key = cache.pod_groups.key_of(pod) if cache.pod_groups.apis else None
    if key is not None:
        return _Judged(PendingVerdict.IN_A_GROUP, "waits with its pod group, which is explained as a whole")
    info = PodInfo(pod)
    gate = profile.run_pre_enqueue(info)
    if gate.is_rejected:
        return _Judged(PendingVerdict.GATED, gate.message, (gate.plugin,))
    record = schedule(profile, info, cache)
    unfollowed = unfollowed_group_of(pod, cache.pod_groups.apis)
    if unfollowed is not None and (record.node_name or record.nominated_node_name):
        # It fits alone, which says nothing: a gang that lacks room or members keeps it waiting.
        name, api = unfollowed
        note = f"not judged: member of pod group {pod.metadata.namespace}/{name}, and {how_to_follow(api)}"
        return _Judged(PendingVerdict.IN_A_GROUP, note)
    if record.status.code is Code.ERROR:
        return _Judged(PendingVerdict.ERROR, record.status.message, (record.status.plugin,))
    if record.node_name:
        return _Judged(PendingVerdict.FITS, "fits now: it is in the queue or in back-off, or waits for a plugin")
    makes_room = record.post_filter is not None and record.post_filter.is_success and record.nominated_node_name
    verdict = PendingVerdict.PREEMPTING if makes_room else PendingVerdict.UNSCHEDULABLE
    return _Judged(verdict, record.message, tuple(sorted(record.diagnosis.plugins)))


def _reason(
    judged: _Judged,
    pods: list[Pod],
    profiles: Profiles,
    cache: Cache,
    objects: ClusterObjects,
    time: SearchTime | None,
) -> Reason:
    """`time`: for which a change is looked for; `None`: nobody wants one."""
    ordered = tuple(sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "~", pod.key)))
    table = cache.pod_groups
    keys = [table.key_of(pod) for pod in ordered] if judged.verdict is PendingVerdict.IN_A_GROUP else []
    groups = tuple(dict.fromkeys(key.text for key in keys if key is not None))
    reason = Reason(judged.verdict, judged.message, judged.plugins, ordered, served=tuple(profiles), groups=groups)
    oldest = ordered[0]
    helps = judged.verdict in (PendingVerdict.UNSCHEDULABLE, PendingVerdict.GATED, PendingVerdict.PREEMPTING)
    of_claims = judged.verdict is PendingVerdict.ERROR and wants_devices(oldest, cache)
    if time is None or not (helps or of_claims):
        return reason
    served = [PodInfo(pod) for pod in ordered if pod.spec.scheduler_name == oldest.spec.scheduler_name]
    budgets = scenario_ports(objects).budgets
    owners = owners_in(objects.replicasets)
    best = common_change(profiles[oldest.spec.scheduler_name], served, cache, budgets, owners, time)
    return replace(reason, help=best, looked=len(served), left_off=time.left_off)


def counted(reasons: Sequence[Reason]) -> dict[str, int]:
    """How many pods each plugin rejects; a pod that several reject counts for each."""
    found: dict[str, int] = {}
    for reason in reasons:
        for plugin in reason.plugins:
            found[plugin] = found.get(plugin, 0) + len(reason.pods)
    return dict(sorted(found.items(), key=lambda entry: (-entry[1], entry[0])))
