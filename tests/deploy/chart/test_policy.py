"""checkov finds nothing in what the chart renders, but for what is listed here with its reason.

It stands in an environment of its own: its hundred dependencies would move the versions of ours. The environment is
made once, in the cache.
"""

import json
import subprocess
import venv
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.binaries import cache_folder, locked
from tests.deploy import helm, manifests

VERSION: Final = "3.3.30"
INSTALL_SECONDS: Final = 600.0
VALUE_SETS: Final = ("default", "hardened", "replace")

SCHEDULER: Final = "Deployment"
TEST_POD: Final = "Pod"
# Checks that may fail, by kind of object, each with the reason.
EXCUSED: Final = {
    ("CKV_K8S_11", SCHEDULER): "no CPU limit: throttled, a scheduler is late for every pod at once",
    ("CKV_K8S_11", TEST_POD): "the same chart, the same rule",
    ("CKV_K8S_15", SCHEDULER): "tags are never moved: what a node has pulled is what the registry has",
    ("CKV_K8S_15", TEST_POD): "likewise",
    ("CKV_K8S_38", SCHEDULER): "the scheduler talks to the API server, and needs its token",
    ("CKV_K8S_43", SCHEDULER): "the image's digest is known to who has pushed it: value image.digest",
    ("CKV_K8S_43", TEST_POD): "likewise",
    ("CKV_K8S_8", TEST_POD): "it ends by itself",
    ("CKV_K8S_9", TEST_POD): "it ends by itself",
    ("CKV2_K8S_6", TEST_POD): "it listens on nothing; which policy fits the scheduler is the cluster's: networkPolicy",
}

Failure = tuple[str, str]


@pytest.fixture(scope="session")
def checkov() -> Path:
    """The program, installed if need be."""
    folder = cache_folder() / "checkov" / VERSION
    ready = folder / "ready"
    with locked(cache_folder() / "checkov" / "lock"):
        if not ready.is_file():
            venv.create(folder, with_pip=True, clear=True)
            install: list[str | Path] = [
                folder / "bin" / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                f"checkov=={VERSION}",
            ]
            subprocess.run(install, check=True, timeout=INSTALL_SECONDS)
            ready.touch()
    return folder / "bin" / "checkov"


@pytest.fixture(scope="session", params=VALUE_SETS)
def failures(request: pytest.FixtureRequest, checkov: Path, tmp_path_factory: pytest.TempPathFactory) -> set[Failure]:
    """Failed checks of one value set, and the kind of object; what needs the vendor's service is not among them."""
    path = tmp_path_factory.mktemp("policy") / f"{request.param}.yaml"
    path.write_text(helm.render(manifests.VALUE_SETS / path.name))
    command: list[str | Path] = [
        checkov,
        "--file",
        path,
        "--framework",
        "kubernetes",
        "--output",
        "json",
        "--quiet",
        "--skip-download",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    report = json.loads(finished.stdout)
    assert report["summary"]["parsing_errors"] == 0
    assert report["summary"]["resource_count"] > 5
    found: set[Failure] = {
        (one["check_id"], one["resource"].partition(".")[0]) for one in report["results"]["failed_checks"]
    }
    FOUND.update(found)
    return found


FOUND: Final[set[Failure]] = set()


def test_no_check_fails_but_those_with_a_reason(failures: set[Failure]) -> None:
    assert sorted(failures - EXCUSED.keys()) == []


def test_each_excuse_is_needed() -> None:
    assert FOUND, "the test before has run no check"
    assert sorted(EXCUSED.keys() - FOUND) == []
