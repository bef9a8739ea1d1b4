"""The scheduling gates of a pod go, or their owner lets them go."""

from collections.abc import Iterator, Sequence
from typing import Final, Self

import msgspec
from msgspec import UNSET, UnsetType

from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.makers import TEMPLATES_MANAGER, maker_of
from kscheduler.explain.suggestions.object_changes import REMOVE, Operation
from kscheduler.explain.suggestions.suggestion import Demand, PodChange, Step
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.state.cache import Cache

_SIZE: Final = 0.1


class RemoveGates(PodChange, frozen=True):
    """All gates of the pod. They go from the pod: a webhook may have put them there, so that its template has none."""

    kind = "schedulingGate"
    is_in_place = True
    is_of_pod_alone = True

    gates: Sequence[str]
    owners: Sequence[str] | UnsetType = UNSET
    """The managers of the field, where they are known."""

    @classmethod
    def demands(cls, pod: PodInfo, cache: Cache) -> Iterator[Demand]:
        if gates := pod.pod.spec.scheduling_gates:
            yield Demand(cls([gate.name for gate in gates]), (Operation(REMOVE, "/spec/schedulingGates"),), _SIZE)

    def with_scenario(self, scenario: Scenario) -> Self:
        return msgspec.structs.replace(self, owners=list(scenario.gate_owners)) if scenario.gate_owners else self

    def text(self, step: Step) -> str:
        what = f"remove the scheduling gates {', '.join(self.gates)}"
        named = self.owners or ()
        owners = [each for each in named if each != TEMPLATES_MANAGER]
        if named and not owners:
            return f"{what}, which the template of the pod has"
        owner = f"{', '.join(owners)}, which has set {'it' if len(self.gates) == 1 else 'them'}," if owners else ""
        return f"{what}, or let {owner or 'their owner'} do it"

    def note(self, pod: Pod, objects: ClusterObjects) -> str:
        """Gates of a template: the command frees this pod alone."""
        maker = maker_of(pod, objects)
        if maker is None or list(self.owners or ()) != [TEMPLATES_MANAGER]:
            return ""
        return f"the template of {maker.text} has the gates: the pods that it makes from now on have them again"
