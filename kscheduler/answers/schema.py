"""The JSON Schema of answers, made from their structs."""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final

import msgspec

from kscheduler.answers import Answer

Tree = dict[str, Any]

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
# Before the name of a struct, where a schema refers to it.
IN_SCHEMA: Final = "#/$defs/"
IN_OPENAPI: Final = "#/components/schemas/"


def definitions(
    structs: Iterable[type[msgspec.Struct]], prefix: str, enums: Iterable[type[Enum]] = ()
) -> dict[str, Tree]:
    """By name the schemas of the structs and of all that they hold. `enums`: whose values stand in the code's order."""
    _, found = msgspec.json.schema_components(tuple(dict.fromkeys(structs)), ref_template=f"{prefix}{{name}}")
    answers = {struct.__name__: struct for struct in _with_subclasses(Answer)}
    made = {name: _as_published(schema, answers.get(name)) for name, schema in found.items()}
    for enum in enums:
        made[enum.__name__]["enum"] = [each.value for each in enum]
    return dict(sorted(made.items()))


def root_schema(identifier: str, title: str, root: Tree, others: dict[str, Tree]) -> Tree:
    """A whole schema: of `root`, which refers to the others."""
    head = {"$schema": _DIALECT, "$id": f"urn:kscheduler:{identifier}", "title": title}
    return {**head, **{key: value for key, value in root.items() if key != "title"}, "$defs": others}


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
    return schema
