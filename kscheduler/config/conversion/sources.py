"""What a file has of a scheduler, itself, in a ConfigMap, a list or among documents: a configuration, or a manifest."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kscheduler.config.conversion.located import FILE_LINES, Fields, LineOf, Notes, documents
from kscheduler.config.conversion.manifests import runs_kube_scheduler
from kscheduler.config.errors import ConfigError, config_error
from kscheduler.config.reading.yaml_tree import MAX_BYTES
from kscheduler.config.types import KIND

CONFIGURATION, POLICY, VOLCANO, MANIFEST = "configuration", "policy", "volcano", "manifest"
_OTHER_FORMS: Final = {
    "partitions": "queues of Apache YuniKorn: queues are Kueue's here, whose gated pods are scheduled"
}


@dataclass(frozen=True, slots=True)
class FoundConfiguration:
    """A configuration that can be converted."""

    form: str
    tree: Fields
    name: str
    """What the file calls it: `ConfigMap NAME, KEY`; empty for the file itself."""
    line: int


def source_in(data: bytes, where: str, notes: Notes) -> FoundConfiguration:
    """The first configuration of the file, else the first manifest; what else it has is noted.

    Raises `ConfigError` if it has neither.
    """
    if len(data) > MAX_BYTES:
        raise config_error("", f"larger than 1 MiB ({len(data)} bytes)", where)
    others = Notes()
    sources: list[FoundConfiguration] = []
    for tree, line in documents(data, FILE_LINES, where):
        sources += _sources(tree, line, "", others)
    if not sources:
        found = "; ".join(f"line {note.line}: {note.name}: {note.reason}" for note in others) or "it is empty"
        raise config_error("", f"has no configuration of a scheduler that can be converted: {found}", where)
    for note in others:
        notes.add(note.line, note.name, note.reason)
    # A rendered chart has both: the configuration is what is asked for, and the manifest a second question.
    sources.sort(key=lambda source: source.form == MANIFEST)
    for source in sources[1:]:
        name = source.name or source.form
        notes.add(source.line, name, "not converted: one configuration at a time, give it as a file of its own")
    return sources[0]


def _sources(tree: Any, line: int, name: str, others: Notes) -> Iterator[FoundConfiguration]:
    if tree is None:
        return
    if not isinstance(tree, Fields):
        others.add(line, name or "document", "not converted: it is no object")
        return
    kind, version = str(tree.get("kind") or ""), str(tree.get("apiVersion") or "")
    form = _form(tree, kind, version)
    if form:
        yield FoundConfiguration(form, tree, name, line)
    elif runs_kube_scheduler(tree):
        yield FoundConfiguration(MANIFEST, tree, f"{kind} {_name(tree)}".strip(), line)
    elif kind == "ConfigMap":
        yield from _in_config_map(tree, line, others)
    elif kind.endswith("List") and isinstance(tree.get("items"), list):
        for index, item in enumerate(tree["items"]):
            yield from _sources(item, tree["items"].lines[index], name, others)
    else:
        known = next((text for field, text in _OTHER_FORMS.items() if field in tree), "")
        of_kind = f"{kind} {_name(tree)}".strip() if kind else "document"
        others.add(line, name or of_kind, known or "not converted: it is no configuration of a scheduler")


def _form(tree: Fields, kind: str, version: str) -> str:
    if kind == KIND:
        return CONFIGURATION
    if kind == "Policy" and (version in ("", "v1") or version.startswith("kubescheduler.config.k8s.io/")):
        return POLICY
    if kind or version:
        return ""
    if "tiers" in tree or "actions" in tree:
        return VOLCANO
    return POLICY if "predicates" in tree or "priorities" in tree else ""


def _in_config_map(tree: Fields, line: int, others: Notes) -> Iterator[FoundConfiguration]:
    data = tree.get("data")
    name = f"ConfigMap {_name(tree)}".strip()
    if not isinstance(data, Fields) or not data:
        others.add(line, name, "not converted: it has no data")
        return
    for key, text in data.items():
        of_key = f"{name}, {key}"
        if not isinstance(text, str):
            others.add(data.lines[key], of_key, "not converted: it is no text")
            continue
        yield from _in_text(text, of_key, data.lines[key], data.texts[key], others)


def _in_text(text: str, name: str, line: int, line_of: LineOf, others: Notes) -> Iterator[FoundConfiguration]:
    try:
        found = list(documents(text.encode(), line_of))
    except ConfigError as failure:
        others.add(line, name, f"not converted: {failure}")
        return
    for tree, at in found:
        yield from _sources(tree, at, name, others)


def _name(tree: Fields) -> str:
    metadata = tree.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
