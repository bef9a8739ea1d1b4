"""YAML of manifests and kubeconfigs: scalars as Go's library reads them, and no document that grows or takes long.

The problem: PyYAML reads YAML 1.1 in full. `1:59:59...` is a number of base 60, whose value takes quadratic time; an
integer of a million digits is refused in the words of Python; a thousand aliases of a thousand aliases of a list are a
million values to code that walks the tree, and merge keys grow likewise. kubectl knows no base 60 and bounds aliases.

The idea: libyaml parses; what a plain scalar means is decided by one function, `plain_scalar`, which takes linear time.
What aliases and merge keys would grow to is counted before anybody walks it. Keys are text, as in JSON. A key that a
mapping of a manifest has twice is refused: two objects without `---` between them are one mapping, whose last value
kubectl takes, so that the first object is lost without a word.
"""

import codecs
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml.constructor import ConstructorError

# PyYAML's loader on libyaml, or its loader in Python if libyaml is missing.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

MAX_UINT64: Final = 2**64 - 1
# Values that aliases and merge keys may stand for, beside one for each byte of the text.
MAX_ALIASED_VALUES: Final = 100_000

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INTEGER: Final = re.compile(r"([-+]?)(?:0([bB][01]+|[oO]?[0-7]+|[xX][0-9a-fA-F]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES: Final = {"b": 2, "o": 8, "x": 16}
_LONGEST_INTEGER: Final = 80
_PLAIN: Final = "tag:kscheduler,2026:plain"
_MERGE: Final = "tag:yaml.org,2002:merge"


def plain_scalar(text: str) -> str | int | float | bool | None:
    """What a scalar without quotes and tag stands for: YAML 1.1 booleans with `yes` and `on`, no base 60, no dates.

    Integers beyond 64 bits become floats, numbers beyond a float's range stay text. Raises `ValueError` for numbers
    that JSON does not know.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text.replace("_", "") if text[0] != "." else text
    integer = _INTEGER.fullmatch(plain) if len(plain) <= _LONGEST_INTEGER else None
    if integer:
        value = _integer(*integer.groups())
        if -(2**63) <= value <= MAX_UINT64:
            return value
    if plain.lstrip("+-").lower() in (".nan", ".inf"):
        raise ValueError(f"{text} is not a number that JSON knows")
    if not _FLOAT.fullmatch(plain):
        return text
    number = float(plain)
    return number if math.isfinite(number) else text


def _key(key: str | float | bool) -> str:
    """A key as Go's library writes it into JSON."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return f"{key:g}" if isinstance(key, float) else str(key)


def _integer(sign: str, based: str | None, decimal: str | None) -> int:
    if decimal is not None:
        magnitude = int(decimal)
    else:
        digits = based or "0"
        base = _BASES.get(digits[0].lower())
        magnitude = int(digits[1:], base) if base else int(digits, 8)
    return -magnitude if sign == "-" else magnitude


def text_of(data: bytes) -> str:
    """The text of a file of YAML or JSON: UTF-16 where its byte order mark is in front, as in Go, or UTF-8.

    Raises `UnicodeDecodeError`.
    """
    is_utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not data.startswith(codecs.BOM_UTF32_LE)
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig")


def problem_text(error: yaml.MarkedYAMLError) -> str:
    """What is wrong, and where that began: a quote that is never closed is noticed at the end of the file."""
    problem = error.problem or error.context or ""
    began, noticed = error.context_mark, error.problem_mark
    if not (error.problem and error.context and began and noticed) or began.line == noticed.line:
        return problem
    return f"{problem} {error.context} that begins in line {began.line + 1}"


def load_documents(text: bytes) -> Iterator[Any]:
    """The documents of a text; `None` for an empty one. Raises `yaml.YAMLError`, `ValueError`, `RecursionError`."""
    for tree in yaml.load_all(text, Loader=_DistinctKeysLoader):
        _refuse_growth(tree, text)
        yield tree


def load_document(text: bytes) -> Any:
    """The only document of a text; `None` if it is empty. Raises as `load_documents`, also for a second document.

    Of a key that is there twice the last value counts, as client-go and the API server read YAML.
    """
    tree = yaml.load(text, Loader=_ManifestLoader)  # noqa: S506  # a safe loader
    _refuse_growth(tree, text)
    return tree


class _ManifestLoader(LOADER):  # type: ignore[misc]  # one of two classes, as PyYAML was built
    """A safe loader that leaves it to `plain_scalar` what a plain scalar is."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self._merged_fields = 0
        self._most_merged_fields = MAX_ALIASED_VALUES + len(text)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """The tag of a node that has none. `implicit[0]`: it is a scalar without quotes."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _MERGE if value == "<<" else _PLAIN
        return super().resolve(kind, value, (False, True) if kind is yaml.ScalarNode else implicit)

    def flatten_mapping(self, node: Any) -> None:
        """Replace merge keys by the fields that they stand for; these are counted first."""
        for key, value in node.value:
            if key.tag == _MERGE:
                merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
                self._merged_fields += sum(len(each.value) for each in merged if isinstance(each, yaml.MappingNode))
        if self._merged_fields > self._most_merged_fields:
            problem = f"its merge keys (<<) stand for more than {self._most_merged_fields:,} fields"
            raise ConstructorError(None, None, problem, node.start_mark)
        super().flatten_mapping(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        """The mapping with text for keys, as YAML becomes JSON in Go: `1: a` is `"1": "a"`."""
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if all(type(key) is str for key in mapping):
            return mapping
        if None in mapping:
            raise ConstructorError(None, None, "null is no key that JSON knows", node.start_mark)
        return {_key(key): value for key, value in mapping.items()}

    def construct_plain(self, node: Any) -> Any:
        """The value of a plain scalar."""
        try:
            return plain_scalar(node.value)
        except ValueError as error:
            raise ConstructorError(None, None, str(error), node.start_mark) from None


class _DistinctKeysLoader(_ManifestLoader):
    """Of manifests, where a key that is there twice is a mistake."""

    def flatten_mapping(self, node: Any) -> None:
        """Look at the mapping's own keys before those of merge keys, which they replace, stand among them."""
        if not hasattr(node, "has_distinct_keys"):
            first: dict[str, Any] = {}
            for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE):
                before = first.setdefault(key.value, key)
                if before is not key:
                    line = before.start_mark.line + 1
                    problem = f"{key.value!r} is there twice, first in line {line}: is --- missing between two objects?"
                    raise ConstructorError(None, None, problem, key.start_mark)
            node.has_distinct_keys = True
        super().flatten_mapping(node)


_ManifestLoader.add_constructor(_PLAIN, _ManifestLoader.construct_plain)


def _refuse_growth(tree: Any, text: bytes) -> None:
    """Raises `ValueError` if a walk of the tree would meet far more values than the text has, or no end.

    A part that many aliases share is walked here once: its size is known when it is met again.
    """
    if not (b"*" in text and b"&" in text):
        return  # no alias
    most = MAX_ALIASED_VALUES + len(text)
    sizes: dict[int, int] = {}
    open_parts: set[int] = set()
    # Post-order with a stack of our own: a part's size is known when all its children have been sized.
    stack = [(tree, False)]
    while stack:
        part, has_sizes = stack.pop()
        children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if has_sizes:
            open_parts.discard(id(part))
            sizes[id(part)] = size = 1 + sum(sizes.get(id(child), 1) for child in children)
            if size > most:
                raise ValueError(f"its aliases (& and *) stand for more than {most:,} values")
        elif children and id(part) not in sizes:
            if id(part) in open_parts:
                raise ValueError("an alias (*) stands for a part that it is in itself")
            open_parts.add(id(part))
            stack.append((part, True))
            stack.extend((child, False) for child in children if isinstance(child, dict | list))
