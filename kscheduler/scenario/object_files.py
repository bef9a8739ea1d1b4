"""Kubernetes objects from files, whatever they are for: `kubectl get -o yaml` and `-o json`, or written by hand.

`files` says what a file is, and `documents` what a document. Objects stay trees here: a command that sends manifests to
the running service needs none of the scheduler's types, whose import would be most of its time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from kscheduler.api.codec import Decoder, UndecodableError
from kscheduler.scenario.documents import documents, doubled_key
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.files import named_files, opened, source_name

T = TypeVar("T")

_SHALLOW: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SHALLOW_LINE = Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Document:
    """A Kubernetes object of a file."""

    tree: dict[str, Any]
    where: str
    """`FILE: document 2`, for messages."""


@dataclass(frozen=True, slots=True)
class OtherDocument:
    """What is no Kubernetes object: a scenario, or a mistake."""

    text: bytes | msgspec.Raw
    where: str
    """`FILE:LINE`, for messages."""


def read_documents(path: str, notes: list[str] | None = None) -> Iterator[Document | OtherDocument]:
    """Yields the documents of a file, with the members of lists. Raises `ScenarioError` for one that cannot be read.

    `notes`: gets what is passed over, and which objects are none: without it these raise, too.
    """
    name = source_name(path)
    try:
        with opened(path) as file:
            for number, document in documents(file, path, name, [] if notes is None else notes):
                where = f"{name}: document {number}"
                if not isinstance(document, bytes | msgspec.Raw):
                    yield from flattened(document, where, notes)
                elif (tree := _object_in(document, f"{name}:{number}")) is not None:
                    yield from flattened(tree, where, notes)
                else:
                    yield OtherDocument(document, f"{name}:{number}")
    except RecursionError:
        raise ScenarioError(f"{name}: its lists are nested too deep") from None


def read_objects(given: Sequence[str], notes: list[str], instead: str = "") -> list[Document]:
    """The objects of all files that the names stand for; none if there is none, and nothing else either.

    `notes`: gets what is not read, with its place. `instead`: said of scenarios, what to do with them. Raises
    `ScenarioError` for what is no file of objects, or has none that can be read.
    """
    files, not_read = named_files(given)
    notes.extend(not_read)
    found: list[Document] = []
    problems: list[str] = []
    for path in files:
        passed_over: list[str] = []
        before = len(found)
        for document in read_documents(path, passed_over):
            if not isinstance(document, Document):
                raise ScenarioError(_why_no_object(document, instead))
            found.append(document)
        problems += passed_over
        if len(files) > 1 and before == len(found) and not passed_over:
            notes.append(no_object_in(path))
    if problems and not found:
        raise ScenarioError("\n".join(problems))
    notes.extend(problems)
    return found


def _why_no_object(document: OtherDocument, instead: str) -> str:
    """Raises `ScenarioError` for what cannot be read at all."""
    decoded_line(document, _SHALLOW_LINE)
    keys = whole_tree(document.text, document.where)
    if "pod" in keys or "podGroup" in keys:
        return f"{document.where}: a scenario where a Kubernetes object was expected{instead}"
    return f"{document.where}: a Kubernetes object was expected, which has apiVersion and kind, not {', '.join(keys)}"


def decoded_line(document: OtherDocument, decoder: Decoder[T]) -> T:
    """Raises `ScenarioError` that begins with the place."""
    try:
        return decoder.decode(document.text)
    except UndecodableError as error:
        mapping = (
            ""
            if bytes(document.text).lstrip().startswith(b"{")
            else "; a mapping with apiVersion and kind was expected"
        )
        raise ScenarioError(f"{document.where}: {field_first(str(error))}{mapping}") from None


def names_of(given: Sequence[str]) -> str:
    """The files as messages name them."""
    return ", ".join(map(source_name, given))


def no_object_in(path: str) -> str:
    """A note on one file of several."""
    return f"{source_name(path)}: no object in it"


def nothing_in(given: Sequence[str]) -> ScenarioError:
    """The refusal of dumps that are empty: an answer about them would look like an all-clear."""
    return ScenarioError(
        f"{names_of(given)}: no object in it, only an empty file or list: give what "
        "`kubectl get nodes,pods -A -o yaml` prints"
    )


def _object_in(document: bytes | msgspec.Raw, where: str) -> dict[str, Any] | None:
    """The Kubernetes object in a document; `None` for a scenario or anything else. Raises `ScenarioError`."""
    try:
        keys = _SHALLOW.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if "kind" not in keys or "apiVersion" not in keys:
        return None
    return whole_tree(document, where)


def whole_tree(document: bytes | msgspec.Raw, where: str) -> dict[str, Any]:
    """The whole document, including fields that are not read but may be broken. Raises `ScenarioError`."""
    try:
        tree: dict[str, Any] = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ScenarioError(f"{where}: not JSON: {error}") from None
    twice = doubled_key(document)
    if twice:
        raise ScenarioError(f"{where}: an object has the key {twice!r} twice: the first value would be lost")
    if not tree:
        raise ScenarioError(f"{where}: an empty object is neither a Kubernetes object nor a scenario")
    return tree


def flattened(tree: Any, where: str, notes: list[str] | None = None) -> Iterator[Document]:
    """The object, or the members of a List. `notes`: as for `read_documents`. Raises `ScenarioError` for neither."""
    kind = tree.get("kind") if isinstance(tree, dict) else None
    listed = isinstance(kind, str) and _is_list(tree, kind)
    problem = _no_object(tree, listed)
    if problem:
        if notes is None:
            raise ScenarioError(f"{where}{problem}")
        notes.append(f"{where}{problem}")
    elif not listed:
        yield Document(tree, where)
    else:
        for position, item in enumerate(tree["items"] or ()):
            # kubectl's List has a kind in each member; the API server's PodList does not
            named = {"apiVersion": tree.get("apiVersion"), "kind": str(kind).removesuffix("List")}
            whole = {**named, **item} if isinstance(item, dict) else item
            yield from flattened(whole, f"{where}: items[{position}]", notes)


def _no_object(tree: Any, is_list: bool) -> str:
    """What is wrong, to stand behind the place; empty if it is an object or a list of some."""
    if not isinstance(tree, dict):
        return f": a Kubernetes object was expected, not {_ARTICLES.get(type(tree).__name__, type(tree).__name__)}"
    kind = tree.get("kind")
    if not isinstance(kind, str) or not kind:
        return ": kind: is missing; a Kubernetes object has apiVersion and kind"
    if is_list and "items" not in tree:
        return f" ({kind}): items: is missing; a list without objects has `items: []`"
    if is_list and not isinstance(tree["items"], list | None):
        return f" ({kind}): items: expected a list"
    return ""


_ARTICLES = {"NoneType": "null", "str": "a text", "list": "a list"}


def _is_list(tree: dict[str, Any], kind: str) -> bool:
    """Whether it is a list of objects. An object of a kind whose name ends so, an allow list say, has a name."""
    metadata = tree.get("metadata")
    return kind.endswith("List") and not (isinstance(metadata, dict) and metadata.get("name"))


def field_first(message: str) -> str:
    """Turn msgspec's ``Expected `str`, got `int` - at `$.pod.spec` `` into `pod.spec: expected str, got int`."""
    if message.startswith("not JSON"):
        return message
    text, _, path = message.partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".")
    plain = text.replace("`", "")
    plain = plain[:1].lower() + plain[1:]
    return f"{field}: {plain}" if field else plain
