"""Random clusters in which a plugin finds what it looks for.

A policy that reads the annotation `cost` would never see one on a node of random words. So keys and values, and the
names of some nodes, are taken from the text constants of the plugin's own source, beside numbers and words that nobody
expects.
"""

import ast
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.well_known import OS
from kscheduler.testing.objects import make_node, make_pod

_KEY: Final = re.compile(r"[A-Za-z0-9][\w./-]{0,62}")
# What the name of an object may be, or its beginning or end: `startswith("gpu-")`.
_NAME: Final = re.compile(r"(?=.*[a-z0-9])[a-z0-9.-]{1,60}")
_MAX_WORDS: Final = 20
# In a cluster.
_MAX_NAMED_NODES: Final = 4
_USUAL_KEYS: Final = ("app", "tier", "zone", OS)
_USUAL_VALUES: Final = ("", "web", "db", "a", "b", "linux")
_NUMBERS: Final = ("0", "1", "0.5", "3", "20", "1000")
_CONVERSIONS: Final = frozenset(("int", "float", "Decimal", "parse_quantity"))
# What a person may write where a number is meant.
UNEXPECTED: Final = ("none", "1,5", "-1", "nan")


@dataclass(frozen=True, slots=True)
class Words:
    """What labels and annotations are made of."""

    keys: tuple[str, ...]
    values: tuple[str, ...]
    named: tuple[str, ...] = ()
    """The words of the source."""
    names: tuple[str, ...] = ()
    """Names of objects, of the words of the source that may be in one."""

    def some(self, chance: random.Random, most: int) -> dict[str, str]:
        """A random mapping."""
        keys = chance.sample(self.keys, min(len(self.keys), chance.randint(0, most)))
        return {key: chance.choice(self.values) for key in keys}


def words_of(source: str, *, unexpected: bool) -> Words:
    """The words for a plugin's source; with `unexpected` also values that no number can be read from."""
    texts = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    found = list(filter(_KEY.fullmatch, texts))
    numeric = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS
        for node in ast.walk(ast.parse(source))
    )
    values = _NUMBERS if numeric else (*_USUAL_VALUES, *_NUMBERS)
    named = () if numeric else tuple(dict.fromkeys(found))
    extra = UNEXPECTED if unexpected else ()
    names = tuple(dict.fromkeys(_name_with(text) for text in texts if _NAME.fullmatch(text)))
    keys = tuple(dict.fromkeys((*found, *_USUAL_KEYS)))
    return Words(keys, (*values, *named, *extra), tuple(dict.fromkeys(found)), names)


def _name_with(word: str) -> str:
    """The word, or a name that begins or ends with it."""
    return f"{'' if word[0].isalnum() else 'a'}{word}{'' if word[-1].isalnum() else '1'}"


def pods_with_words(words: Words, aspect: str) -> Iterator[tuple[str, Pod]]:
    """Pods with one label (or annotation, by `aspect`) each: every word of the source with every other as its value.

    With the first, a pod without any. Of the aspects `name` and `namespace`, pods with each word as theirs. Each has
    the words that describe it.
    """
    if aspect in {"name", "namespace"}:
        for word in ("pod", *words.names[:_MAX_WORDS]):
            name, namespace = (word, "default") if aspect == "name" else ("pod", word)
            yield f"{aspect} {word}", make_pod(name, namespace=namespace)
        return
    yield f"a pod without {aspect}", make_pod("pod")
    named = words.named[:_MAX_WORDS]
    for key in named:
        for value in dict.fromkeys((*named, *_USUAL_VALUES, *UNEXPECTED)):
            fields: dict[str, Any] = {aspect: {key: value}}
            yield f'{aspect.removesuffix("s")} {key}="{value}"', make_pod("pod", **fields)


def random_nodes(chance: random.Random, words: Words, count: int) -> list[Node]:
    """Nodes of different sizes, labels, annotations and taints, a few of them with names that the source has."""
    names = [f"node-{number}" for number in range(count)]
    most = min(count, len(words.names), _MAX_NAMED_NODES)
    if most:
        for place, name in zip(chance.sample(range(count), most), chance.sample(words.names, most), strict=True):
            names[place] = name
    return [
        make_node(
            name,
            labels=words.some(chance, len(words.keys)),
            annotations=words.some(chance, len(words.keys)),
            taints=[{"key": chance.choice(words.keys), "effect": "NoSchedule"}] if chance.random() < 0.1 else (),
            unschedulable=chance.random() < 0.05,
            cpu=chance.choice(("1", "4", "16", "64")),
            memory=chance.choice(("2Gi", "8Gi", "64Gi")),
        )
        for name in names
    ]


def random_pod(chance: random.Random, words: Words, name: str, node: str = "") -> Pod:
    """A pod, pending or on a node."""
    return make_pod(
        name,
        namespace=chance.choice(("default", "shop")),
        labels=words.some(chance, len(words.keys)),
        annotations=words.some(chance, len(words.keys)),
        requests={"cpu": chance.choice(("100m", "1", "3")), "memory": chance.choice(("64Mi", "1Gi"))},
        node=node,
        priority=chance.choice((0, 0, 1000)),
    )


def _with_metadata(**fields: Callable[[random.Random, Words], object]) -> "Change":
    def change(pod: Pod, chance: random.Random, words: Words) -> Pod:
        values = {name: make(chance, words) for name, make in fields.items()}
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **values))

    return change


def _with_spec_of(other: Callable[[random.Random, Words], Pod]) -> "Change":
    def change(pod: Pod, chance: random.Random, words: Words) -> Pod:
        return msgspec.structs.replace(pod, spec=other(chance, words).spec)

    return change


Change = Callable[[Pod, random.Random, Words], Pod]
# Parts of a pod, and how each is changed while the others stay (`priority` also draws requests again).
ASPECTS: Final[Mapping[str, Change]] = {
    "name": _with_metadata(
        name=lambda chance, _: f"other-{chance.randrange(1000)}", uid=lambda chance, _: f"uid-{chance.randrange(1000)}"
    ),
    "namespace": _with_metadata(namespace=lambda chance, _: chance.choice(("default", "shop", "third"))),
    "labels": _with_metadata(labels=lambda chance, words: words.some(chance, len(words.keys))),
    "annotations": _with_metadata(annotations=lambda chance, words: words.some(chance, len(words.keys))),
    "requests": _with_spec_of(
        lambda chance, _: make_pod("p", requests={"cpu": chance.choice(("200m", "2")), "memory": "2Gi"})
    ),
    "priority": _with_spec_of(lambda chance, words: random_pod(chance, words, "p")),
}
