"""The chart's values have one documentation: the comments in values.yaml.

`python -m tests.deploy.values_table` copies them into README.md, between its two markers, and into values.schema.json,
as descriptions beside the types that are kept there by hand. A comment that begins with `# --` belongs to the value
below it; a map without one is a heading only, and its values are told one by one.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

CHART: Final = Path(__file__).parents[2] / "deploy" / "helm" / "kscheduler"
VALUES: Final = CHART / "values.yaml"
SCHEMA: Final = CHART / "values.schema.json"
README: Final = CHART / "README.md"
DEFAULTS: Final = CHART / "files" / "defaults.json"
# Texts that are left out of the pods where somebody's `null` has taken them away.
MAY_BE_NOTHING: Final = ("priorityClassName",)
BEGIN: Final = "<!-- values: written by `make manifests` from values.yaml -->"
END: Final = "<!-- end of values -->"
_KEY: Final = re.compile(r"^( *)([A-Za-z]\w*):")
_SECTION: Final = "# @section "


@dataclass(frozen=True)
class Value:
    """A value by its path, with its default and what the comment above it says."""

    section: str
    path: str
    default: Any
    text: str


def values(source: str) -> Iterator[Value]:
    """Every documented value, in the order of the file."""
    tree = yaml.safe_load(source)
    section = reported = ""
    comment: list[str] = []
    parents: list[str] = []
    for line in source.splitlines():
        stripped = line.strip()
        if stripped.startswith(_SECTION):
            section = stripped.removeprefix(_SECTION)
        elif stripped.startswith("# -- "):
            comment = [stripped.removeprefix("# -- ")]
        elif stripped.startswith("#"):
            comment += [stripped.removeprefix("#").strip()] if comment else []
        elif match := _KEY.match(line):
            depth = len(match[1]) // 2
            parents[depth:] = [match[2]]
            path = ".".join(parents)
            # what is inside a documented map is its default
            if comment and not (reported and path.startswith(f"{reported}.")):
                yield Value(section, path, _at(tree, parents), " ".join(comment))
                reported = path
            comment = []


def _at(tree: Any, path: list[str]) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def table(source: str) -> str:
    """The README's tables, one per section."""
    lines: list[str] = []
    section = ""
    for value in values(source):
        if value.section != section:
            section = value.section
            lines += ["", f"### {section}", "", "| value | default | what it does |", "|---|---|---|"]
        default = json.dumps(value.default).replace("|", "\\|")
        lines.append(f"| `{value.path}` | `{default}` | {value.text} |")
    return "\n".join([BEGIN, *lines, "", END])


def readme(present: str, source: str) -> str:
    """README.md with its table as values.yaml says."""
    before, _, rest = present.partition(BEGIN)
    return before + table(source) + rest.partition(END)[2]


def described(schema: dict[str, Any], source: str) -> dict[str, Any]:
    """The schema with the descriptions of values.yaml. Raises `KeyError` for a value that the schema does not have."""
    for value in values(source):
        node = schema
        for name in value.path.split("."):
            node = node["properties"][name]
        for key in ("description", "default"):
            node.pop(key, None)
        node["description"] = value.text
        node["default"] = value.default
    for node in schema["properties"].values():
        _let_be_null(node)
    return schema


def _let_be_null(node: dict[str, Any]) -> None:
    """To Helm `null` is a value that is taken away. A chart that embeds this one hands it down."""
    if isinstance(node.get("type"), str):
        node["type"] = [node["type"], "null"]
    if "enum" in node and None not in node["enum"]:
        node["enum"] = [*node["enum"], None]
    for inner in node.get("properties", {}).values():
        _let_be_null(inner)


def defaults(source: str) -> str:
    """What the chart fills in for values that somebody's `null` has taken away: of a list or a map nothing.

    The chart cannot read its own values.yaml: this is a file of its own.
    """
    tree: dict[str, Any] = {}
    for value in values(source):
        *parents, name = value.path.split(".")
        inside = tree
        for parent in parents:
            inside = inside.setdefault(parent, {})
        inside[name] = type(value.default)() if isinstance(value.default, list | dict) else value.default
        if value.path in MAY_BE_NOTHING:
            inside[name] = ""
    return json.dumps(tree, indent=2) + "\n"


def write() -> None:
    """Both files as values.yaml says."""
    source = VALUES.read_text()
    README.write_text(readme(README.read_text(), source))
    SCHEMA.write_text(schema_text(SCHEMA.read_text(), source))
    DEFAULTS.write_text(defaults(source))


def schema_text(present: str, source: str) -> str:
    return json.dumps(described(json.loads(present), source), indent=2) + "\n"


if __name__ == "__main__":
    write()
