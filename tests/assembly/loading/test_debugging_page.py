"""docs/debugging-plugins.md: its session is what one sees, its commands are taken, its text is what a service says."""

import argparse
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from kscheduler.cli import build_parser
from kscheduler.cli.debugging import debuggers_in_service
from kscheduler.testing import Cluster, make_node, make_pod
from kscheduler.testing.cluster import UndecidedError

PAGE: Final = (Path(__file__).parents[3] / "docs" / "debugging-plugins.md").read_text(encoding="utf-8")
NODES: Final = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: dear}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
- apiVersion: v1
  kind: Node
  metadata: {name: cheap, annotations: {cost: "0.1"}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
"""
POD: Final = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: app}]}\n"


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [text for of, text in found if of == language]


COMMANDS: Final = [
    shlex.split(line, comments=True)
    for block in blocks("sh")
    for line in block.splitlines()
    if "kscheduler" in line and not line.startswith("python -m pytest")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cheap.py").write_text(blocks("python")[0])
    (tmp_path / "nodes.yaml").write_text(NODES)
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


def test_the_session_is_what_one_sees(folder: Path) -> None:
    (session,) = [text for text in blocks("") if "(Pdb)" in text]
    typed = "".join(f"{line.removeprefix('(Pdb) ')}\n" for line in session.splitlines() if line.startswith("(Pdb)"))
    (command,) = [words for words in COMMANDS if "explain" in words]
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, input=typed, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    shown = ran.stderr.replace(f"> {folder}/", "> ")  # only the answer goes to standard output
    seen = [line for line in session.splitlines() if not line.startswith("(Pdb)")]
    assert [line for line in re.sub(r"\(Pdb\) ", "", shown).splitlines() if line in seen] == seen
    assert "goes to cheap" in ran.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_is_taken(command: list[str]) -> None:
    words = command[command.index("kscheduler") + 1 :]
    assert build_parser([words[0]]).parse_args(words) is not None


def test_the_ides_arguments_are_taken() -> None:
    (launch,) = blocks("json")
    (configuration,) = json.loads(launch)["configurations"]
    assert (configuration["module"], configuration["args"][0]) == ("kscheduler", "run")
    assert build_parser(["run"]).parse_args(configuration["args"]).debug_plugins


def test_a_service_without_the_flag_says_what_the_page_says(folder: Path) -> None:
    (shown,) = [text.strip() for text in blocks("") if "DebuggerKeptOutError" in text]
    cluster = Cluster(make_node("a")).enable(folder / "cheap.py")
    with debuggers_in_service(argparse.Namespace(debug_plugins=False)), pytest.raises(UndecidedError) as reported:
        cluster.node_for(make_pod("web"))
    assert all(part in str(reported.value) for part in shown.partition(": ")[2].split(": ")), reported.value
    assert "--debug-plugins" in str(reported.value)
    assert "cheap.py:7" in str(reported.value)
