"""What is known of a pod group beside the decision about it: who is on a node, who is missing, who counts nowhere."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.pod_groups import NOT_THERE, GroupDefinition, GroupKey, why_incomplete
from kscheduler.scenario.fields import nearest
from kscheduler.scenario.scenario import GroupScenario
from kscheduler.state.cache import Cache
from kscheduler.state.pod_groups import PodGroupTable

_MAX_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The group that is asked about. The fields are those of `GroupDecision` with these names."""

    definition: GroupDefinition | None
    on_nodes: Mapping[str, str]
    foreign: tuple[Pod, ...]
    ended: tuple[Pod, ...]

    @property
    def known(self) -> dict[str, Any]:
        """The fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def group_facts(scenario: GroupScenario, cache: Cache, served: Collection[str]) -> GroupFacts:
    """The facts, from a cache that holds the cluster and its groups."""
    table = cache.pod_groups
    named = [(pod, key) for pod in scenario.objects.pods if (key := table.key_of(pod)) and key.text == scenario.group]
    # Of a group whose members are gone its own object is left.
    keys = dict.fromkeys(key for _, key in named)
    keys |= dict.fromkeys(group.key for group in scenario.definitions if group.key.text == scenario.group)
    placed = {pod.name: node for key in keys for pod, node in table.assignments(key)}
    foreign = tuple(
        pod for pod, _ in named if not (pod.spec.node_name or pod.is_terminal) and pod.spec.scheduler_name not in served
    )
    known = (table.definition(key) for key in keys)
    ended = tuple(pod for pod, _ in named if pod.is_terminal)
    return GroupFacts(next((each for each in known if each is not None), None), placed, foreign, ended)


def why_gated_group(group: GroupFacts, table: PodGroupTable, key: GroupKey) -> str:
    """Why the group is not tried, in one sentence; empty: its members' gates say it.

    `key`: of the group that a waiting member names.
    """
    if lacks := why_incomplete(table.definition, key, lambda missing: _absence(table, missing), table.levels):
        return lacks
    definition = table.definition(key)
    there = table.count_all(key)
    if definition is None or definition.parent is not None or there >= definition.least:
        return ""
    return f"{there} of {definition.least} members are there{foreign_text(group.foreign)}"


def none_waits(group: GroupFacts) -> str:
    """That no member waits for a node, and whether the group has as many as it needs at least.

    A group whose members have ended lacks none. The service keeps no pods that have ended, so it may know of none.
    """
    count, least = len(group.on_nodes), 1 if group.definition is None else group.definition.least
    said = [f"{count} {'member is on a node' if count == 1 else 'members are on nodes'}"] if count else []
    for phase, verb in (("Succeeded", "succeeded"), ("Failed", "failed")):
        if number := sum(pod.status.phase == phase for pod in group.ended):
            said.append(f"{number} {'has' if number == 1 else 'have'} {verb}")
    if not said:
        said = ["its members have ended or been deleted, or are not made yet"]
    minimum = f"its minimum is {least}" if group.definition is not None else "the group itself does not exist"
    is_short = 0 < count < least and not group.ended
    missing = f", so {least - count} more would have to be created" if is_short else ""
    return f"no member waits: {', '.join(said)}, and {minimum}{missing}{foreign_text(group.foreign)}"


def foreign_text(foreign: Collection[Pod]) -> str:
    """Who names the group and does not count, as the end of a sentence; empty for nobody."""
    if not foreign:
        return ""
    first = [f"{pod.metadata.name} names scheduler {pod.spec.scheduler_name}" for pod in foreign][:_MAX_NAMED]
    more = f", and {len(foreign) - _MAX_NAMED} more name another" if len(foreign) > _MAX_NAMED else ""
    counts = "does not count before it has a node" if len(foreign) == 1 else "do not count before they have a node"
    return f"; {', '.join(first)}{more}, which is not served here, and {counts}"


def _absence(table: PodGroupTable, missing: GroupKey) -> str:
    """With a group of nearly the same name, which only somebody who asks is told: it is looked for among all."""
    absence = table.absence(missing)
    if absence != NOT_THERE:
        return absence
    kind = missing._replace(name="")
    near = nearest(missing.name, [key.name for group in table.groups() if (key := group.key)._replace(name="") == kind])
    return f"{absence}; do you mean {near}?" if near else absence
