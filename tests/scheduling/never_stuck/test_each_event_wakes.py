"""Each event that a plugin has registered wakes the pod that waits for it: one story for each of them.

The state machine of `test_never_stuck` finds what nobody thought of, and needs luck for what is rare. Here one thing
happens that lets a pod through, and the pod must leave the pool at once, by the word of the plugin that rejected it.
A registration without a story fails the last test.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from kscheduler.framework.events import ActionType, ClusterEvent
from tests.scheduling.never_stuck.event_stories import STORIES
from tests.scheduling.never_stuck.machine import NeverStuck
from tests.scheduling.never_stuck.story import P, Story


@pytest.fixture
def state() -> Iterator[NeverStuck]:
    machine = NeverStuck()
    yield machine
    machine.service.close()


def tried(state: NeverStuck) -> None:
    """Everybody is, and nobody else does anything: no kubelet and no volume controller."""
    state.server.deliver_all()
    while state.service.try_next():
        state.server.deliver_all()


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_the_event_that_a_pod_waits_for_wakes_it(state: NeverStuck, story: Story) -> None:
    for step in story.before:
        step(state)
    tried(state)
    found = state.service.queue.find(P)
    assert found is not None
    assert found[0] in ("unschedulable", "gated")
    assert found[1].unschedulable_plugins == {story.plugin, *story.besides}
    state.service.hints.clear()
    story.apply_external(state)
    state.server.deliver_all()
    assert (story.plugin, story.event, "Queue") in state.service.hints
    assert state.where(P) in ("active", "backoff")
    state.service.advance(11.0)
    tried(state)
    assert state.service.cache.node_of(found[1].pod.uid)


@pytest.mark.parametrize("story", [one for one in STORIES if not one.is_gated], ids=str)
def test_the_event_that_comes_while_the_pod_is_being_tried_is_not_missed(state: NeverStuck, story: Story) -> None:
    for step in story.before:
        step(state)
    state.server.deliver_all()
    state.service.hold(judged=True)
    assert [held.queued.key for held in state.service.held] == [P]
    story.apply_external(state)
    state.server.deliver_all()
    assert state.where(P) == ""
    state.service.release()
    assert (story.plugin, story.event, "Queue") in state.service.hints
    assert state.where(P) in ("active", "backoff")


# Registrations without a story, by the reason.
UNTOLD: Final[Mapping[str, frozenset[str]]] = {
    "such pods have a node already": frozenset(("NodeName NodeAdd",)),
    "what it needs can never be changed": frozenset(("NodeDeclaredFeatures PodUpdate",)),
    "its hint always says no": frozenset(("DefaultPreemption PodDelete",)),
    "the taint that the pod bears by then rejected it as well": frozenset(
        ("PodTopologySpread PodUpdatePodToleration",)
    ),
    "a node without a CSINode has no limit": frozenset(("NodeVolumeLimits storage.k8s.io/CSINodeAdd",)),
    "told in test_never_stuck_cases: no watch tells of it": frozenset(
        ("VolumeBinding PodDelete", "DynamicResources PodDelete")
    ),
    "another plugin comes before it": frozenset(
        (
            "NodeVolumeLimits PersistentVolumeClaimAdd",
            "VolumeZone PersistentVolumeClaimAdd",
            "VolumeZone PersistentVolumeClaimUpdate",
            "VolumeZone storage.k8s.io/StorageClassAdd",
        )
    ),
}
# To everybody else who waits for new nodes, as upstream, the event of a taint is given along.
OF_TAINTS: Final = ("NodeUnschedulable", "TaintToleration", "PodTopologySpread")


def _registered(state: NeverStuck) -> Iterator[str]:
    """Plugin and event, one for each thing that may happen."""
    for plugin, registrations in state.service.profiles["kscheduler"].registrations().items():
        for one in registrations:
            for action in _single(one.event.action):
                if action is not ActionType.UPDATE_NODE_TAINT or plugin in OF_TAINTS:
                    yield f"{plugin} {ClusterEvent(one.event.resource, action).label}"


def _single(action: ActionType) -> Iterator[ActionType]:
    if ActionType.UPDATE in action:
        yield ActionType.UPDATE
        action &= ~ActionType.UPDATE
    yield from action


def test_each_registered_event_has_its_story(state: NeverStuck) -> None:
    reported = {str(story).replace(" Assigned", " ").replace(" Unschedulable", " ") for story in STORIES}
    excused = frozenset().union(*UNTOLD.values())
    registered = set(_registered(state))
    assert registered - reported - excused == set()
    assert (reported | excused) - registered == set()
    assert reported & excused == set()
