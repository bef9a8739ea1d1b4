"""The documents of a file: JSON and YAML as kubectl's decoder takes them, and lines of JSON one at a time.

The problem: what people have is `kubectl get` twice into one file, `kubectl cluster-info dump` with the logs of
containers between its lists, JSON followed by YAML, or recordings of any size with a document a line. A reader that
takes the first document and passes over the rest gives an answer about half a cluster.

The idea: a file that begins with a whole document in its first line is read by lines, for as long as lines are
documents. All else is held as a whole: JSON documents one behind the other, and what does not begin with a bracket is
YAML to the end. Whatever is left is refused with its line, never passed over. kubectl's own limits are kept: a `---`
ends its line, and a key that a mapping has twice (two objects without `---` between them), whose last value kubectl
takes, is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from io import BufferedReader
from itertools import chain
from typing import Any, Final

import msgspec
import yaml

from kscheduler.api.manifest_yaml import load_documents, problem_text
from kscheduler.scenario.errors import ScenarioError

# The longest document or line, unpacked: 100,000 pods with their nodes, as JSON, are 0.8 GiB.
MAX_WHOLE_BYTES: Final = 1 << 30
# The longest YAML, whose reading takes seventy times its size in memory, and seconds for each MiB; JSON a tenth.
MAX_YAML_BYTES: Final = 128 << 20
# The longest text that begins with a bracket, is no JSON and may be YAML: most are JSON with a mistake.
MAX_FLOW_BYTES: Final = 1 << 20

# A document with its number: JSON as it is written, YAML as a tree. Documents that are lines have their lines'.
NumberedDocument = tuple[int, "bytes | msgspec.Raw | dict[str, Any]"]

# A separator with something behind it, which kubectl refuses: `---apiVersion: v1` is what templates make of two
# documents, and would be a key of the first. An empty document is none: Python's YAML writes `--- null`.
_SEPARATOR: Final = re.compile(rb"^---(?![ \t]*(?:[\r\n#]|null[ \t]*[\r\n]|\Z))[ \t]*([^\r\n]*)", re.MULTILINE)
_LOGS: Final = re.compile(rb"^==== START (logs for container [^\r\n]*) ====[ \t]*\r?$", re.MULTILINE)
# What is no UTF-8 was replaced by this when the file was opened, as kubectl does.
_NO_CHARACTER: Final = "\ufffd".encode()
_BRACKETS: Final = (b"{", b"[")
_NEXT: Final = re.compile(rb"[^ \t\r\n]")
_LOOKED_AT: Final = 1 << 12
_NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


def documents(file: BufferedReader, path: str, name: str, notes: list[str]) -> Iterator[NumberedDocument]:
    """The documents. Raises `ScenarioError`. `notes`: gets what is passed over, such as logs."""
    if path.removesuffix(".gz").endswith(".json"):
        blank, first, is_a_line = 0, b"", False
    else:
        blank, first = _first_line(file, name)
        _refuse_binary(first, name)
        is_a_line = not first or _is_a_line(first)
    if not is_a_line:
        yield from _of_whole(_whole_file(file, name, b"\n" * blank + first), name, notes)
        return
    for number, line in enumerate(chain([b"\n"] * blank, [first], _bounded_lines(file, name)), 1):
        if not line.strip():
            continue
        if _is_json(line):
            yield number, line
            continue
        # Several documents in a line, one of many lines, YAML: or a mistake, which is told with its line.
        rest = b"\n" * (number - 1) + _whole_file(file, name, line)
        yield from _of_whole(rest, name, notes, number)
        return


def _of_whole(whole: bytes, name: str, notes: list[str], number: int = 0) -> Iterator[NumberedDocument]:
    """The documents of a text. `number`: of its first, if documents have their lines' numbers."""
    whole = _without_logs(whole, name, notes)
    start = _next_byte(whole, 0)
    if not number:
        # The whole first: a document of a GiB is passed once, by the fastest reader.
        listed = _of_one(whole, start)
        if listed is not None:
            yield from enumerate(listed, 1)
            return
    count = 0
    text = whole.decode("latin-1") if whole[start : start + 1] in _BRACKETS else ""  # each character is a byte
    line, counted = 1, 0  # lines are counted on from the last document, not from the beginning for each
    while whole[start : start + 1] in _BRACKETS:
        end = _end_of_json(whole, text, start)
        if not end:
            break
        line, counted = line + whole.count(b"\n", counted, start), start
        for member in _of_one(whole[start:end], 0) or ():
            count += 1
            yield (line if number else count), member
        start = _next_byte(whole, end)
    if start >= len(whole):
        return
    begins = whole[start : start + _LOOKED_AT]
    if begins[:1] in _BRACKETS:
        yield from _flow(whole, start, name, count or max(number - 1, 0))
    elif count and not _looks_like_yaml(begins):
        raise ScenarioError(
            f"{name}:{_line_of(whole, start)}: the text after the last document is neither JSON nor YAML"
        )
    elif number and not _looks_like_yaml(begins):
        line_text = whole[start:].partition(b"\n")[0]
        if _NO_CHARACTER in line_text:
            raise ScenarioError(f"{name}:{number}: not UTF-8 text")
        yield number, line_text  # the reader of the line says what is wrong with it
    else:
        yield from enumerate(yaml_documents(_with_its_lines(whole, start), name), count + 1)


def _with_its_lines(whole: bytes, start: int) -> bytes:
    """The rest of a text, with empty lines in place of what was read, so that mistakes have their line numbers."""
    return b"\n" * whole.count(b"\n", 0, start) + whole[start:]


def _of_one(whole: bytes, start: int) -> list[msgspec.Raw] | None:
    """A single document, or the members of a list; `None` if the text is anything else."""
    try:
        if whole[start : start + 1] == b"[":
            return msgspec.json.decode(whole, type=list[msgspec.Raw])
        return [msgspec.json.decode(whole, type=msgspec.Raw)]
    except (msgspec.DecodeError, RecursionError):
        return None


def _flow(whole: bytes, start: int, name: str, count: int) -> Iterator[NumberedDocument]:
    """What begins with a bracket and is no JSON: an object in YAML's flow form, or else a mistake in JSON."""
    trees: list[Any] = []
    if count <= 1 and len(whole) - start <= MAX_FLOW_BYTES:  # kubectl does not try either behind a second document
        try:
            trees = list(yaml_documents(_with_its_lines(whole, start), name))
        except ScenarioError:
            trees = []
    if not trees or not all(isinstance(tree, dict) and "kind" in tree for tree in trees):
        raise ScenarioError(_why_no_json(whole, start, name))
    yield from enumerate(trees, count + 1)


def _why_no_json(whole: bytes, start: int, name: str) -> str:
    try:
        msgspec.json.decode(whole[start:])
    except RecursionError:
        problem = "nested too deep"
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = str(error)
    else:
        problem = "a number that is too large"
    return f"{name}:{_line_of(whole, start)}: not JSON: {problem}"


def yaml_documents(text: bytes, name: str) -> Iterator[Any]:
    """The documents of a YAML file without empty documents. Raises `ScenarioError`."""
    if len(text) > MAX_YAML_BYTES:
        raise ScenarioError(f"{name}: more than {MAX_YAML_BYTES >> 20} MiB of YAML: give JSON (`kubectl get -o json`)")
    wrong = _SEPARATOR.search(text)
    if wrong is not None:
        behind = wrong[1][:40].decode(errors="replace")
        raise ScenarioError(
            f"{name}:{_line_of(text, wrong.start())}: invalid document separator: {behind!r} stands behind ---"
        )
    try:
        yield from (tree for tree in load_documents(text) if tree is not None)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ScenarioError(f"{name}:{line}: not YAML: {problem_text(error)}") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ScenarioError(f"{name}: not YAML: {' '.join(str(error).split())}") from None


def doubled_key(document: bytes | msgspec.Raw) -> str:
    """The first key that an object of the document has twice, whose first value would be lost; empty: there is none."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) != len(pairs) and not found:
            times = Counter(key for key, _ in pairs)
            found.append(next(key for key, count in times.items() if count > 1))

    try:
        _decoder(look).decode(str(document, "latin-1"))  # in which no byte is wrong
    except _NOT_JSON:
        return ""  # its reader says what is wrong
    return found[0].encode("latin-1", "replace").decode(errors="replace") if found else ""


def _decoder(look: Callable[[list[tuple[str, Any]]], None]) -> json.JSONDecoder:
    """A decoder that builds nothing: not the objects, and no integer of a million digits."""
    return json.JSONDecoder(object_pairs_hook=look, parse_int=len, parse_float=len)


_PASS_OVER: Final = _decoder(lambda _: None)


def _end_of_json(whole: bytes, text: str, start: int) -> int:
    """Where the JSON document ends that begins here; 0: it is none. `text`: the whole in Latin-1."""
    try:
        _, end = _PASS_OVER.raw_decode(text, start)
        msgspec.json.decode(whole[start:end], type=msgspec.Raw)  # which takes no NaN, say
    except _NOT_JSON:
        return 0
    return end


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _next_byte(whole: bytes, start: int) -> int:
    """Where the next byte is that is no blank."""
    found = _NEXT.search(whole, start)
    return found.start() if found is not None else len(whole)


def _line_of(whole: bytes, place: int) -> int:
    return whole.count(b"\n", 0, place) + 1


def _without_logs(whole: bytes, name: str, notes: list[str]) -> bytes:
    """A `kubectl cluster-info dump` with empty lines in place of the logs of containers. Raises `ScenarioError`."""
    found = _LOGS.search(whole) if b"==== START logs for container " in whole else None
    parts: list[bytes] = []
    done = count = 0
    while found is not None:
        last = re.compile(rb"^==== END " + re.escape(found[1]) + rb" ====[ \t]*\r?$", re.MULTILINE)
        end = last.search(whole, found.end())
        if end is None:
            line = _line_of(whole, found.start())
            raise ScenarioError(f"{name}:{line}: {found[1].decode(errors='replace')}: they do not end")
        parts += [whole[done : found.start()], b"\n" * whole.count(b"\n", found.start(), end.end())]
        done, count = end.end(), count + 1
        found = _LOGS.search(whole, done)
    if not count:
        return whole
    notes.append(f"{name}: the logs of {count} container{'s' if count > 1 else ''} between its objects are skipped")
    return b"".join([*parts, whole[done:]])


def _whole_file(file: BufferedReader, name: str, first: bytes = b"") -> bytes:
    """All of it, after what was read already. Raises `ScenarioError` if it is too large for that."""
    whole = first + file.read(MAX_WHOLE_BYTES + 1 - len(first))
    if len(whole) > MAX_WHOLE_BYTES:
        raise ScenarioError(
            f"{name}: more than {MAX_WHOLE_BYTES >> 20} MiB in one document: give one object a line, as "
            "`jq -c '.items[]'` prints them"
        )
    _refuse_binary(whole[:_LOOKED_AT], name)
    return whole


def _refuse_binary(first: bytes, name: str) -> None:
    if b"\0" in first:
        text = "no text in UTF-8, nor in UTF-16 with a byte order mark in front: kubectl reads these two"
        raise ScenarioError(f"{name}: {text}")


def _bounded_lines(file: BufferedReader, name: str) -> Iterator[bytes]:
    """The lines of a file. Raises `ScenarioError` at one that is too long to be held in memory."""
    while line := file.readline(MAX_WHOLE_BYTES + 1):
        if len(line) > MAX_WHOLE_BYTES:
            raise ScenarioError(f"{name}: a line of more than {MAX_WHOLE_BYTES >> 20} MiB")
        yield line


def _first_line(file: BufferedReader, name: str) -> tuple[int, bytes]:
    """The number of leading blank lines, and the first line that is not blank."""
    blank = 0
    for line in _bounded_lines(file, name):
        if line.strip():
            return blank, line
        blank += 1
    return blank, b""


def _is_a_line(first: bytes) -> bool:
    """Whether a file with this first line has a document per line.

    JSON printed over many lines begins with a lone bracket; YAML is recognised by its form. Anything else counts as
    lines, so that errors in them are reported by line.
    """
    stripped = first.strip()
    if stripped in (b"{", b"["):
        return False
    return stripped.startswith(b"{") or not (stripped.startswith(b"[") or _looks_like_yaml(stripped))


def _looks_like_yaml(text: bytes) -> bool:
    return (
        text.startswith((b"---", b"#", b"%YAML", b"- ")) or re.match(rb"[\"']?[A-Za-z]+[\"']?:(\s|$)", text) is not None
    )
