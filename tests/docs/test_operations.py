"""docs/operations.md names what there is: paths, lines, causes, signals and series."""

import re
from pathlib import Path

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.outage_cause import Cause
from kscheduler.client.reachability import QUIET_SECONDS, STORM, UNREADY_SECONDS
from kscheduler.config.changes import EXCHANGEABLE
from kscheduler.config.types import KubeSchedulerConfiguration
from kscheduler.server import Limits
from kscheduler.server.access import HEALTH
from kscheduler.server.waiting_pods import WAITING_PODS
from kscheduler.service import App
from kscheduler.service.config_file import LOOK_SECONDS
from kscheduler.service.signals import ENDING
from tests.telemetry.metrics.series_stories import everything
from tests.telemetry.metrics.test_upstream_series import is_listed

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operations.md").read_text()
SOURCES = "\n".join(path.read_text() for path in (ROOT / "kscheduler").rglob("*.py"))


PATHS = (*HEALTH, WAITING_PODS, "/metrics", "/metrics/resources", "/version", "/configz", "/statusz", "/flagz")


@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_reported(path: str) -> None:
    assert f"| `{path}` |" in TEXT


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.THROTTLED])
def test_every_cause_is_reported(cause: Cause) -> None:
    assert f"`{cause}`" in TEXT


def test_every_signal_is_reported() -> None:
    assert all(number.name in TEXT for number in ENDING)


def test_the_figures_are_those_of_the_code() -> None:
    assert f"after {UNREADY_SECONDS:g} s" in TEXT
    assert f"for {QUIET_SECONDS:g} s" in TEXT
    assert f"{STORM} answers 429" in TEXT
    assert f"At most {Limits().connections} connections" in TEXT


def test_what_a_running_process_takes_over_is_reported_with_its_times() -> None:
    section = TEXT.partition("## Changing the configuration")[2].partition("## Signals")[0]
    taken_over = section.partition("**Taken over:**")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", taken_over)) == EXCHANGEABLE
    refused = set(re.findall(r"`(\w+)`", section.partition("**Refused")[2].partition("\n\n")[0]))
    assert refused | EXCHANGEABLE == set(KubeSchedulerConfiguration.__struct_encode_fields__)
    assert f"every {LOOK_SECONDS:g} s" in section
    assert f"within {2 * LOOK_SECONDS:g} s" in section


async def test_every_series_that_is_named_is_exposed() -> None:
    app = App(everything(), plain_connection("http://127.0.0.1:1"))
    names = app.http_app.exposition.names()
    app.http_app.exposition.close()
    reported = set(re.findall(r"\b(?:kscheduler|scheduler|rest_client|kubernetes|go)_[a-z_]+(?<!_)\b(?!\*)", TEXT))
    reported = {name for name in reported if not (name.startswith("scheduler_async_api_call") or is_listed(name))}
    assert reported <= names


def test_every_log_line_that_is_named_is_written_somewhere() -> None:
    section = TEXT.partition("## When the API server is unreachable")[2].partition("Causes:")[0]
    lines = {word for word in re.findall(r"`([a-z_]+)`", section) if "_" in word}
    assert len(lines) > 8
    assert [line for line in sorted(lines) if f'"{line}"' not in SOURCES] == []
