"""`kubectl kscheduler`: its verbs, its help, and what it completes."""

from pathlib import Path

import pytest

from kscheduler.cli import VERBS as COMMANDS
from kscheduler.cli.kubectl_plugin import VERBS, complete, main
from kscheduler.cli.refusal import OF_KSCHEDULER, OF_KUBECTL
from kscheduler.service.asking.answers_in_copy import PLAY_SECONDS


def test_each_verb_has_its_help_and_may_ask_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        with pytest.raises(SystemExit) as ended:
            main([verb, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert f"usage: kubectl kscheduler {verb}" in shown
        assert "--service NAMESPACE/NAME:PORT" in shown


def test_help_and_unknown_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "kubectl kscheduler why" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["zzz"]) == 2
    assert "there is no 'zzz'\nusage:" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "reported"), [
    ("wy", "there is no 'wy': did you mean why?"),
    ("explain", "there is no explain here: it is `kubectl kscheduler why` (or `kscheduler explain`)"),
    ("simulate", "there is no simulate here: it is `kubectl kscheduler whatif` (or `kscheduler simulate`)"),
    ("shadow", "there is no shadow here: it is `kscheduler shadow`"),
])  # fmt: skip
def test_a_verb_of_the_other_program_is_reported_with_its_name(
    word: str, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    assert f"kubectl kscheduler: {reported}\n" in capsys.readouterr().err


def test_every_verb_has_a_name_in_the_other_program() -> None:
    """A new verb of the plugin is told by `kscheduler`, too."""
    assert set(OF_KSCHEDULER) == set(VERBS) - set(COMMANDS)
    assert set(OF_KUBECTL) <= set(COMMANDS)


@pytest.mark.parametrize("verb", ["why", "pending"])
def test_help_says_who_decides(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    reported = " ".join(capsys.readouterr().out.split())
    assert "the running service is asked first; where it cannot be asked, this process decides by itself." in reported
    assert "no service has to run" not in reported


def test_whatif_names_the_command_that_goes_on_where_the_service_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["whatif", "--help"])
    reported = " ".join(capsys.readouterr().out.split())
    assert "The running service is asked first; where it cannot be asked, this process decides by itself." in reported
    assert (
        f"The service ends a simulation after {PLAY_SECONDS:g} s; `kscheduler simulate` takes the same flags"
        in reported
    )


@pytest.mark.parametrize(("words", "found", "last"), [
    ([""], ["why", "whatif", "pending", "nodes", "top"], ":4"),
    (["wh"], ["why", "whatif"], ":4"),
    (["why", "--from"], ["--from"], ":4"),
    (["whatif", "--ad"], ["--add-nodes"], ":4"),
    (["why", "-f", ""], [], ":0"),
    (["what", "-"], [], ":4"),
    (["top", "--on"], ["--once"], ":4"),
    (["nodes", "--serv"], ["--service"], ":4"),
])  # fmt: skip
def test_completion(words: list[str], found: list[str], last: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As cobra reads it: a suggestion per line, a tab before its description, a directive at the end."""
    assert complete(words) == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    assert ([line.partition("\t")[0] for line in lines], directive) == (found, last)


@pytest.mark.parametrize("verb", [["pending"], ["nodes"], ["why", "web-0"]], ids=lambda words: words[0])
def test_an_address_in_the_environment_that_is_none_is_refused_in_a_line_that_names_the_variable(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KSCHEDULER_SERVICE", "xx")
    assert main(verb) == 2
    assert capsys.readouterr().err.splitlines() == [
        "kscheduler: KSCHEDULER_SERVICE: 'xx' is not NAMESPACE/NAME:PORT, such as kscheduler-system/kscheduler:10259"
    ]


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_node_that_is_not_there_ends_with_1(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-007}\nstatus: {allocatable: {cpu: 1, pods: 9}}\n"
    )
    words = ["nodes", "--from", str(file), "-o", output]
    assert main([*words, "node-007"]) == 0
    capsys.readouterr()
    assert main([*words, "node-007", "nope", "node-7"]) == 1
    said = capsys.readouterr()
    reported = said.out if output == "text" else said.err
    assert "there is no node nope\n" in reported
    assert "there is no node node-7: do you mean node-007?\n" in reported
