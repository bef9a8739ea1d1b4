"""The published JSON Schema of explanations and their part of the OpenAPI page, made from the structs of the answers.

    python -m kscheduler.explain.schema explanation > kscheduler/explain/explanation.schema.json
    python -m kscheduler.explain.schema openapi > kscheduler/server/pages/answers.openapi.json

The files are in the repository so that a change of what is published is seen; a test tells when they are stale.
"""

import sys
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any, Final

import msgspec

from kscheduler.explain.answer import Answer, Outcome, PodExplanation, PodState
from kscheduler.explain.cluster_answers import NodeUses
from kscheduler.explain.detail_facts import FACTS
from kscheduler.explain.group_answer import ExplanationList, PodGroupExplanation
from kscheduler.explain.queries.new_pods import NewPodsRequest
from kscheduler.explain.suggestions.all_kinds import KINDS

Tree = dict[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ID: Final = "urn:kscheduler:explain:v1:explanation"


def schema_text() -> str:
    """The JSON Schema of `kscheduler explain -o json`, as it is published."""
    return resources.files("kscheduler.explain").joinpath("explanation.schema.json").read_text(encoding="utf-8")


def explanation_schema() -> Tree:
    """The same, made anew."""
    structs: list[type[msgspec.Struct]] = [PodExplanation, *FACTS.values()]
    definitions = _definitions(structs, "#/$defs/")
    root = definitions.pop("PodExplanation")
    head = {"$schema": _DIALECT, "$id": _ID, "title": "Explanation"}
    return {**head, **{key: value for key, value in root.items() if key != "title"}, "$defs": definitions}


def openapi_schemas() -> Tree:
    """The answers, and the request of `POST /explain`, as components of an OpenAPI description."""
    prefix = "#/components/schemas/"
    structs: list[type[msgspec.Struct]] = [
        PodExplanation,
        PodGroupExplanation,
        ExplanationList,
        NodeUses,
        NewPodsRequest,
        *FACTS.values(),
    ]
    found = _definitions(structs, prefix)
    request = found.pop("NewPodsRequest")
    del request["properties"]["objects"]["default"]
    found["ExplanationRequest"] = {**request, "title": "ExplanationRequest", "required": ["objects"]}
    either = [{"$ref": f"{prefix}{name}"} for name in ("PodExplanation", "PodGroupExplanation")]
    found["Explanation"] = {"description": "Of a pod, or of the pod group that it waits with.", "anyOf": either}
    return dict(sorted(found.items()))


def _definitions(structs: Iterable[type[msgspec.Struct]], prefix: str) -> dict[str, Tree]:
    """By name the schemas of the structs and of all that they hold."""
    every = tuple(dict.fromkeys(structs))
    _, found = msgspec.json.schema_components(every, ref_template=f"{prefix}{{name}}")
    answers = {struct.__name__: struct for struct in _with_subclasses(Answer)}
    definitions = {name: _as_published(schema, answers.get(name)) for name, schema in found.items()}
    # What structs cannot say: which keys exclude each other, and that the kind says what the facts are.
    definitions["StepAnswer"]["properties"]["kind"] = {"enum": [kind.kind for kind in KINDS]}
    definitions["ChangeAnswer"]["oneOf"] = [{"required": ["patch"]}, {"required": ["delete"]}]
    definitions["NamedDetail"]["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": kind}}},
            "then": {"properties": {"facts": {"$ref": f"{prefix}{facts.__name__}"}}},
        }
        for kind, facts in FACTS.items()
    ]
    return dict(sorted(definitions.items()))


def _with_subclasses(struct: type[Answer]) -> Iterator[type[Answer]]:
    yield struct
    for each in struct.__subclasses__():
        yield from _with_subclasses(each)


def _as_published(schema: Tree, answer: type[Answer] | None) -> Tree:
    """Without what msgspec says of decoding. Of an answer every key is there, even where the code has a default."""
    description = schema.get("description", "")
    schema["description"] = " ".join(description.split())
    for field in schema.get("properties", {}).values():
        if len(field.get("enum", ())) == 1:
            field["const"] = field.pop("enum")[0]
        if answer is not None:
            field.pop("default", None)
    if answer is not None:
        fields = msgspec.structs.fields(answer)
        schema["required"] = [field.encode_name for field in fields if field.default is not msgspec.UNSET]
        schema["additionalProperties"] = False
    for enum in (Outcome, PodState):
        if schema["title"] == enum.__name__:
            schema["enum"] = [each.value for each in enum]  # in the order of the code
    return schema


def main(arguments: list[str]) -> int:
    """Print one of the files."""
    made = {"explanation": explanation_schema, "openapi": openapi_schemas}
    if len(arguments) != 1 or arguments[0] not in made:
        sys.stderr.write(f"usage: python -m kscheduler.explain.schema {'|'.join(made)}\n")
        return 2
    sys.stdout.write(f"{msgspec.json.format(msgspec.json.encode(made[arguments[0]]()), indent=2).decode()}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
