"""Which claim is not served on which nodes, and what there is instead. For explanations only.

Each claim is tried separately by the filter's own rule, and what stands in its way is counted test by test
(`devices.obstacles`). Claims may also compete (two claims for one device): nodes that no single claim explains are
reported so. The devices that a node reaches and those in use are counted of all classes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kscheduler.api.core import Node
from kscheduler.api.devices import (
    ALL,
    AllocationResult,
    Device,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.selectors import parse_node_term
from kscheduler.devices.obstacle_details import AttributeValues, ConstraintObstacle, PoolTrouble
from kscheduler.devices.obstacles import (
    BlockingTaint,
    ClaimObstacles,
    Obstacles,
    RequestObstacles,
    UnmatchedSelector,
)
from kscheduler.devices.pools import NodeIdentity
from kscheduler.devices.wanted import AllocationError
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.reasons.wording import term_text
from kscheduler.framework.rules.device_readiness import DeviceFailedError, is_ready
from kscheduler.framework.status import StatusError
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimsInCycle
from kscheduler.plugins.dynamic_resources.long_evaluations import StillEvaluatingError
from kscheduler.plugins.dynamic_resources.search import INVALID_POOLS, NO_DEVICES, DeviceSearch, is_bad_pool

# What stands between a claim and devices, as a sentence and as facts for programs. The most specific comes first.

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
        yield f"{request.tainted} tainted ({', '.join(map(device_taint_text, request.taints))})"
    if request.too_small:
        yield f"{request.too_small} too small"
    if request.in_use:
        yield f"{request.in_use} in use"
    if request.without_counters:
        yield f"{request.without_counters} whose shared counters are used up"


def device_taint_text(taint: BlockingTaint) -> str:
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
    reported = []
    for each in attributes:
        if each.values:
            more = f" and {each.more} more in the cluster" if each.more else ""
            reported.append(f"{each.attribute} is {', '.join(each.values)}{more}")
        else:
            instead = f", but {', '.join(each.instead)}" if each.instead else ""
            reported.append(f"none has {each.attribute}{instead}")
    return f" ({'; '.join(reported)})" if reported else ""


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


T = TypeVar("T")
# Makes a search for some of the pod's claims.
SearchFor = Callable[[Sequence[ResourceClaim]], DeviceSearch]


def claim_details(
    state: ClaimsInCycle, devices: Devices, search_for: SearchFor, obstacles: Obstacles, nodes: NodeTable, rows: Rows
) -> Iterator[Detail]:
    """The rows where each claim is not served, with the reason."""
    for place in sorted(state.unavailable):
        claim, terms = state.claims[place], state.reachable[place]
        elsewhere = rows[:0] if terms is None else rows[~nodes.matches_any(terms, rows)]
        if len(elsewhere):
            yield _elsewhere(claim, state.allocation_of(claim), elsewhere)
        if len(elsewhere) < len(rows) and (failure := _failure(claim)):
            yield Detail("devicesNotReady", failure, rows, {"claim": claim.metadata.name, "message": failure})
    if state.search is not None or state.extended is not None:
        yield from _unserved(state, devices, search_for, obstacles, nodes, rows)


def held_by_less_important(pod: PodInfo, devices: Devices, nodes: NodeTable, rows: Rows) -> Iterator[Detail]:
    """The rows where pods of a lower priority use claims with devices, which matters to those who expect preemption.

    The filter says no for good, so that preemption, which would leave the claims as they are, looks at none of them.
    """
    users = {consumer.uid for claim in devices.claims.allocated() for consumer in claim.status.reserved_for}
    found: dict[int, int] = {}
    for row in rows.tolist() if users else ():
        on_node = nodes.info(row).pods
        if count := sum(other.uid in users and other.priority < pod.priority for other in on_node.values()):
            found[row] = count
    if found:
        total = sum(found.values())
        who = "1 pod of a lower priority uses" if total == 1 else f"{total} pods of a lower priority use"
        text = f"{who} devices through claims here: preemption does not evict these, in kube-scheduler or here"
        yield Detail("heldByLessImportant", text, np.array(list(found), dtype=np.intp), {"pods": total})


def _unserved(
    state: ClaimsInCycle, devices: Devices, search_for: SearchFor, obstacles: Obstacles, nodes: NodeTable, rows: Rows
) -> Iterator[Detail]:
    reach = _Reach(devices)
    alone: dict[int, tuple[ResourceClaim, DeviceSearch]] = {}
    """By identity, because the claim for extended resources has several variants: the search for that claim alone."""

    def lacking(row: int) -> tuple[object, ...]:
        """What the details of the row depend on."""
        info = nodes.info(row)
        together = _answered(state.devices_on, info)
        is_about_pools = together == INVALID_POOLS or is_bad_pool(together)
        if not (together == NO_DEVICES or is_about_pools) or info.node is None:
            return ()
        unserved = []
        for claim in state.claims_on(info):
            if id(claim) not in alone:
                alone[id(claim)] = claim, search_for([claim])
            if is_about_pools or isinstance(_answered(alone[id(claim)][1].on, info.node), int):
                unserved.append((id(claim), _obstacles(obstacles, claim, info.node)))
        if is_about_pools:
            pools = {pool: None for _, found in unserved if found is not None for pool in found.pools}
            return (INVALID_POOLS, tuple(pools), is_bad_pool(together))
        return (together, tuple(unserved), *reach.counts(info.node)) if unserved else (together, ())

    found = grouped(rows, lacking).items()
    for why, group in sorted(found, key=lambda entry: _says_little(entry[0])):
        match why:
            case (int(), tuple(unserved), int(reached), int(used)):
                for key, obstacles_there in unserved:
                    yield _lacking(alone[key][0], obstacles_there, reached, used, group)
            case (code, tuple(pools), bool(all_wanted)) if code == INVALID_POOLS:
                yield _pools_in_the_way(pools, group, all_wanted=all_wanted)
            case (int(), tuple()):
                names = list(dict.fromkeys(claim.metadata.name for claim, _ in alone.values()))
                text = f"the claims {', '.join(names)} cannot all be served here, though each of them could be alone"
                yield Detail("claimsCompete", text, group, {"claims": names})


def _pools_in_the_way(pools: Sequence[PoolTrouble], rows: Rows, *, all_wanted: bool) -> Detail:
    """`all_wanted`: all devices are asked for, so that a pool that is being updated is in the way as well."""
    reported = "; ".join(pool_text(pool) for pool in pools if all_wanted or not pool.is_being_updated)
    text = reported or "a pool of devices contradicts itself (a device twice, or counters that do not exist)"
    return Detail("poolInvalid", text, rows, {"pools": pools_tree(pools)})


def _says_little(why: tuple[object, ...]) -> bool:
    """Whether the group is of nodes without devices of the classes: those come last, however many they are."""
    match why:
        case (int(), tuple(unserved), int(), int()):
            return all(found is not None and not found.says_much for _, found in unserved)
    return False


def _obstacles(obstacles: Obstacles, claim: ResourceClaim, node: Node) -> ClaimObstacles | None:
    """What is in the claim's way; `None` where a selector fails, or takes long."""
    try:
        return obstacles.of(claim, NodeIdentity(node.metadata.name, node.metadata.labels))
    except (AllocationError, StillEvaluatingError):
        return None


def _answered(ask: Callable[[T], Sequence[AllocationResult] | int], about: T) -> Sequence[AllocationResult] | int:
    try:
        return ask(about)
    except StatusError:
        return ()


def _elsewhere(claim: ResourceClaim, allocation: AllocationResult | None, rows: Rows) -> Detail:
    assert allocation is not None  # noqa: S101  only claims with devices are elsewhere
    assert allocation.node_selector is not None  # noqa: S101  else all nodes reach it
    names = [f"{each.driver}/{each.pool}/{each.device}" for each in allocation.devices.results]
    where = [term_text(parse_node_term(term)) for term in allocation.node_selector.node_selector_terms]
    text = f"claim {claim.metadata.name} has {', '.join(names)}, reached only from nodes with {' or '.join(where)}"
    return Detail("claimElsewhere", text, rows, {"claim": claim.metadata.name, "devices": names, "terms": where})


def _failure(claim: ResourceClaim) -> str:
    """Why the claim's devices cannot be used; empty if they are ready."""
    try:
        return "" if is_ready(claim) else f"the devices of claim {claim.metadata.name} have not become ready in time"
    except DeviceFailedError as problem:
        return str(problem)


def _lacking(claim: ResourceClaim, obstacles: ClaimObstacles | None, reached: int, used: int, rows: Rows) -> Detail:
    requests = [facts for request in claim.spec.devices.requests for facts in _request_facts(request)]
    wanted = "; ".join(f"{facts['request']}: {facts['count']} of class {facts['class']}" for facts in requests)
    if obstacles is None:
        there = f"{reached} devices, {used} of them in use" if reached else "no devices"
        why = f"the node reaches {there}"
    else:
        why = obstacles_text(obstacles)
    text = f"claim {claim.metadata.name} ({wanted}) cannot be served: {why}"
    facts = {"claim": claim.metadata.name, "requests": requests, "reached": reached, "inUse": used}
    tree = None if obstacles is None else obstacles_tree(obstacles)
    return Detail("devicesLacking", text, rows, {**facts, "obstacles": tree})


def _request_facts(request: DeviceRequest) -> Iterator[dict[str, str]]:
    alternatives = (
        [(request.name, request.exactly)]
        if request.exactly is not None
        else [(f"{request.name}/{each.name}", each) for each in request.first_available]
    )
    for name, wanted in alternatives:
        count = "all" if wanted.allocation_mode == ALL else str(wanted.count or 1)
        yield {"request": name, "class": wanted.device_class_name, "count": count}


class _Reach:
    """The devices that a node reaches."""

    def __init__(self, devices: Devices) -> None:
        self._used = devices.claims.allocated_state().devices
        self._local: dict[str, list[ResourceSlice]] = {}
        self._others: list[ResourceSlice] = []
        for published in devices.slices():
            name = published.spec.node_name
            (self._others if name is None else self._local.setdefault(name, [])).append(published)

    def counts(self, node: Node) -> tuple[int, int]:
        """The number of devices, and of those in use."""
        reached = used = 0
        for published in (*self._local.get(node.metadata.name, ()), *self._others):
            spec = published.spec
            for device in spec.devices:
                if _reaches(node, published, device):
                    reached += 1
                    used += (spec.driver, spec.pool.name, device.name) in self._used
        return reached, used


def _reaches(node: Node, published: ResourceSlice, device: Device) -> bool:
    chosen: Any = device if published.spec.per_device_node_selection else published.spec
    if chosen.all_nodes or chosen.node_name == node.metadata.name:
        return True
    selector = chosen.node_selector
    labels: Mapping[str, str] = node.metadata.labels
    terms = () if selector is None else selector.node_selector_terms
    return any(parse_node_term(term).matches(labels, node.metadata.name) for term in terms)
