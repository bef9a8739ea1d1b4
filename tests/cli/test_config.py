"""`kscheduler config`: a file is right or every mistake is told; the defaults are a file that is right."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kscheduler.cli import main
from kscheduler.config.loader import default_configuration, load_bytes

PROCESSES = pytest.mark.slow("starts kscheduler as a process")
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

HTTP = "must be http://HOST or https://HOST, with a port and a path where needed"
ONE = """\
from kscheduler.framework.per_node import plugin

@plugin("One")
def score(pod, node):
    return 1
"""
NO_TEXT = "expected text (in quotes, if it looks like a number or yes or no)"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def check(file: Path, text: str, *flags: str) -> int:
    file.write_text(HEAD + text)
    return main(["config", "check", str(file), *flags])


def test_a_file_that_is_right_says_for_subject_it_schedules(file: Path, capsys: Captured) -> None:
    text = "profiles: [{schedulerName: one}, {schedulerName: two}]\nleaderElection: {leaderElect: false}"
    assert check(file, text) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{file}: can be used; it schedules for one, two\n"
    assert captured.err == ""


def test_a_name_with_white_space_is_shown_in_quotes_and_doubted(file: Path, capsys: Captured) -> None:
    assert check(file, "profiles: [{schedulerName: ' '}]\nleaderElection: {leaderElect: false}") == 0
    captured = capsys.readouterr()
    assert captured.out == f'{file}: can be used; it schedules for " ", 1 warning\n'
    assert 'profiles[0].schedulerName: only pods that name exactly " " are scheduled' in captured.err


def test_settings_plugins_and_gates_without_effect_are_warnings(file: Path, capsys: Captured) -> None:
    text = "extenders: [{urlPrefix: x}]\nleaderElection: {leaderElect: true}"
    assert check(file, text, "--feature-gates=SchedulerPopFromBackoffQ=false") == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "kscheduler: warning: feature gate SchedulerPopFromBackoffQ=false is known but has no effect yet",
        f"kscheduler: warning: {file}: extenders[0]: it is never called: it has no verb",
    ]
    assert captured.out.endswith("schedules for default-scheduler, 2 warnings\n")


def test_names_of_plugins_that_nobody_has_are_doubted_and_loaded_ones_are_not(file: Path, capsys: Captured) -> None:
    plugin = file.with_name("one.py")
    plugin.write_text(ONE)
    disabled = "plugins: {filter: {disabled: [{name: NodeResourceFit}, {name: One}]}}"
    assert check(file, f"profiles: [{{{disabled}, pluginConfig: [{{name: One}}]}}]", "--plugin", str(plugin)) == 0
    (doubt,) = [line for line in capsys.readouterr().err.splitlines() if "enabled in no profile" not in line]
    assert doubt.endswith(
        "profiles[0].plugins.filter.disabled[0].name: has no effect: no plugin is named "
        '"NodeResourceFit": do you mean NodeResourcesFit?'
    )


def test_an_extender_that_cannot_be_called_is_a_mistake(file: Path, capsys: Captured) -> None:
    text = f"extenders:\n- urlPrefix: ftp://x\n  filterVerb: f\n  tlsConfig: {{caFile: {file.parent}}}\n"
    assert check(file, text) == 2
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        f'kscheduler: {file}:4: extenders[0].urlPrefix: Invalid value: "ftp://x": {HTTP}',
        f"kscheduler: {file}:6: extenders[0].tlsConfig.caFile: {file.parent}: Is a directory",
    ]


TLS_AWAY = (
    "extenders: [{urlPrefix: 'https://x', filterVerb: f, tlsConfig: "
    "{caFile: /no/ca.crt, certFile: /no/tls.crt, keyFile: /no/tls.key}}]"
)


def test_certificates_of_an_extender_need_not_be_on_the_machine_that_checks(file: Path, capsys: Captured) -> None:
    assert check(file, TLS_AWAY) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{file}: can be used; it schedules for default-scheduler, 3 warnings\n"
    assert captured.err.splitlines() == [
        f"kscheduler: warning: {file}: extenders[0].tlsConfig.{field}: /no/{name}: No such file or directory here; "
        "it must be there where the service runs"
        for field, name in (("caFile", "ca.crt"), ("certFile", "tls.crt"), ("keyFile", "tls.key"))
    ]


@PROCESSES
def test_certificates_of_an_extender_must_be_where_the_service_runs(file: Path) -> None:
    file.write_text(HEAD + TLS_AWAY)
    done = run("--config", str(file), "--master", "http://127.0.0.1:9")
    assert (done.returncode, done.stderr.count("/no/ca.crt: No such file or directory\n")) == (2, 1)


def test_a_certificate_that_is_there_and_is_none_is_a_mistake(file: Path, capsys: Captured) -> None:
    (file.parent / "ca.crt").write_text("nothing of the kind")
    text = f"extenders: [{{urlPrefix: 'https://x', filterVerb: f, tlsConfig: {{caFile: {file.parent}/ca.crt}}}}]"
    assert check(file, text) == 2
    assert "extenders[0].tlsConfig.caFile" in capsys.readouterr().err


def test_every_mistake_has_a_line(file: Path, capsys: Captured) -> None:
    text = "parallelism: -1\nfoo: 1\npercentageOfNodesToScore: 101\nprofiles: [{schedulerNam: x}, {schedulerName: 3}]"
    assert check(file, text) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"kscheduler: {file}:3: parallelism: Invalid value: -1: should be an integer value greater than zero",
        f"kscheduler: {file}:4: foo: unknown field",
        f"kscheduler: {file}:5: percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        f"kscheduler: {file}:6: profiles[0].schedulerNam: unknown field: did you mean schedulerName?",
        f"kscheduler: {file}:6: profiles[1].schedulerName: {NO_TEXT}, got 3",
    ]


def lines_of(err: str, file: Path) -> list[int]:
    """The lines of the file that the messages name."""
    return [int(line.removeprefix(f"kscheduler: {file}:").partition(":")[0]) for line in err.splitlines()]


def test_mistakes_come_in_the_order_of_the_lines_whatever_check_finds_them(file: Path, capsys: Captured) -> None:
    assert check(file, SEVERAL) == 2
    lines = lines_of(capsys.readouterr().err, file)
    assert lines == sorted(lines)
    text = (
        "extenders: [{urlPrefix: 'ftp://x', filterVerb: f}]\nprofiles:\n- plugins: {filter: {enabled: [{name: No}]}}\n"
    )
    assert check(file, text) == 2
    assert lines_of(capsys.readouterr().err, file) == [3, 5]


def test_plugins_that_do_not_exist_are_found_in_every_profile(file: Path, capsys: Captured) -> None:
    text = """\
profiles:
- {schedulerName: a, plugins: {filter: {enabled: [{name: Nope}, {name: PrioritySort}]}}}
- {schedulerName: b, plugins: {score: {enabled: [{name: Neither}]}}}
"""
    assert check(file, text) == 2
    nope, sort, neither = capsys.readouterr().err.splitlines()
    assert nope.startswith(
        f'kscheduler: {file}:4: profiles[0].plugins.filter.enabled[0]: FilterPlugin "Nope" does not exist: '
    )
    assert sort == (
        f'kscheduler: {file}:4: profiles[0].plugins.filter.enabled[1]: plugin "PrioritySort" does not extend '
        "FilterPlugin plugin"
    )
    assert neither.startswith(
        f'kscheduler: {file}:5: profiles[1].plugins.score.enabled[0]: ScorePlugin "Neither" does not exist: '
    )


SEVERAL = """parallelism: 5000000000
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - {name: Nope, weight: 5000000000}
      - {name: NodeCosts}
      - {nam: Misspelt}
    filter:
      enabled:
      - {name: NodeResourcesFit, weight: -5000000000}
      - {name: PrioritySort}
    multiPoint:
      enabled: [{name: TaintToleration, weight: 2}, {name: podtopologyspread}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocate}}
extenders:
- {urlPrefix: "ftp://x", filterVerb: f}
- {urlPrefix: "http://x:0", prioritizeVerb: p, weight: -1}
- {urlprefix: "http://x", filterVerb: f}
- urlPrefix: "https://x"
  tlsConfig: {certData: "???", caFile: /no/ca.crt}
- {urlPrefix: "https://x", filterVerb: f, tlsConfig: {caFile: /no/ca.crt}}
"""
FOUND = {
    "parallelism": "5000000000 is outside",
    "profiles[0].plugins.score.enabled[0].weight": "5000000000 is outside",
    "profiles[0].plugins.score.enabled[0]": 'ScorePlugin "Nope" does not exist: kube-scheduler has no plugin of this',
    "profiles[0].plugins.score.enabled[1]": 'ScorePlugin "NodeCosts" does not exist: did you mean NodeCost?',
    "profiles[0].plugins.score.enabled[2].nam": "unknown field",
    "profiles[0].plugins.filter.enabled[0].weight": "-5000000000 is outside",
    "profiles[0].plugins.filter.enabled[1]": 'plugin "PrioritySort" does not extend FilterPlugin plugin',
    "profiles[0].plugins.multiPoint.enabled[1]": '"podtopologyspread" does not exist: did you mean PodTopologySpread?',
    "profiles[0].pluginConfig[0].args.scoringStrategy.type": 'Unsupported value: "LeastAllocate"',
    "extenders[0].urlPrefix": f'Invalid value: "ftp://x": {HTTP}',
    "extenders[1].urlPrefix": 'Invalid value: "http://x:0": nothing can listen on port 0',
    "extenders[1].weight": "Invalid value: -1",
    "extenders[2].urlprefix": "unknown field",
    "extenders[3].tlsConfig.certData": "illegal base64 data",
}


def found_in(file: Path, err: str) -> dict[str, str]:
    """The messages by path."""
    lines = (line.removeprefix(f"kscheduler: {file}:").partition(": ")[2] for line in err.splitlines())
    return {path: message for path, _, message in (line.partition(": ") for line in lines)}


def test_a_mistake_in_one_field_hides_no_other(file: Path, capsys: Captured) -> None:
    assert check(file, SEVERAL) == 2
    err = capsys.readouterr().err
    found = found_in(file, err)
    assert {path: message for path, message in found.items() if FOUND.get(path, "-") not in message} == {}
    assert found.keys() == FOUND.keys()
    assert err.count("\n") == len(FOUND), "each once"


def test_a_value_out_of_range_hides_neither_plugins_nor_extenders(file: Path, capsys: Captured) -> None:
    text = (
        "percentageOfNodesToScore: 101\n"
        "profiles: [{plugins: {filter: {enabled: [{name: Nope}, {name: Nada}]}}}]\n"
        "extenders: [{urlPrefix: 'ftp://x', filterVerb: f}]"
    )
    assert check(file, text) == 2
    assert found_in(file, capsys.readouterr().err).keys() == {
        "percentageOfNodesToScore",
        "profiles[0].plugins.filter.enabled[0]",
        "profiles[0].plugins.filter.enabled[1]",
        "extenders[0].urlPrefix",
    }


def test_names_are_not_judged_while_a_plugin_file_is_missing(file: Path, capsys: Captured) -> None:
    text = (
        "pluginSources: [{file: away.py}]\nparallelism: -1\nprofiles: [{plugins: {filter: {enabled: [{name: Mine}]}}}]"
    )
    assert check(file, text) == 2
    assert found_in(file, capsys.readouterr().err).keys() == {"pluginSources[0].file", "parallelism"}
    assert main(["config", "check", str(file), "--plugin", "/no/such.py"]) == 2
    assert "Mine" not in capsys.readouterr().err


BROKEN_PLUGINS = """\
from kscheduler.framework.plugin import Plugin

class One(Plugin):
    name = "One"
    def __init__(self):
        raise ValueError("no one")

class Two(Plugin):
    name = "Two"
    def __init__(self):
        raise ValueError("no two")
"""


def test_a_plugin_that_cannot_be_built_hides_no_other(file: Path, capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(BROKEN_PLUGINS)
    text = "profiles: [{plugins: {multiPoint: {enabled: [{name: One}, {name: Nope}, {name: Two}]}}}]"
    file.write_text(HEAD + text)
    assert main(["config", "check", str(file), "--plugin", str(tmp_path / "two.py")]) == 2
    one, two, nope = capsys.readouterr().err.splitlines()
    assert "no one" in one
    assert "no two" in two
    assert "profiles[0].plugins.multiPoint.enabled[1]: " in nope


BAD_FILE = HEAD + "paralelism: 3\nprofiles: [{schedulerName: x, percentageOfNodesToScore: 200}]\n"
OF_RENEW_DEADLINE = 'command line: --leader-elect-renew-deadline: Invalid value: "1m0s": '
SEE_HELP = " --help` lists what there is"
OF_BAD_FILE = [
    "3: paralelism: unknown field: did you mean parallelism?",
    "4: profiles[0].percentageOfNodesToScore: Invalid value: 200: not in valid range [0-100]",
]


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        pytest.param(
            ["run", "--leader-elect-retry-period", "5x", "--port", "70000", "--config", "FILE"],
            [
                "argument --leader-elect-retry-period: unknown unit 'x' in duration '5x': use ns, us, ms, s, m or h",
                "argument --port: '70000' must be between 0 and 65535; `kscheduler run --help` lists what there is",
            ],
            id="run, values",
        ),
        pytest.param(
            ["run", "--config", "FILE", "--feature-gates", "Nope=true", "--tls-cert-file", "x", "--record-redact"],
            [
                "--feature-gates: unrecognized feature gate: Nope",
                *OF_BAD_FILE,
                "command line: --tls-cert-file and --tls-private-key-file belong together: give both",
                "--record-redact: needs --record, which says where to record",
            ],
            id="run, flags that do not go together",
        ),
        pytest.param(
            [
                *("run", "--config", "FILE", "--leader-elect-renew-deadline", "60s"),
                *("--log-format", "json", "--logging-format", "text"),
            ],
            [
                "command line: --log-format json and --logging-format text mean the same: give one",
                f"{OF_RENEW_DEADLINE}must be less than leaderElection.leaseDuration, which is 15s",
            ],
            id="run, flags beside the file's own values",
        ),
        pytest.param(
            ["shadow", "--settle", "soon", "--insecure-port", "no", "--config", "FILE"],
            [
                "argument --settle: invalid duration 'soon'",
                f"argument --insecure-port: 'no' must be between 0 and 65535; `kscheduler shadow{SEE_HELP}",
            ],
            id="shadow, values",
        ),
        pytest.param(
            ["shadow", "--feature-gates", "Nope=true", "--config", "FILE"],
            ["--feature-gates: unrecognized feature gate: Nope"],
            id="shadow, gates",
        ),
        pytest.param(
            ["config", "check", "FILE", "--emulated-version", "9", "--folow"],
            [
                (
                    "argument --emulated-version: '9' is none of the versions that are followed: 1.36, 1.37, 1.38 "
                    "(as MAJOR.MINOR)"
                ),
                "unknown flag --folow; `kscheduler config check --help` lists what there is",
            ],
            id="check, values",
        ),
        pytest.param(
            ["config", "check", "FILE", "--feature-gates", "Nope=true"],
            ["--feature-gates: unrecognized feature gate: Nope"],
            id="check, gates",
        ),
    ],
)
def test_mistakes_of_the_command_line_and_of_the_file_are_reported_at_once(
    file: Path, capsys: Captured, words: list[str], reported: list[str]
) -> None:
    file.write_text(BAD_FILE, encoding="utf-8")
    try:
        code = main([str(file) if word == "FILE" else word for word in words])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    every = [*reported, *(line for line in OF_BAD_FILE if line not in reported)]
    expected = [f"kscheduler: {f'{file}:{line}' if line in OF_BAD_FILE else line}" for line in every]
    assert capsys.readouterr().err.splitlines() == expected


def test_flags_that_are_wrong_do_not_hide_a_plugin_that_cannot_be_built(file: Path, capsys: Captured) -> None:
    file.write_text(HEAD + "profiles: [{plugins: {score: {enabled: [{name: Nobody}]}}}]\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["run", "--config", str(file), "--port", "x"])
    assert main(["run", "--config", str(file), "--tls-cert-file", "x"]) == 2
    assert capsys.readouterr().err.count("plugins.score.enabled[0]: ScorePlugin") == 2


def test_the_start_says_all_that_the_check_says(file: Path, capsys: Captured) -> None:
    file.write_text(HEAD + SEVERAL)
    assert main(["config", "check", str(file)]) == 2
    checked = capsys.readouterr().err
    done = run("--config", str(file), "--master", "http://127.0.0.1:9")
    assert (done.returncode, done.stderr.splitlines()[:-1]) == (2, checked.splitlines())
    assert done.stderr.endswith("extenders[4].tlsConfig.caFile: /no/ca.crt: No such file or directory\n")


@PROCESSES
def test_the_start_says_all_plugins_and_extenders_at_once(file: Path, capsys: Captured) -> None:
    text = (
        "profiles:\n- {schedulerName: a, plugins: {filter: {enabled: [{name: Nope}]}}}\n"
        "- {schedulerName: b, plugins: {filter: {enabled: [{name: Nada}]}}}\n"
        "extenders: [{urlPrefix: 'ftp://x', filterVerb: f}]"
    )
    file.write_text(HEAD + text)
    assert main(["config", "check", str(file)]) == 2
    checked = capsys.readouterr().err
    done = run("--config", str(file), "--master", "http://127.0.0.1:9")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-3:] == checked.splitlines()


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("a: &x 1\nb: *x", "alias"),
        ("parallelism: 1\nparallelism: 2", "parallelism"),
        ("profiles: []\n---\nprofiles: []", "document"),
    ],
    ids=["alias", "duplicate key", "second document"],
)
def test_a_file_that_means_two_things_is_refused(file: Path, capsys: Captured, document: str, text: str) -> None:
    assert check(file, document) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["check", "no-such-file"], ["check", "f", "--feature-gates=Nope=1"]], ids=" ".join)
def test_what_cannot_be_read_or_is_unknown_ends_with_2(capsys: Captured, flags: list[str]) -> None:
    assert main(["config", *flags]) == 2
    assert (
        capsys.readouterr().err.splitlines()[-1] == f"kscheduler: {flags[1]}: cannot be read: No such file or directory"
    )


def test_the_defaults_read_back_as_what_holds_without_a_file(capsys: Captured) -> None:
    assert main(["config", "default", "--scheduler-name", "mine"]) == 0
    printed = capsys.readouterr().out
    assert load_bytes(printed.encode(), "f").configuration == default_configuration("mine").configuration


def test_the_defaults_name_no_rate_because_unset_it_adapts(capsys: Captured) -> None:
    assert main(["config", "default"]) == 0
    printed = capsys.readouterr().out
    assert not {"qps", "burst"} & yaml.safe_load(printed)["clientConnection"].keys()
    assert not load_bytes(printed.encode(), "f").is_given("clientConnection.qps")


def test_the_defaults_under_gates(capsys: Captured) -> None:
    assert main(["config", "default", "--feature-gates=StorageCapacityScoring=true"]) == 0
    captured = capsys.readouterr()
    configured = yaml.safe_load(captured.out)["profiles"][0]["pluginConfig"]
    (binding,) = [one["args"] for one in configured if one["name"] == "VolumeBinding"]
    assert binding["shape"]
    assert captured.err == "", "it is built"


def test_a_default_of_kube_schedulers_that_has_no_effect_here_is_a_warning_too(file: Path, capsys: Captured) -> None:
    text = "enableContentionProfiling: true\nclientConnection: {contentType: application/vnd.kubernetes.protobuf}\n"
    assert check(file, text) == 0
    captured = capsys.readouterr()
    warned = [line.split(": ")[3] for line in captured.err.splitlines()]
    assert warned == ["clientConnection.contentType", "enableContentionProfiling"]
    assert captured.out.endswith(", 2 warnings\n")
    assert main(["config", "default"]) == 0
    file.write_text(capsys.readouterr().out)
    assert main(["config", "check", str(file)]) == 0
    captured = capsys.readouterr()
    assert (captured.err, captured.out.endswith("schedules for kscheduler\n")) == ("", True), "a file to start from"


def run(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kscheduler", "run", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_run_writes_the_complete_configuration_and_ends(tmp_path: Path) -> None:
    target = tmp_path / "complete.yaml"
    flags = ["--scheduler-name=mine", "--leader-elect=false", "--kube-api-qps=3", "--tls-curve-preferences=29", "-v=1"]
    done = run("--write-config-to", str(target), "--log-format=text", *flags)
    assert done.returncode == 0, done.stderr
    assert "--tls-curve-preferences" in done.stderr
    written = load_bytes(target.read_bytes(), "f").configuration
    assert [profile.scheduler_name for profile in written.profiles] == ["mine"]
    assert not written.leader_election.leader_elect
    assert written.client_connection.qps == 3
    assert main(["config", "check", str(target)]) == 0


@PROCESSES
def test_run_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    done = run("--write-config-to", str(tmp_path / "no" / "such"), "--feature-gates=Nope=true")
    assert (done.returncode, done.stderr) == (2, "kscheduler: --feature-gates: unrecognized feature gate: Nope\n")
    done = run("--write-config-to", str(tmp_path / "no" / "such"))
    assert done.returncode == 2
    assert done.stderr.endswith("No such file or directory\n")
