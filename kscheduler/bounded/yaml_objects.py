"""YAML of Kubernetes objects and kubeconfigs, at a price that its length bounds.

The problem: a loader of YAML 1.1 takes 20 s for an integer `1:59:59:...` of a megabyte, one alias in ten lines grows to
gigabytes as soon as the tree is written out, merge keys copy what they merge, and libyaml's composer goes down with the
nesting in C, where no exception tells of too much. The idea: numbers are those of JSON and Go (no base 60, no dates,
none of a hundred digits), and what may grow or nest is looked at event by event before anything is made of it.

Files of ours have a stricter reader, `config.reading.yaml_tree`; kubectl and kubeconfigs allow aliases.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

MOST_NESTED: Final = 100
MOST_EXPANDED: Final = 1_000_000
"""Values of all documents, those that an alias stands for counted each time, where there are aliases."""
LONGEST_NUMBER: Final = 100
"""Letters."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAY_GROW: Final = re.compile(rb"(?:^|[\s,\[{])[*&][^\s]")
_MAY_BE_DEEP: Final = re.compile(rb"(?m)^ {%d}|(?:[-?:] +){%d}" % (MOST_NESTED, MOST_NESTED // 2))
"""Of block collections; libyaml counts the brackets of others itself."""
_INT, _FLOAT, _TIMESTAMP = (f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp"))


class ObjectLoader(_LOADER):  # type: ignore[misc]  # one of two classes, as PyYAML was built
    """PyYAML's safe loader, with times as text, as in JSON, and numbers that are short."""

    def number(self, node: yaml.ScalarNode) -> Any:
        """An int or float. Raises `yaml.YAMLError` if it is too long."""
        text = self.construct_scalar(node)
        if len(text) > LONGEST_NUMBER:
            problem = f"a number of {len(text):,} letters: write it in quotes if it is text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        if ":" in text:  # of base 60, as nobody means it
            return text
        return self.construct_yaml_int(node) if node.tag == _INT else self.construct_yaml_float(node)


ObjectLoader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] != _TIMESTAMP]
    for first, resolvers in _LOADER.yaml_implicit_resolvers.items()
}
for _tag in (_INT, _FLOAT):
    ObjectLoader.add_constructor(_tag, ObjectLoader.number)


def documents(text: bytes) -> Iterator[Any]:
    """The documents, one after the other. Raises `yaml.YAMLError`, `ValueError`."""
    refuse_growing(text)
    yield from yaml.load_all(text, Loader=ObjectLoader)  # a safe loader


def document(text: bytes) -> Any:
    """The only document; `None` if there is none. Raises `yaml.YAMLError`, `ValueError`."""
    refuse_growing(text)
    return yaml.load(text, Loader=ObjectLoader)  # noqa: S506  # a safe loader


def refuse_growing(text: bytes) -> None:
    """Raise `ValueError` for what nests too deep, or becomes too large with its aliases; or a `yaml.YAMLError`."""
    if not (_MAY_GROW.search(text) or _MAY_BE_DEEP.search(text) or text[:1] in (b"[", b"{")):
        return
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            total += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
        if len(opened) > MOST_NESTED:
            message = f"nested more than {MOST_NESTED} deep"
            raise ValueError(message)
        if total > MOST_EXPANDED and sizes:
            message = f"more than {MOST_EXPANDED:,} values, with what its aliases stand for"
            raise ValueError(message)
