"""Labels of events in words: `NodeAdd|UpdateNodeLabel` is "a node is added or changes its labels".

A parked pod waits for a dozen kinds of events, whose labels are kube-scheduler's. Who reads an explanation wants to
know what in the cluster would bring the pod back, so the changes of one kind of object are told together. Nodes come
first, then pods; other kinds with the same changes share their words. Metrics and logs have the labels: the status page
shows them beside the words, JSON instead of them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kscheduler.framework.events import PLUGIN_DATA_UPDATE, Resource

_ACTIONS: Final = re.compile(r"(?:Add|Delete|All|Update\w*)(?:\|\w+)*$")
_NODE, _POD = "a node", "a pod"
_NOUNS: Final = {
    Resource.NODE.value: _NODE,
    Resource.POD.value: _POD,
    Resource.ASSIGNED_POD.value: _POD,
    Resource.UNSCHEDULABLE_POD.value: _POD,
}
_WHAT: Final = {
    "UpdateNodeAllocatable": "room",
    "UpdateNodeLabel": "labels",
    "UpdateNodeTaint": "taints",
    "UpdateNodeCondition": "conditions",
    "UpdateNodeAnnotation": "annotations",
    "UpdateNodeDeclaredFeature": "features",
    "UpdateNodePreemptionPolicy": "preemption policy",
    "UpdatePodLabel": "labels",
    "UpdatePodToleration": "tolerations",
}
_DOES: Final = {
    "UpdatePodScaleDown": "asks for less",
    "UpdatePodScaleUp": "asks for more",
    "UpdatePodSchedulingGatesEliminated": "loses its gates",
    "UpdatePodGeneratedResourceClaim": "gets its claim",
}
# What it means that a pod is added to those on nodes, or goes from them. That another pod goes is no event.
_OF_PODS: Final = {
    Resource.ASSIGNED_POD.value: {"Add": "GetsNode", "Delete": "LeavesNode"},
    Resource.POD.value: {"Delete": "LeavesNode"},
}
_HAPPENS: Final = {"Add": "is added", "GetsNode": "gets a node", "Delete": "goes", "LeavesNode": "leaves its node"}
# Of what changes about a node or a pod; of more it is just said that it changes.
_MAX_NAMED: Final = 3


class AwaitedChange(NamedTuple):
    """What must happen for a pod to be tried again."""

    words: str
    """A short sentence without an end: `a pod leaves its node or asks for less`."""
    labels: tuple[str, ...]
    """The events that it stands for, one action each, as metrics have them."""


def awaited_in_words(labels: Iterable[str]) -> list[str]:
    """What must happen, in a few short sentences."""
    return [change.words for change in awaited_changes(labels)]


def awaited_changes(labels: Iterable[str]) -> list[AwaitedChange]:
    """The same, each with its labels."""
    by_noun: dict[str, set[str]] = {}
    sentences: dict[str, list[str]] = {}
    meant: dict[str, list[str]] = {}
    for label in labels:
        resource, actions = _parts(label)
        if label == PLUGIN_DATA_UPDATE.label:
            sentences.setdefault("a plugin's data change", []).append(label)
        elif resource == Resource.WILDCARD.value or not actions:
            sentences.setdefault("anything changes", []).append(label)
        else:
            noun = _NOUNS.get(resource, resource.rpartition("/")[2])
            of_pods = _OF_PODS.get(resource, {})
            by_noun.setdefault(noun, set()).update(of_pods.get(action, action) for action in actions)
            meant.setdefault(noun, []).extend(_labels(resource, _counted(noun, actions)))
    return [
        *(_change(f"{noun} {_verbs(by_noun[noun])}", meant[noun]) for noun in (_NODE, _POD) if noun in by_noun),
        *(_change(words, [each for noun in nouns for each in meant[noun]]) for words, nouns in _others(by_noun)),
        *(_change(words, found) for words, found in sentences.items()),
    ]


def _change(words: str, labels: Iterable[str]) -> AwaitedChange:
    return AwaitedChange(words, tuple(dict.fromkeys(labels)))


def _others(by_noun: dict[str, set[str]]) -> Iterator[tuple[str, list[str]]]:
    """`a ResourceClaim or ResourceSlice is added or changes`, and the nouns in it."""
    by_verbs: dict[str, list[str]] = {}
    for noun in sorted(by_noun.keys() - {_NODE, _POD}):
        by_verbs.setdefault(_verbs(set(_counted(noun, by_noun[noun]))), []).append(noun)
    for verbs, nouns in by_verbs.items():
        yield f"{'an' if nouns[0][0] in 'AEIOU' else 'a'} {joined(nouns)} {verbs}", nouns


def _labels(resource: str, actions: Iterable[str]) -> Iterator[str]:
    """As events are counted: those of pods are of assigned pods or of others."""
    for action in actions:
        if resource != Resource.POD.value:
            yield f"{resource}{action}"
            continue
        yield f"{Resource.ASSIGNED_POD.value}{action}"
        if action != "Delete":
            yield f"{Resource.UNSCHEDULABLE_POD.value}{action}"


def _counted(noun: str, actions: Iterable[str]) -> list[str]:
    """What is told apart when such an object changes: of others than nodes and pods only that it does."""
    if noun in (_NODE, _POD):
        return list(actions)
    return ["Update" if action.startswith("Update") else action for action in actions]


def _parts(label: str) -> tuple[str, list[str]]:
    """`Node` and its actions of `NodeAdd|UpdateNodeLabel`; no actions: the label is of no such form."""
    found = _ACTIONS.search(label)
    return (label, []) if found is None else (label[: found.start()], found[0].split("|"))


def _verbs(actions: set[str]) -> str:
    apply_external = actions | ({"Add", "Delete"} if "All" in actions else set())
    verbs = [words for action, words in _HAPPENS.items() if action in apply_external]
    changes = sorted(actions - _HAPPENS.keys() - {"All"})
    what = [_WHAT[action] for action in changes if action in _WHAT]
    does = [_DOES[action] for action in changes if action in _DOES]
    if "All" in actions or len(what) + len(does) > _MAX_NAMED or len(what) + len(does) < len(changes):
        verbs.append("changes")
    else:
        verbs += [*does, *([f"changes its {joined(what)}"] if what else [])]
    return joined(verbs)


def joined(words: Sequence[str]) -> str:
    """`one, two or three`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
