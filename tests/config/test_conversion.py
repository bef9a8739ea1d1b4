"""Conversion of whatever files: what comes of it can be used, or it is refused; nothing else happens."""

import copy
import random
from collections.abc import Iterator

import pytest
import yaml

from kscheduler.cli.judged_flags import without_meaning
from kscheduler.config.conversion.converting import convert
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import load_bytes
from tests.builders import Tree
from tests.cli.test_config_convert import BETA_3, POLICY, VOLCANO

SEEDS = [yaml.safe_load(text) for text in (BETA_3, BETA_3.replace("v1beta3", "v1beta1"), POLICY, VOLCANO)]
JUNK: list[object] = [None, 0, -1, 3.5, True, "", "x", [], {}, [1], ["a"], {"a": 1}, [[]], [{}], [None]]


def mistakes(data: bytes) -> ConfigError | None:
    try:
        load_bytes(data, "f")
    except ConfigError as failure:
        return failure
    return None


def places(tree: object) -> Iterator[tuple[Tree, object]]:
    """Each field and item, as its container and its key."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key  # type: ignore[misc]
        yield from places(value)


def spoilt(seed: int) -> bytes:
    chance = random.Random(seed)
    tree = copy.deepcopy(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 3)):
        found = list(places(tree))
        if found:
            parent, key = chance.choice(found)
            if chance.random() < 0.3:
                del parent[key]  # type: ignore[arg-type]
            else:
                parent[key] = copy.deepcopy(chance.choice(JUNK))  # type: ignore[index]
    return yaml.safe_dump(tree).encode()


@pytest.mark.parametrize("seed", range(60))
def test_a_file_with_anything_anywhere_is_refused_or_becomes_one_that_can_be_used(seed: int) -> None:
    data = spoilt(seed)
    try:
        converted = convert(data, "f", mistakes, without_meaning)
    except ConfigError:
        return  # refused; anything else that is raised fails the test
    assert mistakes(converted.text.encode()) is None
    lines = [note.line for note in converted.notes]
    assert lines == sorted(lines)
    assert max(lines, default=0) <= data.count(b"\n")
