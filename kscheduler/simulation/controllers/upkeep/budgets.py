"""PodDisruptionBudgets: how many pods there should be, how many are healthy, how many may go.

What there should be is the size that the pods' owners ask for where the budget speaks of a share or of what may be
missing; else it is the pods that there are. A pod whose eviction was allowed and which is still there counts as gone
for two minutes.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from kscheduler.simulation.controllers.engine.plan import Concerned, News, Plan
from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.controllers.reading import owners
from kscheduler.simulation.controllers.reading.conditions import find, scaled
from kscheduler.simulation.controllers.reading.pods import is_finished, is_ready, is_terminating
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.durations import parse_time, timestamp
from kscheduler.simulation.kinds.resources import BUDGETS, DEPLOYMENTS, PODS, ServedResource
from kscheduler.simulation.kinds.selectors import labels_match
from kscheduler.simulation.objects.store import Change, Key

_COMPONENT = "controllermanager"
_GOING_SECONDS = 120
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB cannot "
    "be calculated correctly, which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


class UnknownScaleError(Exception):
    """A pod's owner is not there, or has no size."""


class DisruptionController:
    """Counts budgets."""

    name = "disruption-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Budgets, and the pods that they select or selected."""
        return {BUDGETS: owners.itself, PODS: self._concerned_by_pod}

    def _concerned_by_pod(self, view: View, change: Change) -> Iterator[Key]:
        values = [change.record.value, *([change.previous.value] if change.previous else [])]
        for budget in view.in_namespace(BUDGETS, change.key[0]):
            selector = (budget.get("spec") or {}).get("selector")
            if any(labels_match(selector, owners.labels_of(value)) for value in values):
                yield owners.key_of(budget)

    def reconcile(self, view: View, key: Key) -> Plan:
        """Count one budget."""
        plan = Plan()
        budget = view.get(BUDGETS, key)
        if budget is None:
            return plan
        spec = budget.get("spec") or {}
        inside = view.in_namespace(PODS, key[0])
        selected = [pod for pod in inside if labels_match(spec.get("selector"), owners.labels_of(pod))]
        pods = [pod for pod in selected if not is_finished(pod)]
        if not pods:
            plan.add(News(budget, _COMPONENT, "NoPods", "No matching pods found"))
        try:
            expected, desired = self._expected(plan, view, budget, pods)
        except UnknownScaleError as error:
            self._write_failure(plan, view, budget, str(error))
            return plan
        disrupted = self._disrupted(plan, view, budget, pods)
        healthy = sum(_is_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        generation = budget["metadata"].get("generation", 0)
        status: Object = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        reason = "SufficientPods" if allowed else "InsufficientPods"
        status["conditions"] = _allowed_condition(budget, view, reason, "", is_allowed=bool(allowed))
        plan.set_status(BUDGETS, budget, status)
        return plan

    def _expected(self, plan: Plan, view: View, budget: Object, pods: list[Object]) -> tuple[int, int]:
        """(pods that there should be, healthy pods that the budget wants). Raises UnknownScaleError."""
        spec = budget.get("spec") or {}
        if spec.get("maxUnavailable") is not None:
            expected = self._scale(plan, view, budget, pods)
            return expected, max(expected - scaled(spec["maxUnavailable"], expected, round_up=True), 0)
        least = spec.get("minAvailable", 1)
        if isinstance(least, int):
            return len(pods), least
        expected = self._scale(plan, view, budget, pods)
        return expected, scaled(least, expected, round_up=True)

    def _scale(self, plan: Plan, view: View, budget: Object, pods: list[Object]) -> int:
        """The size of all the pods' owners together."""
        sizes: dict[str, int] = {}
        for pod in pods:
            reference = owners.controller_of(pod)
            if reference is None:
                plan.add(News(budget, _COMPONENT, "UnmanagedPods", _UNMANAGED, is_warning=True))
            elif reference["uid"] not in sizes:
                uid, size = _owner_scale(view, pod, reference)
                sizes[reference["uid"]] = 0  # known: a Deployment's ReplicaSets share the Deployment's size
                sizes[uid] = size
        return sum(sizes.values())

    def _disrupted(self, plan: Plan, view: View, budget: Object, pods: list[Object]) -> dict[str, str]:
        """Pods whose eviction was allowed a moment ago and that are still there."""
        noted = (budget.get("status") or {}).get("disruptedPods") or {}
        found = {}
        for pod in pods:
            moment = parse_time(noted.get(pod["metadata"]["name"]))
            if moment is None or is_terminating(pod):
                continue
            left = (moment + timedelta(seconds=_GOING_SECONDS) - view.now).total_seconds()
            if left > 0:
                found[pod["metadata"]["name"]] = noted[pod["metadata"]["name"]]
                plan.look_again(left)
        return found

    def _write_failure(self, plan: Plan, view: View, budget: Object, why: str) -> None:
        """Nothing may go while nobody knows how many there should be."""
        text = f"Failed to calculate the number of expected pods: {why}"
        plan.add(News(budget, _COMPONENT, "CalculateExpectedPodCountFailed", text, is_warning=True))
        status = {**(budget.get("status") or {}), "disruptionsAllowed": 0}
        for field in ("currentHealthy", "desiredHealthy", "expectedPods"):
            status.setdefault(field, 0)
        status["observedGeneration"] = budget["metadata"].get("generation", 0)
        status["conditions"] = _allowed_condition(budget, view, "SyncFailed", why, is_allowed=False)
        plan.set_status(BUDGETS, budget, status)


def _is_healthy(pod: Object) -> bool:
    return is_ready(pod) and not is_terminating(pod)


def _owner_scale(view: View, pod: Object, reference: Object) -> tuple[str, int]:
    """(UID, size) of whoever owns the pod; for a Deployment's ReplicaSet, of the Deployment."""
    resource = owners.owner_resource(reference)
    namespace = pod["metadata"]["namespace"]
    owner = view.get(resource, (namespace, reference["name"])) if resource is not None else None
    if resource is None or owner is None or owner["metadata"]["uid"] != reference["uid"]:
        raise UnknownScaleError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
    above = owners.owner_key(owner, DEPLOYMENTS)
    deployment = view.get(DEPLOYMENTS, above) if above is not None else None
    scaled_owner = deployment or owner
    if "scale" not in resource.subresources:
        kind = f"{resource.plural}.{resource.group}".removesuffix(".")
        raise UnknownScaleError(f"{kind} does not implement the scale subresource")
    return scaled_owner["metadata"]["uid"], int(scaled_owner["spec"].get("replicas", 1))


def _allowed_condition(budget: Object, view: View, reason: str, message: str, *, is_allowed: bool) -> list[Object]:
    conditions: list[Object] = list((budget.get("status") or {}).get("conditions") or [])
    known = find(conditions, "DisruptionAllowed")
    status = "True" if is_allowed else "False"
    made = {
        "type": "DisruptionAllowed",
        "status": status,
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": timestamp(view.now),
        "reason": reason,
        "message": message,
    }
    if known is None:
        return [*conditions, made]
    if known["status"] == status:
        made["lastTransitionTime"] = known["lastTransitionTime"]
    return [made if one is known else one for one in conditions]
