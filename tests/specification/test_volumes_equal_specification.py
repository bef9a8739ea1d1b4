"""The volume filters in columns equal the executable specification, on random clusters after random changes."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings

from kscheduler.api.core import Node, Pod
from kscheduler.api.storage import PersistentVolume
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import Code
from kscheduler.plugins.node_volume_limits import NodeVolumeLimits
from kscheduler.plugins.volume_binding import VolumeBinding
from kscheduler.plugins.volume_restrictions import VolumeRestrictions
from kscheduler.plugins.volume_zone import VolumeZone
from tests.specification import volume_rules
from tests.specification.rules import Verdict
from tests.specification.volume_rules import World
from tests.specification.volume_worlds import Both, histories, pods

examples = settings(max_examples=120, deadline=None)

VolumeRule = Callable[[Pod, Node, World], Verdict]


def verdicts(plugin: Any, both: Both, pod: Pod) -> dict[str, Verdict] | None:
    """What the plugin says of each node; `None` where its PreFilter turns the pod down."""
    nodes, state = both.cache.nodes, CycleState()
    result = plugin.pre_filter(state, PodInfo(pod), nodes)
    if result.status.is_skip:
        return dict.fromkeys(both.world.nodes)
    if not result.status.is_success:
        return None
    rows = nodes.rows()
    codes = plugin.filter(state, PodInfo(pod), nodes, rows)
    return {
        nodes.name_of(row): _verdict(plugin, state, 0 if codes is None else int(codes[place]))
        for place, row in enumerate(rows.tolist())
    }


def _verdict(plugin: Any, state: CycleState, code: int) -> Verdict:
    if code == 0:
        return None
    status = plugin.status(state, code)
    return status.code is Code.UNSCHEDULABLE, frozenset(status.reasons)


def assert_equal(plugin: Any, rule: VolumeRule, both: Both, pod: Pod) -> None:
    found = verdicts(plugin, both, pod)
    claims = [both.world.claim(pod, one) for one in pod.spec.volumes if one.persistent_volume_claim]
    if found is None:
        assert None in claims or plugin.name == "VolumeZone", "only a missing object turns the whole pod down here"
        return
    assert found == {name: rule(pod, node, both.world) for name, node in both.world.nodes.items()}


@examples
@given(histories(), pods("new"))
def test_restrictions(both: Both, pod: Pod) -> None:
    assert_equal(VolumeRestrictions(None, both.handle), volume_rules.restrictions, both, pod)


@examples
@given(histories(), pods("new", only_claims=True))
def test_zone(both: Both, pod: Pod) -> None:
    assert_equal(VolumeZone(None, both.handle), volume_rules.zone, both, pod)


@examples
@given(histories(), pods("new"))
def test_limits(both: Both, pod: Pod) -> None:
    if all(both.world.claim(pod, one) for one in pod.spec.volumes if one.persistent_volume_claim):
        assert_equal(NodeVolumeLimits(None, both.handle), volume_rules.limits, both, pod)


@examples
@given(histories(), pods("new", only_claims=True))
def test_binding(both: Both, pod: Pod) -> None:
    assert_equal(VolumeBinding(None, both.handle), volume_rules.binding, both, pod)


@examples
@given(histories(), pods("new", only_claims=True))
def test_what_is_reserved_is_what_the_specification_would_choose(both: Both, pod: Pod) -> None:
    """No volume is set aside twice, each is reachable and large enough, and taking it back leaves no trace."""
    plugin, state = VolumeBinding(None, both.handle), CycleState()
    info, table = PodInfo(pod), both.cache.nodes
    if not plugin.pre_filter(state, info, table).status.is_success:
        return
    codes = plugin.filter(state, info, table, table.rows())
    free = [row for place, row in enumerate(table.rows().tolist()) if codes is None or codes[place] == 0]
    before = {name: both.cache.volumes.volume(name) for name in volumes_of(both)}
    for row in free:
        node = both.world.nodes[table.name_of(row)]
        assert plugin.reserve(state, info, node.metadata.name).is_success
        for name in volumes_of(both):
            assumed = both.cache.volumes.volume(name)
            if assumed is not before[name] and assumed is not None:
                assert volume_rules.reaches(assumed, node)
                assert assumed.spec.claim_ref is not None
        plugin.unreserve(state, info, node.metadata.name)
        assert {name: both.cache.volumes.volume(name) for name in volumes_of(both)} == before


def volumes_of(both: Both) -> list[str]:
    return [obj.metadata.name for obj in both.world.all(PersistentVolume)]
