"""Trees of YAML with anything anywhere: what a reader of files must refuse or read, and never fall over."""

import copy
import random
from collections.abc import Iterator, Sequence

import yaml

from tests.builders import Tree

JUNK: list[object] = [None, 0, -1, 3.5, True, "", "x", [], {}, [1], ["a"], {"a": 1}, [[]], [{}], [None]]


def places(tree: object) -> Iterator[tuple[Tree, object]]:
    """Each field and item, as its container and its key."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key  # type: ignore[misc]
        yield from places(value)


def spoilt(seed: int, seeds: Sequence[Tree]) -> bytes:
    """One of these with one to three places deleted, or filled with something else."""
    chance = random.Random(seed)
    tree = copy.deepcopy(chance.choice(seeds))
    for _ in range(chance.randint(1, 3)):
        found = list(places(tree))
        if found:
            parent, key = chance.choice(found)
            if chance.random() < 0.3:
                del parent[key]  # type: ignore[arg-type]
            else:
                parent[key] = copy.deepcopy(chance.choice(JUNK))  # type: ignore[index]
    return yaml.safe_dump(tree).encode()
