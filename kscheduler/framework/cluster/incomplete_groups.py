"""Why pods wait for groups that are not whole: the one sentence that logs, answers and pages all give.

kube-scheduler says nothing of such pods in conditions and Events, and so do we; whoever asks the service is told.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kscheduler.framework.cluster.pod_groups import DEEPEST_TREE, GroupDefinition, GroupKey

NOT_THERE: Final = "which does not exist"
NOT_SERVED: Final = "a kind that the API server does not serve"
_FARTHEST: Final = 16
"""So far up a circle is looked for: further up, no text would be read."""
_MOST_NAMED: Final = 2

Absence = Callable[[GroupKey], str]
"""How a group is missing, as the end of the sentence: it does not exist, or its kind is not served; what is known in
its place.
"""


def _not_there(_: GroupKey) -> str:
    return NOT_THERE


def why_incomplete(
    definition: Callable[[GroupKey], GroupDefinition | None], key: GroupKey, absence: Absence = _not_there
) -> str:
    """Why the members of a group have no whole tree; empty: they have one.

    `definition`: what a group asks for; `None` for one that the watch has not shown.
    """
    way = [key]
    while len(way) <= _FARTHEST:
        found = definition(way[-1])
        if len(way) <= DEEPEST_TREE and found is None:
            return _missing(way, absence)
        if found is None or found.parent is None:
            break
        if found.parent in way:
            return _circle([*way[way.index(found.parent) :], found.parent])
        way.append(found.parent)
    return f"trees deeper than four levels are not followed: {_arrows(way)}" if len(way) > DEEPEST_TREE else ""


def absence_of(key: GroupKey, namesakes: Iterable[GroupKey], *, is_served: bool = True) -> str:
    """How the group is missing. `namesakes`: known groups of the same name, of other APIs or namespaces."""
    if not is_served:
        return NOT_SERVED
    own = [other for other in namesakes if other.is_composite == key.is_composite and other != key]
    # A pod names a group of its own namespace: one of the same namespace, in another API, is the likelier mistake.
    own.sort(key=lambda other: (other.namespace != key.namespace, other))
    if not own:
        return NOT_THERE
    more = f" and {len(own) - _MOST_NAMED} more" if len(own) > _MOST_NAMED else ""
    there = ", ".join(f"{other.text} ({other.resource})" for other in own[:_MOST_NAMED])
    return f"{NOT_THERE}; of this name there {'is' if len(own) == 1 else 'are'} {there}{more}"


def _missing(way: Sequence[GroupKey], absence: Absence) -> str:
    *below, missing = way
    kind = "CompositePodGroup" if missing.is_composite else "PodGroup"
    child = f"; parent of {below[-1].text}" if below else ""
    return f"waits for {kind} {missing.text} ({missing.resource}{child}), {absence(missing)}"


def _circle(way: Sequence[GroupKey]) -> str:
    if len(way) == 2:
        return f"its CompositePodGroup {way[0].text} names itself as parent"
    return f"its groups name each other as parents: {_arrows(way)}"


def _arrows(way: Sequence[GroupKey]) -> str:
    return " -> ".join(key.text for key in way)
