"""Whose kubeconfig counts: one rule for all commands that ask, another for `run`; and who names one that is missing."""

from pathlib import Path

import pytest

from kscheduler.cli import main

QUERYING = {
    "explain": ["explain", "web"],
    "explain -f": ["explain", "-f", "pod.yaml"],
    "explain podgroup": ["explain", "podgroup/gang", "-n", "shop"],
    "pending": ["pending"],
    "simulate": ["simulate", "--drain", "node"],
    "shadow": ["shadow", "--duration", "1s", "--insecure-port", "0"],
}
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\n"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
MISSING = "No such file or directory"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with files of configuration, and no cluster that is found by itself."""
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "plain.yaml").write_text(CONFIG)
    (tmp_path / "good.yaml").write_text(f"{CONFIG}clientConnection: {{kubeconfig: a.conf}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def reported(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """What standard error says of a command that cannot be done; no file exists that is named."""
    assert main([*words]) == 2
    return [line.removeprefix("kscheduler: ") for line in capsys.readouterr().err.splitlines()]


@pytest.fixture(params=[*QUERYING.values()], ids=[*QUERYING])
def command(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    return found


def test_an_explicit_flag_wins_over_the_file_and_a_line_says_so(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    note, refused = reported(capsys, *command, "--config", "good.yaml", "--kubeconfig", "b.conf")
    assert note == (
        "the cluster is that of --kubeconfig b.conf, and not of a.conf, which clientConnection.kubeconfig of good.yaml "
        "names"
    )
    assert refused == f"kubeconfig b.conf: {MISSING} (--kubeconfig names it)"


def test_the_file_wins_over_what_is_found_by_itself(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_file = f"kubeconfig a.conf: {MISSING} (clientConnection.kubeconfig of good.yaml names it)"
    assert reported(capsys, *command, "--config", "good.yaml") == [by_file]
    monkeypatch.setenv("KUBECONFIG", "b.conf")
    note, refused = reported(capsys, *command, "--config", "good.yaml")
    assert note.startswith("the cluster is that of a.conf, which clientConnection.kubeconfig of good.yaml names")
    assert "not of $KUBECONFIG (b.conf)" in note
    assert refused == by_file


def test_without_any_of_them_it_is_as_kubectl_has_it(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "b.conf")
    assert reported(capsys, *command, "--config", "plain.yaml") == [
        f"kubeconfig b.conf: {MISSING} ($KUBECONFIG names it)"
    ]


def test_where_flag_and_file_name_the_same_nothing_is_to_be_said(
    command: list[str], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (refused,) = reported(capsys, *command, "--config", "good.yaml", "--kubeconfig", str(folder / "a.conf"))
    assert refused.endswith("(--kubeconfig names it)")


@pytest.mark.parametrize(
    ("words", "named_by"),
    [
        (["--config", "good.yaml"], "a.conf: {} (clientConnection.kubeconfig of good.yaml names it)"),
        (["--config", "good.yaml", "--kubeconfig", "b.conf"], "a.conf: {} (clientConnection.kubeconfig of good.yaml"),
        (["--config", "plain.yaml", "--kubeconfig", "b.conf"], "b.conf: {} (--kubeconfig names it)"),
        (["--kubeconfig", "b.conf"], "b.conf: {} (--kubeconfig names it)"),
        (["--config", "plain.yaml"], "c.conf: {} ($KUBECONFIG names it)"),
    ],
    ids=["file", "both", "flag beside a file", "flag", "environment"],
)
def test_run_takes_the_files_before_the_flags_as_kube_scheduler_and_says_who_names_it(
    words: list[str], named_by: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "c.conf")
    *_, refused = reported(capsys, "run", *words, "--secure-port", "0")
    assert refused.startswith(f"kubeconfig {named_by.format(MISSING)}")


KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: dev
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: dev, context: {cluster: c, user: u}}, {name: other, context: {cluster: c, user: u}}]
"""


@pytest.mark.parametrize("name", ["explain", "explain -f", "explain podgroup", "pending", "simulate"])
@pytest.mark.parametrize("context", ["dev", "other"])
def test_where_nobody_answers_the_kubeconfig_and_context_in_use_are_named(
    name: str, context: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    file = folder / "kubeconfig"
    file.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert main([*QUERYING[name], *([] if context == "dev" else ["--context", context])]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "no connection to 127.0.0.1:1: connection refused" in line
    assert f"; the cluster is that of http://127.0.0.1:1 (kubeconfig {file}: context {context}): --kubeconfig" in line
