"""What a page or a comment cites is in the repository: paths, names, commands, links."""

import ast
import builtins
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from kscheduler.cli import VERBS
from kscheduler.cli.flags import FLAGS_WITHOUT_EFFECT, SWITCHES_WITHOUT_EFFECT
from tests.docs.source_index import PACKAGE, ROOT, SourceIndex, spans, text_of

# Pages, and the heading from which on they are about somebody else's words.
PAGES: Final = {
    "README.md": "",
    "CONTRIBUTING.md": "",
    "docs/architecture.md": "",
    "docs/differences.md": "",
    "docs/embedded-cluster.md": "",
    "docs/explain.md": "",
    "docs/figures.md": "",
    "docs/first-change.md": "",
    "docs/image.md": "",
    "docs/logs.md": "\n## If you come from kube-scheduler",
    "docs/migration.md": "",
    "docs/operations.md": "",
    "docs/packing.md": "",
    "docs/pod-groups.md": "",
    "docs/policies.md": "",
    "docs/quirks.md": "",
    "docs/recorder.md": "",
    "docs/runbook.md": "",
    "docs/shadow.md": "",
    "docs/simulate.md": "",
    "docs/status-page.md": "",
    "SECURITY.md": "",
}

# Pages whose links are followed: all.
LINKING: Final = sorted(
    {*PAGES, "CHANGELOG.md", "deploy/helm/kscheduler/README.md"}
    | {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
)

# Words in backticks that no file of ours defines.
NOT_OURS: Final = frozenset(
    {
        *("flatnonzero", "bincount", "add.at"),  # numpy
        "Less",  # Go
        *("nohup", "TERM=dumb", "FORCE_COLOR=1", "increase()", ".venv/bin"),  # the user's shell
        *("config.yaml", "cheap.py", "schedulerName: thrifty"),  # files of an example
        *(
            "/debug/pprof/*",
            "/metrics/slis",
            "metrics.jobName: kube-scheduler",
            "kube-system/kube-scheduler",
            "kscheduler-main",
        ),  # others' names
        "v1.36.0+kscheduler.…",  # the shape of a version
        "$1",  # a price that is none
        "20261124T153000Z-4711-000003.ksrec",  # the shape of a file's name
        "web-0-again-1",  # the name of a pod
        *("HttpOnly", "SameSite=Strict"),  # browsers'
        "pods/portforward",  # Kubernetes'
        "disable-scheduler",  # k3s
        *(
            "workload-high",
            "apiserver_flowcontrol_rejected_requests_total",
            "kscheduler-metrics-reader",
        ),  # in a cluster
    }
)

# What a comment makes up as an example, or has from Kubernetes.
MADE_UP: Final = frozenset({"NodeUpdateNodeTaint", "ListMeta"})

# kube-scheduler's flags that are only accepted: their names stand without dashes in the code.
WITHOUT_EFFECT: Final = FLAGS_WITHOUT_EFFECT.keys() | SWITCHES_WITHOUT_EFFECT.keys()

_BEHIND_PATH: Final = re.compile(r"`([\w./]+\.py)` `([\w.]+)`")
_BEFORE_PATH: Final = re.compile(r"`([\w.]+)` in `([\w./]+\.py)`")
_REQUEST: Final = re.compile(
    r"(?:[A-Z]+ )?(?:https?://localhost:\d+)?((?:/[a-z-]+)*)(?:/[A-Z]+)*/?(?:\?(\w+)(?:=NAME)?)?"
)
_FIELD: Final = re.compile(r"spec(?:\.[a-zA-Z]+)+")
_ELSEWHERE: Final = re.compile(r"\b(?:[Rr]eference,? (?:section )?\d|[Ss]ection \d|[Ii]ssue \d)[\d.]*")
_BARE: Final = re.compile(r"(?:_?[a-z]+_[a-z0-9_]+|[A-Z][a-z]+[A-Z]\w+)(?:\(\))?")
_LINK: Final = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def is_command(span: str, index: SourceIndex) -> bool:
    """Whether it is something to type, and each part of it that is ours exists."""
    first, *rest = span.split()
    if rest and _is_setting(first, index):
        first, *rest = rest
    match first.rpartition("/")[2]:
        case "make":
            targets = re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE)
            return rest[0] in targets and all(_is_setting(part, index) for part in rest[1:])
        case "python":
            program = rest[1].replace(".", "/") if rest[0] == "-m" else rest[0].removesuffix(".py")
            return any((ROOT / f"{program}{suffix}").is_file() for suffix in (".py", "/__main__.py"))
        case "kscheduler":
            return rest[0] in VERBS and all(part.strip("'") in index.text for part in rest if part[0] == "-")
        case "curl":
            return True
        case "pytest":
            return all((ROOT / part).exists() for part in rest if part[0] != "-")
        case "pre-commit":
            return rest == ["install"]
        case "kubectl" | "helm" | "kubeadm":
            files = [part for flag, part in itertools.pairwise(rest) if flag in {"-f", "-k", "--values"}]
            return all((ROOT / file).exists() for file in files)
    if first.startswith("-"):
        flag = first.partition("=")[0]
        return flag in index.text or flag.removeprefix("--") in WITHOUT_EFFECT
    return not rest and _is_setting(first, index)


def _is_setting(span: str, index: SourceIndex) -> bool:
    """`NAME=value` for make or the environment."""
    name, equals, _ = span.partition("=")
    return bool(equals) and (f"$({name})" in text_of("Makefile") or name in index.text.split())


def is_request(span: str, index: SourceIndex) -> bool:
    """Whether it is a path of ours: `DELETE /metrics`, `/readyz/NAME`, `?exclude=NAME`, `https://localhost:10259/ui/`."""
    match = _REQUEST.fullmatch(span)
    parts = [part for part in match.groups() if part] if match is not None else []
    return bool(parts) and all(part in index.text for part in parts)


def is_field(span: str, index: SourceIndex) -> bool:
    """Whether it is a field of objects: `spec.nodeName`."""
    return _FIELD.fullmatch(span) is not None and all(index.is_word(part) for part in span.split(".")[1:])


def is_yaml(span: str, index: SourceIndex) -> bool:
    """Whether keys and values of a mapping are words of ours: `podGroupAPIs: [volcano]`."""
    if not re.match(r"\{?[\w ]+: ", span):
        return False
    try:
        return all(index.is_word(word) for word in _words_of(yaml.safe_load(span)))
    except yaml.YAMLError:
        return False


def _words_of(tree: object) -> Iterator[str]:
    match tree:
        case dict():
            yield from (word for pair in tree.items() for part in pair for word in _words_of(part))
        case list():
            yield from (word for part in tree for word in _words_of(part))
        case _:
            yield str(tree)


def is_call(span: str, index: SourceIndex) -> bool:
    """Whether function and parameters are ours: `score(self, group, proposals)`."""
    try:
        call = ast.parse(span, mode="eval").body
    except SyntaxError:
        return False
    if not isinstance(call, ast.Call) or call.keywords:
        return False
    return all(isinstance(part, ast.Name) and part.id in index.names for part in (call.func, *call.args))


def is_pattern(span: str, index: SourceIndex) -> bool:
    """Whether something begins, or is called, like this: `workqueue_*`, `metric{label}`, `bad_*.py`."""
    if "*" in span and "." in span:
        return any(ROOT.glob(f"tests/**/{span}"))
    if span.endswith("_*"):
        return span[:-1] in index.text
    name, brace, labels = span.partition("{")
    return bool(brace) and all(index.is_word(word) for word in (name, *labels.rstrip("}").split(",")))


def is_known(span: str, beside: Path, index: SourceIndex) -> bool:
    verdicts = {index.is_path(span, beside), index.is_code(span)} - {None}
    if verdicts:
        return True in verdicts
    others = (is_command, is_request, is_field, is_yaml, is_call, is_pattern)
    return index.is_word(span) or any(other(span, index) for other in others)


@pytest.mark.parametrize("page", PAGES)
def test_everything_in_backticks_exists(page: str, index: SourceIndex) -> None:
    end = PAGES[page]
    text = text_of(page)
    text = text.partition(end)[0] if end else text
    quirks = set(re.findall(r"^\| (Q\d+) \|", text_of("docs/quirks.md"), re.MULTILINE))
    chart_values = set(re.findall(r"^\| `([\w.]+)` \|", text_of("deploy/helm/kscheduler/README.md"), re.MULTILINE))
    strange = [
        span
        for span in dict.fromkeys(spans(text))
        if span not in NOT_OURS | quirks | chart_values and not is_known(span, (ROOT / page).parent, index)
    ]
    assert strange == []


@pytest.mark.parametrize(
    "span",
    [
        "state/nowhere.py",
        "tests/nowhere",
        "nowhere.py",
        "state.nowhere.SchedulingQueue",
        "state.queue.Nowhere",
        "SchedulingQueue.no_such_method",
        "no_such_name",
        "NoSuchClass",
        "make nothing",
        "make demo NOTHING=1",
        "python -m benchmarks.nothing",
        "kscheduler nothing",
        "kscheduler run --nothing",
        "--no-such-flag",
        "KSCHEDULER_NOTHING=1",
        "GET /no-such-path",
        "no_such_series_*",
        "scheduler_pending_pods{no_such_label}",
        "words that nobody says",
        "KSCHEDULER_NOTHING=1 make test",
        "KUBERNETES_VERSION=1.37.1 python -m benchmarks.nothing",
        "/ui/nowhere/NAME",
        "http://localhost:10251/no-such-path/",
        "spec.noSuchField",
        "noSuchField: [volcano]",
        "podGroupAPIs: [no such API]",
        "no_such_function(self)",
        "generate_placements(self, no_such_parameter)",
    ],
)
def test_what_is_not_there_is_found(span: str, index: SourceIndex) -> None:
    assert not is_known(span, ROOT, index)


@pytest.mark.parametrize("page", PAGES)
def test_a_name_beside_a_path_is_defined_there(page: str, index: SourceIndex) -> None:
    text = text_of(page)
    places = [*_BEHIND_PATH.findall(text), *((path, name) for name, path in _BEFORE_PATH.findall(text))]
    assert [(path, name) for path, name in places if not index.defines(path, name)] == []


def cited(index: SourceIndex) -> Iterator[tuple[Path, int, str]]:
    """What stands in backticks in docstrings and comments: the file, the line where the text begins, the span."""
    for path, file in index.files.items():
        for line, prose in file.prose:
            for span in spans(prose):
                yield path, line, span


def test_comments_cite_what_there_is(index: SourceIndex) -> None:
    """Dotted names and paths: modules move, and nobody reads all comments.

    In what is shipped, a name behind a module of ours is never somebody else's.
    """
    stale = []
    for path, line, span in cited(index):
        verdicts = {index.is_path(span, path.parent), index.is_code(span)} - {None}
        is_shipped = path.is_relative_to(PACKAGE)
        if verdicts == {False} or (not verdicts and is_shipped and index.begins_with_a_module(span)):
            stale.append(f"{path.relative_to(ROOT)}:{line}: {span}")
    assert stale == []


def test_a_name_behind_a_module_that_does_not_define_it_is_found(index: SourceIndex) -> None:
    assert index.is_code("bounded.RecentlyUsed.use")
    assert index.is_code("bounded.Nothing") is None
    assert index.begins_with_a_module("bounded.Nothing")
    assert not index.begins_with_a_module("numpy.flatnonzero")
    assert not index.begins_with_a_module("status.phase")


def test_what_looks_like_a_name_in_a_comment_is_written_in_the_code(index: SourceIndex) -> None:
    """A word with an underscore or a capital inside, in what is shipped."""
    shipped = [file for path, file in index.files.items() if path.is_relative_to(PACKAGE)]
    known = MADE_UP.union(dir(builtins), *(file.words for file in shipped), *(file.path.parts for file in shipped))
    known |= {file.path.stem for file in shipped}
    strange = [
        f"{path.relative_to(ROOT)}:{line}: {span}"
        for path, line, span in cited(index)
        if path.is_relative_to(PACKAGE) and _BARE.fullmatch(span) and span.removesuffix("()") not in known
    ]
    assert strange == []


def test_comments_cite_no_document_that_is_elsewhere(index: SourceIndex) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {citation}"
        for path, file in index.files.items()
        for _, prose in file.prose
        for citation in _ELSEWHERE.findall(prose)
    ]
    assert found == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING)
def test_every_link_leads_somewhere(page: str) -> None:
    for link in _LINK.findall(text_of(page)):
        if link.startswith(("http:", "https:")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
