"""Why pods wait for groups that are not whole: the one sentence that logs, answers and pages all give.

kube-scheduler says nothing of such pods in conditions and Events, and so do we; whoever asks the service is told.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kscheduler.framework.cluster.pod_groups import DEEPEST_TREE, GroupDefinition, GroupKey

_FARTHEST: Final = 16
"""So far up a circle is looked for: further up, no text would be read."""


def why_incomplete(definition: Callable[[GroupKey], GroupDefinition | None], key: GroupKey) -> str:
    """Why the members of a group have no whole tree; empty: they have one.

    `definition`: what a group asks for; `None` for one that the watch has not shown.
    """
    way = [key]
    while len(way) <= _FARTHEST:
        found = definition(way[-1])
        if len(way) <= DEEPEST_TREE and found is None:
            return _missing(way)
        if found is None or found.parent is None:
            break
        if found.parent in way:
            return _circle([*way[way.index(found.parent) :], found.parent])
        way.append(found.parent)
    return f"trees deeper than four levels are not followed: {_arrows(way)}" if len(way) > DEEPEST_TREE else ""


def _missing(way: Sequence[GroupKey]) -> str:
    *below, missing = way
    kind = "CompositePodGroup" if missing.is_composite else "PodGroup"
    child = f" (parent of {below[-1].text})" if below else ""
    return f"waits for {kind} {missing.text}{child}, which does not exist"


def _circle(way: Sequence[GroupKey]) -> str:
    if len(way) == 2:
        return f"its CompositePodGroup {way[0].text} names itself as parent"
    return f"its groups name each other as parents: {_arrows(way)}"


def _arrows(way: Sequence[GroupKey]) -> str:
    return " -> ".join(key.text for key in way)
