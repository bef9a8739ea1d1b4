"""A question that somebody asks: a pod, a cluster, who would schedule it, and what is known of the pod besides."""

from dataclasses import dataclass

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.explain.serving import Serving
from kscheduler.explain.situation import NO_SITUATION, Situation, Standing, claim_states, standing_of
from kscheduler.whatif.decide import Decision, decide
from kscheduler.whatif.scenario import ClusterObjects, Scenario

OVER = (Standing.FINISHED, Standing.TERMINATING)
"""Nobody is going to schedule such a pod, here or anywhere."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what a reader should know about it."""

    scenario: Scenario
    situation: Situation = NO_SITUATION
    notes: tuple[str, ...] = ()
    """What could not be read or had to be presumed."""

    def answer(self) -> Decision:
        """Decide, unless there is nothing left to decide. Raises `ScenarioError`."""
        return Decision(self.scenario) if self.situation.standing in OVER else decide(self.scenario)


def question_about(
    pod: Pod,
    objects: ClusterObjects,
    served: Serving,
    where: str,
    notes: tuple[str, ...] = (),
    origin: str = "",
) -> Question:
    """Where a pod of a cluster would go. With `origin` it is one that does not exist yet."""
    standing = standing_of(pod, served.names)
    if origin and standing is Standing.PENDING:
        standing = Standing.NEW
    condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    situation = Situation(
        standing=standing,
        is_live=True,
        phase=pod.status.phase,
        node_name=pod.spec.node_name,
        deleted_at=pod.metadata.deletion_timestamp or "",
        condition=condition,
        nominated_node=pod.status.nominated_node_name,
        claims=claim_states(pod, objects.persistentvolumeclaims, objects.storageclasses),
        scheduler_name=pod.spec.scheduler_name,
        served=served.names,
        served_by=served.told_by,
        origin=origin,
    )
    unplaced = replace(pod, spec=replace(pod.spec, node_name=""))
    config = served.for_pod(pod.spec.scheduler_name)
    return Question(Scenario(objects, unplaced, config, where=where), situation, notes)
