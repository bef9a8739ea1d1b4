"""Tells at the end of a run how many cases were judged; a full run with too few of them fails."""

import pytest

from tests.specification import cases


def pytest_sessionfinish(session: pytest.Session) -> None:
    if cases.shortage() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if cases.summary():
        terminalreporter.section("specification")
        terminalreporter.line(cases.summary())
    if cases.shortage():
        terminalreporter.line(cases.shortage())
