"""StatefulSets: pods with their own names and storage, created in order and replaced from the last to the first.

OrderedReady   a pod is created, deleted or replaced when all before it are available
Parallel       pods are created and deleted at once; replacement is still one by one
partition      pods below it keep their revision
"""

from collections.abc import Mapping
from functools import partial

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import PODS, STATEFUL_SETS, ServedResource
from kscheduler.embedded.controllers import reading
from kscheduler.embedded.controllers.engine.plan import Concerned, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import (
    REVISION_LABEL,
    compact,
    is_finished,
    is_ready,
    is_terminating,
    phase_of,
    seconds_until_available,
)
from kscheduler.embedded.controllers.workloads import pod_changes
from kscheduler.embedded.controllers.workloads.stateful_pods import (
    claims_deleted_with,
    creations,
    deletion,
    missing_claims,
    ordinal_of,
    stateful_pod,
)
from kscheduler.embedded.objects.store import Key


class StatefulSetController:
    """Keeps the pods of each set."""

    name = "statefulset-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Sets, and pods that they own or might adopt."""
        return {STATEFUL_SETS: reading.itself, PODS: partial(reading.concerned_owner, STATEFUL_SETS)}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Plan a step, and the status."""
        plan = Plan()
        stateful_set = view.get(STATEFUL_SETS, key)
        if stateful_set is None or is_terminating(stateful_set):
            return plan  # a new revision would keep a foreground deletion waiting forever
        claimed = reading.claim(view, stateful_set, PODS)
        plan.add(*claimed.updates)
        step = _StatefulSetStep(view, stateful_set, claimed.values, plan)
        step.take()
        step.write_status()
        return plan


class _StatefulSetStep:
    """A step of a set."""

    def __init__(self, view: View, stateful_set: Object, pods: list[Object], plan: Plan) -> None:
        self._view = view
        self._set = stateful_set
        self._spec = stateful_set["spec"]
        self._plan = plan
        self._history = pod_changes.brought_up_to_date(plan, view, stateful_set)
        self._current = self._current_revision()
        numbered = {number: pod for pod in pods if (number := ordinal_of(pod, stateful_set)) is not None}
        first = int((self._spec.get("ordinals") or {}).get("start", 0))
        self._range = range(first, first + int(self._spec.get("replicas", 1)))
        self._replicas = {number: numbered.get(number) for number in self._range}
        self._condemned = [numbered[number] for number in sorted(numbered, reverse=True) if number not in self._range]
        self._is_ordered = self._spec.get("podManagementPolicy") != "Parallel"

    def take(self) -> None:
        """Take the first step that applies: create missing pods, delete surplus pods, replace outdated pods."""
        if self._fill() and self._shrink():
            self._replace()

    def _current_revision(self) -> Object:
        name = (self._set.get("status") or {}).get("currentRevision")
        known = (revision for revision in self._history.revisions if pod_changes.name_of(revision) == name)
        return next(known, self._history.update)

    # --- the three steps; each returns whether the next may be taken --------------------------------------------------

    def _fill(self) -> bool:
        for ordinal, pod in self._replicas.items():
            is_settled = self._settle(ordinal, pod)
            if self._is_ordered and not is_settled:
                return False
        return True

    def _settle(self, ordinal: int, pod: Object | None) -> bool:
        """Handle an ordinal; whether its pod exists and is available."""
        if pod is None:
            made = stateful_pod(self._set, self._revision_for(ordinal), ordinal)
            self._plan.add(*creations(self._view, self._set, made))
            return False
        if is_finished(pod):
            if not is_terminating(pod):
                self._plan.add(deletion(self._set, pod))
            return False
        if phase_of(pod) == "Pending":
            self._plan.add(*missing_claims(self._view, self._set, pod["metadata"]["name"]))
        return not is_terminating(pod) and self._is_available(pod)

    def _shrink(self) -> bool:
        sick = next((pod for pod in self._in_order() if not self._is_available(pod)), None)
        for pod in self._condemned:
            if is_terminating(pod):
                if self._is_ordered:
                    return False
                continue
            if self._is_ordered and pod is not sick and not self._is_available(pod):
                return False
            self._plan.add(*claims_deleted_with(self._view, self._set, pod), deletion(self._set, pod))
            if self._is_ordered:
                return False
        return True

    def _replace(self) -> None:
        strategy = self._spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
        update = pod_changes.name_of(self._history.update)
        for ordinal in reversed(self._range[partition:]):
            pod = self._replicas[ordinal]
            if pod is None:
                return
            if _revision_of(pod) != update and not is_terminating(pod):
                self._plan.add(deletion(self._set, pod))
                return
            if is_terminating(pod) or not self._is_available(pod):
                return

    def _in_order(self) -> list[Object]:
        return [*(pod for pod in self._replicas.values() if pod is not None), *reversed(self._condemned)]

    def _revision_for(self, ordinal: int) -> Object:
        """The revision of an ordinal; below the partition a pod that is created again keeps the set's old revision."""
        strategy = self._spec.get("updateStrategy") or {}
        partition = int((strategy.get("rollingUpdate") or {}).get("partition", 0))
        is_kept = strategy.get("type") == "RollingUpdate" and ordinal < self._range.start + partition
        return self._current if is_kept else self._history.update

    def _is_available(self, pod: Object) -> bool:
        seconds = seconds_until_available(pod, int(self._spec.get("minReadySeconds", 0)), self._view.now)
        if seconds:
            self._plan.look_again(seconds)
        return phase_of(pod) == "Running" and seconds == 0.0

    # --- status -------------------------------------------------------------------------------------------------------

    def write_status(self) -> None:
        """Write the counts; the update revision becomes the current one when every pod has it."""
        pods = self._in_order()
        update, current = pod_changes.name_of(self._history.update), pod_changes.name_of(self._current)
        alive = [pod for pod in pods if not is_terminating(pod)]
        status = {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": sum(phase_of(pod) == "Running" and is_ready(pod) for pod in pods),
            "availableReplicas": sum(self._is_available(pod) for pod in pods),
            "currentReplicas": sum(_revision_of(pod) == current for pod in alive),
            "updatedReplicas": sum(_revision_of(pod) == update for pod in alive),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": self._history.collisions,
        }
        is_rolling = (self._spec.get("updateStrategy") or {}).get("type") != "OnDelete"
        counts = {status["updatedReplicas"], status["readyReplicas"], status["replicas"]}
        if is_rolling and counts == {len(self._range)}:
            status["currentReplicas"], status["currentRevision"] = status["updatedReplicas"], update
        in_use = {update, current, *(_revision_of(pod) for pod in pods)}
        pod_changes.cut(self._plan, self._set, self._history, in_use)
        always = ("replicas", "collisionCount", "availableReplicas")
        self._plan.set_status(STATEFUL_SETS, self._set, compact(status, *always))


def _revision_of(pod: Object) -> str:
    return reading.labels_of(pod).get(REVISION_LABEL, "")
