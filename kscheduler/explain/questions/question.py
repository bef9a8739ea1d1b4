"""A question: a pod, a cluster, a configuration, and what else is known of the pod."""

from dataclasses import dataclass

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.explain.questions.serving import Serving
from kscheduler.explain.situation import NO_SITUATION, Situation, Standing, claim_states, standing_of
from kscheduler.whatif.decide import Decision, decide
from kscheduler.whatif.scenario import ClusterObjects, Scenario

OVER = (Standing.FINISHED, Standing.TERMINATING)
"""No scheduler will schedule such a pod."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and notes for the reader of the answer."""

    scenario: Scenario
    situation: Situation = NO_SITUATION
    notes: tuple[str, ...] = ()
    """Objects that could not be read, and assumptions that were made."""
    answered: Decision | None = None
    """The decision, if it is there already: extenders were asked."""

    def answer(self) -> Decision:
        """Decide, unless the pod has finished or is being deleted. Raises `ScenarioError`."""
        if self.answered is not None:
            return self.answered
        return Decision(self.scenario) if self.situation.standing in OVER else decide(self.scenario)


def question_about(
    pod: Pod,
    objects: ClusterObjects,
    served: Serving,
    where: str,
    notes: tuple[str, ...] = (),
    origin: str = "",
) -> Question:
    """Where a pod of a cluster would go. With `origin` it is a new pod."""
    standing = standing_of(pod, served.names)
    if origin and standing is Standing.PENDING:
        standing = Standing.NEW
    condition = next((known for known in pod.status.conditions if known.type == "PodScheduled"), None)
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
        served_by=served.source,
        origin=origin,
    )
    unplaced = replace(pod, spec=replace(pod.spec, node_name=""))
    config = served.for_pod(pod.spec.scheduler_name)
    return Question(Scenario(objects, unplaced, config, where=where, plugins=served.registry), situation, notes)
