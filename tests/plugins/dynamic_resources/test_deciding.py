"""Filter, Score, Reserve, Unreserve and PostFilter over small clusters."""

from datetime import UTC, datetime

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import DeviceClaim, ResourceClaim
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.assembly import profiles_over
from kscheduler.config.feature_gates import RESIZE_PREEMPTION
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import Code, Fault, StatusError
from kscheduler.plugins.dynamic_resources import DynamicResources
from kscheduler.plugins.dynamic_resources.in_cycle import MAX_TERMS
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import FILTER
from tests.plugins.dynamic_resources.stage import (
    DRIVER,
    Stage,
    TickingClock,
    Tree,
    allocation,
    claim,
    device_class,
    devices_of,
    exactly,
    first_available,
    taint_rule,
    user,
)

NONE_LEFT, ELSEWHERE = "cannot allocate all claims", "resourceclaim not available on the node"


def test_a_node_needs_free_devices_for_all_claims() -> None:
    stage = Stage(
        *(device_class(), claim(), claim("c1")),
        *(devices_of("n0", "a", "b"), devices_of("n1", "a")),
        nodes=3,
    )
    assert stage.judge(user("c0", "c1")) == {"n0": "a,b", "n1": NONE_LEFT, "n2": NONE_LEFT}
    assert stage.judge(user("c0")) == {"n0": "a", "n1": "a", "n2": NONE_LEFT}


def test_what_other_claims_hold_is_taken() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a", "b"), claim("c1", allocated=allocation("n0", "a")))
    assert stage.judge(user("c0"))["n0"] == "b"


def test_devices_with_a_tainted_rule_are_left_out() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a", "b"), taint_rule(device="a"))
    assert stage.judge(user("c0"))["n0"] == "b"
    stage.put(taint_rule(device="b"))
    assert stage.judge(user("c0"))["n0"] == "a"
    stage.put(taint_rule("worse", driver=DRIVER))
    assert stage.judge(user("c0"))["n0"] == NONE_LEFT


def test_an_allocated_claim_binds_the_pod_to_the_nodes_that_reach_it() -> None:
    stage = Stage(device_class(), claim(allocated=allocation("n1", "a")), devices_of("n1", "a"))
    assert stage.judge(user("c0")) == {"n0": ELSEWHERE, "n1": ""}


def test_devices_are_looked_for_before_the_nodes_of_allocated_claims() -> None:
    """As upstream: a node that lacks both says that it has no devices, and its claim is not freed for that."""
    stage = Stage(device_class(), claim(allocated=allocation("n1", "a")), claim("c1"), devices_of("n0", "a"))
    assert stage.judge(user("c0", "c1")) == {"n0": ELSEWHERE, "n1": NONE_LEFT}
    assert stage.post_filter(user("c0", "c1")).deallocation is not None
    stage.put(claim("c2", allocated=allocation("n0", "a")))
    assert stage.judge(user("c0", "c1")) == {"n0": NONE_LEFT, "n1": NONE_LEFT}
    assert stage.post_filter(user("c0", "c1")).deallocation is None


# --- binding conditions -----------------------------------------------------------------------------------------------

CONDITIONS: Tree = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
SINCE = "1970-01-01T00:00:00Z"


def reported(**conditions: str) -> Tree:
    """What the driver says of device `a`."""
    found = [{"type": name, "status": status} for name, status in conditions.items()]
    return {"devices": [{"driver": DRIVER, "pool": "n0", "device": "a", "conditions": found}]}


@pytest.mark.parametrize(
    ("status", "seconds", "verdict"),
    [
        pytest.param({}, 0.0, "", id="no-report-yet"),
        pytest.param({}, 601.0, ELSEWHERE, id="no-report-in-time"),
        pytest.param(reported(Attached="True"), 601.0, "", id="ready"),
        pytest.param(reported(Attached="False"), 599.0, "", id="not-ready-yet"),
        pytest.param(reported(Attached="False"), 601.0, ELSEWHERE, id="not-ready-in-time"),
        pytest.param(reported(Broken="True"), 0.0, ELSEWHERE, id="failed"),
        pytest.param(reported(Attached="True", Broken="True"), 0.0, ELSEWHERE, id="a-failure-outweighs"),
    ],
)
async def test_devices_that_must_become_ready(status: Tree, seconds: float, verdict: str) -> None:
    allocated = {**allocation("n0", "a", **CONDITIONS), "allocationTimestamp": SINCE}
    stage = Stage(claim(allocated=allocated, status=status), nodes=1)
    began = stage.clock.time()
    stage.put(claim(allocated={**allocated, "allocationTimestamp": _at(began)}, status=status, version=2))
    await stage.clock.advance(seconds)
    assert stage.judge(user("c0")) == {"n0": verdict}


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


# --- PostFilter -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", BEHAVIOURS)
@pytest.mark.parametrize(
    ("users", "freed"),
    [((), True), (("uid-of-pod",), True), (("uid-of-other",), False), (("uid-of-pod", "uid-of-other"), False)],
    ids=["nobody", "the-pod", "another-pod", "both"],
)
def test_a_claim_that_keeps_its_pod_from_every_node_gives_its_devices_back(
    version: str, users: tuple[str, ...], freed: bool
) -> None:
    stage = Stage(claim(allocated=allocation("n7", "a"), users=users), version=version)
    assert stage.judge(user("c0")) == {"n0": ELSEWHERE, "n1": ELSEWHERE}
    result = stage.post_filter(user("c0"))
    assert result.status.code is Code.UNSCHEDULABLE
    not_freed = "still not schedulable" if version == "1.36" else ""
    assert result.status.message == ("deallocation of ResourceClaim completed" if freed else not_freed)
    assert (result.deallocation is not None) is freed
    if result.deallocation is not None:
        assert result.deallocation.claim.metadata.name == "c0"
        assert not result.deallocation.is_deletion


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_without_claims_there_is_nothing_to_be_freed(version: str) -> None:
    stage = Stage(version=version)
    pod = user()
    assert stage.begin(pod).is_skip
    assert stage.post_filter(pod).status.message == ("no new claims to deallocate" if version == "1.36" else "")


def test_a_plugin_that_ends_pre_filter_earlier_makes_post_filter_fail() -> None:
    stage = Stage()
    assert stage.post_filter(user()).status.message == "not found"


# --- Score ------------------------------------------------------------------------------------------------------------


def test_the_better_alternative_gets_more_points() -> None:
    stage = Stage(
        *(device_class("big"), device_class("small")),
        claim("c0", first_available("r", "big", "small")),
        claim("c1", first_available("r", "big", "small"), first_available("s", "big", "small")),
        *(devices_of("n0", "a", "b", "c"), devices_of("n1", "a", "b", "c")),
    )
    pod = user("c0", "c1")
    stage.judge(pod)
    assert stage.points(pod) == {"n0": 24, "n1": 24}


def test_the_second_alternative_gets_one_point_less() -> None:
    classes = device_class("big", selectors=[]), device_class("small")
    stage = Stage(*classes, claim("c0", first_available("r", "big", "small")), devices_of("n0", "a"), nodes=1)
    wants_two = {"name": "r", "firstAvailable": [_alternative("two", 2), _alternative("one", 1)]}
    stage.put(claim("c1", wants_two))
    stage.judge(user("c1"))
    assert stage.points(user("c1")) == {"n0": 7}


def _alternative(name: str, count: int) -> Tree:
    return {"name": name, "deviceClassName": "small", "allocationMode": "ExactCount", "count": count}


def test_a_claim_that_is_allocated_counts_with_what_it_has() -> None:
    stage = Stage(device_class("big"), device_class("small"), devices_of("n0", "a", "b"), nodes=1)
    had = {**allocation("n0", "a")}
    had["devices"]["results"][0]["request"] = "r/small"
    stage.put(claim("c0", first_available("r", "big", "small"), allocated=had))
    stage.put(claim("c1", first_available("r", "big", "small")))
    stage.judge(user("c0", "c1"))
    assert stage.points(user("c0", "c1")) == {"n0": 7 + 8}


def test_points_are_shares_of_the_most() -> None:
    stage = Stage(device_class("small"), devices_of("n0", "a"), devices_of("n1", "a", "b"))
    wants_two = {"name": "r", "firstAvailable": [_alternative("two", 2), _alternative("one", 1)]}
    stage.put(claim("c0", wants_two))
    pod = user("c0")
    stage.judge(pod)
    nodes = stage.cache.nodes
    raw = stage.plugin.score(stage.cycle, PodInfo(pod), nodes, nodes.rows())
    assert raw.tolist() == [7, 8]
    assert stage.plugin.normalize(stage.cycle, PodInfo(pod), nodes.rows(), raw).tolist() == [87, 100]


# --- Reserve ----------------------------------------------------------------------------------------------------------


def test_what_is_reserved_is_taken_for_the_next_pod_until_it_is_given_back() -> None:
    stage = Stage(device_class(), claim(), claim("c1"), devices_of("n0", "a", "b"), nodes=1)
    first, second = user("c0", name="first"), user("c1", name="second")
    assert stage.judge(first) == {"n0": "a"}
    assert stage.reserve(first, "n0").is_success
    cycle = stage.cycle
    assert stage.judge(second) == {"n0": "b"}
    stage.cycle = cycle
    stage.unreserve(first, "n0")
    stage.unreserve(first, "n0")  # it may be asked twice
    assert stage.judge(second) == {"n0": "a"}


def test_what_is_reserved_meanwhile_is_seen_by_a_search_that_has_begun() -> None:
    """Extenders are asked between Filter and the choice; other pods are decided in the meantime."""
    stage = Stage(device_class(), claim(), claim("c1"), devices_of("n0", "a"), nodes=1)
    first, second = user("c0", name="first"), user("c1", name="second")
    assert stage.judge(first) == {"n0": "a"}
    begun = stage.cycle
    assert stage.judge(second) == {"n0": "a"}
    assert stage.reserve(second, "n0").is_success
    stage.cycle = begun
    nodes = stage.cache.nodes
    codes = stage.plugin.filter(begun, PodInfo(first), nodes, nodes.rows())
    assert codes is not None
    assert stage.plugin.status(begun, int(codes[0])).message == NONE_LEFT


def test_pods_that_share_an_allocated_claim_take_nothing() -> None:
    stage = Stage(claim(allocated=allocation("n0", "a"), users=("uid-of-first",)), nodes=1)
    revision = stage.cache.devices.claims.revision
    second = user("c0", name="second")
    assert stage.judge(second) == {"n0": ""}
    assert stage.reserve(second, "n0").is_success
    stage.unreserve(second, "n0")
    assert stage.cache.devices.claims.revision == revision


def test_a_node_that_filter_has_not_passed_cannot_be_reserved() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a"))
    pod = user("c0")
    assert stage.judge(pod)["n1"] == NONE_LEFT
    status = stage.reserve(pod, "n1")
    assert (status.code, status.message) == (Code.ERROR, "claim allocation not found for node")


async def test_without_a_writer_no_pod_with_claims_is_bound() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a"), nodes=1)
    pod = user("c0")
    stage.judge(pod)
    stage.reserve(pod, "n0")
    assert stage.plugin.pre_bind_pre_flight(stage.cycle, PodInfo(pod), "n0").status.is_success
    status = await stage.plugin.pre_bind(stage.cycle, PodInfo(pod), "n0")
    assert (status.code, status.message) == (Code.ERROR, "claims to devices cannot be written here")


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_of_the_search_ends_the_cycle_and_is_no_bug() -> None:
    """33 devices are more than a claim may have: no node is better than another."""
    stage = Stage(device_class(), claim("c0", exactly(count=33)), devices_of("n0", "a"), nodes=1)
    pod = user("c0")
    stage.begin(pod)
    nodes = stage.cache.nodes
    with pytest.raises(StatusError) as answered:
        stage.plugin.filter(stage.cycle, PodInfo(pod), nodes, nodes.rows())
    with pytest.raises(PluginFailure) as failed:
        FILTER.call("DynamicResources", stage.plugin.filter, stage.cycle, PodInfo(pod), nodes, nodes.rows())
    assert str(failed.value) == f'running "DynamicResources" filter plugin: {answered.value}'
    assert failed.value.__cause__ is None, "it is told to the pod, and not reported as a bug"
    assert failed.value.status.fault is Fault.CLAIM, "metrics tell users' errors from ours"


def test_a_search_that_takes_too_long_is_an_error_with_the_name_of_the_node() -> None:
    stage = Stage(device_class(), filter_seconds=5.0, nodes=1)
    stage.plugin = stage.without(clock=TickingClock())
    devices = [{"name": f"d{number}", "attributes": {"half": {"int": number % 2}}} for number in range(40)]
    stage.put(devices_of("n0", *devices))
    wants = claim("c0", exactly("r", 25))
    constraint = {"requests": ["r"], "matchAttribute": f"{DRIVER}/half"}
    stage.put(with_constraint(wants, constraint))
    with pytest.raises(StatusError, match=r"^node n0: timed out trying to allocate devices$") as overdue:
        stage.judge(user("c0"))
    assert overdue.value.fault is Fault.PASSING


def with_constraint(wants: ResourceClaim, constraint: Tree) -> ResourceClaim:
    requests = msgspec.to_builtins(wants.spec.devices.requests)
    made = convert({"requests": requests, "constraints": [constraint]}, DeviceClaim)
    return msgspec.structs.replace(wants, spec=msgspec.structs.replace(wants.spec, devices=made))


def test_a_pool_that_contradicts_itself_is_reported_by_node() -> None:
    stage = Stage(device_class(), claim(), devices_of("n0", "a", "a"), devices_of("n1", "a"))
    assert stage.judge(user("c0")) == {"n0": "invalid resource pools were encountered", "n1": "a"}


def test_a_running_pod_that_waits_to_grow_has_its_devices() -> None:
    """Whatever has become of its claims: with the gate, preemption makes room for it on its node."""
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
    stage = Stage(claim(allocated=allocation("n7", "a")))
    pod = user("c0", node="n0", status={"conditions": conditions})
    plugin = stage.without(features={*stage.handle.features, RESIZE_PREEMPTION})
    assert plugin.pre_filter(stage.cycle, PodInfo(pod), stage.cache.nodes).status.is_skip
    assert not plugin.post_filter(stage.cycle, PodInfo(pod), stage.cache.nodes, Diagnosis()).status.reasons
    without = stage.without(features={*stage.handle.features} - {RESIZE_PREEMPTION})
    assert without.pre_filter(stage.cycle, PodInfo(pod), stage.cache.nodes).status.is_success


def test_an_allocation_of_more_nodes_than_can_be_compared_fails_its_pod_before_they_are() -> None:
    devices = allocation("n0", "a")
    devices["nodeSelector"]["nodeSelectorTerms"] *= MAX_TERMS + 1
    stage = Stage(claim(allocated=devices, users=("uid-of-first",)), nodes=1)
    nodes = stage.cache.nodes
    status = stage.plugin.pre_filter(stage.cycle, PodInfo(user("c0", name="second")), nodes).status
    reported = "the node selector of its allocation has 1,001 terms, and 1,000 are evaluated at most"
    assert (status.code, status.fault) == (Code.ERROR, Fault.CLAIM)
    assert status.message == f"resource claim default/c0: {reported}"


@pytest.mark.parametrize(
    ("request_of_claim", "is_called"),
    [(exactly(), False), (first_available("r", "gpu"), True)],
    ids=["one way to serve it", "alternatives"],
)
@pytest.mark.parametrize("reports_all", [False, True], ids=["decided", "explained"])
def test_points_are_asked_for_only_where_claims_have_alternatives(
    request_of_claim: Tree, monkeypatch: pytest.MonkeyPatch, *, is_called: bool, reports_all: bool
) -> None:
    called: list[str] = []
    score = DynamicResources.score

    def noted(self: DynamicResources, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        called.append(pod.name)
        return score(self, cycle, pod, nodes, rows)

    monkeypatch.setattr(DynamicResources, "score", noted)
    stage = Stage(device_class(), claim("c0", request_of_claim), devices_of("n0", "a"), devices_of("n1", "a"))
    profile = profiles_over(stage.cache, default_configuration("kscheduler"), registry())["kscheduler"]
    engine = ClassEngine(profile, stage.cache, reports_all=reports_all)
    record = schedule(profile, PodInfo(user("c0")), stage.cache, engine=engine)
    assert record.node_name in ("n0", "n1")
    assert called == (["pod"] if is_called or reports_all else [])
    assert [scores.plugin for scores in record.scores if scores.plugin == "DynamicResources"] == (
        ["DynamicResources"] if reports_all else []
    )
