"""`--from` and `-f` read what kubectl reads; what they do not read is told or refused by name, never passed over."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import kubectl_plugin, main

Tree = dict[str, Any]
Run = Callable[..., tuple[int, str, str]]


def node(name: str = "n1") -> Tree:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str = "p", **spec: Any) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "a:1"}], **spec},
    }


def listed(*items: Tree) -> Tree:
    return {"apiVersion": "v1", "kind": "List", "items": [*items]}


def printed(*trees: Tree) -> str:
    """JSON over many lines, one document behind the other."""
    return "\n".join(json.dumps(tree, indent=2) for tree in trees)


NODE_YAML = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""
POD_YAML = """\
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec: {schedulerName: default-scheduler, containers: [{name: c, image: "a:1"}]}
"""
BOTH = f"{NODE_YAML}---\n{POD_YAML}"
LOGS = """\
==== START logs for container c of pod kube-system/x ====
{"kind": "Pod"
apiVersion: v1
--- nothing
==== END logs for container c of pod kube-system/x ====
"""

TAKEN: dict[str, bytes] = {
    "YAML": BOTH.encode(),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + BOTH.encode(),
    "JSON with a mark": b"\xef\xbb\xbf" + printed(listed(node(), pod())).encode(),
    "UTF-16, little": b"\xff\xfe" + BOTH.encode("utf-16-le"),
    "UTF-16, big": b"\xfe\xff" + BOTH.encode("utf-16-be"),
    "UTF-16, JSON lines": b"\xff\xfe" + f"{json.dumps(node())}\n{json.dumps(pod())}\n".encode("utf-16-le"),
    "UTF-16, gzipped": gzip.compress(b"\xff\xfe" + BOTH.encode("utf-16-le")),
    "gzip in two parts": gzip.compress(NODE_YAML.encode()) + gzip.compress(f"---\n{POD_YAML}".encode()),
    "Latin-1 in a comment": b"# gr\xfc\xdfe\n" + BOTH.encode(),
    "Windows line ends": BOTH.replace("\n", "\r\n").encode(),
    "two JSON documents": printed(listed(node()), listed(pod())).encode(),
    "two JSON documents in a line": f"{json.dumps(node())} {json.dumps(pod())}".encode(),
    "JSON lines with an empty one": f"\n{json.dumps(node())}\n\r\n{json.dumps(pod())}\n".encode(),
    "a JSON line, then JSON over lines": f"{json.dumps(node())}\n{printed(pod())}".encode(),
    "JSON, then YAML": f"{json.dumps(node())}\n---\n{POD_YAML}".encode(),
    "JSON over lines, then YAML": f"{printed(node())}\n---\n{POD_YAML}".encode(),
    "YAML in flow form": b"{apiVersion: v1, kind: List, items: ["
    + json.dumps(node()).encode()
    + b","
    + json.dumps(pod()).encode()
    + b",]}",
    "a List in a List": printed(
        listed(listed(node()), {"apiVersion": "v1", "kind": "PodList", "items": [pod()]})
    ).encode(),
    "empty documents": f"---\n\n--- # nothing\n# only this\n---\n{NODE_YAML}---\n---\n{POD_YAML}---\n".encode(),
    "a document end": f"{NODE_YAML}...\n---\n{POD_YAML}".encode(),
    "a dump with logs, JSON": f"{printed(listed(node()))}\n{LOGS}{printed(listed(pod()))}\n{LOGS}".encode(),
    "a dump with logs, YAML": f"{NODE_YAML}{LOGS}---\n{POD_YAML}{LOGS}".encode(),
    "a dump with logs, Windows": f"{printed(listed(node()))}\n{LOGS}{printed(pod())}".replace("\n", "\r\n").encode(),
    "keys that are no text": BOTH.replace("name: n1", "name: n1, annotations: {1: a, on: b, 1.5: c}").encode(),
}

LISTS = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n"
REFUSED: dict[str, tuple[bytes, str]] = {
    "two lists without a separator": (
        f"{LISTS}{LISTS}".encode(),
        ":5: not YAML: 'apiVersion' is there twice, first in",
    ),
    "a label twice": (
        POD_YAML.replace("name: p,", "name: p, labels: {a: x, a: y},").encode(),
        ":3: not YAML: 'a' is there twice, first in line 3",
    ),
    "a key twice in JSON": (
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b"}}',
        ":1: an object has the key 'name' twice",
    ),
    "a key twice in a scenario": (b'{"pod": {}, "objects": {}, "pod": {}}', ":1: an object has the key 'pod' twice"),
    "UTF-32": (BOTH.encode("utf-32"), ": it is written in UTF-32"),
    "UTF-16 without a mark": (BOTH.encode("utf-16-le"), ": no text in UTF-8, nor in UTF-16 with a byte order mark"),
    "bytes of a program": (bytes(range(128, 256)), ":1: not UTF-8 text\n"),
    "bytes behind JSON": (
        b'{"kind": "List", "apiVersion": "v1"}\n\xff',
        ":2: not UTF-8 text\n",
    ),
    "a quote without an end": (
        b'kind: Pod\nmetadata:\n  name: "p\n\n',
        ":5: not YAML: found unexpected end of stream while scanning a quoted scalar that begins in line 3",
    ),
    "a tab": (POD_YAML.replace("metadata: {", "metadata:\n\tx: {").encode(), ":4: not YAML: "),
    "a joined separator": (f"{NODE_YAML}---{POD_YAML}".encode(), ":5: invalid document separator: 'apiVersion: v1'"),
    "something behind a separator": (b"--- {kind: Pod}\n", ":1: invalid document separator: '{kind: Pod}'"),
    "half a JSON document": (f"{printed(node())}\n{printed(pod())[:-9]}".encode(), ":1"),
    "text behind JSON": (
        f"{printed(node())}\nthe end\n".encode(),
        ":15: the text after the last document is neither JSON nor YAML",
    ),
    "logs without an end": (
        f"{printed(node())}\n{LOGS[:-30]}".encode(),
        ":15: logs for container c of pod kube-system/x:",
    ),
    "a text": (b"just text", ""),
}


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command; bytes are standard input, of which a pipe gives a byte at first."""

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(_Pipe(stdin))))
        capsys.readouterr()
        code = (kubectl_plugin.main if words[0] in ("why", "whatif", "nodes") else main)([*words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


class _Pipe(io.RawIOBase):
    def __init__(self, content: bytes) -> None:
        self._left = content
        self._most = 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part, self._left = self._left[: min(self._most, len(buffer))], self._left[min(self._most, len(buffer)) :]
        buffer[: len(part)] = part
        self._most = 4096
        return len(part)


READERS: dict[str, tuple[str, ...]] = {
    "explain --from": ("explain", "--from", "FILE", "default/p"),
    "explain --from, all": ("explain", "--from", "FILE"),
    "explain -f": ("explain", "--from", "nodes.json", "-f", "FILE"),
    "why --from": ("why", "--from", "FILE", "default/p"),
    "why -f": ("why", "--from", "nodes.json", "-f", "FILE"),
    "simulate --from": ("simulate", "--from", "FILE"),
    "simulate -f": ("simulate", "--from", "nodes.json", "-f", "FILE"),
    "whatif -f": ("whatif", "--from", "nodes.json", "-f", "FILE"),
    "whatif --from": ("whatif", "--from", "FILE"),
    "pending --from": ("pending", "--from", "FILE"),
}
OURS = ("--scheduler-name", "default-scheduler")


@pytest.mark.parametrize("content", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize(
    ("words", "is_piped"),
    [
        *((words, False) for words in READERS.values()),
        (READERS["explain --from"], True),
        (READERS["simulate -f"], True),
    ],
    ids=[*READERS, "explain --from -", "simulate -f -"],
)
def test_what_kubectl_takes_every_reader_takes(
    ask: Run, tmp_path: Path, content: bytes, words: tuple[str, ...], is_piped: bool
) -> None:
    (tmp_path / "nodes.json").write_text(json.dumps(node("n0")))
    (tmp_path / "given").write_bytes(content)
    given = ["-" if is_piped and word == "FILE" else "given" if word == "FILE" else word for word in words]
    code, out, err = ask(*given, *OURS, stdin=content if is_piped else b"")
    assert code == 0, err
    assert "n1" in out or "n0" in out or "fits now" in out
    assert "p" in out
    assert ("logs of" in err) == (b"START logs" in content)


@pytest.mark.parametrize(("content", "problem"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("words", READERS.values(), ids=READERS)
def test_what_cannot_be_read_is_refused_by_name(
    ask: Run, tmp_path: Path, content: bytes, problem: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "nodes.json").write_text(json.dumps(node("n0")))
    (tmp_path / "given").write_bytes(content)
    code, out, err = ask(*["given" if word == "FILE" else word for word in words], *OURS)
    assert (code, out) == (2, "")
    assert err.startswith(f"kscheduler: given{problem}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("verb", ["explain", "simulate", "pending", "why", "whatif"])
def test_files_that_are_named_twice_are_one_cluster(ask: Run, tmp_path: Path, verb: str) -> None:
    (tmp_path / "nodes.yaml").write_text(NODE_YAML)
    (tmp_path / "pods.json").write_text(json.dumps(pod()))
    named = ("default/p",) if verb == "why" else ()
    for given in (["--from", "nodes.yaml", "--from", "pods.json"], ["--from", "nodes.yaml,pods.json"]):
        code, out, err = ask(verb, *given, *named, *OURS)
        assert (code, err) == (0, "")
        assert "default/p" in out


@pytest.mark.parametrize("verb", ["explain", "simulate", "why", "whatif"])
def test_new_pods_of_several_files_are_all_answered(ask: Run, tmp_path: Path, verb: str) -> None:
    (tmp_path / "nodes.yaml").write_text(NODE_YAML)
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(pod(name)))
    code, out, err = ask(verb, "--from", "nodes.yaml", "-f", "a.json", "-f", "b.json", *OURS)
    assert (code, err) == (0, "")
    assert "default/a" in out
    assert "default/b" in out


def test_a_folder_is_read_as_kubectl_reads_it_and_what_is_left_is_named(ask: Run, tmp_path: Path) -> None:
    dump = tmp_path / "dump"
    (dump / "default").mkdir(parents=True)
    (dump / "nodes.yml").write_text(NODE_YAML)
    (dump / "more.json.gz").write_bytes(gzip.compress(json.dumps(node("n2")).encode()))
    (dump / "logs.txt").write_text("nothing")
    (dump / "default" / "pods.json").write_text(json.dumps(pod()))
    code, out, err = ask("explain", "--from", "dump", "-f", "dump/default/*.json", *OURS)
    assert code == 0
    assert "2 of 2" in out or "n1" in out
    assert "kscheduler: dump: not read: default/, logs.txt" in err
    code, out, err = ask("explain", "--from", "dump", "--from", "dump/*/*.json", *OURS)
    assert code == 0
    assert "default/p" in out


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("nowhere.yaml", "nowhere.yaml: cannot be read: No such file or directory"),
        ("*.nothing", "*.nothing: there is no file of this name, and none that this pattern matches"),
        ("empty", "empty: a folder without files that end in .json"),
        ("https://example.org/x.yaml", "https://example.org/x.yaml: nothing is fetched from URLs"),
    ],
)
@pytest.mark.parametrize("flag", ["--from", "-f"])
def test_a_name_that_stands_for_no_file_is_refused(
    ask: Run, tmp_path: Path, given: str, problem: str, flag: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "nodes.yaml").write_text(NODE_YAML)
    words = ("--from", given) if flag == "--from" else ("--from", "nodes.yaml", "-f", given)
    for verb in ("explain", "simulate"):
        code, out, err = ask(verb, *words)
        assert (code, out) == (2, "")
        assert err.startswith(f"kscheduler: {problem}")


def test_standard_input_is_not_read_twice(ask: Run) -> None:
    content = BOTH.encode()
    for words in (["--from", "-", "-f", "-"], ["--from", "-", "--from", "-"], ["-f", "-", "-f", "-"]):
        for verb in ("explain", "simulate"):
            code, out, err = ask(verb, *words, stdin=content)
            assert (code, out) == (2, "")
            assert "standard input" in err


def test_one_document_that_is_no_object_costs_itself_by_name(ask: Run, tmp_path: Path) -> None:
    bad = ["- 1\n- 2\n", "apiVersion: v1\nmetadata: {name: a}\n", "just text\n", "{apiVersion: v1, kind: PodList}\n"]
    (tmp_path / "all.yaml").write_text("---\n".join([NODE_YAML, *bad, POD_YAML, LISTS + "-\n"]))
    for words in (("explain", "--from", "all.yaml"), ("simulate", "--from", "all.yaml", "-f", "all.yaml")):
        code, out, err = ask(*words, *OURS)
        if words[0] == "simulate":
            assert code == 2  # the pod exists already
            assert "exists already" in err
            continue
        assert code == 0
        assert "default/p" in out
        for line in (
            "all.yaml: document 2: a Kubernetes object was expected, not a list",
            "all.yaml: document 3: kind: is missing",
            "all.yaml: document 4: a Kubernetes object was expected, not a text",
            "all.yaml: document 5 (PodList): items: is missing",
            "all.yaml: document 7: items[1]: a Kubernetes object was expected, not null",
        ):
            assert f"kscheduler: {line}" in err
