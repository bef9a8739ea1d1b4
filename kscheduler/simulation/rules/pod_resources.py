"""Rules of what a pod asks for as a whole (`spec.resources`), beside what its containers ask for."""

from kscheduler.cel.kubernetes.quantities import QuantityTextError
from kscheduler.simulation.kinds import field_rules as rules
from kscheduler.simulation.kinds import pod_amounts
from kscheduler.simulation.kinds.api_errors import FieldCause, Object
from kscheduler.simulation.rules import containers


def validate_pod_resources(spec: Object, path: str) -> list[FieldCause]:
    """Pod-level limits and requests: which resources, and that they hold what the containers ask for."""
    required = spec.get("resources")
    if required is None:
        return []
    where = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [rules.forbidden_field(where, "may not be set for a windows pod")]
    causes = _claims(required, where) + containers.resources(required, where)
    for field in ("limits", "requests"):
        for name in required.get(field) or {}:
            if not pod_amounts.may_be_pod_level(name):
                supported = pod_amounts.SUPPORTED_AT_POD_LEVEL
                causes.append(rules.unsupported(f"{where}.{field}[{name}]", name, supported))
    try:
        return causes + _holds_containers(spec, required, where)
    except QuantityTextError:
        return causes  # the text itself is refused where it stands


def _claims(required: Object, where: str) -> list[FieldCause]:
    if not required.get("claims"):
        return []
    return [rules.forbidden_field(f"{where}.claims", "claims may not be set for Resources at pod-level")]


def _holds_containers(spec: Object, required: Object, where: str) -> list[FieldCause]:
    """Requests hold those of all containers together, limits of hugepages too; other limits those of each alone."""
    causes: list[FieldCause] = []
    own = {field: pod_amounts.read(required.get(field) or {}) for field in ("requests", "limits")}
    for field, amounts in own.items():
        for name, together in pod_amounts.of_containers(spec, field).items():
            if field == "limits" and not name.startswith(pod_amounts.HUGE_PAGES):
                continue
            if name in amounts and together.fresh().compare(amounts[name].fresh()) > 0:
                reason = f"must be greater than or equal to aggregate container {field} of {together.text()}"
                causes.append(rules.bad_value(f"{where}.{field}[{name}]", amounts[name].text(), reason))
    for place, container in enumerate(spec.get("containers") or ()):
        limits = pod_amounts.read((container.get("resources") or {}).get("limits") or {})
        for name, limit in limits.items():
            if name in own["limits"] and limit.fresh().compare(own["limits"][name].fresh()) > 0:
                reason = f"must be less than or equal to pod limits of {own['limits'][name].text()}"
                field = f"{where}.containers[{place}][{name}].limits"
                causes.append(rules.bad_value(field, limit.text(), reason))
    return causes
