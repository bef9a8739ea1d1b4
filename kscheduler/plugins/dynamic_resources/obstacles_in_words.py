"""What stands between a claim and devices, as a sentence and as facts for programs. The most specific comes first."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kscheduler.devices.explaining.constraint_obstacles import ConstraintObstacle
from kscheduler.devices.explaining.named_attributes import AttributeValues
from kscheduler.devices.explaining.obstacles import (
    ClaimObstacles,
    RequestObstacles,
    TaintInTheWay,
    UnmatchedSelector,
)
from kscheduler.devices.explaining.pool_troubles import PoolTrouble

Tree = dict[str, Any]


def obstacles_text(obstacles: ClaimObstacles) -> str:
    """Clauses with semicolons between them."""
    several = len(obstacles.requests) > 1
    short = [each for each in obstacles.requests if each.is_short]
    clauses = [_constraint(each) for each in obstacles.constraints]
    # A request without any device of its class says least: it comes behind what may be the cause of that.
    for each in (request for request in short if request.of_class):
        clauses += [f"{each.request}: {clause}" if several else clause for clause in _request(each)]
    clauses += [pool_text(each) for each in obstacles.pools]
    for each in (request for request in short if not request.of_class):
        clauses.append(_no_device(each, obstacles.reached))
    alone = (
        "each request could be served alone, but not all of them together with the devices and counters that are left"
    )
    return "; ".join(clauses) or alone


def pool_text(pool: PoolTrouble) -> str:
    """Why the devices of a pool may not be used."""
    name = f"pool {pool.pool} of driver {pool.driver}"
    if not pool.is_being_updated:
        return f"{name} (generation {pool.generation}) contradicts itself: {pool.problem}"
    there = f"{pool.slices} of {pool.slice_count} slices of generation {pool.generation}"
    return f"{name} is being updated: its driver has published {there}, and until it has published all, none counts"


def _constraint(constraint: ConstraintObstacle) -> str:
    needed = f"{constraint.needed} devices with"
    if constraint.is_distinct:
        values = "1 value" if constraint.best == 1 else f"{constraint.best} values"
        return f"the constraint wants {needed} different {constraint.attribute}; the free ones have {values} of it"
    if not constraint.best:
        return f"the constraint wants {needed} the same {constraint.attribute}, which no free device has"
    most = f"at most {constraint.best} free ones share a value ({constraint.value})"
    return f"the constraint wants {needed} the same {constraint.attribute}; {most}"


def _request(request: RequestObstacles) -> Iterator[str]:
    if request.unmatched:
        yield from _unmatched(request)
        return
    chosen = f"{request.matching} of {_devices(request.of_class)} of class {request.class_name} match"
    if request.matching == request.of_class:
        chosen = f"the node reaches {_devices(request.of_class)} of class {request.class_name}"
    yield ", ".join((chosen, *_excluded(request), f"{request.free} free"))


def _excluded(request: RequestObstacles) -> Iterator[str]:
    if request.tainted:
        yield f"{request.tainted} tainted ({', '.join(map(taint_text, request.taints))})"
    if request.too_small:
        yield f"{request.too_small} too small"
    if request.in_use:
        yield f"{request.in_use} in use"
    if request.without_counters:
        yield f"{request.without_counters} whose shared counters are used up"


def taint_text(taint: TaintInTheWay) -> str:
    """The taint, with the rules that set it."""
    value = f"={taint.value}" if taint.value else ""
    rules = f" by DeviceTaintRule {' and '.join(taint.rules)}" if taint.rules else ""
    return f"{taint.key}{value}:{taint.effect}{rules}"


def _unmatched(request: RequestObstacles) -> Iterator[str]:
    count, class_name = request.of_class, request.class_name
    none = f"matches none of the {count} devices of class {class_name}"
    if count == 1:
        none = f"does not match the only device of class {class_name}"
    if all(each.excludes_all for each in request.unmatched):
        for each in request.unmatched:
            yield f"selector {each.expression} {none}{values_text(each.attributes)}"
        return
    expressions = ", ".join(each.expression for each in request.unmatched)
    attributes = tuple(dict.fromkeys(value for each in request.unmatched for value in each.attributes))
    yield f"none of the {count} devices of class {class_name} passes all of {expressions}{values_text(attributes)}"


def values_text(attributes: Sequence[AttributeValues]) -> str:
    """In brackets, with a space before; empty if the expression names no attribute."""
    told = []
    for each in attributes:
        if each.values:
            more = f" and {each.more} more in the cluster" if each.more else ""
            told.append(f"{each.attribute} is {', '.join(each.values)}{more}")
        else:
            instead = f", but {', '.join(each.instead)}" if each.instead else ""
            told.append(f"none has {each.attribute}{instead}")
    return f" ({'; '.join(told)})" if told else ""


def _no_device(request: RequestObstacles, reached: int) -> str:
    if not reached:
        return "the node reaches no devices"
    return f"none of {_devices(reached)} that the node reaches is of class {request.class_name}"


def _devices(count: int) -> str:
    return "1 device" if count == 1 else f"{count} devices"


# --- for programs -----------------------------------------------------------------------------------------------------


def obstacles_tree(obstacles: ClaimObstacles) -> Tree:
    """As plain dicts and lists, always with the same keys."""
    return {
        "requests": [_request_tree(each) for each in obstacles.requests],
        "constraints": [
            {
                "attribute": each.attribute,
                "isDistinct": each.is_distinct,
                "needed": each.needed,
                "best": each.best,
                "value": each.value,
            }
            for each in obstacles.constraints
        ],
        "pools": pools_tree(obstacles.pools),
    }


def pools_tree(pools: Iterable[PoolTrouble]) -> list[Tree]:
    """The same of unusable pools."""
    return [
        {
            "driver": each.driver,
            "pool": each.pool,
            "generation": each.generation,
            "slices": each.slices,
            "sliceCount": each.slice_count,
            "problem": each.problem,
        }
        for each in pools
    ]


def _request_tree(request: RequestObstacles) -> Tree:
    return {
        "request": request.request,
        "class": request.class_name,
        "count": request.count,
        "isShort": request.is_short,
        "ofClass": request.of_class,
        "matching": request.matching,
        "unmatched": [_unmatched_tree(each) for each in request.unmatched],
        "tooSmall": request.too_small,
        "tainted": request.tainted,
        "taints": [
            {
                "key": each.key,
                "value": each.value,
                "effect": each.effect,
                "rules": list(each.rules),
                "devices": each.devices,
            }
            for each in request.taints
        ],
        "inUse": request.in_use,
        "withoutCounters": request.without_counters,
        "free": request.free,
    }


def _unmatched_tree(selector: UnmatchedSelector) -> Tree:
    attributes = [
        {"attribute": each.attribute, "values": list(each.values), "more": each.more, "instead": list(each.instead)}
        for each in selector.attributes
    ]
    return {"expression": selector.expression, "excludesAll": selector.excludes_all, "attributes": attributes}
