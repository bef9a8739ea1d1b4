"""What the status page asks about pods, answered by a copy of the process (`app.asking`)."""

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, REPLICA_SETS
from kscheduler.app.asking.live_copy import LiveCopy, NoAnswerError
from kscheduler.app.asking.live_questions import LiveQuestions
from kscheduler.app.parts import Parts
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.as_json import suggestion_trees
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.server.status_page.sources import NodeVerdict, Refused, Tree
from kscheduler.whatif.scenario import ClusterObjects, Scenario
from kscheduler.whatif.suggestions.search import suggestions
from kscheduler.whatif.suggestions.suggestion import Suggestion
from kscheduler.whatif.suggestions.trials.trial import Trials

_VERDICTS = msgspec.json.Decoder(list[NodeVerdict])
_TRIED_PODS: Final = 20
"""Of a reason."""
_TRIED_CHANGES: Final = 3
"""Of which the one that frees most is told; the smallest first."""
_CHANGES = msgspec.json.Decoder(dict[str, dict[str, Any]])


class StatusAnswers:
    """Implements `status_page.sources.LiveAnswers`."""

    def __init__(self, parts: Parts, copy: LiveCopy, questions: LiveQuestions) -> None:
        self._parts = parts
        self._copy = copy
        self._questions = questions

    async def explain(self, pod: Pod) -> Tree | Refused:
        """The explanation of one pod as it would be decided now."""
        found = await self._questions.explain(pod.key, "", as_text=False, with_suggestions=not pod.spec.node_name)
        if found.status != HTTPStatus.OK:
            return Refused(f"No answer now: {found.body.decode(errors='replace')}")
        tree: Tree = msgspec.json.decode(found.body)
        return tree

    async def verdicts_on(self, node_name: str, keys: Sequence[str]) -> list[NodeVerdict] | Refused:
        """What the cycle says of these pending pods on one node."""
        body = await self._ask(lambda: msgspec.json.encode([*_verdicts(self._parts, node_name, keys)]))
        return body if isinstance(body, Refused) else _VERDICTS.decode(body)

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> dict[str, Tree] | Refused:
        """For each reason, by the key of its first pod, the change that frees most of its pods."""
        body = await self._ask(lambda: msgspec.json.encode(_helping_changes(self._parts, reasons)))
        return body if isinstance(body, Refused) else _CHANGES.decode(body)

    async def _ask(self, question: Callable[[], bytes]) -> bytes | Refused:
        try:
            return await self._copy.ask(question)
        except NoAnswerError as failure:
            return Refused(f"No answer now: {failure}. Load the page again in a while.")


# --- in the copy: everything below may change what it likes -----------------------------------------------------------


def _pending(parts: Parts, keys: Iterable[str]) -> Iterable[tuple[PodInfo, Profile]]:
    """Those of the pods that are there, without a node, and served; without their nominations."""
    for key in keys:
        pod: Pod | None = parts.informers.informer(PODS).store.get(key)
        profile = None if pod is None else parts.assembly.profiles.get(pod.spec.scheduler_name)
        if pod is None or profile is None or pod.spec.node_name or pod.is_terminal:
            continue
        status = msgspec.structs.replace(pod.status, nominated_node_name="")
        yield PodInfo(msgspec.structs.replace(pod, status=status)), profile


def _helping_changes(parts: Parts, reasons: Iterable[Sequence[str]]) -> dict[str, Tree]:
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


def _verdicts(parts: Parts, node_name: str, keys: Iterable[str]) -> Iterable[NodeVerdict]:
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
