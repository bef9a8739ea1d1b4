"""Pods that would have to go: who they are, what it costs others, and what becomes of the room.

Two kinds of pods stand for no others, and to delete them does harm whatever it gives: those that are more important
than the pod that waits, and those that nobody makes again.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Self

import msgspec

from kscheduler.explain.suggestions.object_changes import ObjectChange
from kscheduler.explain.suggestions.suggestion import Harm
from kscheduler.framework.pods.pod_info import PodInfo

MAX_NAMED: Final = 5


class PodThatGoes(msgspec.Struct, frozen=True):
    """A pod that is deleted."""

    namespace: str
    name: str
    priority: int
    controller: str
    """`replicaset/web`, or empty."""

    @classmethod
    def of(cls, pod: PodInfo) -> Self:
        owner = pod.pod.metadata.controller
        controller = "" if owner is None else f"{owner.kind.lower()}/{owner.name}"
        return cls(pod.namespace, pod.name, pod.priority, controller)


def deleted(pods: Iterable[PodInfo]) -> tuple[ObjectChange, ...]:
    """The pods go."""
    return tuple(ObjectChange("pods", pod.namespace, pod.name, delete=True) for pod in pods)


def harm_of(pods: Iterable[PodInfo], own: PodInfo) -> Harm:
    """What it does to others that these pods go in favour of `own`."""
    are_missed = any(pod.priority > own.priority or pod.pod.metadata.controller is None for pod in pods)
    return Harm.OF_OTHERS if are_missed else Harm.NONE


def few(names: Sequence[str], noun: str) -> str:
    """The names, or how many: of many the command has them, and JSON."""
    return ", ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} {noun}"


def made_again_text(pods: Sequence[PodThatGoes], total: int, own: int) -> str:
    """What becomes of the room, where other controllers make the pods again, or the pods are missed.

    `pods`: those of all that the pod's own controller does not make again; `own`: the priority of the pod.

    The queue is in the order of priorities. Of equal ones nothing is known: the pod may still back off when the other
    one comes.
    """
    first: list[PodThatGoes] = []
    equal: list[PodThatGoes] = []
    outranking: list[PodThatGoes] = []
    for pod in pods:
        if pod.priority > own:
            (first if pod.controller else outranking).append(pod)
        elif pod.priority == own and pod.controller:
            equal.append(pod)
    bare = sum(not pod.controller for pod in pods)
    parts = [
        _of_controllers(first, total, f"go first: {priorities_text(first)} against {own}") if first else "",
        _of_controllers(equal, total, "may get the room first") if equal else "",
        f"; of higher priority than the pod: {priorities_text(outranking)} against {own}" if outranking else "",
        _without_controller(bare, total) if bare else "",
    ]
    return "".join(parts)


def priorities_text(pods: Sequence[PodThatGoes]) -> str:
    """`priority 3`, or `priorities 0 to 9`."""
    found = sorted({pod.priority for pod in pods})
    return f"priority {found[0]}" if len(found) == 1 else f"priorities {found[0]} to {found[-1]}"


def _of_controllers(pods: Sequence[PodThatGoes], total: int, effect: str) -> str:
    """`; its controller recreates it, and it goes first: priority 9 against 0`; of several pods how many."""
    if total == 1:
        return f"; its controller recreates it, and it {effect.replace('go ', 'goes ', 1)}"
    who = "all of them" if len(pods) == total else f"{len(pods)} of them"
    return f"; controllers recreate {who}, and these {effect}"


def _without_controller(count: int, total: int) -> str:
    if total == 1:
        return "; no controller recreates it"
    return f"; no controller recreates {'them' if count == total else f'{count} of them'}"
