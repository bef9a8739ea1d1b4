"""The published JSON Schema of explanations, made from the structs of the answers."""

from collections.abc import Iterable
from importlib import resources
from typing import Any

import msgspec

from kscheduler.answers.schema import IN_SCHEMA, definitions, root_schema
from kscheduler.explain.answer import Outcome, PodExplanation, PodState
from kscheduler.explain.detail_facts import FACTS
from kscheduler.explain.suggestions.all_kinds import KINDS

Tree = dict[str, Any]


def schema_text() -> str:
    """The JSON Schema of `kscheduler explain -o json`, as it is published."""
    return resources.files("kscheduler.explain").joinpath("explanation.schema.json").read_text(encoding="utf-8")


def explanation_schema() -> Tree:
    """The same, made anew."""
    found = explain_definitions([PodExplanation], IN_SCHEMA)
    root = found.pop("PodExplanation")
    return root_schema("explain:v1:explanation", "Explanation", root, found)


def explain_definitions(structs: Iterable[type[msgspec.Struct]], prefix: str) -> dict[str, Tree]:
    """By name the schemas of the structs, and of all that explanations and suggestions hold."""
    found = definitions([*structs, *FACTS.values()], prefix, (Outcome, PodState))
    # What structs cannot say: which keys exclude each other, and that the kind says what the facts are.
    found["StepAnswer"]["properties"]["kind"] = {"enum": [kind.kind for kind in KINDS]}
    found["ChangeAnswer"]["oneOf"] = [{"required": ["patch"]}, {"required": ["delete"]}]
    found["NamedDetail"]["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": kind}}},
            "then": {"properties": {"facts": {"$ref": f"{prefix}{facts.__name__}"}}},
        }
        for kind, facts in FACTS.items()
    ]
    return found
