"""Rules of LimitRanges: which amounts may stand in them, and that they do not contradict each other."""

from collections.abc import Iterator

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.validation.containers import is_extended
from kscheduler.cel.kubernetes.quantities import Quantity, read

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_OF_CONTAINERS = ("default", "defaultRequest")
# What must not be greater than what, the field that is blamed, the field whose value is shown, and the text.
_ORDERED = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def default_limit_range(value: Object) -> None:
    """Fill in defaults of containers: limits from `max`, requests from those limits, or else from `min`."""
    for item in (value.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        for field, amounts in (("default", limits), ("defaultRequest", requests)):
            if amounts:
                item[field] = amounts


def validate_limit_range(value: Object) -> list[FieldCause]:
    """A LimitRange."""
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for place, item in enumerate((value.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{place}]", item.get("type") or ""
        causes += _type(f"{path}.type", kind)
        if kind in seen:
            causes.append(rules.duplicate(f"{path}.type", kind))
        seen.add(kind)
        if kind == "Pod":
            reason = "may not be specified when `type` is 'Pod'"
            causes += [rules.forbidden_field(f"{path}.{field}", reason) for field in _OF_CONTAINERS if item.get(field)]
        if kind == "PersistentVolumeClaim" and not any(
            "storage" in (item.get(field) or {}) for field in ("min", "max")
        ):
            reason = "either minimum or maximum storage value is required, but neither was provided"
            causes.append(rules.required(f"{path}.limits", reason))
        causes += _amounts(item, path)
    return causes


def _type(field: str, kind: str) -> list[FieldCause]:
    causes = rules.qualified_name(field, kind)
    if not causes and "/" not in kind and kind not in _TYPES:
        causes.append(rules.bad_value(field, kind, "must be a standard limit type or fully qualified"))
    return causes


def _amounts(item: Object, path: str) -> Iterator[FieldCause]:
    fields = ("min", "max", *(() if item.get("type") == "Pod" else _OF_CONTAINERS))
    given = {field: {name: read(amount) for name, amount in (item.get(field) or {}).items()} for field in fields}
    for name in sorted({name for amounts in given.values() for name in amounts}):
        for lesser, greater, blamed, shown, text in _ORDERED:
            less, more = (given.get(field, {}).get(name) for field in (lesser, greater))
            if less is not None and more is not None and _compared(less, more) > 0:
                reason = text.format(less.text(), more.text())
                yield rules.bad_value(f"{path}.{blamed}[{name}]", given[shown][name].text(), reason)
        limit, request = (given.get(field, {}).get(name) for field in _OF_CONTAINERS)
        is_whole = is_extended(name) or name.startswith("hugepages-")
        if is_whole and limit is not None and request is not None and _compared(limit, request):
            reason = f"default value {limit.text()} must equal to defaultRequest value {request.text()} in {name}"
            yield rules.bad_value(f"{path}.defaultRequest[{name}]", request.text(), reason)
    for name, ratio in sorted((item.get("maxLimitRequestRatio") or {}).items()):
        if read(ratio).as_float() < 1:
            yield rules.bad_value(f"{path}.maxLimitRequestRatio[{name}]", ratio, f"ratio {ratio} is less than 1")


def _compared(one: Quantity, other: Quantity) -> int:
    return one.fresh().compare(other.fresh())
