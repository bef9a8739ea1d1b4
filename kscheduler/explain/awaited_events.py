"""Labels of events in words: `NodeAdd|UpdateNodeLabel` is "a node is added or changes its labels".

A parked pod waits for a dozen kinds of events, whose labels are kube-scheduler's. Who reads an explanation wants to
know what in the cluster would bring the pod back, so the changes of one kind of object are told together, without the
labels, which JSON has. Nodes come first, then pods; other kinds with the same changes share their words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

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
_MOST_NAMED: Final = 3
"""Of what changes about a node or a pod; of more it is just said that it changes."""


def awaited_in_words(labels: Iterable[str]) -> list[str]:
    """What must happen, in a few short sentences without an end: `a pod goes or asks for less`."""
    by_noun: dict[str, set[str]] = {}
    sentences: list[str] = []
    for label in labels:
        resource, actions = _parts(label)
        if label == PLUGIN_DATA_UPDATE.label:
            sentences.append("a plugin's data change")
        elif resource == Resource.WILDCARD.value or not actions:
            sentences.append("anything changes")
        else:
            by_noun.setdefault(_NOUNS.get(resource, resource.rpartition("/")[2]), set()).update(actions)
    of_node_and_pod = [f"{noun} {_verbs(by_noun[noun])}" for noun in (_NODE, _POD) if noun in by_noun]
    return [*of_node_and_pod, *_others(by_noun), *dict.fromkeys(sentences)]


def _others(by_noun: dict[str, set[str]]) -> Iterator[str]:
    """`a ResourceClaim or ResourceSlice is added or changes`."""
    by_verbs: dict[str, list[str]] = {}
    for noun in sorted(by_noun.keys() - {_NODE, _POD}):
        actions = {"Update" if action.startswith("Update") else action for action in by_noun[noun]}
        by_verbs.setdefault(_verbs(actions), []).append(noun)
    for verbs, nouns in by_verbs.items():
        yield f"{'an' if nouns[0][0] in 'AEIOU' else 'a'} {joined(nouns)} {verbs}"


def _parts(label: str) -> tuple[str, list[str]]:
    """`Node` and its actions of `NodeAdd|UpdateNodeLabel`; no actions: the label is of no such form."""
    found = _ACTIONS.search(label)
    return (label, []) if found is None else (label[: found.start()], found[0].split("|"))


def _verbs(actions: set[str]) -> str:
    verbs = ["is added"] if actions & {"Add", "All"} else []
    verbs += ["goes"] if actions & {"Delete", "All"} else []
    changes = sorted(actions - {"Add", "Delete", "All"})
    what = [_WHAT[action] for action in changes if action in _WHAT]
    does = [_DOES[action] for action in changes if action in _DOES]
    if "All" in actions or len(what) + len(does) > _MOST_NAMED or len(what) + len(does) < len(changes):
        verbs.append("changes")
    else:
        verbs += [*does, *([f"changes its {joined(what)}"] if what else [])]
    return joined(verbs)


def joined(words: Sequence[str]) -> str:
    """`one, two or three`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
