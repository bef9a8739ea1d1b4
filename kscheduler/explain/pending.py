"""The pending pods of a cluster by reason, each reason with the change that would help most of them.

Pods of one template are judged once, all of them over one copy of the cluster: a thousand replicas cost as much as one.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from kscheduler.answers.suggestions import CommonSuggestion
from kscheduler.api.core import Pod
from kscheduler.config.loader import LoadedConfig
from kscheduler.explain.cluster_answers import PendingPod, PendingPodsAnswer, PendingReason, PendingVerdict
from kscheduler.explain.situation import near_name
from kscheduler.explain.suggestions.as_answer import common_suggestion
from kscheduler.explain.suggestions.for_many import common_change, placement_spec
from kscheduler.explain.suggestions.search_time import SearchTime, SharedTime
from kscheduler.explain.suggestions.suggestion_rules import wants_devices
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.scenario.decide import scenario_ports
from kscheduler.scenario.membership import how_to_follow, unfollowed_group_of
from kscheduler.scenario.owners import owners_in
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving, served_cluster
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.drift.prebind_waits import binding_timeout, waits_of
from kscheduler.scheduling.failure import SCHEDULER_ERROR
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.cache import Cache
from kscheduler.text import without_empty_answer

# Distinct messages to the members of a group that are shown, those of most members first.
_MAX_MESSAGES: Final = 3
# Pods, and pod groups, of a reason that JSON lists; `count` has all.
_MAX_LISTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Judged:
    verdict: PendingVerdict
    message: str
    plugins: tuple[str, ...] = ()


def pending_pods(
    objects: ClusterObjects, served: Serving, where: str, namespace: str = "", *, with_suggestions: bool = True
) -> PendingPodsAnswer:
    """The reasons, those of most pods first; `namespace`: of its pods alone. Raises `ScenarioError`."""
    reasons = _reasons(objects, served, where, namespace, with_suggestions=with_suggestions)
    by_plugin: Counter[str] = Counter()
    for reason in reasons:
        by_plugin.update(dict.fromkeys(reason.plugins, reason.count))
    return PendingPodsAnswer(
        count=sum(each.count for each in reasons),
        by_plugin=dict(sorted(by_plugin.items(), key=lambda entry: (-entry[1], entry[0]))),
        reasons=tuple(reasons),
        emulation_version=served.config.gates.version,
        notes=(),
    )


def listed(answer: PendingPodsAnswer) -> PendingPodsAnswer:
    """The answer with as many names as JSON has."""
    reasons = (
        msgspec.structs.replace(each, pods=each.pods[:_MAX_LISTED], pod_groups=each.pod_groups[:_MAX_LISTED])
        for each in answer.reasons
    )
    return msgspec.structs.replace(answer, reasons=tuple(reasons))


def _reasons(
    objects: ClusterObjects, served: Serving, where: str, namespace: str, *, with_suggestions: bool
) -> list[PendingReason]:
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
        _reason(judged, pods, profiles, cache, objects, served.config, time)
        for judged, pods in found.items()
        for time in (times.part() if with_suggestions else None,)
    ]
    return sorted(reasons, key=lambda each: (-each.count, each.message))


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
        message = condition.message if condition is not None and condition.status == "False" else ""
        reported[without_empty_answer(message)] += 1
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
    waits = f"fits now: scheduler {scheduler_name} has it in its queue or in backoff"
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
        return _Judged(PendingVerdict.FITS, "fits now: it is in the queue or in backoff, or waits for a plugin")
    makes_room = record.post_filter is not None and record.post_filter.is_success and record.nominated_node_name
    verdict = PendingVerdict.PREEMPTING if makes_room else PendingVerdict.UNSCHEDULABLE
    return _Judged(verdict, record.message, tuple(sorted(record.diagnosis.plugins)))


def _reason(
    judged: _Judged,
    pods: list[Pod],
    profiles: Profiles,
    cache: Cache,
    objects: ClusterObjects,
    config: LoadedConfig,
    time: SearchTime | None,
) -> PendingReason:
    """`time`: for which a change is looked for; `None`: nobody wants one."""
    ordered = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "~", pod.key))
    keys = (cache.pod_groups.key_of(pod) for pod in ordered if judged.verdict is PendingVerdict.IN_A_GROUP)
    created = (pod.metadata.creation_timestamp for pod in ordered if pod.metadata.creation_timestamp)
    suggestion = None if time is None else _suggestion(judged, ordered, profiles, cache, objects, config, time)
    return PendingReason(
        verdict=judged.verdict,
        message=judged.message,
        plugins=judged.plugins,
        pod_groups=tuple(dict.fromkeys(key.text for key in keys if key is not None)),
        count=len(ordered),
        since=next(created, None),
        pods=tuple(
            PendingPod(
                namespace=pod.metadata.namespace,
                name=pod.metadata.name,
                scheduler_name=pod.spec.scheduler_name,
                priority=pod.spec.priority or 0,
                creation_timestamp=pod.metadata.creation_timestamp,
            )
            for pod in ordered
        ),
        suggestion=suggestion,
        left_off=(time.left_off or None) if time is not None else None,
    )


def _suggestion(
    judged: _Judged,
    ordered: Sequence[Pod],
    profiles: Profiles,
    cache: Cache,
    objects: ClusterObjects,
    config: LoadedConfig,
    time: SearchTime,
) -> CommonSuggestion | None:
    """The change for most of the pods that are alike. `time`: says afterwards whether the search was left off."""
    oldest = ordered[0]
    helps = judged.verdict in (PendingVerdict.UNSCHEDULABLE, PendingVerdict.GATED, PendingVerdict.PREEMPTING)
    of_claims = judged.verdict is PendingVerdict.ERROR and wants_devices(oldest, cache)
    if not (helps or of_claims):
        return None
    served = [PodInfo(pod) for pod in ordered if pod.spec.scheduler_name == oldest.spec.scheduler_name]
    budgets = scenario_ports(objects).budgets
    owners = owners_in(objects.replicasets)
    best = common_change(profiles[oldest.spec.scheduler_name], served, cache, budgets, owners, time)
    return None if best is None else common_suggestion(best, len(served), objects, config)
