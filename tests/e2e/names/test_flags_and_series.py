"""The lists of kube-scheduler's flags and series that the fast tests judge by are those of the chosen release."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_upstream_flags import KUBE_SCHEDULER_FLAGS
from tests.controlplane import binaries
from tests.controlplane.releases import pinned
from tests.telemetry.metrics.test_upstream_series import SERIES

SECONDS = 60.0
_FLAG = re.compile(r"^ +(?:-\w, )?--([a-z0-9-]+)", re.MULTILINE)
_SERIES = re.compile(r'^\s+Name:\s+"([a-z0-9_]+)"', re.MULTILINE)


def test_the_list_of_flags_is_that_of_the_binary() -> None:
    command = [str(binaries.find().kube_scheduler), "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    assert set(_FLAG.findall(help_text)) == KUBE_SCHEDULER_FLAGS


def test_the_list_of_series_is_that_of_the_source() -> None:
    release = pinned.chosen()
    cache = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")
    folder = cache / "k8s.io" / f"kubernetes@{release.tag}" / "pkg" / "scheduler" / "metrics"
    version = pinned.followed_version(release)
    if not folder.is_dir() or version not in SERIES:
        pytest.skip(f"the source of Kubernetes {release} is not on this machine")
    sources = [path.read_text() for path in folder.glob("*.go") if not path.name.endswith("_test.go")]
    assert {name for source in sources for name in _SERIES.findall(source)} == SERIES[version]
