"""A process with a user's plugins ends with exit code 0, whatever the plugins have left behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.builders import node_tree, pod_tree
from tests.service.process.test_signals import REPOSITORY, scheduler
from tests.service.running import node_of, put, until

PROCESSES = pytest.mark.slow("starts kscheduler as a process, with all its imports")
SIX_LINES = """\
from kscheduler.framework.per_node import plugin


@plugin("Six")
def score(pod, node):
    return 5
"""
DEAF = """\
import asyncio

from kscheduler.framework.plugin import Plugin


class Deaf(Plugin):
    name = "Deaf"
    refresh_interval = 5.0

    async def refresh(self):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass

    def post_bind(self, cycle, pod, node_name):
        pass
"""


async def ended(tmp_path: Path, text: str) -> tuple[int, list[str]]:
    """Exit code and last messages of a process with this plugin, which is told to end right after a decision."""
    plugin = tmp_path / "mine.py"
    plugin.write_text(text)
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("a"))
        put(server, "nodes", node_tree("b"))
        flags = ("--plugin", str(plugin), "--leader-elect=false")
        async with scheduler(server, flags=flags) as running:
            await running.until_said('"scheduling"')
            for number in range(6):
                put(server, "pods", pod_tree(f"p-{number}", schedulerName="kscheduler"))
            await until(server, lambda: all(node_of(server, f"p-{number}") for number in range(6)))
            running.process.send_signal(signal.SIGTERM)
            return await running.end()


async def test_a_plugin_of_six_lines_leaves_nothing_behind(tmp_path: Path) -> None:
    code, messages = await ended(tmp_path, SIX_LINES)
    assert (code, messages[-1]) == (0, "stopped")


def test_the_timer_of_the_time_budget_is_off_before_its_handler_goes() -> None:
    """It is left on after a call, and would kill a process in the instants between its handler's end and its own."""
    script = (
        "import atexit, signal\n"
        "atexit.register(lambda: print(signal.getitimer(signal.ITIMER_REAL)[0]))  # called last\n"
        "from kscheduler.scheduling.supervision.alarm import ALARM\n"
        "ALARM.end(ALARM.begin(30.0))\n"
        "print(signal.getitimer(signal.ITIMER_REAL)[0] > 0)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    assert ran.stdout.split() == ["True", "0.0"]


@PROCESSES
async def test_a_task_that_ignores_its_cancellation_does_not_keep_it(tmp_path: Path) -> None:
    code, messages = await ended(tmp_path, DEAF)
    assert code == 0
    assert messages[-2:] == ["stopped", "tasks_not_ended"]
