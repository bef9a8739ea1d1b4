"""checkov finds nothing in what the chart renders, but for what is listed here with its reason.

It stands in an environment of its own: its hundred dependencies would move the versions of ours. The environment is made
once, in the cache.
"""

import json
import subprocess
import venv
from pathlib import Path
from typing import Any, Final

import pytest

from tests.controlplane.binaries import cache_folder, locked
from tests.deploy import helm, manifests

VERSION: Final = "3.3.30"
INSTALL_SECONDS: Final = 600.0
VALUE_SETS: Final = ("default", "hardened", "monitoring", "single", "replace")

EXCUSED: Final = {
    "CKV_K8S_11": "no CPU limit: throttled, a scheduler is late for every pod at once",
    "CKV_K8S_38": "the scheduler talks to the API server, and needs its token",
    "CKV_K8S_43": "the image's digest is known to who has pushed it: value image.digest",
    "CKV_K8S_14": "the tag is the chart's appVersion, fixed",
}
"""Checks that may fail, each with the reason."""


@pytest.fixture(scope="session")
def checkov() -> Path:
    """The program, installed if need be."""
    folder = cache_folder() / "checkov" / VERSION
    ready = folder / "ready"
    with locked(cache_folder() / "checkov" / "lock"):
        if not ready.is_file():
            venv.create(folder, with_pip=True, clear=True)
            install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", f"checkov=={VERSION}"]
            subprocess.run(install, check=True, timeout=INSTALL_SECONDS)
            ready.touch()
    return folder / "bin" / "checkov"


def failures(checkov: Path, path: Path) -> list[dict[str, Any]]:
    """Failed checks of a file of objects. A check that needs the vendor's service is none of these."""
    command = [checkov, "--file", path, "--framework", "kubernetes", "--output", "json", "--quiet", "--skip-download"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    report = json.loads(finished.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["resource_count"] > 5
    failed: list[dict[str, Any]] = report["results"]["failed_checks"]
    return failed


@pytest.mark.parametrize("values", VALUE_SETS)
def test_no_check_fails_but_those_with_a_reason(checkov: Path, tmp_path: Path, values: str) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(helm.render(manifests.VALUE_SETS / f"{values}.yaml"))
    failed = {f"{one['check_id']} {one['resource']}: {one['check_name']}" for one in failures(checkov, path)}
    assert sorted(one for one in failed if one.split()[0] not in EXCUSED) == []


def test_each_excuse_is_needed(checkov: Path, tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(helm.render())
    assert {one["check_id"] for one in failures(checkov, path)} == set(EXCUSED)
