"""ReplicaSets and ReplicationControllers, their older form: a number of pods of a template."""

from collections.abc import Mapping
from functools import partial

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import PODS, ServedResource
from kscheduler.embedded.controllers import reading
from kscheduler.embedded.controllers.engine.plan import Concerned, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import (
    compact,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    pod_of,
    seconds_until_available,
)
from kscheduler.embedded.controllers.workloads.pod_changes import (
    BURST,
    create_pod,
    delete_pod,
    has_labels,
    in_deletion_order,
)
from kscheduler.embedded.objects.store import Key


class ReplicaSetController:
    """Keeps the number of pods of each set."""

    def __init__(self, resource: ServedResource, name: str, component: str) -> None:
        """`resource` is REPLICA_SETS or REPLICATION_CONTROLLERS."""
        self.name = name
        self._resource = resource
        self._component = component

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Sets, and pods that they own or might adopt."""
        return {self._resource: reading.itself, PODS: partial(reading.concerned_owner, self._resource)}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Adopt, create or delete pods, and update the status."""
        plan = Plan()
        replica_set = view.get(self._resource, key)
        if replica_set is None:
            return plan
        claimed = reading.claim(view, replica_set, PODS)
        plan.add(*claimed.updates)
        active = [pod for pod in claimed.values if is_active(pod)]
        if not is_terminating(replica_set):
            self._scale(plan, view, replica_set, active)
        terminating = sum(is_terminating(pod) and not is_finished(pod) for pod in claimed.values)
        plan.set_status(self._resource, replica_set, self._status(plan, view, replica_set, active, terminating))
        return plan

    def _scale(self, plan: Plan, view: View, replica_set: Object, active: list[Object]) -> None:
        spec = replica_set["spec"]
        missing = int(spec.get("replicas", 1)) - len(active)
        if abs(missing) > BURST:
            plan.look_again(0)
        if missing > 0:
            pod = pod_of(spec["template"], replica_set)
            plan.add(*(create_pod(pod, replica_set, self._component) for _ in range(min(missing, BURST))))
        elif missing < 0:
            ordered = in_deletion_order(active, self._related(view, replica_set, active), view.now)
            plan.add(*(delete_pod(pod, replica_set, self._component) for pod in ordered[: min(-missing, BURST)]))

    def _related(self, view: View, replica_set: Object, active: list[Object]) -> list[Object]:
        """The active pods of all sets that belong to the same Deployment."""
        reference = reading.controller_of(replica_set)
        if reference is None:
            return active
        namespace = replica_set["metadata"]["namespace"]
        siblings = [
            sibling
            for sibling in view.in_namespace(self._resource, namespace)
            if (found := reading.controller_of(sibling)) is not None and found["uid"] == reference["uid"]
        ]
        return [pod for sibling in siblings for pod in view.controlled(PODS, sibling) if is_active(pod)]

    def _status(self, plan: Plan, view: View, replica_set: Object, active: list[Object], terminating: int) -> Object:
        spec, before = replica_set["spec"], replica_set.get("status") or {}
        wanted = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        waits = [seconds_until_available(pod, int(spec.get("minReadySeconds", 0)), view.now) for pod in active]
        later = [seconds for seconds in waits if seconds]
        if later:
            plan.look_again(min(later))
        status = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(has_labels(pod, wanted) for pod in active),
            "readyReplicas": sum(is_ready(pod) for pod in active),
            "availableReplicas": waits.count(0.0),
            "observedGeneration": replica_set["metadata"].get("generation", 0),
            "conditions": before.get("conditions", []),
        }
        shown = compact(status, "replicas")
        return (
            shown if self._resource.kind == "ReplicationController" else {**shown, "terminatingReplicas": terminating}
        )
