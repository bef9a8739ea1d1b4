"""Tells at the end of a run how many cases were judged; a full run with too few of them fails."""

import pytest

from tests.specification import cases


def pytest_sessionfinish(session: pytest.Session) -> None:
    if cases.is_short_of_goal() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if cases.judged_cases:
        terminalreporter.section("specification")
        terminalreporter.line(cases.summary())
    if cases.is_short_of_goal():
        terminalreporter.line(f"The goal is {cases.GOAL:,}: the shares in tests/specification/cases.py are too small.")
