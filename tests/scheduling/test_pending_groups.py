"""What members of a pod group were told is one sentence of `/pending`."""

from msgspec.structs import replace

from kscheduler.api.meta import Condition
from kscheduler.scheduling.pending_pods import PendingPods
from tests.scheduling.test_incomplete_waits import World, leaf


async def test_the_comma_before_an_empty_answer_is_not_part_of_the_sentence() -> None:
    """kube-scheduler 1.37 ends the message of a group with it where no plugin says more."""
    world = World()
    world.put(leaf("g"))
    for name, message in (("a", "0 remaining, "), ("b", "0 remaining, "), ("c", "0/1 nodes are available")):
        world.add_pod(name, "g")
        pod = world.pods[f"default/{name}"]
        told = (Condition("PodScheduled", "False", "Unschedulable", message),)
        world.pods[pod.key] = replace(pod, status=replace(pod.status, conditions=told))
    (reason,) = (await PendingPods(world.queue, world.pods, lambda _: True).all()).reasons
    assert reason.message == "0 remaining (2 members); 0/1 nodes are available (1 member)"
