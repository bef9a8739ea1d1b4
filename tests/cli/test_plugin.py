"""`kscheduler plugin`: what it writes works, what it lists is so, what it finds is wrong."""

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kscheduler.assembly.plugin_files import run_file
from kscheduler.cli import main
from kscheduler.plugins import in_tree
from kscheduler.testing import make_node, make_pod
from kscheduler.testing.trial import refreshing, steps
from tests.effort import sampled

PROCESSES = pytest.mark.slow("starts kscheduler as a process")

Captured = pytest.CaptureFixture[str]
HEAD = "import random\nfrom kscheduler.framework.per_node import plugin\nfrom kscheduler.framework.plugin import *\n"


def found(tmp_path: Path, capsys: Captured, text: str, *flags: str) -> tuple[int, dict[str, str]]:
    """The exit code, and the findings by kind."""
    file = tmp_path / "mine.py"
    file.write_text(HEAD + text)
    code = main(["plugin", "check", str(file), *flags])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith(("  wrong", "  advice"))]
    return code, {line.partition("(")[2].partition(")")[0]: line for line in lines}


def function(kind: str, body: str, declaration: str = '@plugin("Mine")') -> str:
    return f"{declaration}\ndef {kind}(pod, node):\n    {body}\n"


# --- new --------------------------------------------------------------------------------------------------------------


@PROCESSES
def test_what_is_written_passes_its_test_and_its_check(tmp_path: Path, capsys: Captured) -> None:
    assert main(["plugin", "new", "PreferNewNodes", "--directory", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"prefer_new_nodes.py", "test_prefer_new_nodes.py"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_prefer_new_nodes.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in ran.stdout, ran.stdout
    steps = capsys.readouterr().out
    assert "pip install pytest" in steps
    assert f"kscheduler cluster --schedule --plugin {tmp_path / 'prefer_new_nodes.py'}" in steps
    assert main(["plugin", "check", str(tmp_path / "prefer_new_nodes.py")]) == 0
    assert capsys.readouterr().out == "PreferNewNodes:\n  no mistakes found in 45 clusters\n"


@pytest.mark.parametrize("name", ["prefer-cheap", "1st", "class", "Größe", "a b"])
def test_a_name_that_cannot_be_one_is_refused(name: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["plugin", "new", name, "--directory", str(tmp_path)]) == 2
    assert "is no name for a plugin" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["NodeName", "DeferredPodScheduling", "RoundRobin"])
def test_the_name_of_a_plugin_that_exists_is_refused(name: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["plugin", "new", name, "--directory", str(tmp_path)]) == 2
    assert f"{name} is the name of a plugin" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_an_installed_packages_plugin_is_refused(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "acme-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[kscheduler.plugins]\nFewestPods = acme:FewestPods\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["plugin", "new", "FewestPods", "--directory", str(tmp_path)]) == 2
    assert "FewestPods is the name of a plugin that exists already" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Random", "Json", "Numpy", "Attr", "Yaml", "Aiohttp"])
def test_a_file_that_would_hide_a_module_of_python_is_refused(name: str, tmp_path: Path, capsys: Captured) -> None:
    assert main(["plugin", "new", name, "--directory", str(tmp_path)]) == 2
    assert f"hides the Python module {name.lower()}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "test_mine.py").write_text("precious")
    assert main(["plugin", "new", "Mine", "--directory", str(tmp_path)]) == 2
    assert "exists: nothing is written over" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]
    assert main(["plugin", "new", "Mine", "--directory", str(tmp_path / "nowhere")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


# --- list -------------------------------------------------------------------------------------------------------------


def test_each_plugin_has_its_origin_points_and_weight(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.py"
    file.write_text(HEAD + function("score", "return 1") + function("filter", "return None", '@plugin("Other")'))
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Mine, weight: 7}]}}}]"
    )
    flags = ["--config", str(config), "--plugin", str(file)]
    assert main(["plugin", "list", *flags, "-o", "json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    (mine,) = [row for row in tree["plugins"] if row["name"] == "Mine"]
    origin = f"file {file}"
    assert mine == {
        "profile": "a", "name": "Mine", "origin": origin, "points": ["Score"], "weight": 7, "kept": False
    }  # fmt: skip
    (fit,) = [row for row in tree["plugins"] if row["name"] == "NodeResourcesFit"]
    assert (fit["origin"], fit["points"], fit["kept"]) == ("kscheduler", ["PreFilter", "Filter", "Score"], True)
    assert tree["notEnabled"] == [{"name": "Other", "origin": origin}]
    assert main(["plugin", "list", *flags]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].split() == ["PROFILE", "PLUGIN", "FROM", "WEIGHT", "KEPT", "EXTENSION", "POINTS"]
    assert shown.err == f"kscheduler: plugin Other ({origin}) is enabled in no profile\n"
    assert main(["plugin", "list", "--plugin", str(tmp_path / "nowhere.py")]) == 2


TYPO = (
    "class Mine(Plugin):\n    name = 'Mine'\n    def scores(self, cycle, pod, nodes, rows):\n        return rows * 0\n"
)
SCORE = TYPO.replace("scores", "score")
GUESSES = {
    "two letters that changed places": (SCORE + "    def fliter(self): ...\n", "did you mean `filter`?"),
    "a method": (SCORE + "    def prefilter(self, cycle, pod, nodes):\n        ...\n", "did you mean `pre_filter`?"),
    "a declaration": (
        SCORE + "    depend_on = (Source.ROW,)\n",
        "`depend_on` has no effect: did you mean `depends_on`?",
    ),
}


def test_a_plugin_whose_only_method_is_misspelt_is_refused_with_the_right_name(
    tmp_path: Path, capsys: Captured
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(HEAD + TYPO)
    assert main(["plugin", "list", "--plugin", str(file)]) == 2
    text = "it has no extension point: `scores` has no effect: did you mean `score`?"
    assert text in capsys.readouterr().err
    assert found(tmp_path, capsys, TYPO) == (1, {"contract": f"wrong (contract): {text}"})
    code, kinds = found(tmp_path, capsys, "class Mine(Plugin):\n    name = 'Mine'\n")
    assert (code, "has no extension point: it needs a method" in kinds["contract"]) == (1, True)


@pytest.mark.parametrize(("text", "reported"), GUESSES.values(), ids=GUESSES)
def test_what_is_probably_misspelt_is_reported(text: str, reported: str, tmp_path: Path, capsys: Captured) -> None:
    code, kinds = found(tmp_path, capsys, text)
    assert (code, reported in kinds["spelling"]) == (0, True), "a guess: nothing is refused"
    file = str(tmp_path / "mine.py")
    assert main(["plugin", "list", "--plugin", file]) == 0
    assert reported in capsys.readouterr().err


def queried_with(tmp_path: Path, text: str) -> list[str]:
    """The flags of a question about two nodes and a pod that waits, to a plugin with this text."""
    file, cluster = tmp_path / "mine.py", tmp_path / "cluster.yaml"
    file.write_text(HEAD + text)
    node = "status: {allocatable: {cpu: '1', memory: 1Gi, pods: '9'}}"
    cluster.write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        f"- {{apiVersion: v1, kind: Node, metadata: {{name: a}}, {node}}}\n"
        f"- {{apiVersion: v1, kind: Node, metadata: {{name: b}}, {node}}}\n"
        "- {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: main, image: nginx}]}}\n"
    )
    return ["--from", str(cluster), "--plugin", str(file)]


PRINTS = {
    "at its import": "print('DEBUG')\n" + function("score", "return 1"),
    "in a call": function("score", "print('DEBUG', node.name); return 1"),
    "by another module": "import pprint, sys\n"
    + function("filter", "pprint.pprint({'DEBUG': 1}); sys.stdout.writelines(['DEBUG'])"),
}


@pytest.mark.parametrize("text", PRINTS.values(), ids=PRINTS)
def test_what_a_plugin_prints_stands_in_no_answer(text: str, tmp_path: Path, capsys: Captured) -> None:
    queried = queried_with(tmp_path, text)
    for command in (["explain", *queried], ["simulate", "--add-nodes", "1:a", *queried], ["pending", *queried]):
        assert main([*command, "-o", "json"]) == 0
        printed = capsys.readouterr()
        json.loads(printed.out)
        assert "DEBUG" in printed.err
    assert main(["plugin", "list", *queried[2:], "-o", "json"]) == 0
    json.loads(capsys.readouterr().out)
    assert main(["plugin", "check", queried[-1]]) in {0, 1}
    printed = capsys.readouterr()
    assert "DEBUG" not in printed.out
    assert printed.out.startswith("Mine:")


@pytest.mark.parametrize(
    ("body", "did"),
    [
        ("return '' if node.name == 'a' else None", "it returned ''"),
        ("return True if node.name == 'a' else None", "it returned True"),
        ("return {}['size'] if node.name == 'a' else None", "it raised KeyError: 'size'"),
    ],
)
def test_explain_says_what_a_filter_did_that_failed_for_a_node(
    body: str, did: str, tmp_path: Path, capsys: Captured
) -> None:
    queried = queried_with(tmp_path, function("filter", body))
    for flags in ([], ["-o", "json"]):
        assert main(["explain", *queried, *flags]) == 0
        (line,) = (line for line in capsys.readouterr().err.splitlines() if "Mine" in line)
        assert line.startswith("kscheduler: plugin Mine failed for nodes, which are rejected: for node a")
        assert did in line
        assert "(mine.py:" in line
        assert "1 of 2 nodes (a)" in line


@pytest.mark.parametrize(
    "body",
    sampled(["raise ValueError('boom')", "while True: pass", "return 'much'"], 1, "starts kscheduler as a process"),
)
def test_a_plugin_that_fails_in_what_is_played_is_a_line(body: str, tmp_path: Path) -> None:
    """A traceback of kscheduler's insides says nothing about the plugin, and hides the answer."""
    words = ["simulate", "--add-nodes", "1:a", *queried_with(tmp_path, function("score", body))]
    command = [sys.executable, "-P", "-m", "kscheduler", *words]  # of its own: here logs may be configured
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = printed.stderr.splitlines()
    assert line.startswith("kscheduler: plugin Mine failed (Score, pod default/web): it ")
    assert "(mine.py:" in line
    assert "would get a node" in printed.stdout


@pytest.mark.parametrize(("text", "reported"), GUESSES.values(), ids=GUESSES)
def test_each_command_that_loads_a_plugin_reports_what_is_misspelt(
    text: str, reported: str, tmp_path: Path, capsys: Captured
) -> None:
    """A line on standard error, and the answer as without it."""
    config, queried = tmp_path / "config.yaml", queried_with(tmp_path, text)
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: red, plugins: {multiPoint: {enabled: [{name: Mine}]}}}]\n"
    )
    for command in (
        ["config", "check", str(config), *queried[2:]],
        ["explain", *queried],
        ["simulate", "--add-nodes", "1:a", *queried],
        ["pending", *queried],
    ):
        main(command)
        lines = [line for line in capsys.readouterr().err.splitlines() if reported in line]
        assert len(lines) == 1, command
        assert "plugin Mine: " in lines[0]


BY_NAME = {
    "a node's name": "return {'gpu-box-7': 120}.get(node.name, 1)",
    "the beginning of a node's name": "return 120 if node.name.startswith('gpu-') else 1",
    "the end of a node's name": "return 120 if node.name.endswith('-spot') else 1",
    "one of many names": f"return { ({chr(97 + each): 1 for each in range(25)} | {'z': 120})!r}.get(node.name, 1)",
    "a namespace": "return {'payments': 120}.get(pod.namespace, 1)",
    "a pod's name": "return {'db-0': 120}.get(pod.name, 1)",
}


@pytest.mark.parametrize("body", BY_NAME.values(), ids=BY_NAME)
def test_what_depends_on_a_name_in_the_file_is_found(body: str, tmp_path: Path, capsys: Captured) -> None:
    code, kinds = found(tmp_path, capsys, function("score", body))
    assert (code, "120" in " ".join(kinds.values())) == (1, True)


@pytest.mark.parametrize("seconds", [2, 0.3])
@pytest.mark.parametrize("kind", ["score", "filter"])
def test_a_plugin_beyond_its_time_budget_is_tried_no_further(
    kind: str, seconds: float, tmp_path: Path, capsys: Captured
) -> None:
    """It would be asked a thousand times, and each call would take as long."""
    body = f"import sys, time; print('CALL', file=sys.stderr); time.sleep({seconds})"
    file = tmp_path / "mine.py"
    file.write_text(HEAD + function(kind, body))
    assert main(["plugin", "check", str(file)]) == 1
    printed = capsys.readouterr()
    assert "ended at its time budget of 200ms" in printed.out
    assert printed.err.count("CALL") <= 4


def test_a_trial_that_takes_long_says_how_far_it_is(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(100_000))
    monkeypatch.setattr("kscheduler.cli.commands.plugin.monotonic", lambda: float(next(clock)))
    file = tmp_path / "mine.py"
    file.write_text(HEAD + function("score", "return 1"))
    assert main(["plugin", "check", str(file)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"kscheduler: Mine is slow, and still tried: \d+ clusters so far", lines[0])
    assert 10 < len(lines) < 40


def test_a_plugin_with_helpers_of_its_own_is_not_corrected(tmp_path: Path, capsys: Captured) -> None:
    own = "    permitted = True\n    def filters_of(self):\n        ...\n    def scores(self):\n        ...\n"
    assert "spelling" not in found(tmp_path, capsys, SCORE + own)[1]


# --- check ------------------------------------------------------------------------------------------------------------

BY_POSITION = """\
import numpy as np

class Mine(Plugin):
    name = "Mine"
    depends_on = (Source.ROW,)

    def sign(self, pod):
        return ()

    def score(self, cycle, pod, nodes, rows):
        return np.arange(len(rows), dtype=np.int64)
"""
ONE_TIER = 'return 100 if node.labels.get("tier") == pod.labels.get("tier") else 0'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("impure", function("score", "return random.randint(0, 100)")),
        ("sign", function("score", ONE_TIER, '@plugin("Mine", sign=lambda pod: None)')),
        ("fails", function("score", "return 50 + 10 * len(node.pods)")),
        ("fails", function("filter", "return node.name == 'node-0'")),
        ("writes", function("filter", 'node.node.metadata.labels["seen"] = "yes"')),
        ("slow", function("filter", "sum(range(10_000))")),
        ("other nodes", BY_POSITION),
    ],
)
def test_what_is_wrong_is_found(kind: str, text: str, tmp_path: Path, capsys: Captured) -> None:
    code, kinds = found(tmp_path, capsys, text)
    assert (code, kinds.get(kind, "")[:5]) == (1, "wrong")


@pytest.mark.parametrize(
    ("kind", "words", "text"),
    [
        ("unsigned", "the pod's labels only", function("score", ONE_TIER)),
        ("unsigned", "never changed with the pod", function("score", "return 7")),
        (
            "fragile",
            "could not convert",
            function("score", 'return min(100, int(float(node.labels.get("a", "1"))) % 9)'),
        ),
    ],
)
def test_what_could_be_better_is_advice(kind: str, words: str, text: str, tmp_path: Path, capsys: Captured) -> None:
    code, kinds = found(tmp_path, capsys, text)
    assert code == 0
    assert words in kinds[kind]
    assert kinds[kind].startswith("advice")


def test_readmes_own_policy_is_without_mistakes_and_its_remarks_say_what_to_write(
    tmp_path: Path, capsys: Captured
) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    source = readme.partition("`cheap.py`:\n\n```python\n")[2].partition("```")[0]
    file = tmp_path / "cheap.py"
    file.write_text(source)
    assert main(["plugin", "check", str(file)]) == 0
    unsigned, fragile, last = capsys.readouterr().out.splitlines()[1:]
    assert '`@plugin("PreferCheap", sign=lambda pod: None)` keeps its answers' in unsigned
    assert "(cheap.py:6). Put that line into `try:` with `except ValueError: return 0` below it" in fragile
    assert last == "  no mistakes found in 45 clusters"
    file.write_text(source.replace("return max", 'return None if pod.labels["a"] else max'))
    assert main(["plugin", "check", str(file)]) == 1
    out = capsys.readouterr().out
    assert "(cheap.py:6)" in out
    assert "no mistakes" not in out


@pytest.mark.parametrize(
    "text",
    [
        function("score", ONE_TIER, '@plugin("Mine", sign=lambda pod: pod.labels.get("tier"))'),
        function("score", "return hash(pod.name) % 100"),
        "class Mine(Plugin):\n    name = 'Mine'\n    def pre_enqueue(self, pod):\n        return Status()\n",
    ],
)
def test_a_plugin_without_fault_is_left_alone(text: str, tmp_path: Path, capsys: Captured) -> None:
    assert found(tmp_path, capsys, text) == (0, {})


REFRESHED = """
import asyncio, json, time, urllib.request
class Mine(Plugin):
    name = "Mine"
    refresh_interval = 30.0
    url = "http://127.0.0.1:9/"
    answer = {{}}
    def __init__(self, handle):
        self.handle = handle
    async def refresh(self):
        {body}
    def score(self, cycle, pod, nodes, rows):
        return rows * 0
"""


def refreshed(tmp_path: Path, body: str) -> refreshing.Refreshed:
    """What the check finds of this refresh alone."""
    file = tmp_path / "mine.py"
    file.write_text(HEAD + REFRESHED.format(body=body))
    registry = in_tree.registry()
    registry.register("Mine", run_file(str(file), file.read_bytes()).plugins["Mine"])
    return refreshing.try_refresh(registry, "Mine", None, [make_node("node")], [make_pod("pod")])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise OSError('the source is away')", "`refresh` raises OSError: the source is away"),
        ("raise RefreshError('no temperatures yet')", "`refresh` raises RefreshError: no temperatures yet"),
        ("open('/nowhere/temperatures.json')", "`refresh` raises FileNotFoundError"),
        ("urllib.request.urlopen(self.url)", "`refresh` raises URLError"),
        ("await asyncio.wait_for(asyncio.Event().wait(), 0.001)", "`refresh` raises TimeoutError"),
        ("await self.handle.client.get('/api/v1/nodes')", "GET /api/v1/nodes: there is no API server here"),
        ("await self.handle.client.post('/api/v1/pods', b'{}')", "POST /api/v1/pods: there is no API server here"),
        ("await asyncio.Event().wait()", "`refresh` has not ended after 0 s"),
        ("time.sleep(0.3)", "computes or waits for N s without an `await`"),
    ],
)
def test_a_source_that_is_away_is_reported_and_no_mistake(
    body: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshing, "REFRESH_SECONDS", 0.4 if "sleep" in body else 0.1)
    reported = refreshed(tmp_path, body)
    assert reported.wrong == ""
    assert text in re.sub(r"\d\.\d s without", "N s without", reported.advice), "a busy machine makes it longer"


LINE_OF_BODY = 1 + (HEAD + REFRESHED).split("{body}", maxsplit=1)[0].count("\n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("self.answer['temperatures']", "`refresh` raises KeyError: 'temperatures'"),
        ("int('hot')", "`refresh` raises ValueError"),
        ("json.loads('<html>')", "`refresh` raises JSONDecodeError"),
        ("return {'a': 1}", "`refresh` returns {'a': 1}"),
        ("await self.nobody", "`refresh` raises AttributeError"),
        ("self.handle.client.nodes", "`refresh` raises AttributeError"),
        ("raise SystemExit(3)", "`refresh` raises SystemExit: 3"),
    ],
)
def test_what_the_code_raises_while_its_source_is_up_is_a_mistake_with_its_line(
    body: str, text: str, tmp_path: Path
) -> None:
    reported = refreshed(tmp_path, body)
    assert reported.advice == ""
    assert text in reported.wrong
    assert "return" in body or f"mine.py:{LINE_OF_BODY})" in reported.wrong


WITH_SOURCE = """
import asyncio, json, urllib.request
import msgspec
import numpy as np
class Mine(Plugin):
    name = "Mine"
    refresh_interval = 30.0
    class Args(msgspec.Struct, frozen=True):
        url: str
    def __init__(self, args, handle):
        self.url, self.handle, self.points = args.url, handle, {}
    async def refresh(self):
        self.points = json.load(await asyncio.to_thread(urllib.request.urlopen, self.url))["points"]
        self.handle.nodes_changed(self.points)
    def score(self, cycle, pod, nodes, rows):
        return np.array([self.points.get(nodes.name_of(row), 0) for row in rows.tolist()], dtype=np.int64)
"""


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b'{"points": {"a": 7}}', 0, ""),
        (b'{"scores": {"a": 7}}', 1, "`refresh` raises KeyError: 'points' ("),
        (b'{"points": {"a": "hot"}}', 1, "with the data that `refresh` has just fetched"),
        (b'{"points": {"a": 700}}', 1, "with the data that `refresh` has just fetched"),
    ],
    ids=["sound", "renamed", "wrong-type", "too-many"],
)
def test_the_source_that_the_arguments_name_is_queried_and_its_data_used(
    body: bytes, code: int, text: str, tmp_path: Path, capsys: Captured
) -> None:
    class Source(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Source) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            arguments = json.dumps({"url": f"http://127.0.0.1:{server.server_port}/"})
            ended, reported = found(tmp_path, capsys, WITH_SOURCE, "--args", arguments)
        finally:
            server.shutdown()
    assert ended == code, reported
    assert text in reported.get("refresh", "")


def test_a_refresh_that_works_is_no_finding(tmp_path: Path, capsys: Captured) -> None:
    assert "refresh" not in found(tmp_path, capsys, REFRESHED.format(body="await asyncio.sleep(0)"))[1]


STEPS = """
import asyncio
class Mine(Plugin):
    name = "Mine"
    {permit}
    def pre_bind_pre_flight(self, cycle, pod, node_name):
        return Status()
    async def pre_bind(self, cycle, pod, node_name):
        raise AssertionError("nobody calls it")
"""
PERMITS = {
    "wait": ("def permit(self, c, p, n): return PermitResult(Status(Code.WAIT), 600)", 0, "", ""),
    "wrong": ("def permit(self, c, p, n): return Status()", 1, "fails", "expected PermitResult"),
    "raises": ("def permit(self, c, p, n): return 1 / 0", 1, "fails", "division by zero"),
    "awaited": ("async def permit(self, c, p, n): return Status()", 0, "", ""),
    "late": ("async def permit(self, c, p, n): await asyncio.sleep(9)", 0, "permit", "has not ended after 0.01 s"),
    "away": ("async def permit(self, c, p, n): raise OSError('away')", 0, "permit", "no API server here"),
}


@pytest.mark.parametrize(("permit", "code", "kind", "reported"), PERMITS.values(), ids=PERMITS)
def test_steps_after_the_choice_are_tried_as_far_as_nothing_leaves_the_process(
    permit: str, code: int, kind: str, reported: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "MAX_SECONDS", 0.01)
    found_code, kinds = found(tmp_path, capsys, STEPS.format(permit=permit))
    assert found_code == code
    assert reported in kinds.get(kind, "")
    assert bool(kind) == bool(kinds)


def test_what_is_not_tried_is_named(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.py"
    file.write_text(HEAD + STEPS.format(permit="def post_filter(self, cycle, pod, nodes, diagnosis): ..."))
    assert main(["plugin", "check", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[1].strip() for line in lines if "not tried" in line] == ["PostFilter", "PreBind"]


@pytest.mark.parametrize("fact", ['depends_on = ("amounts",)', "reads_pods = 'no'"])
def test_a_declaration_of_another_type_is_wrong(fact: str, tmp_path: Path, capsys: Captured) -> None:
    code, kinds = found(tmp_path, capsys, SCORE + f"    {fact}\n")
    assert (code, fact.split(maxsplit=1)[0] in kinds["contract"]) == (1, True)


def test_arguments_are_those_of_the_configuration(tmp_path: Path, capsys: Captured) -> None:
    typed = "import msgspec\nclass Most(msgspec.Struct):\n    most: int\n"
    text = typed + '@plugin("Mine", sign=lambda pod: None)\ndef score(pod, node, args: Most):\n    return args.most\n'
    assert found(tmp_path, capsys, text, '--args={"most": 3}') == (0, {})
    assert found(tmp_path, capsys, text, '--args={"most": 300}')[0] == 1
    for given, words in (
        ('--args={"most": "x"}', "--args.most: expected `int`, got `str`"),
        ("--args={", "--args: no JSON"),
        ("--seed=2", "missing required field `most`"),
    ):
        file = tmp_path / "mine.py"
        assert main(["plugin", "check", str(file), given]) == 2
        assert words in capsys.readouterr().err


def test_a_file_that_cannot_be_loaded_is_refused_with_its_line(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def filter(:")
    assert main(["plugin", "check", str(file)]) == 2
    assert capsys.readouterr().err == f"kscheduler: {file}:1: SyntaxError: invalid syntax\n"


# --- logs -------------------------------------------------------------------------------------------------------------


@PROCESSES
def test_what_a_plugin_logs_is_no_part_of_an_answer(tmp_path: Path) -> None:
    file, pod = tmp_path / "mine.py", tmp_path / "pods.json"
    body = "import structlog\n    structlog.get_logger('mine').warning('seen', node=node.name)\n    return 1"
    file.write_text(HEAD + function("score", body))
    trees = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"pods": "9"}}}
        for name in "ab"
    ]
    spec = {"containers": [{"name": "main", "image": "app"}], "schedulerName": "kscheduler"}
    trees.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "x"}, "spec": spec})
    pod.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": trees}))
    command = [sys.executable, "-m", "kscheduler", "explain", "--from", str(pod), "--plugin", str(file), "-o", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["scores"]["a"]["Mine"] == 1
    assert "seen" in ran.stderr
    command = [sys.executable, "-m", "kscheduler", "plugin", "check", str(file)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == "", (
        "it is asked thousands of times"
    )


BUGGY = """
import sys
import time

MODE = "mode"


def mode_of(one):
    print(end="")
    return one.labels.get(MODE, "none")


@plugin("Mine")
def filter(pod, node):
    mode = mode_of(pod)
    if mode == "raise":
        return {}["nothing"]
    if mode == "exit":
        sys.exit(1)
    if mode == "slow":
        time.sleep(0.05)
    if mode == "loop":
        while True:
            pass
    return 42 if mode == "wrong" else None
"""


def test_what_goes_wrong_for_one_value_of_a_label_is_found_and_no_signature_that_leaves_it_out_is_advised(
    tmp_path: Path, capsys: Captured
) -> None:
    code, kinds = found(tmp_path, capsys, BUGGY)
    assert code == 1
    every = " ".join(kinds.values())
    assert "sign=lambda pod: None" not in every
    assert "never changed with the pod" not in every
    words = kinds.get("words", "") + kinds.get("fails", "")
    assert "KeyError" in words
    assert "SystemExit" in words or "fails" in kinds
    if "words" in kinds:
        for what in ('mode="raise"', 'mode="exit"', 'mode="wrong"', "its time budget of 200ms"):
            assert what in kinds["words"], kinds["words"]


@pytest.mark.parametrize(
    "body",
    [
        'return min(100, len(pod.annotations.get("rarely-set", "")) // 60)',
        "return 1 if pod.pod.spec.node_selector else 0",
        "return 1 if pod.tolerations else 0",
        'return len(getattr(pod, "labels")) // 100',
    ],
    ids=["annotation", "spec", "tolerations", "getattr"],
)
def test_what_is_read_of_the_pod_and_never_mattered_is_in_no_advised_signature_left_out(
    body: str, tmp_path: Path, capsys: Captured
) -> None:
    _, kinds = found(tmp_path, capsys, function("score", body))
    assert "never changed with the pod" not in kinds.get("unsigned", "")
    assert "sign=lambda pod: None" not in kinds.get("unsigned", "")
