"""ReplicaSets, and ReplicationControllers, which are the same with an older name: so many pods of one template."""

from collections.abc import Mapping
from functools import partial

from kscheduler.simulation.controllers.engine.plan import Concerned, Plan
from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.controllers.reading import owners
from kscheduler.simulation.controllers.reading.conditions import compact
from kscheduler.simulation.controllers.reading.pods import (
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    seconds_until_available,
)
from kscheduler.simulation.controllers.reading.templates import pod_of
from kscheduler.simulation.controllers.workloads.deletion_order import in_deletion_order
from kscheduler.simulation.controllers.workloads.pod_changes import BURST, create_pod, delete_pod, has_labels
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.resources import PODS, ServedResource
from kscheduler.simulation.objects.store import Key


class ReplicaSetController:
    """Keeps the number of pods of each set."""

    def __init__(self, resource: ServedResource, name: str, component: str) -> None:
        """`resource` is REPLICA_SETS or REPLICATION_CONTROLLERS."""
        self.name = name
        self._resource = resource
        self._component = component

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Sets, and pods that are theirs or might be."""
        return {self._resource: owners.itself, PODS: partial(owners.concerned_owner, self._resource)}

    def reconcile(self, view: View, key: Key) -> Plan:
        """Adopt, make or delete pods, and count them."""
        plan = Plan()
        replica_set = view.get(self._resource, key)
        if replica_set is None:
            return plan
        claimed = owners.claim(view, replica_set, PODS)
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
        reference = owners.controller_of(replica_set)
        if reference is None:
            return active
        namespace = replica_set["metadata"]["namespace"]
        siblings = [
            one
            for one in view.in_namespace(self._resource, namespace)
            if (found := owners.controller_of(one)) is not None and found["uid"] == reference["uid"]
        ]
        return [pod for one in siblings for pod in view.controlled(PODS, one) if is_active(pod)]

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
