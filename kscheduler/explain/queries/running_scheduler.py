"""Questions about the pods of a running service, answered over its own cache, profiles and queue.

Asked in a copy of the service: the cache is changed on the way.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kscheduler.api.core import Pod
from kscheduler.assembly import Ports
from kscheduler.explain.in_service import InService
from kscheduler.explain.queries.explain_query import (
    NEVER_SCHEDULED,
    ExplainQuery,
    GroupExplainQuery,
    query_about,
    query_about_group,
)
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.scenario.decide import Decision, prepare_over, profile_of
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scenario.membership import queried_group_of
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache

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
    missing_groups: Mapping[str, str] = field(default_factory=dict)
    """How groups are missing that may be there, as `why_missing` takes it."""
    awaited_topologies: Mapping[str, str] = field(default_factory=dict)
    """By resource, why the objects that name levels of the topology are not known."""

    def query(self, pod: Pod, *, of_group: bool = False) -> ExplainQuery | GroupExplainQuery:
        """About one of its pods; one that waits with its group is explained with it; with `of_group`, any member."""
        key = queried_group_of(pod, self.served, is_named=of_group)
        if key is not None:
            query = query_about_group(
                key,
                self.objects,
                self.groups,
                self.served,
                WHERE,
                missing=self.missing_groups,
                awaited=self.awaited_topologies,
            )
            return dataclasses.replace(query, in_service=self.in_service(pod))
        of_pod = query_about(pod, self.objects, self.served, WHERE)
        return dataclasses.replace(
            of_pod, situation=dataclasses.replace(of_pod.situation, in_service=self.in_service(pod))
        )

    def decide(self, query: ExplainQuery | GroupExplainQuery) -> Decision | GroupDecision:
        """Judge as the service would at this moment. Raises `ScenarioError`."""
        if isinstance(query, GroupExplainQuery):
            return query.decide()
        scenario = query.scenario
        if query.situation.pod_state in NEVER_SCHEDULED:
            return Decision(scenario)
        profile = self.profiles.get(scenario.pod.spec.scheduler_name)
        if profile is None:  # served by nobody here: the default plugins under its name
            profile = profile_of(scenario, self.cache, self.served.registry, self.ports)
        return prepare_over(scenario, self.cache, profile).decide()
