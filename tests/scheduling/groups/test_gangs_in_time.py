"""A gang whose members together take too long holds the loop for a bounded time, and fails alone."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.framework.decision_time import DECISION_ENDED
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.scheduling import in_time
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.sub_queues import BACKOFF
from tests.scheduling import scheduler_in_memory
from tests.scheduling.groups.world import World, member, pod_group
from tests.scheduling.test_in_time import as_if_in

MEMBERS = 60
SLOW_SECONDS = 0.005


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the pods that were judged; each takes some processor time, and decisions are timed."""
    clock, found = VirtualClock(), list[str]()
    clock.is_real = True
    monkeypatch.setattr(scheduler_in_memory, "VirtualClock", lambda: clock)
    monkeypatch.setattr(in_time, "GROUP_SECONDS", 0.1)
    monkeypatch.setattr(in_time, "GROUP_AGAIN_SECONDS", 0.03)
    real: Callable[..., Any] = NodeAffinity.filter

    def slow(self: object, cycle: object, pod: PodInfo, nodes: object, rows: object) -> Any:
        found.append(pod.name)
        end = time.thread_time() + SLOW_SECONDS
        while time.thread_time() < end:
            pass
        return real(self, cycle, pod, nodes, rows)

    slow_closure = as_if_in("kscheduler.plugins.node_affinity", slow)
    monkeypatch.setattr(NodeAffinity, "filter", slow_closure)
    return found


def queued_of(world: World, name: str) -> QueuedPodInfo:
    found = world.queue.find(f"default/{name}")
    assert found is not None
    return found[1]


async def test_a_gang_has_one_budget_for_all_its_members_and_a_smaller_one_next_time(judged: list[str]) -> None:
    world = World()
    world.nodes(3, pods="200")
    async with world.working():
        world.add_group(pod_group("large", MEMBERS))
        slow = [member(f"large-{number}", "large", affinity=_anywhere(number)) for number in range(MEMBERS)]
        world.add(*slow)
        world.gang("sound", 2)
        await world.settle(500)
        assert world.bound() == ["sound-0", "sound-1"]
        first = len(judged)
        assert first <= 2 + 0.1 / SLOW_SECONDS
        assert world.where("large-0") == BACKOFF
        assert {queued_of(world, f"large-{number}").overruns for number in range(MEMBERS)} == {1}
        messages = [condition.message for _, condition, _ in world.reported.reports if condition.type == "PodScheduled"]
        assert len(messages) == MEMBERS
        assert all("100ms (for all 60 members of its group) of processor time" in message for message in messages)
        assert any(message.startswith(DECISION_ENDED) for message in messages), "the next leader reads that"
        await world.pass_seconds(8)
        assert len(judged) == first, "its backoff is that of what has taken too long"
        await world.pass_seconds(30)
        second = len(judged)
        assert first < second <= first + 2 * (2 + 0.03 / SLOW_SECONDS)
        overruns = queued_of(world, "large-0").overruns
        assert overruns > 1
        waits = BackoffPolicy().duration(queued_of(world, "large-0"))
        assert waits >= 20, "it grows with each attempt"
        world.gang("late", 2)
        await world.settle(500)
        assert set(world.bound()) == {"sound-0", "sound-1", "late-0", "late-1"}, "nobody waits for it"


def _anywhere(number: int) -> dict[str, Any]:
    expression = {"key": f"key-{number}", "operator": "DoesNotExist"}
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
