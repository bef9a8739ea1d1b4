"""The command line itself: it answers at once, refuses in one line, and takes no empty name, path or address."""

import errno
import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from kscheduler import service
from kscheduler.cli import VERBS, build_parser, main
from kscheduler.cli.refusal import refuse
from kscheduler.cli.serving_flags import why_not_listening
from kscheduler.client.events.scheduled import ScheduledEvents
from kscheduler.config.errors import config_error
from kscheduler.server.listener import Address, CannotListenError

Captured = pytest.CaptureFixture[str]

HEAVY = ("numpy", "aiohttp", "msgspec", "yaml", "structlog", "asyncio", "prometheus_client", "kubernetes_asyncio")


def refused(capsys: Captured, *argv: str) -> str:
    """The one line on stderr."""
    try:
        code = main(argv)
    except SystemExit as end:
        code = int(str(end.code))
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err.rstrip("\n")


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_what_the_command_knows_by_itself_imports_nothing_heavy(flag: str) -> None:
    program = (
        "import sys\n"
        "from kscheduler.__main__ import main\n"
        f"sys.argv = ['kscheduler', {flag!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.startswith("kscheduler 0." if flag == "--version" else "usage: kscheduler")
    assert ended.stderr == "[]\n"


def test_help_lists_each_verb_as_its_own_parser_describes_it(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    short = capsys.readouterr().out
    whole = build_parser(tuple(VERBS)).format_help()
    assert short == whole


def test_no_command_at_all_shows_what_there_is(capsys: Captured) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert all(verb in captured.err for verb in VERBS)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("run", "--confg", "x"), "unknown flag --confg; did you mean --config?; `kscheduler run --help`"),
        (("run", "--sheduler-name=x"), "unknown flag --sheduler-name; did you mean --scheduler-name?"),
        (("run", "--zzz"), "unknown flag --zzz; `kscheduler run --help`"),
        (("run", "pod"), "'pod' is one argument too many"),
        (("config", "check", "a", "b"), "'b' is one argument too many; `kscheduler config check --help`"),
        (("bench", "--node", "5"), "unknown flag --node; did you mean --nodes?"),
        (("rnu",), "there is no 'rnu': did you mean run?; `kscheduler --help` lists what there is"),
        (("explan", "--from", "x"), "there is no 'explan': did you mean explain?"),
        (("zzz",), "there is no 'zzz'; `kscheduler --help`"),
        (("why", "web-0"), "there is no why here: it is `kscheduler explain` (or `kubectl kscheduler why`)"),
        (("whatif",), "there is no whatif here: it is `kscheduler simulate` (or `kubectl kscheduler whatif`)"),
        (("top",), "there is no top here: it is `kubectl kscheduler top`"),
        (("nodes",), "there is no nodes here: it is `kubectl kscheduler nodes`"),
        (("config",), "required: COMMAND; `kscheduler config --help`"),
        (("run", "--port", "99999"), "argument --port: '99999' must be between 0 and 65535"),
        (("run", "--bind-address", "localhost"), "argument --bind-address: 'localhost' is no IP address"),
        (("run", "--scheduled-events", "few"), "argument --scheduled-events: invalid choice: 'few' (choose from"),
        (("run", "-v", "-1"), "'-1' is not a whole number from 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_refusal_is_one_line_that_says_where_to_look(capsys: Captured, argv: tuple[str, ...], expected: str) -> None:
    line = refused(capsys, *argv)
    assert line.startswith("kscheduler: ")
    assert expected in line


TEXTS_OF_RUN = (
    "--config",
    "--scheduler-name",
    "--master",
    "--context",
    "--kubeconfig",
    "--write-config-to",
    "--permit-token-file",
    "--leader-elect-resource-lock",
    "--leader-elect-resource-name",
    "--leader-elect-resource-namespace",
    "--bind-address",
    "--port",
    "--secure-port",
)


TEXTS_OF_EXPLAIN = ("-n", "--kubeconfig", "--context", "--master", "--config", "--scheduler-name", "-f", "--from")


@pytest.mark.parametrize("value", ["", " "], ids=["empty", "blank"])
@pytest.mark.parametrize(
    "argv",
    [
        *(("run", flag) for flag in TEXTS_OF_RUN),
        *(("explain", "web", flag) for flag in TEXTS_OF_EXPLAIN),
        *(("cluster", flag) for flag in ("--kubeconfig", "--host", "--port", "--config", "--scheduler-name", "-v")),
        ("explain",),
        ("demo", "--port"),
        ("bench", "--scenario"),
        ("config", "default", "--scheduler-name"),
        ("config", "check"),
    ],
    ids=" ".join,
)
def test_an_empty_name_path_port_or_address_is_refused(capsys: Captured, argv: tuple[str, ...], value: str) -> None:
    """`--scheduler-name "$UNSET"` would otherwise take the pods of another scheduler."""
    line = refused(capsys, *argv, value)
    assert argv[-1] in line or "FILE" in line or "POD" in line


@pytest.mark.parametrize("value", [*get_args(ScheduledEvents), None])
def test_the_service_gets_what_is_said_of_bound_pods(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[service.Options] = []

    async def run(options: service.Options) -> None:
        given.append(options)

    monkeypatch.setattr(service, "run", run)
    flags = [] if value is None else [f"--scheduled-events={value}"]
    assert main(["run", "--master=http://127.0.0.1:1", *flags]) == 0
    assert [options.scheduled_events for options in given] == [value or "all"]


@pytest.mark.parametrize("depth", [1, 4])
def test_the_service_gets_how_many_requests_may_leave_together(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[service.Options] = []

    async def run(options: service.Options) -> None:
        given.append(options)

    monkeypatch.setattr(service, "run", run)
    flags = [] if depth == 1 else [f"--pipeline-depth={depth}"]
    assert main(["run", "--master=http://127.0.0.1:1", *flags]) == 0
    assert [options.pipeline_depth for options in given] == [depth]


def test_a_configuration_can_come_from_standard_input(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defaults, piped back, are a file that asks for nothing but what the service does."""
    assert main(["config", "default"]) == 0
    printed = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    assert main(["config", "check", "-"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "standard input: can be used; it schedules for kscheduler\n"
    assert captured.err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "tcsh"])
def test_a_completion_script_knows_verbs_and_flags(capsys: Captured, shell: str) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)
    assert "scheduler-name" in script
    assert "feature-gates" in script


@pytest.fixture
def bash_completion(capsys: Captured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script for bash, in a file."""
    assert main(["completion", "bash"]) == 0
    path = tmp_path_factory.mktemp("completion") / "kscheduler.bash"
    path.write_text(capsys.readouterr().out)
    return path


def test_bash_completes_a_flag(bash_completion: Path) -> None:
    """The script in a real bash: what Tab offers after `kscheduler config check --fe`."""
    script = f"""
    source {bash_completion}
    COMP_WORDS=(kscheduler config check --fe) COMP_CWORD=3
    _shtab_kscheduler kscheduler
    echo "${{COMPREPLY[@]}}"
    """
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.strip() == "--feature-gates"


@pytest.mark.parametrize(
    ("flag", "offered"),
    [
        ("--tls-cert-file", {"a.pem", "sub/"}),
        ("--client-ca-file", {"a.pem", "sub/"}),
        ("--kubeconfig", {"a.pem", "sub/"}),
        ("--cert-dir", {"sub/"}),
        ("--leader-elect-resource-name", set()),
    ],
)
def test_bash_completes_names_of_files_where_a_flag_takes_one(
    flag: str, offered: set[str], bash_completion: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.pem").touch()
    (tmp_path / "sub").mkdir()
    script = f"""
    source {bash_completion}
    cd {tmp_path}
    COMP_WORDS=(kscheduler run {flag} "") COMP_CWORD=3
    _shtab_kscheduler kscheduler
    echo "${{COMPREPLY[@]}}"
    """
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert {name.rstrip("/") for name in ended.stdout.split()} == {name.rstrip("/") for name in offered}


@pytest.mark.parametrize("flag", ["--port", "--secure-port"])
def test_a_port_in_use_is_reported_by_the_flag_that_was_typed(flag: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: a, user: {}}]\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "kscheduler", "run", f"--kubeconfig={config}", "--bind-address=127.0.0.1"]
        ended = subprocess.run([*command, f"{flag}={port}"], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"kscheduler: --bind-address 127.0.0.1 {flag} {port}: ")


def test_control_characters_of_others_are_shown_and_forge_no_line(capsys: Captured) -> None:
    refuse(config_error("plugins", "boom\nfake line \x1b[31m \x9b0m", "profile p"))
    assert capsys.readouterr().err == "kscheduler: profile p: plugins: boom\\nfake line \\x1b[31m \\x9b0m\n"


def test_several_problems_stay_several_lines(capsys: Captured) -> None:
    refuse("one\ntwo \x07")
    assert capsys.readouterr().err == "kscheduler: one\nkscheduler: two \\x07\n"


def test_a_token_file_that_is_missing_is_reported_before_anybody_is_asked(capsys: Captured, tmp_path: Path) -> None:
    missing = str(tmp_path / "nope")
    line = refused(capsys, "run", "--kubeconfig", str(tmp_path / "none"), "--permit-token-file", missing)
    assert line == f"kscheduler: --permit-token-file: {missing}: No such file or directory"


PORTS = {
    "https": ("--port={port}", "--bind-address 127.0.0.1 --port {port}", "or --port=0 takes any that is free"),
    "secure": (
        "--secure-port={port}",
        "--bind-address 127.0.0.1 --secure-port {port}",
        "or --port=0 in place of --secure-port takes",
    ),
    "metrics": ("--metrics-bind-address=127.0.0.1:{port}", "--metrics-bind-address 127.0.0.1:{port}", "names it"),
    "insecure": ("--insecure-port={port}", "--insecure-port {port} (of 127.0.0.1)", "or --insecure-port=0"),
}


@pytest.mark.parametrize("name", PORTS)
def test_a_port_that_is_taken_is_reported_in_one_line_that_says_who_to_look_for(capsys: Captured, name: str) -> None:
    given, named, ending = PORTS[name]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        argv = ["run", "--master", "http://127.0.0.1:1", "--bind-address", "127.0.0.1", given.format(port=port)]
        assert main([*argv, *([] if "port" in given[:14] else ["--port=0"]), "--log-format", "json"]) == 2
    errors = capsys.readouterr().err
    assert "Errno" not in errors
    assert "Traceback" not in errors
    assert '"reason":"address already in use"' in errors
    last = errors.splitlines()[-1]
    assert last.startswith(f"kscheduler: {named.format(port=port)}: Address already in use; another program listens")
    assert f"`ss -ltnp 'sport = :{port}'`" in last
    assert ending in last
    (line,) = [line for line in map(json.loads, errors.splitlines()[:-1]) if line["msg"] == "http_server_cannot_listen"]
    assert (line["host"], line["port"], line["err"]) == ("127.0.0.1", int(port), "Address already in use")


def test_an_address_of_another_machine_is_reported_as_that(capsys: Captured) -> None:
    assert main(["run", "--master", "http://127.0.0.1:1", "--bind-address", "192.0.2.7", "--port", "10259"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        "kscheduler: --bind-address 192.0.2.7 --port 10259: Cannot assign requested address; no inter"
    )
    assert "192.0.2.7 (`ip addr`" in last


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.EACCES, "CAP_NET_BIND_SERVICE"), (errno.EINVAL, "take another address or port")]
)
def test_what_the_system_refuses_otherwise_is_reported_with_advice(number: int, advice: str) -> None:
    failure = CannotListenError(OSError(number, os.strerror(number)), Address("::1", 80), "https")
    line = why_not_listening(failure, "secure-port")
    assert line.startswith(f"--bind-address ::1 --secure-port 80: {os.strerror(number)}; ")
    assert advice in line
