"""What a public host runs for us: nothing but targets of the Makefile, with pinned actions and the least rights.

`make check-deploy` looks at the style of the YAML.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
GITHUB: Final = ROOT / ".github"
WORKFLOWS: Final = sorted((GITHUB / "workflows").iterdir())
TARGETS: Final = frozenset(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
# Jobs that may do more than read, and what.
WRITING: Final = {"release.yaml": {"publish": {"attestations": "write", "contents": "write", "id-token": "write"}}}

_CALL: Final = re.compile(r"(?:\bmake|\.ci/run)((?: +(?:[a-z][a-z0-9-]*|\$\{\{ matrix\.\w+ \}\}))+)")
_IN_A_MATRIX: Final = re.compile(r"\$\{\{ matrix\.(\w+) \}\}")
_PINNED: Final = re.compile(r"^\s*(?:- )?uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")


def read(path: Path) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(path.read_text())
    return tree


def jobs() -> Iterator[tuple[Path, str, dict[str, Any]]]:
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            yield path, name, job


JOBS: Final = [pytest.param(*each, id=f"{each[0].stem}-{each[1]}") for each in jobs()]


def called(job: dict[str, Any]) -> set[str]:
    """The targets that a job's steps make, each of a matrix."""
    found: set[str] = set()
    for step in job["steps"]:
        for call in _CALL.finditer(step.get("run", "")):
            for word in re.findall(r"\$\{\{.*?\}\}|\S+", call[1]):
                matrix = _IN_A_MATRIX.fullmatch(word)
                found.update(job["strategy"]["matrix"][matrix[1]] if matrix else [word])
    return found


def all_called() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path, _, job in jobs():
        found.setdefault(path.name, set()).update(called(job))
    return found


def test_workflows_call_nothing_but_targets_of_the_makefile() -> None:
    for name, targets in all_called().items():
        assert targets <= TARGETS, name


def test_a_change_is_checked_by_all_that_ci_run_does_and_a_tag_makes_a_release() -> None:
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-3:]
    words = {word for line in last for word in line.split() if word in TARGETS}
    assert {"test-all", "check", "check-deploy", "e2e-embedded", "e2e-shown", "e2e-faults", "e2e-real"} < words
    found = all_called()
    assert words - {"controlplane"} <= found["ci.yaml"], "whoever needs the control plane builds it"
    assert "release" in found["release.yaml"]


@pytest.mark.parametrize(("path", "name", "job"), JOBS)
def test_a_job_has_an_end_and_the_least_rights(path: Path, name: str, job: dict[str, Any]) -> None:
    assert 0 < job["timeout-minutes"] <= 120
    assert job["permissions"] == WRITING.get(path.name, {}).get(name, {"contents": "read"})
    for step in job["steps"]:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_grants_nothing_by_itself_and_runs_once_at_a_time(path: Path) -> None:
    tree = read(path)
    assert tree["permissions"] == {}
    assert "github.ref" in tree["concurrency"]["group"]
    assert "pull_request_target" not in tree["on"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_say_of_which_release(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    assert [line for line in lines if not _PINNED.match(line)] == []


@pytest.mark.parametrize(("path", "name", "job"), JOBS)
def test_what_others_write_reaches_no_shell(path: Path, name: str, job: dict[str, Any]) -> None:
    """A branch's or an issue's name is pasted into a script by `${{ }}`: only a matrix of our own is."""
    for step in job["steps"]:
        expressions = set(re.findall(r"\$\{\{(.*?)\}\}", step.get("run", "")))
        assert {word.strip().partition(".")[0] for word in expressions} <= {"matrix"}


def test_commits_are_checked_by_programs_of_the_environment_as_make_check_does() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    check = (ROOT / "Makefile").read_text().partition("\ncheck: ")[2].partition("\n\n")[0]
    for hook in repository["hooks"]:
        program, *words = hook["entry"].split()
        name = Path(program).name
        assert program == f".venv/bin/{name}"
        assert f"$(BIN)/{name}" in check
        assert hook["language"] == "system"
        assert not words or words[0] in {"format", "check"}


def test_a_form_asks_for_what_it_needs() -> None:
    for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yaml"):
        form = read(path)
        assert {"name", "description", "body"} <= form.keys(), path.name
        identifiers = [field["id"] for field in form["body"]]
        assert len(set(identifiers)) == len(identifiers)
        assert any(field.get("validations", {}).get("required") for field in form["body"])
