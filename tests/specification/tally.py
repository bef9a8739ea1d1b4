"""Tells at the end of a run how many cases were judged; a full run with too few of them fails.

A plugin of pytest, loaded by `tests/conftest.py`. With `--numprocesses` (pytest-xdist) each worker judges some of the
files: it hands what it counted to the process that started it, which alone adds up and complains.
"""

from typing import Any, Final

import pytest

from tests.specification import cases

_KEY: Final = "judged by columns and specification"


def pytest_sessionfinish(session: pytest.Session) -> None:
    to_controller: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if to_controller is not None:
        to_controller[_KEY] = (dict(cases.judged_cases), dict(cases.judged_decisions))
    elif cases.shortage() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the process that started the workers, once for each that ends."""
    by_file, by_part = getattr(node, "workeroutput", {}).get(_KEY, ({}, {}))  # a worker that crashed hands nothing over
    cases.judged_cases.update(by_file)
    cases.judged_decisions.update(by_part)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if cases.summary():
        terminalreporter.section("specification")
        terminalreporter.line(cases.summary())
    if cases.shortage():
        terminalreporter.line(cases.shortage())
