"""A plugin that hangs at its import is told of, with the line at which it stands."""

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kscheduler.assembly import hanging_imports
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.assembly.hanging_imports import HangReports
from kscheduler.cli import main

HANGS = """\
import sys
from kscheduler.framework.per_node import plugin

sys.modules["may_end"].wait(30)

@plugin("One")
def score(pod, node):
    return 1
"""


@pytest.fixture
def may_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    event = threading.Event()
    monkeypatch.setitem(sys.modules, "may_end", event)
    yield event
    event.set()


def test_it_is_reported_of_after_some_seconds_and_again_each_minute(tmp_path: Path, may_end: threading.Event) -> None:
    path = tmp_path / "hangs.py"
    path.write_text(HANGS)
    reader = ConfigurationReader(plugins=[str(path)])
    began = threading.Event()
    loading = reader._files.loading

    class Noted(list[Any]):
        def append(self, noted: Any) -> None:
            super().append(noted)
            began.set()

    reader._files.loading = Noted(loading)
    thread = threading.Thread(target=reader.default)
    thread.start()
    assert began.wait(30)
    loads = reader._files.being_loaded
    assert loads is not None
    _until(lambda: loads.stands_at == f"{path}:4")
    reports = HangReports(lambda: reader._files.being_loaded)
    reported = []
    for seconds in (0, 4.9, 5.1, 30, 64.9, 65.2, 100):
        with capture_logs() as lines:
            reports.look(loads.since + seconds)
        reported += [(seconds, line["event"], line["origin"], line["at"], line["seconds"]) for line in lines]
    assert reported == [
        (5.1, "plugin_import_hangs", f"file {path}", f"{path}:4", 5),
        (65.2, "plugin_import_hangs", f"file {path}", f"{path}:4", 65),
    ]
    may_end.set()
    thread.join()
    with capture_logs() as lines:
        reports.look(loads.since + 1000)
    assert lines == []


def _until(condition: Callable[[], bool]) -> None:
    """The other thread is on its way to the line where it waits, for which it rings no bell."""
    ended = threading.Event()
    for _ in range(3000):
        if condition():
            return
        ended.wait(0.01)
    pytest.fail("it has not come there")


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["run", "--write-config-to", "FILE"], id="run"),
        pytest.param(["explain", "--from", "FILE"], id="explain"),
        pytest.param(["config", "check", "FILE"], id="check"),
    ],
)
def test_commands_that_load_plugins_report_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_end: threading.Event, words: list[str]
) -> None:
    """The import goes on as soon as it is told of: nothing here depends on how fast that is."""
    path, file = tmp_path / "hangs.py", tmp_path / "file"
    path.write_text(HANGS)
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    reported: list[HangReports] = []

    class BeingReportedOf(HangReports):
        def look(self, now: float) -> None:
            loads = self._loads()
            if loads is not None and loads.stands_at == f"{path}:4":
                reported.append(self)
                may_end.set()

    monkeypatch.setattr(hanging_imports, "HangReports", BeingReportedOf)
    monkeypatch.setattr(hanging_imports, "LOOK_SECONDS", 0.01)
    main([*(str(file) if word == "FILE" else word for word in words), "--plugin", str(path)])
    assert reported
