"""Rules of what claims, classes, slices and taint rules of resource.k8s.io have in common: names, taints, configs."""

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from kscheduler.api import quantity
from kscheduler.api.machinery import field_rules as rules
from kscheduler.api.machinery.api_errors import FieldCause, Object
from kscheduler.api.releases import VERSION

if TYPE_CHECKING:
    from kscheduler.api.device_selectors import Release, SelectorCompiler

Causes = list[FieldCause]
Rule = Callable[[Any, str], Causes]

LONGEST_DRIVER = 63
_LONGEST_POOL = 253
_LONGEST_ID = 32
_LONGEST_EXPRESSION = 10 * 1024
_LONGEST_PARAMETERS = 10 * 1024
_MAX_CONDITIONS = 4
MAX_SELECTORS = MAX_CONFIGS = MAX_REQUESTS = 32
MAX_TOLERATIONS = 16
_MAX_AMOUNTS = 32
_EFFECTS = ("NoExecute", "NoSchedule", "None")
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_TEXT = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


def each(values: Iterable[Any] | None, path: str, most: int, rule: Rule) -> Causes:
    """The rule holds for each entry of a list, which is not too long; of a list that is, nothing else is said."""
    listed = list(values or ())
    if len(listed) > most:
        return [rules.too_many(path, len(listed), most)]
    return [cause for place, value in enumerate(listed) for cause in rule(value, f"{path}[{place}]")]


def each_once(
    values: Iterable[Any] | None, path: str, most: int, rule: Rule, identity: Callable[[Any], Any] = str
) -> Causes:
    """As `each`, and no two entries have the same identity."""
    listed = list(values or ())
    causes = each(listed, path, most, rule)
    seen: set[Any] = set()
    for place, value in enumerate(listed if len(listed) <= most else ()):
        key = identity(value)
        if key in seen:
            causes.append(rules.duplicate(f"{path}[{place}]", key))
        seen.add(key)
    return causes


def driver(name: str, path: str) -> Causes:
    """A driver's name: a subdomain of at most 63 characters, in any case."""
    if not name:
        return [rules.required(path)]
    causes = [rules.too_long(path, LONGEST_DRIVER)] if len(name) > LONGEST_DRIVER else []
    return causes + [rules.bad_value(path, name, reason) for reason in rules.wrong_with_subdomain(name.lower())]


def pool(name: str, path: str) -> Causes:
    """A pool's name: subdomains, separated by slashes."""
    if not name:
        return [rules.required(path)]
    causes = [rules.too_long(path, _LONGEST_POOL)] if len(name) > _LONGEST_POOL else []
    for part in name.split("/"):
        causes += rules.subdomain(path, part)
    return causes


def qualified_name(name: str, path: str, *, is_strict: bool = False) -> Causes:
    """The name of an attribute or a capacity: an identifier, perhaps behind a domain and a slash.

    `is_strict`: as servers of 1.38 look at it (`Behaviours.limits_capacity_requests`).
    """
    domain, slash, identifier = name.partition("/")
    if not slash:
        return _identifier(name, path)
    if "/" in identifier:
        # Up to 1.37 the real server does not look at names of three parts.
        return [rules.bad_value(path, name, "must not contain more than one slash")] if is_strict else []
    causes = driver(domain, path) if domain else [rules.bad_value(path, "", "the domain must not be empty")]
    if not identifier:
        return [*causes, rules.bad_value(path, "", "the name must not be empty")]
    return causes + _identifier(identifier, path)


def full_name(name: str, path: str, *, is_strict: bool) -> Causes:
    """The name of an attribute with its domain."""
    causes = qualified_name(name, path, is_strict=is_strict)
    if "/" not in name:
        reason = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(rules.bad_value(path, name, reason))
    return causes


def _identifier(name: str, path: str) -> Causes:
    causes = [rules.too_long(path, _LONGEST_ID)] if len(name) > _LONGEST_ID else []
    return causes if _IDENTIFIER.fullmatch(name) else [*causes, rules.bad_value(path, name, _IDENTIFIER_TEXT)]


def amounts(values: Object | None, path: str) -> Causes:
    """What is asked of capacities, or taken of them, as servers of 1.38 look at it."""
    named = values or {}
    causes = [cause for name in named for cause in qualified_name(name, path, is_strict=True)]
    if len(named) > _MAX_AMOUNTS:
        return [*causes, rules.too_many(path, len(named), _MAX_AMOUNTS)]
    return causes + [cause for name, amount in named.items() for cause in _not_negative(amount, f"{path}[{name}]")]


def _not_negative(amount: Any, path: str) -> Causes:
    is_negative = quantity.nano_value(amount) < 0
    return [rules.bad_value(path, amount, "must be greater than or equal to 0")] if is_negative else []


def selectors(values: Any, path: str, *, is_strict: bool = False) -> Causes:
    """Selectors, each a CEL expression that compiles. `is_strict`: as in 1.38."""

    def selector(value: Object, at: str) -> Causes:
        return _selector(value, at, "1.38" if is_strict else VERSION)

    return each(values, path, MAX_SELECTORS, selector)


def _selector(selector: Object, path: str, version: str) -> Causes:
    cel = selector.get("cel")
    if cel is None:
        return [rules.required(f"{path}.cel")]
    expression = cel.get("expression") or ""
    if not expression:
        return [rules.required(f"{path}.cel.expression")]
    if len(expression.encode()) > _LONGEST_EXPRESSION:
        return [rules.too_long(f"{path}.cel.expression", _LONGEST_EXPRESSION)]
    wrong = _wrong_with_expression(expression, version)
    return [rules.bad_value(f"{path}.cel.expression", expression, wrong)] if wrong else []


def _wrong_with_expression(expression: str, version: str) -> str:
    """Why the expression does not compile; empty if it does. What it may cost is not estimated."""
    # Brings the language, which a cluster without devices does without.
    from kscheduler.api.selector_errors import SelectorCompileError

    try:
        _compiler(version).compile(expression)
    except SelectorCompileError as error:
        return str(error)
    return ""


@cache
def _compiler(version: str) -> "SelectorCompiler":
    from kscheduler.api.device_selectors import SelectorCompiler

    return SelectorCompiler(cast("Release", version))


def configuration(config: Object, path: str) -> Causes:
    """The parameters for a driver: a JSON object."""
    opaque = config.get("opaque")
    if opaque is None:
        return [rules.required(f"{path}.opaque")]
    causes = driver(opaque.get("driver") or "", f"{path}.opaque.driver")
    return causes + raw_object(opaque.get("parameters"), f"{path}.opaque.parameters", _LONGEST_PARAMETERS)


def raw_object(value: Any, path: str, longest: int) -> Causes:
    """A JSON object of a bounded length."""
    if value is None:
        return [rules.required(path)]
    if len(json.dumps(value, separators=(",", ":")).encode()) > longest:
        return [rules.too_long(path, longest)]
    if not isinstance(value, dict):
        return [rules.bad_value(path, "<value omitted>", "must be a valid JSON object")]
    return []


def toleration(value: Object, path: str) -> Causes:
    """A toleration of device taints."""
    key, operator, text = (value.get(name) or "" for name in ("key", "operator", "value"))
    causes = rules.qualified_name(f"{path}.key", key) if key else []
    if operator == "Exists":
        if text:
            causes.append(rules.bad_value(f"{path}.value", text, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        causes += rules.label_value(f"{path}.value", text)
    elif not operator:
        causes.append(rules.required(f"{path}.operator"))
    else:
        causes.append(rules.unsupported(f"{path}.operator", operator, ("Equal", "Exists")))
    return causes + rules.enumerated(f"{path}.effect", value.get("effect") or None, _EFFECTS)


def taint(value: Object, path: str) -> Causes:
    """A device's taint."""
    causes = rules.qualified_name(f"{path}.key", value.get("key"))
    if value.get("value"):
        causes += rules.label_value(f"{path}.value", value["value"])
    if not value.get("effect"):
        return [*causes, rules.required(f"{path}.effect")]
    return causes + rules.enumerated(f"{path}.effect", value["effect"], _EFFECTS)


def binding_conditions(value: Object, path: str) -> Causes:
    """Conditions that a driver sets before a pod is bound, and those that end the attempt: both or neither."""
    causes: Causes = []
    ready, failed = (value.get(name) or [] for name in ("bindingConditions", "bindingFailureConditions"))
    # Go prints a list that is not there as null.
    for name, conditions in (("bindingConditions", ready), ("bindingFailureConditions", failed)):
        causes += each(conditions, f"{path}.{name}", _MAX_CONDITIONS, lambda text, at: rules.qualified_name(at, text))
    for name, conditions in (("bindingConditions", ready), ("bindingFailureConditions", failed)):
        for place, condition in enumerate(conditions):
            where = f"{path}.{name}[{place}]"
            if condition in conditions[:place]:
                causes.append(rules.duplicate(where, condition))
            if conditions is failed and condition in ready:
                reason = "bindingFailureConditions must not overlap with bindingConditions"
                causes.append(rules.bad_value(where, condition, reason))
    if failed and not ready:
        reason = "bindingConditions are required to use bindingFailureConditions"
        causes.append(rules.bad_value(f"{path}.bindingConditions", None, reason))
    if ready and not failed:
        reason = "bindingFailureConditions are required to use bindingConditions"
        causes.append(rules.bad_value(f"{path}.bindingFailureConditions", None, reason))
    return causes
