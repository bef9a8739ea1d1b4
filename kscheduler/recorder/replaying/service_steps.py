"""What the service's tasks do around the scheduler, one step at a time and without an event loop.

The worker decides and gives up a pod for which that raises. Here as there an exception costs the pod, and not the run.
"""

from collections.abc import Mapping

from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.attempt import Scheduler
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt.group_attempt import GroupConsultation
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.groups.member_extender_results import MemberExtenderResults
from kscheduler.state.queue.queued_group import QueuedPodGroup
from kscheduler.telemetry.logs.caught import Boundary, count_caught


def decide(scheduler: Scheduler, queued: QueuedPodInfo) -> Attempt | None:
    """The attempt that goes on from the decision; `None`: it has ended."""
    try:
        return scheduler.decide(queued)
    except Exception as failure:  # noqa: BLE001  one pod must never end a run
        count_caught(Boundary.WORKER)
        scheduler.give_up(queued, failure)
        return None


def decide_group(
    scheduler: Scheduler, group: QueuedPodGroup, answers: Mapping[str, ExtenderResults] | None = None
) -> list[Attempt]:
    """The attempts of the members that have a node now. `answers`: what extenders have said about members, by key."""
    try:
        return _decided(scheduler, group, answers)
    except Exception as failure:  # noqa: BLE001  one group must never end a run
        count_caught(Boundary.WORKER)
        scheduler.give_up_group(group, failure)
        return []


def _decided(
    scheduler: Scheduler, group: QueuedPodGroup, answers: Mapping[str, ExtenderResults] | None
) -> list[Attempt]:
    if answers is None:
        decided = scheduler.decide_group(group)
    else:
        decided = scheduler.decide_consulted_group(GroupConsultation(group, MemberExtenderResults(answers), None, 0.0))
    if isinstance(decided, GroupConsultation):
        raise TypeError("extenders would have to be called, and a replay calls none")
    return decided
