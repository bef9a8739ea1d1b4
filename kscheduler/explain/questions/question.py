"""A question: a pod, a cluster, a configuration, and what else is known of the pod."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.names import honored
from kscheduler.assembly import Ports
from kscheduler.explain.in_service import InService
from kscheduler.explain.situation import NO_SITUATION, Situation, Standing, claim_states, standing_of
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scenario.decide import Decision, Prepared, decide, prepare, prepare_over, profile_of
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.membership import asked_group_of, by_itself, unfollowed
from kscheduler.scenario.scenario import ClusterObjects, GroupScenario, Scenario
from kscheduler.scenario.serving import Serving
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.truth.pending import DeviceWait, binding_timeout, device_waits
from kscheduler.state.cache import Cache

OVER = (Standing.FINISHED, Standing.TERMINATING)
"""No scheduler will schedule such a pod."""


class Decides(Protocol):
    """Decides with the help of HTTP extenders."""

    async def __call__(self, prepared: Prepared) -> Decision:
        """Decide about a pod."""
        ...

    async def group(self, scenario: GroupScenario) -> GroupDecision:
        """Decide about a pod group."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and notes for the reader of the answer."""

    scenario: Scenario
    situation: Situation = NO_SITUATION
    notes: tuple[str, ...] = ()
    """Objects that could not be read, and assumptions that were made."""

    def answer(self) -> Decision:
        """Decide, unless the pod has finished or is being deleted. Raises `ScenarioError`."""
        return Decision(self.scenario) if self.situation.standing in OVER else decide(self.scenario)

    async def answer_asking(self, client: ClusterClient | None, decides: Decides | None = None) -> Decision:
        """Decide after plugins have fetched data of their own, if there is an API server. Raises `ScenarioError`.

        `decides`: with the help of HTTP extenders.
        """
        if self.situation.standing in OVER:
            return Decision(self.scenario)
        prepared = prepare(self.scenario, client)
        if client is not None:
            await prepared.fetch()
        return prepared.decide() if decides is None else await decides(prepared)


@dataclass(frozen=True, slots=True)
class GroupQuestion:
    """A question about a pod group."""

    scenario: GroupScenario
    notes: tuple[str, ...] = ()
    in_service: InService | None = None
    """What the running service knows of the group; `None`: it was not asked."""

    def answer(self) -> GroupDecision:
        """Decide. Raises `ScenarioError`."""
        return decide_group(self.scenario)

    async def answer_asking(self, client: ClusterClient | None, decides: Decides | None = None) -> GroupDecision:
        """The same, with the help of extenders where `decides` asks them. Raises `ScenarioError`."""
        del client
        return self.answer() if decides is None else await decides.group(self.scenario)


AnyQuestion = TypeVar("AnyQuestion", Question, GroupQuestion)


def question_about(
    pod: Pod,
    objects: ClusterObjects,
    served: Serving,
    where: str,
    notes: tuple[str, ...] = (),
    origin: str = "",
) -> Question:
    """Where a pod of a cluster would go. With `origin` it is a new pod."""
    if served.config.configuration.honor_scheduler_name_annotation:
        pod = honored(pod)
    served = served.following((pod.spec.scheduler_name,))
    standing = standing_of(pod, served.names)
    if origin and standing is Standing.PENDING:
        standing = Standing.NEW
    alone = unfollowed((pod,), served.config)
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
        device_waits=_device_waits(pod, objects, served) if standing is Standing.PENDING else (),
        scheduler_name=pod.spec.scheduler_name,
        served=served.names,
        served_by=served.source,
        is_presumed=pod.spec.scheduler_name in served.followed,
        origin=origin,
        not_judged=alone,
    )
    unplaced = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    judged, config, of_group = by_itself(unplaced, served.for_pod(pod.spec.scheduler_name))
    is_bound = standing is Standing.BOUND
    scenario = Scenario(objects, judged, config, where=where, plugins=served.registry, was_on_node=is_bound)
    return Question(scenario, situation, (*notes, *of_group, *alone))


def _device_waits(pod: Pod, objects: ClusterObjects, served: Serving) -> tuple[DeviceWait, ...]:
    timeout = binding_timeout(served.config, pod.spec.scheduler_name)
    return tuple(device_waits(pod, objects.resourceclaims, timeout))


def with_gate_owners(question: Question, owners: tuple[str, ...]) -> Question:
    """The question with who has set the pod's scheduling gates."""
    if not owners:
        return question
    scenario = dataclasses.replace(question.scenario, gate_owners=owners)
    return dataclasses.replace(question, scenario=scenario)


def with_claim_templates(question: AnyQuestion, templates: Mapping[str, ResourceClaimTemplate | None]) -> AnyQuestion:
    """The question with what is known of the templates of the pods' claims: `None` for one that does not exist."""
    if not templates:
        return question
    scenario = dataclasses.replace(question.scenario, claim_templates=templates)
    return dataclasses.replace(question, scenario=scenario)


def question_about_group(
    key: GroupKey,
    objects: ClusterObjects,
    groups: Sequence[GroupDefinition],
    served: Serving,
    where: str,
    notes: tuple[str, ...] = (),
    unserved: tuple[str, ...] = (),
) -> GroupQuestion:
    """Where the waiting members of a group of a cluster would go.

    `groups`: all that the cluster has. `unserved`: kinds of groups that its API server does not have.
    """
    note = f"members of pod group {key.text} are decided about together"
    scenario = GroupScenario(
        objects,
        key.text,
        served.config,
        where=where,
        plugins=served.registry,
        definitions=tuple(groups),
        unserved=unserved,
    )
    return GroupQuestion(scenario, (*notes, note))


# Questions about the pods of a running service, answered over its own cache, profiles and queue.
#
# Asked in a copy of the service: the cache is changed on the way.

WHERE = "the running service"


@dataclass(frozen=True, slots=True)
class RunningScheduler:
    """A service at one moment."""

    objects: ClusterObjects
    """What the watches have shown."""
    cache: Cache
    profiles: Mapping[str, Profile]
    """Those in force, by scheduler name."""
    served: Serving
    groups: tuple[GroupDefinition, ...]
    ports: Ports
    in_service: Callable[[Pod], InService]
    unserved_groups: tuple[str, ...] = ()
    """Kinds of groups that are followed and that the API server does not have."""

    def question(self, pod: Pod, *, of_group: bool = False) -> Question | GroupQuestion:
        """About one of its pods; one that waits with its group is asked about with it, and `of_group` anyone."""
        key = asked_group_of(pod, self.served, is_named=of_group)
        if key is not None:
            question = question_about_group(
                key, self.objects, self.groups, self.served, WHERE, unserved=self.unserved_groups
            )
            return dataclasses.replace(question, in_service=self.in_service(pod))
        of_pod = question_about(pod, self.objects, self.served, WHERE)
        return dataclasses.replace(
            of_pod, situation=dataclasses.replace(of_pod.situation, in_service=self.in_service(pod))
        )

    def answer(self, question: Question | GroupQuestion) -> Decision | GroupDecision:
        """Judge as the service would at this moment. Raises `ScenarioError`."""
        if isinstance(question, GroupQuestion):
            return question.answer()
        scenario = question.scenario
        if question.situation.standing in OVER:
            return Decision(scenario)
        profile = self.profiles.get(scenario.pod.spec.scheduler_name)
        if profile is None:  # served by nobody here: the default plugins under its name
            profile = profile_of(scenario, self.cache, self.served.registry, self.ports)
        return prepare_over(scenario, self.cache, profile).decide()
