"""Helm: the real program, built once from the Go module in `go/`, and what the chart renders to.

The module pins Helm, `go.sum` what it is made of; its Kubernetes libraries are those of tests/controlplane/go, so that
Go's cache has most of it already where the control plane is built. `python -m tests.deploy.helm` builds it and prints
its path.
"""

import functools
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.toolchain import find_go, run_go

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "kscheduler"
MODULE: Final = Path(__file__).parent / "go"
PROGRAM: Final = "helm.sh/helm/v4/cmd/helm"
BUILD_SECONDS: Final = 1800.0
RELEASE: Final = "kscheduler"
NAMESPACE: Final = "kscheduler-system"

Object = dict[str, Any]


class RefusedError(RuntimeError):
    """Helm has refused; the message is Helm's."""


def version() -> str:
    """Helm's version, as go.mod pins it."""
    (pinned,) = re.findall(r"^\s*helm\.sh/helm/v4 (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    return str(pinned)


@functools.cache
def find_helm() -> Path:
    """The program, built if need be. Raises `GoError`, or `ToolchainError` where there is no Go."""
    pinned = b"".join((MODULE / name).read_bytes() for name in ("go.mod", "go.sum"))
    digest = hashlib.sha256(platform.machine().encode() + pinned).hexdigest()[:16]
    program = cache_folder() / "helm" / digest / "helm"
    with locked(cache_folder() / "helm" / "lock"):
        if not program.is_file():
            _build(program)
    return program


def _build(program: Path) -> None:
    """Builds beside the place and renames at the end, so a program that exists is complete."""
    print(f"building Helm {version()}, once; about two minutes on two cores", file=sys.stderr)  # noqa: T201
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=program.parent.parent) as folder:
        unfinished = Path(folder, "helm")
        stamps = f"-s -w -X helm.sh/helm/v4/internal/version.version={version()}"
        build = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", stamps]
        run_go(find_go(cache_folder()), *build, "-o", unfinished, PROGRAM, folder=MODULE, seconds=BUILD_SECONDS)
        unfinished.rename(program)


def run_helm(*arguments: str | Path, environment: Mapping[str, str] | None = None, seconds: float = 120) -> str:
    """What Helm prints. Raises `RefusedError` with what it says otherwise. Of the user's own settings it sees none."""
    with tempfile.TemporaryDirectory(prefix="helm-home-") as home:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
        homes = {f"HELM_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA")}
        finished = subprocess.run(
            [find_helm(), *arguments],
            env=own | homes | dict(environment or {}),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    if finished.returncode:
        raise RefusedError(f"{finished.stderr}{finished.stdout}")
    return finished.stdout


def value_arguments(files: Sequence[Path], settings: Mapping[str, object]) -> list[str | Path]:
    """Flags for files of values, and for single values by their path (as JSON)."""
    flags: list[str | Path] = []
    for path in files:
        flags += ["--values", path]
    for name, value in settings.items():
        flags += ["--set-json", f"{name}={json.dumps(value)}"]
    return flags


def render(
    *files: Path,
    settings: Mapping[str, object] | None = None,
    kubernetes: str = "v1.36.0",
    release: str = RELEASE,
    namespace: str = NAMESPACE,
) -> str:
    """What `helm template` prints."""
    flags = value_arguments(files, settings or {})
    return run_helm("template", release, CHART, "--namespace", namespace, "--kube-version", kubernetes, *flags)


def notes(settings: Mapping[str, object], *files: Path, release: str = RELEASE, namespace: str = NAMESPACE) -> str:
    """What `helm install` says at the end."""
    flags = value_arguments(files, settings)
    said = run_helm("install", release, CHART, "--namespace", namespace, "--dry-run=client", *flags)
    return said.partition("NOTES:")[2]


def objects(text: str) -> list[Object]:
    """The objects of a stream of YAML documents."""
    return [document for document in yaml.safe_load_all(text) if document is not None]


if __name__ == "__main__":
    print(find_helm())  # noqa: T201
