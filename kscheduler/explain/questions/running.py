"""Questions about the pods of a running service, answered over its own cache, profiles and queue.

Asked in a copy of the service: the cache is changed on the way.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kscheduler.api.core import Pod
from kscheduler.assembly import Ports
from kscheduler.explain.in_service import InService
from kscheduler.explain.questions.membership import asked_group_of
from kscheduler.explain.questions.question import OVER, GroupQuestion, Question, question_about, question_about_group
from kscheduler.explain.questions.serving import Serving
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache
from kscheduler.whatif.decide import Decision, prepare_over, profile_of
from kscheduler.whatif.decide_group import GroupDecision
from kscheduler.whatif.scenario import ClusterObjects

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
            return replace(question, in_service=self.in_service(pod))
        of_pod = question_about(pod, self.objects, self.served, WHERE)
        return replace(of_pod, situation=replace(of_pod.situation, in_service=self.in_service(pod)))

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
