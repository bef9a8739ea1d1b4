"""Rules of device claims, their templates and classes, and of a claim's status: resource.k8s.io/v1."""

import re
from typing import Any

from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.validation import device_parts as parts
from kscheduler.api.validation.containers import is_extended
from kscheduler.api.validation.device_parts import Causes
from kscheduler.api.validation.placement import validate_node_selector

_MAX_CONSTRAINTS = 32
_MAX_ALTERNATIVES = 8
_MAX_RESULTS = 32
_MAX_CONSUMERS = 256
_MAX_CONDITIONS = 8
_DEVICE_ID = ("driver", "pool", "device", "shareID")
_MODES = ("All", "ExactCount")
_SOURCES = ("FromClaim", "FromClass")
_REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_FORM = "exactly one of `exactly` or `firstAvailable` is required"
_UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LENGTH_OF_UID = 36
_LONGEST_DATA = 10 * 1024

# Requests of a claim, each with its subrequests.
Names = dict[str, set[str]]


def validate_claim(claim: Object, *, is_strict: bool = False) -> Causes:
    """All violated rules of a new claim. `is_strict`: as servers of 1.38 look at names, amounts and selectors."""
    return _spec(claim.get("spec") or {}, "spec", is_strict=is_strict)


def validate_template(template: Object, *, is_strict: bool = False) -> Causes:
    """All violated rules of a new template. `is_strict`: as for a claim."""
    spec = template.get("spec") or {}
    metadata = spec.get("metadata") or {}
    causes = rules.labels("spec.metadata.labels", metadata.get("labels") or {})
    return causes + _spec(spec.get("spec") or {}, "spec.spec", is_strict=is_strict)


def validate_class(value: Object, *, is_strict: bool = False) -> Causes:
    """All violated rules of a class. `is_strict`: its selectors are of 1.38."""
    spec = value.get("spec") or {}
    causes = parts.selectors(spec.get("selectors"), "spec.selectors", is_strict=is_strict)
    causes += parts.each(spec.get("config"), "spec.config", parts.MAX_CONFIGS, parts.configuration)
    name = spec.get("extendedResourceName")
    if name is not None and (rules.wrong_with_name(name) or not is_extended(name)):
        reason = "must be a valid extended resource name"
        causes.append(rules.bad_value("spec.extendedResourceName", name, reason))
    return causes


def validate_status(old: Object, new: Object, *, is_strict: bool = False) -> Causes:
    """All violated rules of a change of a claim's status. `is_strict`: as for a new claim."""
    before, after = old.get("status") or {}, new.get("status") or {}
    causes = parts.each_once(
        after.get("reservedFor"), "status.reservedFor", _MAX_CONSUMERS, _consumer, lambda one: one.get("uid") or ""
    )
    allocation = after.get("allocation")
    allocated = {_identity(one) for one in ((allocation or {}).get("devices") or {}).get("results") or ()}
    for place, device in enumerate(after.get("devices") or ()):
        causes += _device_status(device, f"status.devices[{place}]", allocated)
    causes += _reservation(before, after, is_going="deletionTimestamp" in new["metadata"])
    names = _names((new.get("spec") or {}).get("devices") or {})
    if allocation is not None and before.get("allocation") is not None:
        if allocation != before["allocation"]:
            causes.append(rules.bad_value("status.allocation", allocation, "field is immutable"))
    elif allocation is not None:
        causes += _allocation(allocation, "status.allocation", names, is_strict=is_strict)
    return causes


def _reservation(before: Object, after: Object, *, is_going: bool) -> Causes:
    consumers = after.get("reservedFor") or ()
    if not consumers:
        return []
    if after.get("allocation") is None:
        reason = "may not be specified when `allocated` is not set"
        return [rules.forbidden_field("status.reservedFor", reason)]
    if is_going and any(one not in (before.get("reservedFor") or ()) for one in consumers):
        reason = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        return [rules.forbidden_field("status.reservedFor", reason)]
    return []


def _spec(spec: Object, path: str, *, is_strict: bool) -> Causes:
    devices = spec.get("devices") or {}
    names, where = _names(devices), f"{path}.devices"

    def request(value: Object, at: str) -> Causes:
        return _request(value, at, is_strict=is_strict)

    def constraint(value: Object, at: str) -> Causes:
        return _constraint(value, at, names, is_strict=is_strict)

    def config(value: Object, at: str) -> Causes:
        return _references(value, at, names) + parts.configuration(value, at)

    causes = parts.each_once(devices.get("requests"), f"{where}.requests", parts.MAX_REQUESTS, request, _name)
    causes += parts.each(devices.get("constraints"), f"{where}.constraints", _MAX_CONSTRAINTS, constraint)
    return causes + parts.each(devices.get("config"), f"{where}.config", parts.MAX_CONFIGS, config)


def _name(value: Object) -> str:
    return str(value.get("name") or "")


def _names(devices: Object) -> Names:
    requests = devices.get("requests") or ()
    return {_name(one): {_name(sub) for sub in one.get("firstAvailable") or ()} for one in requests}


def _request(request: Object, path: str, *, is_strict: bool) -> Causes:
    name, alternatives, exactly = _name(request), request.get("firstAvailable"), request.get("exactly")
    causes = rules.dns_label(f"{path}.name", name) if name else [rules.required(f"{path}.name")]
    if alternatives and exactly is not None:
        return [*causes, rules.bad_value(path, None, f"{_ONE_FORM}, but multiple fields are set")]
    if alternatives:

        def subrequest(value: Object, at: str) -> Causes:
            return _subrequest(value, at, is_strict=is_strict)

        return causes + parts.each_once(alternatives, f"{path}.firstAvailable", _MAX_ALTERNATIVES, subrequest, _name)
    if exactly is None:
        return [*causes, rules.required(path, _ONE_FORM)]
    return causes + _wanted(exactly, f"{path}.exactly", is_strict=is_strict)


def _subrequest(request: Object, path: str, *, is_strict: bool) -> Causes:
    name = _name(request)
    causes = rules.dns_label(f"{path}.name", name) if name else [rules.required(f"{path}.name")]
    return causes + _wanted(request, path, is_strict=is_strict)


def _wanted(request: Object, path: str, *, is_strict: bool) -> Causes:
    name, mode, count = request.get("deviceClassName"), request.get("allocationMode"), request.get("count") or 0
    where = f"{path}.deviceClassName"
    causes = rules.subdomain(where, name) if name else [rules.required(where)]
    causes += parts.selectors(request.get("selectors"), f"{path}.selectors", is_strict=is_strict)
    if mode == "All" and count:
        reason = "must not be specified when allocationMode is 'All'"
        causes.append(rules.bad_value(f"{path}.count", count, reason))
    elif mode == "ExactCount" and count <= 0:
        causes.append(rules.bad_value(f"{path}.count", count, "must be greater than zero"))
    elif mode not in _MODES:
        causes.append(rules.unsupported(f"{path}.allocationMode", mode or "", _MODES))
    causes += parts.each(request.get("tolerations"), f"{path}.tolerations", parts.MAX_TOLERATIONS, parts.toleration)
    if is_strict:
        causes += parts.amounts((request.get("capacity") or {}).get("requests"), f"{path}.capacity.requests")
    return causes


def _constraint(constraint: Object, path: str, names: Names, *, is_strict: bool) -> Causes:
    causes = _references(constraint, path, names)
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            return causes + parts.full_name(constraint[field], f"{path}.{field}", is_strict=is_strict)
    reason = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*causes, rules.required(path, reason)]


def _references(value: Object, path: str, names: Names) -> Causes:
    def reference(name: str, at: str) -> Causes:
        return _reference(name, at, names)

    return parts.each_once(value.get("requests"), f"{path}.requests", parts.MAX_REQUESTS, reference)


def _reference(name: str, path: str, names: Names) -> Causes:
    request, *rest = name.split("/")
    if len(rest) > 1:
        return [rules.bad_value(path, name, _REFERENCE)]
    causes = [cause for part in (request, *rest) for cause in rules.dns_label(path, part)]
    known = request in names and all(part in names[request] for part in rest)
    return causes if known else [*causes, rules.bad_value(path, name, _REFERENCE)]


def _consumer(consumer: Object, path: str) -> Causes:
    return [rules.required(f"{path}.{name}") for name in ("resource", "name", "uid") if not consumer.get(name)]


def _allocation(allocation: Object, path: str, names: Names, *, is_strict: bool) -> Causes:
    devices = allocation.get("devices") or {}

    def result(value: Object, at: str) -> Causes:
        return _result(value, at, names, is_strict=is_strict)

    def config(value: Object, at: str) -> Causes:
        source, where = value.get("source"), f"{at}.source"
        causes = rules.enumerated(where, source, _SOURCES) if source else [rules.required(where)]
        return causes + _references(value, at, names) + parts.configuration(value, at)

    causes = parts.each(devices.get("results"), f"{path}.devices.results", _MAX_RESULTS, result)
    causes += parts.each(devices.get("config"), f"{path}.devices.config", 2 * parts.MAX_CONFIGS, config)
    if allocation.get("nodeSelector") is not None:
        causes += validate_node_selector(allocation["nodeSelector"], f"{path}.nodeSelector")
    return causes


def _result(result: Object, path: str, names: Names, *, is_strict: bool) -> Causes:
    causes = _reference(result.get("request") or "", f"{path}.request", names)
    causes += _device_name(result, path)
    causes += parts.binding_conditions(result, path)
    for place, toleration in enumerate(result.get("tolerations") or ()):
        causes += parts.toleration(toleration, f"{path}.tolerations[{place}]")
    if is_strict:
        causes += parts.amounts(result.get("consumedCapacity"), f"{path}.consumedCapacity")
    return causes + _share(result, path)


def _device_name(value: Object, path: str) -> Causes:
    causes = parts.driver(value.get("driver") or "", f"{path}.driver")
    causes += parts.pool(value.get("pool") or "", f"{path}.pool")
    return causes + rules.dns_label(f"{path}.device", value.get("device") or "")


def _share(value: Object, path: str) -> Causes:
    share = value.get("shareID")
    if share is None or _UID.fullmatch(share):
        return []
    reason = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
    reason += "with lowercase hexadecimal characters"
    if not _UID.fullmatch(share.lower()):
        wrong = "format" if len(share) == _LENGTH_OF_UID else f"length: {len(share)}"
        reason = f"error validating uid: invalid UUID {wrong}"
    return [rules.bad_value(f"{path}.shareID", share, reason)]


def _identity(device: Object) -> tuple[Any, ...]:
    return tuple(device.get(name) for name in _DEVICE_ID)


def _device_status(device: Object, path: str, allocated: set[tuple[Any, ...]]) -> Causes:
    causes = _device_name(device, path) + _share(device, path)
    if _identity(device) not in allocated:
        shown = {f"{name[0].upper()}{name[1:]}": device.get(name) or "" for name in _DEVICE_ID}
        causes.append(rules.bad_value(path, shown, "must be an allocated device in the claim"))
    conditions = device.get("conditions") or ()
    if len(conditions) > _MAX_CONDITIONS:
        causes.append(rules.too_many(f"{path}.conditions", len(conditions), _MAX_CONDITIONS))
    if device.get("data") is not None:
        causes += parts.raw_object(device["data"], f"{path}.data", _LONGEST_DATA)
    return causes


def validate_pod_claims(claims: Any, path: str) -> Causes:
    """A pod's claims: named once, each with a claim or a template."""
    causes: Causes = []
    seen: set[str] = set()
    for place, claim in enumerate(claims or ()):
        where, name = f"{path}[{place}]", _name(claim)
        if not name:
            causes.append(rules.required(f"{where}.name"))
        elif name in seen:
            causes.append(rules.duplicate(f"{where}.name", name))
        else:
            causes += rules.dns_label(f"{where}.name", name)
            seen.add(name)
        causes += _source(claim, where)
    return causes


def _source(claim: Object, path: str) -> Causes:
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    given = [field for field in fields if claim.get(field) is not None]
    causes: Causes = []
    if len(given) != 1:
        shown = {"Name": _name(claim), **{f"{field[0].upper()}{field[1:]}": claim.get(field) for field in fields}}
        reason = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        if given:
            reason = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        causes.append(rules.bad_value(path, shown, reason))
    for field in given:
        causes += rules.subdomain(f"{path}.{field}", claim[field])
    return causes


def validate_used_claims(container: Object, path: str, names: set[str]) -> Causes:
    """The claims that a container uses, or one request of them: each once, and named by the pod."""
    causes: Causes = []
    seen: set[str] = set()
    for place, used in enumerate((container.get("resources") or {}).get("claims") or ()):
        where, name, request = f"{path}.resources.claims[{place}]", _name(used), used.get("request") or ""
        if not name:
            causes.append(rules.required(where))
            continue
        key = f"{name}/{request}" if request else name
        if request:
            causes += rules.dns_label(f"{where}.request", request)
        if name in seen:
            causes.append(rules.duplicate(where, name))
        elif key in seen or (not request and any(one.startswith(f"{name}/") for one in seen)):
            causes.append(rules.duplicate(where, key))
        seen.add(key)
        if name not in names:
            cause = rules.not_found(where, name)
            reason = "must be one of the names in pod.spec.resourceClaims"
            reason += f": {', '.join(sorted(names))}" if names else " which is empty"
            causes.append(type(cause)(cause.reason, f"{cause.message}: {reason}", cause.field))
    return causes
