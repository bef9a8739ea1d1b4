"""Bodies of requests to the running service: JSON objects that hold manifests.

The commands read the same objects from files (`object_files`).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import nearest
from kscheduler.scenario.object_files import Document, field_first, flattened


def documents_of(objects: Sequence[dict[str, Any]], places: Sequence[str] = ()) -> Iterator[Document]:
    """The objects of a request, and the members of lists among them. Raises `ScenarioError`."""
    for index, tree in enumerate(objects):
        yield from flattened(tree, places[index] if index < len(places) else f"objects[{index}]")


def decoded_request(body: bytes, decoder: msgspec.json.Decoder[Any], kind: type[msgspec.Struct]) -> Any:
    """The body of a question, all of whose fields may be missing. Raises `ScenarioError` that begins with the field."""
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as problem:
        raise ScenarioError(_with_suggestion(str(problem), kind.__struct_encode_fields__)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ScenarioError(f"the body is not JSON: {problem}") from None


def _with_suggestion(message: str, fields: Sequence[str]) -> str:
    """Msgspec's text with the field first; an unknown field with the nearest known one."""
    text = field_first(message)
    unknown = message.partition("unknown field `")[2].partition("`")[0]
    near = nearest(unknown, fields) if unknown else ""
    return f"{text}: do you mean {near}?" if near else text
