"""The condition PodGroupInitiallyScheduled of a group, written when it has changed.

Once it is True it stays True: a later attempt for further members may fail, and the group has been scheduled all the
same. Groups of other APIs than Kubernetes' own have conditions of their controllers, and get none of ours.
"""

from typing import Protocol

from msgspec.structs import replace

from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.meta import Condition
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.state.pod_groups.group_table import PodGroupTable


class GroupStatusSink(Protocol):
    """Writes the conditions of pod groups."""

    def report_group(self, group: GroupDefinition, condition: Condition) -> None:
        """Patch the condition into the group's status, in the background."""
        ...


class NoGroupStatuses:
    """Drops all conditions."""

    def report_group(self, group: GroupDefinition, condition: Condition) -> None:
        """Nothing is written."""


class GroupReports:
    """Decides whether a condition is news."""

    def __init__(self, sink: GroupStatusSink, groups: PodGroupTable) -> None:
        self._sink = sink
        self._groups = groups

    def report(self, group: GroupDefinition, condition: Condition) -> None:
        """Write the condition, unless the group has it already, or has been scheduled before."""
        if group.key.api != POD_GROUPS.group:
            return
        known = next((each for each in group.conditions if each.type == condition.type), None)
        condition = replace(condition, observed_generation=group.generation or None)
        if known is not None and known.status == "True" and condition.status != "True":
            return
        if known is not None and _says_the_same(known, condition):
            return
        self._groups.note_condition(group.key, condition)
        self._sink.report_group(group, condition)


def _says_the_same(known: Condition, new: Condition) -> bool:
    return (known.status, known.reason, known.message, known.observed_generation) == (
        new.status,
        new.reason,
        new.message,
        new.observed_generation,
    )
