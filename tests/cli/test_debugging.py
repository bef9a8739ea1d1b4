"""`--debug-plugins`: a debugger in a plugin of a service, and none without the flag."""

import argparse
import bdb
import json
import os
import pdb
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kscheduler.assembly.plugin_files import UnusablePluginError, run_file
from kscheduler.cli import debugging
from kscheduler.cli.debugging import DebuggerKeptOutError, begin_debugging, debuggers_in_service, prompt_problem
from kscheduler.cli.flags import add_flags, resolve
from kscheduler.config.errors import ConfigError
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.status import SUCCESS
from kscheduler.testing import Cluster, make_node, make_pod

SERVICE = argparse.Namespace(debug_plugins=False)
DEBUGGED = argparse.Namespace(debug_plugins=True)


@pytest.fixture(autouse=True)
def without_pytests_own_debugger(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a service: pytest brings a `pdb.set_trace` of its own."""
    monkeypatch.setattr(pdb, "set_trace", lambda: pdb.Pdb().set_trace(sys._getframe().f_back))
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    yield
    PLUGIN_TIME.is_limited = PLUGIN_TIME.lets_debuggers_in = True


@pytest.mark.parametrize(
    "call",
    [
        lambda: breakpoint(),  # noqa: PLW0108  as it is when it is called
        lambda: pdb.set_trace(),  # noqa: PLW0108
        lambda: pdb.Pdb().set_trace(),
        lambda: pdb.post_mortem(_raised().__traceback__),
        lambda: pdb.run("1 + 1"),
    ],
    ids=["breakpoint", "set_trace", "instance", "post_mortem", "run"],
)
def test_a_service_without_the_flag_gives_no_prompt_but_an_error_that_names_it(call: Callable[[], Any]) -> None:
    with debuggers_in_service(SERVICE), pytest.raises(DebuggerKeptOutError, match="--debug-plugins"):
        call()


def _raised() -> BaseException:
    try:
        int("x")
    except ValueError as failure:
        return failure
    raise AssertionError


def test_a_breakpoint_that_python_was_reported_to_pass_over_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    with debuggers_in_service(SERVICE):
        breakpoint()


def test_afterwards_debuggers_work_again() -> None:
    before = sys.breakpointhook, bdb.Bdb.reset, pdb.Pdb
    for given in (SERVICE, DEBUGGED):
        with debuggers_in_service(given):
            assert before != (sys.breakpointhook, bdb.Bdb.reset, pdb.Pdb)
        assert before == (sys.breakpointhook, bdb.Bdb.reset, pdb.Pdb)
    assert (PLUGIN_TIME.is_limited, PLUGIN_TIME.lets_debuggers_in) == (True, True)


async def test_the_pods_condition_names_plugin_and_flag_where_a_breakpoint_was_left() -> None:
    class Watched(Plugin):
        name = "Watched"

        async def permit(self, cycle: Any, pod: Any, node_name: str) -> Any:
            breakpoint()
            return SUCCESS

    pod = make_pod("web")
    with debuggers_in_service(SERVICE):
        async with Cluster(make_node("a")).enable(Watched).running() as running:
            await running.add(pod)
            message = running.message_of(pod)
    assert 'plugin "Watched"' in message
    assert "--debug-plugins" in message


def test_a_breakpoint_at_the_import_refuses_the_file_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    with debuggers_in_service(SERVICE), pytest.raises(UnusablePluginError) as refused:
        run_file(str(file), b"import os\nbreakpoint()\n")
    assert f"{file}:2: " in str(refused.value)
    assert "--debug-plugins" in str(refused.value)


def test_with_the_flag_interrupts_stay_the_services() -> None:
    with debuggers_in_service(DEBUGGED):
        assert vars(pdb.Pdb())["nosigint"]
    assert not vars(pdb.Pdb())["nosigint"]


@pytest.mark.parametrize(
    ("given", "is_limited"), [(DEBUGGED, False), (SERVICE, True), (argparse.Namespace(), True)], ids=["on", "off", "no"]
)
def test_the_flag_lifts_the_limits_and_without_it_they_hold(given: argparse.Namespace, *, is_limited: bool) -> None:
    PLUGIN_TIME.is_limited = not is_limited
    begin_debugging(given)
    assert PLUGIN_TIME.is_limited is is_limited


class Input:
    """A standard input."""

    def __init__(self, *, is_terminal: bool) -> None:
        self.isatty = lambda: is_terminal


def test_where_nobody_could_type_the_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Input(is_terminal=False))
    assert "no terminal" in prompt_problem()
    monkeypatch.setattr(sys, "stdin", None)
    assert "no terminal" in prompt_problem()
    monkeypatch.setattr(sys, "stdin", Input(is_terminal=True))
    assert prompt_problem() == ""


def test_an_ide_needs_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Input(is_terminal=False))
    monkeypatch.setattr(sys, "breakpointhook", lambda: None)
    assert prompt_problem() == ""


# --- leader election --------------------------------------------------------------------------------------------------


def _resolved(*flags: str) -> Any:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return resolve(parser.parse_args(flags))


@pytest.mark.parametrize("lines", ["", "leaderElection: {leaderElect: true}\n"], ids=["default", "in-the-file"])
def test_nobody_is_elected_while_plugins_are_debugged(lines: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{lines}")
    for flags in ([], ["--config", str(file)]):
        found = _resolved("--debug-plugins", *flags)
        assert found.config.configuration.leader_election.leader_elect is False
        assert _resolved(*flags).config.configuration.leader_election.leader_elect is True


def test_querying_for_both_is_refused() -> None:
    with pytest.raises(ConfigError, match="--leader-elect: contradicts --debug-plugins"):
        _resolved("--debug-plugins", "--leader-elect")
    assert _resolved("--debug-plugins", "--leader-elect=false")


# --- the whole of it --------------------------------------------------------------------------------------------------

STOPS = """\
import time

from kscheduler.framework.per_node import plugin


@plugin("Stops")
def score(pod, node):
    time.sleep(0.5)  # more than the budget of a call
    breakpoint()
    return 7
"""


class Terminal:
    """A terminal with a person before it."""

    def __init__(self, *command: str) -> None:
        self.process, self._fd = pty.fork()
        if not self.process:
            os.execv(command[0], command)
        self.shown = ""

    def until(self, text: str) -> str:
        """What is shown until `text` appears."""
        begun, end = len(self.shown), time.monotonic() + 60
        while text not in self.shown[begun:]:
            assert time.monotonic() < end, self.shown
            self.shown += os.read(self._fd, 65536).decode(errors="replace")
        return self.shown[begun:]

    def type(self, line: str) -> None:
        os.write(self._fd, line.encode() + b"\n")

    def end(self) -> int:
        """Ctrl-C, and the exit code."""
        os.kill(self.process, signal.SIGINT)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def test_a_breakpoint_in_a_running_scheduler_gives_a_prompt_and_then_the_pod_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "stops.py"
    file.write_text(STOPS)
    flags = ("--nodes=2", "--port=0", "--schedule", f"--plugin={file}", "--debug-plugins")
    terminal = Terminal(sys.executable, "-m", "kscheduler", "cluster", *flags)
    try:
        started = terminal.until("its screen")
        (url,) = re.findall(r"nodes on (\S+)", started)
        (log,) = re.findall(r"its log: (\S+)", started)
        pods = f"{url}/api/v1/namespaces/default/pods"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
        pod["spec"] = {"containers": [{"name": "main", "image": "app"}]}
        body = json.dumps(pod).encode()
        urllib.request.urlopen(urllib.request.Request(pods, body, {"Content-Type": "application/json"}))
        assert "stops.py(" in terminal.until("(Pdb) ")
        terminal.type("p node.name")
        assert "'node-00" in terminal.until("(Pdb) ")
        terminal.type("c")
        terminal.until("(Pdb) ")
        terminal.type("c")
        end, node = time.monotonic() + 30, ""
        while not node and time.monotonic() < end:
            node = json.load(urllib.request.urlopen(f"{pods}/web"))["spec"].get("nodeName", "")
        assert node
        lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
        (warned,) = [line for line in lines if line["msg"] == "plugins_are_debugged"]
        assert warned["advice"] == debugging.DEBUGGED
        assert "prompt" not in warned
        others = {line["msg"] for line in lines if line["level"] in {"warning", "error"}} - {"plugins_are_debugged"}
        assert others <= {"connection_not_secure"}
    finally:
        code = terminal.end()
    assert code == 0


def test_it_belongs_to_the_scheduler_of_an_embedded_cluster() -> None:
    command = [sys.executable, "-m", "kscheduler", "cluster", "--debug-plugins"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, "--debug-plugins: needs --schedule" in ended.stderr) == (2, True)
