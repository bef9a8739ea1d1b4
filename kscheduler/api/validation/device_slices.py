"""Rules of slices of devices and of taint rules: resource.k8s.io/v1."""

import re
from typing import Any

from kscheduler.api import quantity
from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.validation import device_parts as parts
from kscheduler.api.validation.device_parts import Causes
from kscheduler.api.validation.placement import validate_node_selector

_MAX_DEVICES, _MAX_SPECIAL_DEVICES = 128, 64
_MAX_ENTRIES = 32
_MAX_LIST_VALUES = 48
_MAX_TAINTS = 16
_MAX_COUNTER_SETS, _MAX_COUNTERS = 8, 32
_MAX_CONSUMED_SETS = 2
_LONGEST_VALUE = 64
_LISTS = ("bools", "ints", "strings", "versions")
_SCALARS = ("bool", "int", "string", "version")
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_NUMBER, _PRE = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRE}(\.{_PRE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
)
_NO_SEMVER = "must be a string compatible with semver.org spec 2.0.0"
_SHORT_SEMVER = re.compile(_SEMVER.pattern.replace(r"[1-9]\d*", r"[1-9]\d{0,17}"), re.ASCII)


def validate_slice(value: Object, *, is_strict: bool = False) -> Causes:
    """All violated rules of a slice. `is_strict`: as servers of 1.38 look at devices."""
    spec = value.get("spec") or {}
    pool, devices = spec.get("pool") or {}, spec.get("devices") or []
    causes = parts.driver(spec.get("driver") or "", "spec.driver")
    causes += parts.pool(pool.get("name") or "", "spec.pool.name")
    if (pool.get("resourceSliceCount") or 0) <= 0:
        number = pool.get("resourceSliceCount") or 0
        causes.append(rules.bad_value("spec.pool.resourceSliceCount", number, "must be greater than zero"))
    if (pool.get("generation") or 0) < 0:
        reason = "must be greater than or equal to zero"
        causes.append(rules.bad_value("spec.pool.generation", pool["generation"], reason))
    causes += _place(spec, "spec", _PLACES, "exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                     "`perDeviceNodeSelection` is required")  # fmt: skip
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        causes.append(rules.bad_value("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    most = _MAX_SPECIAL_DEVICES if any(map(_is_special, devices)) else _MAX_DEVICES

    def device(one: Object, path: str) -> Causes:
        return _device(one, path, is_placed=bool(spec.get("perDeviceNodeSelection")), is_strict=is_strict)

    causes += parts.each_once(devices, "spec.devices", most, device, _name)
    sets = spec.get("sharedCounters")
    return causes + parts.each_once(sets, "spec.sharedCounters", _MAX_COUNTER_SETS, _counter_set, _name)


def validate_slice_update(old: Object, new: Object) -> Causes:
    """A slice stays with its driver, its pool and its node."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    pools = [(spec.get("pool") or {}).get("name") for spec in (before, after)]
    causes = [rules.bad_value("spec.pool.name", pools[1], "field is immutable")] if pools[0] != pools[1] else []
    changed = (field for field in ("driver", "nodeName") if before.get(field) != after.get(field))
    return [*causes, *(rules.bad_value(f"spec.{field}", after.get(field), "field is immutable") for field in changed)]


def has_same_devices(old: Object, new: Object) -> bool:
    """Whether the devices of a slice are those that were stored before, which stay valid."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return all(before.get(name) == after.get(name) for name in ("devices", "perDeviceNodeSelection"))


def validate_taint_rule(value: Object) -> Causes:
    """All violated rules of a rule that taints devices."""
    spec = value.get("spec") or {}
    selector, path = spec.get("deviceSelector") or {}, "spec.deviceSelector"
    causes: Causes = []
    if selector.get("driver") is not None:
        causes += parts.driver(selector["driver"], f"{path}.driver")
    if selector.get("pool") is not None:
        causes += parts.pool(selector["pool"], f"{path}.pool")
    if selector.get("device") is not None:
        causes += rules.dns_label(f"{path}.device", selector["device"])
    return causes + parts.taint(spec.get("taint") or {}, "spec.taint")


def _name(value: Object) -> str:
    return str(value.get("name") or "")


def _is_special(device: Object) -> bool:
    """Whether the device makes its slice a small one: by taints, counters or lists among its attributes."""
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(name in attribute for attribute in (device.get("attributes") or {}).values() for name in _LISTS)


def _place(value: Object, path: str, fields: tuple[str, ...], required: str, *, is_strict: bool = False) -> Causes:
    """Exactly one of the fields says on which nodes devices are."""
    causes: Causes = []
    given: list[str] = []
    for field in fields:
        found = value.get(field)
        if found is None:
            continue
        if found is False:
            reason = "must be either unset or set to true"
            causes.append(rules.bad_value(f"{path}.{field}", found, reason))
            continue
        if found == "":
            reason = "must be either unset or set to a non-empty string" if path == "spec" else "must not be empty"
            causes.append(rules.bad_value(f"{path}.{field}", found, reason))
            continue
        given.append(f"`{field}`")
        if field == "nodeName":
            causes += rules.subdomain(f"{path}.{field}", found)
        elif field == "nodeSelector":
            causes += _node_selector(found, f"{path}.{field}", one_term=is_strict or path == "spec")
    if not given:
        causes.append(rules.required(path, required))
    elif len(given) > 1:
        more = ", but multiple fields are set" if path == "spec" else ""
        causes.append(rules.bad_value(path, f"{{{', '.join(given)}}}", f"{required}{more}"))
    return causes


def _node_selector(selector: Object, path: str, *, one_term: bool) -> Causes:
    causes, terms = validate_node_selector(selector, path), selector.get("nodeSelectorTerms") or []
    if one_term and len(terms) != 1:
        reason = "must have exactly one node selector term"
        causes.append(rules.bad_value(f"{path}.nodeSelectorTerms", terms, reason))
    return causes


def _device(device: Object, path: str, *, is_placed: bool, is_strict: bool) -> Causes:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    causes = rules.dns_label(f"{path}.name", _name(device))
    if len(attributes) + len(capacity) > _MAX_ENTRIES:
        reason = f"the total number of attributes and capacities must not exceed {_MAX_ENTRIES}"
        causes.append(rules.bad_value(path, len(attributes) + len(capacity), reason))
    values = sum(max(sum(len(one.get(name) or ()) for name in _LISTS), 1) for one in attributes.values())
    if values > _MAX_LIST_VALUES:
        reason = f"the total number of attribute values must not exceed {_MAX_LIST_VALUES}"
        causes.append(rules.bad_value(path, values, reason))
    for name, attribute in attributes.items():
        causes += parts.qualified_name(name, f"{path}.attributes", is_strict=is_strict)
        causes += _attribute(attribute, f"{path}.attributes[{name}]", is_strict=is_strict)
    for name, amount in capacity.items():
        causes += parts.qualified_name(name, f"{path}.capacity", is_strict=is_strict)
        causes += _capacity(amount, f"{path}.capacity[{name}]", is_shared=bool(device.get("allowMultipleAllocations")))
    causes += parts.each(device.get("taints"), f"{path}.taints", _MAX_TAINTS, parts.taint)
    causes += parts.each_once(
        device.get("consumesCounters"), f"{path}.consumesCounters", _MAX_CONSUMED_SETS, _consumption, _counter_set_name
    )
    causes += _device_place(device, path, is_placed=is_placed, is_strict=is_strict)
    return causes + parts.binding_conditions(device, path)


def _device_place(device: Object, path: str, *, is_placed: bool, is_strict: bool) -> Causes:
    fields = _PLACES[:3]
    of_slice = "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    if is_placed:
        required = f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when {of_slice}"
        return _place(device, path, fields, required, is_strict=is_strict)
    if all(device.get(field) is None for field in fields):
        return []
    reason = f"`nodeName`, `nodeSelector` and `allNodes` can only be set if {of_slice}"
    return [rules.bad_value(path, None, reason)]


def _attribute(attribute: Object, path: str, *, is_strict: bool) -> Causes:
    causes: Causes = []
    semver = _SHORT_SEMVER if is_strict else _SEMVER
    texts = [(f"{path}.{name}", attribute[name]) for name in ("string", "version") if attribute.get(name) is not None]
    for name in ("strings", "versions"):
        texts += [(f"{path}.{name}[{place}]", text) for place, text in enumerate(attribute.get(name) or ())]
    for where, text in texts:
        if ".version" in where.removeprefix(path) and not semver.fullmatch(text):
            reason = f"{_NO_SEMVER}, with at most 18 digits in numbers" if is_strict else _NO_SEMVER
            causes.append(rules.bad_value(where, text, reason))
        if len(text.encode()) > _LONGEST_VALUE:
            causes.append(rules.too_long(where, _LONGEST_VALUE))
    if sum(attribute.get(name) is not None for name in (*_SCALARS, *_LISTS)) != 1:
        shown: Any = attribute or ""
        causes.append(rules.bad_value(path, shown, "exactly one value must be specified"))
    return causes


def _capacity(capacity: Object, path: str, *, is_shared: bool) -> Causes:
    quantity.milli_value(capacity.get("value") or 0)
    policy, where = capacity.get("requestPolicy"), f"{path}.requestPolicy"
    if policy is None:
        return []
    if not is_shared:
        return [rules.forbidden_field(where, "allowMultipleAllocations must be true")]
    values, bounds = policy.get("validValues") or (), policy.get("validRange")
    if values and bounds is not None:
        reason = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [rules.forbidden_field(where, reason)]
    if (values or bounds is not None) and policy.get("default") is None:
        kind = "validValues" if values else "validRange"
        return [rules.required(f"{where}.default", f"required when {kind} is defined")]
    most = capacity.get("value") or "0"
    if values:
        return _valid_values(values, policy["default"], most, f"{where}.validValues")
    return _valid_range(bounds, policy["default"], most, f"{where}.validRange") if bounds is not None else []


def _valid_values(values: list[Any], default: Any, most: Any, path: str) -> Causes:
    amounts = [quantity.milli_value(value) for value in values]
    causes: Causes = []
    for place in range(1, len(values)):
        if amounts[place - 1] > amounts[place]:
            reason = "values must be sorted in ascending order"
            causes.append(rules.bad_value(f"{path}[{place}]", values[place], reason))
    for place, amount in enumerate(amounts):
        if amount > quantity.milli_value(most):
            reason = f"option is larger than capacity value: {most}"
            causes.append(rules.bad_value(f"{path}[{place}]", values[place], reason))
    if quantity.milli_value(default) not in amounts:
        reason = "default value is not valid according to the requestPolicy"
        causes.append(rules.bad_value(path, default, reason))
    return causes


def _valid_range(bounds: Object, default: Any, most: Any, path: str) -> Causes:
    if bounds.get("min") is None:
        return [rules.required(f"{path}.min", "required when validRange is defined")]
    low, high, usual = bounds["min"], bounds.get("max"), quantity.milli_value(default)
    causes: Causes = []
    if quantity.milli_value(low) > quantity.milli_value(most):
        causes.append(rules.bad_value(f"{path}.min", low, f"min is larger than capacity value: {most}"))
    if usual < quantity.milli_value(low):
        causes.append(rules.bad_value(f"{path}.min", default, f"default is less than min: {low}"))
    if high is not None:
        if quantity.milli_value(low) > quantity.milli_value(high):
            causes.append(rules.bad_value(f"{path}.max", low, f"min is larger than max: {high}"))
        if quantity.milli_value(high) > quantity.milli_value(most):
            causes.append(rules.bad_value(f"{path}.max", high, f"max is larger than capacity value: {most}"))
        if usual > quantity.milli_value(high):
            causes.append(rules.bad_value(f"{path}.max", default, f"default is more than max: {high}"))
    return causes + _steps(bounds, default, f"{path}.step")


def _steps(bounds: Object, default: Any, path: str) -> Causes:
    """Default and maximum are whole steps above the minimum."""
    low, high, step = bounds["min"], bounds.get("max"), bounds.get("step")
    if step is None:
        return []
    if quantity.value(step) <= 0:
        return [rules.bad_value(path, step, "must be greater than zero")]
    reason = f"value is not a multiple of a given step ({step}) from ({low})"
    return [
        rules.bad_value(path, value, reason)
        for value in (default, high)
        if value is not None and (quantity.value(value) - quantity.value(low)) % quantity.value(step)
    ]


def _counter_set_name(value: Object) -> str:
    return str(value.get("counterSet") or "")


def _consumption(value: Object, path: str) -> Causes:
    name = _counter_set_name(value)
    causes = rules.dns_label(f"{path}.counterSet", name) if name else [rules.required(f"{path}.counterSet")]
    return causes + _counters(value.get("counters"), f"{path}.counters")


def _counter_set(value: Object, path: str) -> Causes:
    causes = rules.dns_label(f"{path}.name", _name(value)) if _name(value) else [rules.required(f"{path}.name")]
    return causes + _counters(value.get("counters"), f"{path}.counters")


def _counters(counters: Object | None, path: str) -> Causes:
    if not counters:
        return [rules.required(path)]
    if len(counters) > _MAX_COUNTERS:
        return [rules.too_many(path, len(counters), _MAX_COUNTERS)]
    return [cause for name in counters for cause in rules.dns_label(path, name)]
