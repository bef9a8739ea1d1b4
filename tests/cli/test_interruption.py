"""A signal in the first second ends the process without a word, whatever it was importing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kscheduler.cli.interruption import end_at_once_on_signals, signals_as_usual
from kscheduler.unused_signals import UNUSED
from tests.effort import sampled

PROCESSES = pytest.mark.slow("starts kscheduler as a process, with all its imports")
MODULES = ("argparse", "kscheduler.cli.commands.run", "structlog", "yaml", "kscheduler.service", "numpy", "aiohttp")
EARLY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# A finder in front of all others, so that the signal comes in the middle of importing that module.
PROGRAM = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number})
        return None

sys.argv = {argv!r}
from kscheduler.__main__ import main
sys.meta_path.insert(0, Interrupting())
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("module", sampled(MODULES, 2, "starts kscheduler as a process"))
def test_a_signal_while_something_is_imported_ends_the_process_in_silence(
    module: str, number: signal.Signals, tmp_path: Path
) -> None:
    argv = ["kscheduler", "run", "--master", "http://127.0.0.1:1", "--port", "0"]
    program = PROGRAM.format(module=module, number=int(number), argv=argv)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60, cwd=Path.cwd()
    )
    assert ended.returncode == 128 + number
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr


@PROCESSES
@pytest.mark.parametrize("module", ["argparse", "kscheduler.cli.commands.run", "kscheduler.service", "numpy"])
def test_a_dump_that_is_queried_for_too_early_is_no_end(module: str) -> None:
    argv = ["kscheduler", "run", "--port", "0", "--kubeconfig", "/nope"]
    program = PROGRAM.format(module=module, number=int(signal.SIGUSR2), argv=argv)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == "kscheduler: kubeconfig /nope: No such file or directory (--kubeconfig names it)\n"


@PROCESSES
def test_a_terminal_that_goes_away_under_nohup_is_no_end() -> None:
    argv = ["kscheduler", "run", "--port", "0", "--kubeconfig", "/nope"]
    program = PROGRAM.format(module="numpy", number=int(signal.SIGHUP), argv=argv)
    ignoring = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{program}"
    ended = subprocess.run([sys.executable, "-c", ignoring], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2


def test_whoever_ends_in_order_gets_pythons_own_handlers_back() -> None:
    before = {number: signal.getsignal(number) for number in (*EARLY, *UNUSED)}
    try:
        end_at_once_on_signals()
        signals_as_usual()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert all(signal.getsignal(number) is signal.SIG_DFL for number in EARLY if number != signal.SIGINT)
        assert all(signal.getsignal(number) is not signal.SIG_DFL for number in UNUSED)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_handler_that_somebody_else_installed_stays() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def mine(_number: int, _frame: object) -> None:
        os.abort()

    try:
        signal.signal(signal.SIGTERM, mine)
        signals_as_usual()
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
