"""PodDisruptionBudgets: expected pods, healthy pods, allowed disruptions.

If the budget has a percentage or maxUnavailable, the expected number is the sum of the sizes of the pods' owners,
otherwise the number of pods. A pod whose eviction was allowed counts as gone for two minutes, even if it still exists.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time, timestamp
from kscheduler.api.machinery.resources import BUDGETS, DEPLOYMENTS, PODS, ServedResource
from kscheduler.api.machinery.selectors import labels_match
from kscheduler.embedded.controllers import reading
from kscheduler.embedded.controllers.engine.plan import Concerned, News, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import find, is_finished, is_ready, is_terminating, scaled
from kscheduler.embedded.objects.store import Change, Key

_COMPONENT = "controllermanager"
_GOING_SECONDS = 120
_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB cannot "
    "be calculated correctly, which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


class UnknownScaleError(Exception):
    """A pod's owner does not exist, or has no size."""


class DisruptionController:
    """Keeps the status of budgets."""

    name = "disruption-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Budgets, and pods that they select or selected."""
        return {BUDGETS: reading.itself, PODS: self._concerned_by_pod}

    def _concerned_by_pod(self, view: View, change: Change) -> Iterator[Key]:
        values = [change.record.value, *([change.previous.value] if change.previous else [])]
        for budget in view.in_namespace(BUDGETS, change.key[0]):
            selector = (budget.get("spec") or {}).get("selector")
            if any(labels_match(selector, reading.labels_of(value)) for value in values):
                yield reading.key_of(budget)

    def reconcile(self, view: View, key: Key) -> Plan:
        """Update the status of a budget."""
        plan = Plan()
        budget = view.get(BUDGETS, key)
        if budget is None:
            return plan
        spec = budget.get("spec") or {}
        inside = view.in_namespace(PODS, key[0])
        selected = [pod for pod in inside if labels_match(spec.get("selector"), reading.labels_of(pod))]
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
        """(expected pods, healthy pods that the budget demands). Raises UnknownScaleError."""
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
        """The sum of the sizes of the pods' owners."""
        sizes: dict[str, int] = {}
        for pod in pods:
            reference = reading.controller_of(pod)
            if reference is None:
                plan.add(News(budget, _COMPONENT, "UnmanagedPods", _UNMANAGED, is_warning=True))
            elif reference["uid"] not in sizes:
                uid, size = _owner_scale(view, pod, reference)
                sizes[reference["uid"]] = 0  # already counted: a Deployment's ReplicaSets share the Deployment's size
                sizes[uid] = size
        return sum(sizes.values())

    def _disrupted(self, plan: Plan, view: View, budget: Object, pods: list[Object]) -> dict[str, str]:
        """Pods whose eviction was allowed recently and that still exist."""
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

    def _write_failure(self, plan: Plan, view: View, budget: Object, reason: str) -> None:
        """Allow no disruption while the expected number is unknown."""
        text = f"Failed to calculate the number of expected pods: {reason}"
        plan.add(News(budget, _COMPONENT, "CalculateExpectedPodCountFailed", text, is_warning=True))
        status = {**(budget.get("status") or {}), "disruptionsAllowed": 0}
        for field in ("currentHealthy", "desiredHealthy", "expectedPods"):
            status.setdefault(field, 0)
        status["observedGeneration"] = budget["metadata"].get("generation", 0)
        status["conditions"] = _allowed_condition(budget, view, "SyncFailed", reason, is_allowed=False)
        plan.set_status(BUDGETS, budget, status)


def _is_healthy(pod: Object) -> bool:
    return is_ready(pod) and not is_terminating(pod)


def _owner_scale(view: View, pod: Object, reference: Object) -> tuple[str, int]:
    """(UID, size) of the pod's owner; for a Deployment's ReplicaSet, of the Deployment."""
    resource = reading.owner_resource(reference)
    namespace = pod["metadata"]["namespace"]
    owner = view.get(resource, (namespace, reference["name"])) if resource is not None else None
    if resource is None or owner is None or owner["metadata"]["uid"] != reference["uid"]:
        raise UnknownScaleError(f'found no controllers for pod "{pod["metadata"]["name"]}"')
    above = reading.owner_key(owner, DEPLOYMENTS)
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
    return [made if condition is known else condition for condition in conditions]
