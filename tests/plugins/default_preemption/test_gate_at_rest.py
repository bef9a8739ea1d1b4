"""The gate of preemptors is not asked about pods while there are no preemptors."""

from dataclasses import replace

import pytest

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Code, Status, unresolvable
from kscheduler.plugins.default_preemption import DefaultPreemption
from tests.plugins.default_preemption.test_default_preemption import World, preemptor


class _Own(DefaultPreemption):
    """A user's: it gates by a rule of its own."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unresolvable("mine") if pod.name == "held" else super().pre_enqueue(pod)


def test_while_nobody_preempts_no_pod_is_asked_about_at_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    pre_enqueue = DefaultPreemption.pre_enqueue

    def counted(plugin: DefaultPreemption, pod: PodInfo) -> Status:
        asked.append(pod.name)
        return pre_enqueue(plugin, pod)

    monkeypatch.setattr(DefaultPreemption, "pre_enqueue", counted)
    world = World()
    gated = replace(world.profile(), pre_enqueue=(world.plugin,))
    assert gated.run_pre_enqueue(preemptor("calm")).is_success
    assert asked == []
    world.evictions.busy.add("uid-of-new")
    assert gated.run_pre_enqueue(preemptor("other")).is_success
    assert gated.run_pre_enqueue(preemptor("new")).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert asked == ["other", "new"]


def test_a_gate_that_does_more_than_ours_is_always_asked() -> None:
    world = World()
    gated = replace(world.profile(), pre_enqueue=(_Own(None, world.handle),), post_filter=())
    assert not gated.run_pre_enqueue(preemptor("held")).is_success
