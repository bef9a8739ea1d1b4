"""A question: a pod, a cluster, a configuration, and what else is known of the pod."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeVar

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.names import honored
from kscheduler.explain.in_service import InService
from kscheduler.explain.situation import NO_SITUATION, PodState, Situation, claim_states, pod_state_of
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scenario.decide import Decision, Prepared, decide, prepare
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.membership import by_itself, unfollowed
from kscheduler.scenario.scenario import ClusterObjects, GroupScenario, Scenario
from kscheduler.scenario.serving import Serving
from kscheduler.scheduling.drift.prebind_waits import DeviceWait, binding_timeout, device_waits

# No scheduler will schedule such a pod.
NEVER_SCHEDULED = (PodState.FINISHED, PodState.TERMINATING)


class Decider(Protocol):
    """Decides with the help of HTTP extenders."""

    async def __call__(self, prepared: Prepared) -> Decision:
        """Decide about a pod."""
        ...

    async def group(self, scenario: GroupScenario) -> GroupDecision:
        """Decide about a pod group."""
        ...


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """A question, and notes for the reader of the answer."""

    scenario: Scenario
    situation: Situation = NO_SITUATION
    notes: tuple[str, ...] = ()
    """Objects that could not be read, and assumptions that were made."""

    def decide(self) -> Decision:
        """Decide, unless the pod has finished or is being deleted. Raises `ScenarioError`."""
        return Decision(self.scenario) if self.situation.pod_state in NEVER_SCHEDULED else decide(self.scenario)

    async def fetch_and_decide(self, client: ClusterClient | None, decides: Decider | None = None) -> Decision:
        """Decide after plugins have fetched data of their own, if there is an API server. Raises `ScenarioError`.

        `decides`: with the help of HTTP extenders.
        """
        if self.situation.pod_state in NEVER_SCHEDULED:
            return Decision(self.scenario)
        prepared = prepare(self.scenario, client)
        if client is not None:
            await prepared.fetch()
        return prepared.decide() if decides is None else await decides(prepared)


@dataclass(frozen=True, slots=True)
class GroupExplainQuery:
    """A question about a pod group."""

    scenario: GroupScenario
    notes: tuple[str, ...] = ()
    in_service: InService | None = None
    """What the running service knows of the group; `None`: it was not asked."""

    def decide(self) -> GroupDecision:
        """Decide. Raises `ScenarioError`."""
        return decide_group(self.scenario)

    async def fetch_and_decide(self, client: ClusterClient | None, decides: Decider | None = None) -> GroupDecision:
        """The same, with the help of extenders where `decides` asks them. Raises `ScenarioError`."""
        del client
        return self.decide() if decides is None else await decides.group(self.scenario)


AnyExplainQuery = TypeVar("AnyExplainQuery", ExplainQuery, GroupExplainQuery)


def query_about(
    pod: Pod,
    objects: ClusterObjects,
    served: Serving,
    where: str,
    notes: tuple[str, ...] = (),
    origin: str = "",
) -> ExplainQuery:
    """Where a pod of a cluster would go. With `origin` it is a new pod."""
    if served.config.configuration.honor_scheduler_name_annotation:
        pod = honored(pod)
    served = served.following((pod.spec.scheduler_name,))
    pod_state = pod_state_of(pod, served.names)
    if origin and pod_state is PodState.PENDING:
        pod_state = PodState.NEW
    alone = unfollowed((pod,), served.config)
    condition = next((known for known in pod.status.conditions if known.type == "PodScheduled"), None)
    situation = Situation(
        pod_state=pod_state,
        is_live=True,
        phase=pod.status.phase,
        node_name=pod.spec.node_name,
        deleted_at=pod.metadata.deletion_timestamp or "",
        condition=condition,
        nominated_node=pod.status.nominated_node_name,
        claims=claim_states(pod, objects.persistentvolumeclaims, objects.storageclasses),
        device_waits=_device_waits(pod, objects, served) if pod_state is PodState.PENDING else (),
        scheduler_name=pod.spec.scheduler_name,
        served=served.names,
        served_by=served.source,
        is_presumed=pod.spec.scheduler_name in served.followed,
        origin=origin,
        not_evaluated=alone,
    )
    unplaced = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
    judged, config, of_group = by_itself(unplaced, served.for_pod(pod.spec.scheduler_name))
    is_bound = pod_state is PodState.BOUND
    scenario = Scenario(objects, judged, config, where=where, plugins=served.registry, was_on_node=is_bound)
    return ExplainQuery(scenario, situation, (*notes, *of_group, *alone))


def _device_waits(pod: Pod, objects: ClusterObjects, served: Serving) -> tuple[DeviceWait, ...]:
    timeout = binding_timeout(served.config, pod.spec.scheduler_name)
    return tuple(device_waits(pod, objects.resourceclaims, timeout))


def with_gate_owners(query: ExplainQuery, owners: tuple[str, ...]) -> ExplainQuery:
    """The question with who has set the pod's scheduling gates."""
    if not owners:
        return query
    scenario = dataclasses.replace(query.scenario, gate_owners=owners)
    return dataclasses.replace(query, scenario=scenario)


def with_claim_templates(
    query: AnyExplainQuery, templates: Mapping[str, ResourceClaimTemplate | None]
) -> AnyExplainQuery:
    """The question with what is known of the templates of the pods' claims: `None` for one that does not exist."""
    if not templates:
        return query
    scenario = dataclasses.replace(query.scenario, claim_templates=templates)
    return dataclasses.replace(query, scenario=scenario)


def query_about_group(
    key: GroupKey,
    objects: ClusterObjects,
    groups: Sequence[GroupDefinition],
    served: Serving,
    where: str,
    notes: tuple[str, ...] = (),
    missing: Mapping[str, str] = MappingProxyType({}),
    awaited: Mapping[str, str] = MappingProxyType({}),
) -> GroupExplainQuery:
    """Where the waiting members of a group of a cluster would go.

    `groups`: all that the cluster has. `missing`: how others are missing, as `why_missing` takes it. `awaited`: by
    resource, why the objects that name levels of the topology are not known.
    """
    note = f"members of pod group {key.text} are decided about together"
    scenario = GroupScenario(
        objects,
        key.text,
        served.config,
        where=where,
        plugins=served.registry,
        definitions=tuple(groups),
        missing=missing,
        awaited=awaited,
    )
    return GroupExplainQuery(scenario, (*notes, note))
