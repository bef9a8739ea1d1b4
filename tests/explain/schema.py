"""What is asked of every explanation: the published JSON Schema validates it, and it tells each rejection in detail."""

import json
from typing import Any, Final

from jsonschema import Draft202012Validator

from kscheduler.explain.schema import schema_text

Tree = dict[str, Any]

SCHEMA: Final = json.loads(schema_text())
VALIDATOR: Final = Draft202012Validator(SCHEMA)


def assert_valid(tree: Tree) -> None:
    problems = [f"{one.json_path}: {one.message}" for one in VALIDATOR.iter_errors(tree)]
    assert problems == []


def untold(tree: Tree) -> list[str]:
    """Nodes that a plugin rejected and that no detail of it speaks of, and details that could not be made."""
    missing = []
    for one in tree["rejections"] or ():
        detailed_nodes = {node for detail in one["details"] for node in detail["nodes"]}
        rejected = {node for status in one["statuses"] for node in status["nodes"]}
        missing += sorted(rejected - detailed_nodes) if one["plugin"] else []
        missing += [detail["text"] for detail in one["details"] if detail["kind"] == "detailsFailed"]
        assert detailed_nodes <= rejected
    return missing


def weighed(tree: Tree) -> Tree:
    """The recorded points, if each plugin's is a multiple of its weight within 0..100 of it."""
    for points in tree["scores"].values():
        for plugin, weight in tree["weights"].items():
            assert points[plugin] % weight == 0
            assert 0 <= points[plugin] // weight <= 100
    scores: Tree = tree["scores"]
    return scores
