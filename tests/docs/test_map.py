"""The map of the code is true: the questions, the walks, the layers, the bounds of what is kept, the quirks."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pytest

from tests.docs.source_index import PACKAGE, ROOT, SourceIndex, pictures, spans, text_of
from tests.docs.test_citations import PAGES

WALKS: Final = "docs/architecture.md"
_QUIRK: Final = re.compile(r"\bQ\d+\b")
_IN_PICTURE: Final = re.compile(r"([\w/]+\.py)(?: ([A-Za-z_]\w*(?:\.\w+)?))?")
_METHOD: Final = re.compile(r"\b([A-Z]\w+\.[a-z_]\w*)")


# --- the questions ----------------------------------------------------------------------------------------------------


def queries() -> list[list[str]]:
    section = text_of("CONTRIBUTING.md").partition("## Where to look\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if "?" in line]
    found = [row for row in rows if len(row) == 3]
    assert found
    return found


@pytest.mark.parametrize("query", queries(), ids=lambda query: query[0])
def test_a_query_is_answered_by_a_file_and_a_function(query: list[str], index: SourceIndex) -> None:
    _, path, functions = query
    first, *others = spans(functions)
    assert index.defines(path.strip("`"), first)
    assert all(index.is_code(one) or index.is_word(one) for one in others)


# --- quirks -----------------------------------------------------------------------------------------------------------


def quirk_places() -> dict[str, tuple[str, str]]:
    """Path and name by the quirk's number."""
    rows = re.findall(r"^\| (Q\d+) \|.*\| `([\w./]+)` `([\w.]+)` \|$", text_of("docs/quirks.md"), re.MULTILINE)
    return {number: (path, name) for number, path, name in rows}


def cited_quirks(index: SourceIndex) -> Iterator[tuple[str, str]]:
    """Where a quirk is cited, and its number."""
    for path, file in index.files.items():
        for number in _QUIRK.findall("\n".join(text for _, text in file.prose)):
            yield str(path.relative_to(ROOT)), number
    for page in PAGES:
        for number in _QUIRK.findall(text_of(page)):
            yield page, number


def test_each_quirk_that_is_cited_is_explained(index: SourceIndex) -> None:
    assert [cited for cited in cited_quirks(index) if cited[1] not in quirk_places()] == []


def test_each_quirk_is_in_its_place_once_and_in_order(index: SourceIndex) -> None:
    assert [place for place in quirk_places().values() if not index.defines(*place)] == []
    listed = re.findall(r"^\| Q(\d+) \|", text_of("docs/quirks.md"), re.MULTILINE)
    assert len(listed) == len(quirk_places())
    assert all(int(one) < int(next_one) for one, next_one in pairwise(listed))


# --- architecture -----------------------------------------------------------------------------------------------------


def test_the_walks_name_what_there_is(index: SourceIndex) -> None:
    for picture in pictures(text_of(WALKS)):
        for path, name in _IN_PICTURE.findall(picture):
            assert index.file_at(path), path
            assert not name or index.defines(path, name), f"{path} {name}"
        for method in _METHOD.findall(picture):
            assert method.endswith(".py") or index.is_code(method), method


def bounds() -> list[tuple[str, set[int], list[str]]]:
    """Of each table that is kept: what it is, the figures of its bound, and the files or the folder that it is in."""
    section = text_of(WALKS).partition("## What is kept")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.count(" | ") == 3]
    return [
        (row[0].strip(), figures(row[2]), re.findall(r"`([\w/.]+)`", row[3])) for row in rows if row[1] != "keyed by"
    ]


def figures(text: str) -> set[int]:
    """Those of two digits and more, in bytes where they are sizes."""
    found = re.findall(r"(\d[\d,]*)( KiB| MiB)?", text)
    numbers = {int(digits.replace(",", "")) * {"": 1, " KiB": 2**10, " MiB": 2**20}[unit] for digits, unit in found}
    return {number for number in numbers if number >= 10}


@pytest.mark.parametrize(("what", "numbers", "paths"), bounds(), ids=[what for what, _, _ in bounds()])
def test_each_bound_is_that_of_the_code(what: str, numbers: set[int], paths: list[str], index: SourceIndex) -> None:
    files = [file for path in paths for file in index.files_at(path)]
    assert files
    assert numbers - set().union(*(file.numbers for file in files)) == set(), what


def test_the_layers_in_the_picture_are_those_that_are_checked() -> None:
    checked = re.search(r'containers = \["kscheduler"\]\nlayers = \[\n(.*?)\n\]', text_of("pyproject.toml"), re.DOTALL)
    assert checked is not None
    section = text_of(WALKS).partition("## Layers")[2]
    picture = next(pictures(section))
    drawn = [line.split("  ")[0].strip() for line in picture.splitlines()]
    assert drawn == re.findall(r'"([^"]+)"', checked[1])
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__", "unused_signals"}
    assert {name for line in drawn for name in line.split(" | ")} == folders | files
