"""Where the real control plane's programs come from: `KUBEBUILDER_ASSETS`, or one build by the Go module in `go/`.

Users of envtest have `etcd`, `kube-apiserver` and `kubectl` in the folder that `KUBEBUILDER_ASSETS` names; what is
not there is built. A build is kept under the hash of everything that goes into it, in `$KSCHEDULER_CACHE` or
`~/.cache/kscheduler`, so it happens once per change of the Go module. It takes some five minutes on two cores when
Go's own cache is cold. `kubectl` is built too: a transcript must read the same on every machine, whatever kubectl
that one has. `KUBERNETES_VERSION` chooses another release of Kubernetes (`releases/pinned.py`).

`python -m tests.controlplane.binaries` builds ahead and prints the folder.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.releases import pinned, substitutes
from tests.controlplane.releases.pinned import MODULE, Release
from tests.controlplane.toolchain import GO_ENVIRONMENT, ToolchainError, find_go, needed_by

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
BUILD_SECONDS = 3600.0


class BuildError(RuntimeError):
    """The control plane could not be built; the message names the log."""


@dataclass(frozen=True)
class Binaries:
    """Paths of the programs, each of which exists."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    """Of the version that kscheduler follows on this release (`pinned.oracle`): the two are compared."""
    kubectl: Path


def cache_folder() -> Path:
    """`$KSCHEDULER_CACHE`, or `~/.cache/kscheduler`."""
    named = os.environ.get("KSCHEDULER_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "kscheduler"


def linker_flags(release: Release) -> str:
    # Without the stamps kubectl takes the server for v0.0.0 and refuses to compare versions.
    stamps = {
        "gitVersion": release.tag,
        "gitMajor": str(release.major),
        "gitMinor": str(release.minor),
        "gitTreeState": "clean",
    }
    return " ".join(("-s", "-w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamps.items())))


def source_hash(release: Release) -> str:
    """Changes with any file of the Go module, the linker's flags or the machine's architecture."""
    digest = hashlib.sha256(f"{platform.machine()} {linker_flags(release)}".encode() + substitutes.digest(release))
    sources = {path.relative_to(MODULE): path for path in MODULE.rglob("*.go")}
    # A further release's module files stand in the place of the default's.
    sources |= dict(zip((Path("go.mod"), Path("go.sum")), release.files, strict=True))
    for name, path in sorted(sources.items()):
        digest.update(f"\n{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def find() -> Binaries:
    """The programs of the chosen release, built if need be. Raises BuildError, ToolchainError, UnknownReleaseError."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    found = {name: Path(assets, name) for name in NAMES if assets and Path(assets, name).is_file()}
    if len(found) < len(NAMES):
        found = of_release(pinned.chosen()) | found
    return Binaries(*(found[name] for name in NAMES))


def find_release(release: Release) -> Binaries:
    """The programs of this release, whatever `KUBEBUILDER_ASSETS` names. Raises BuildError or ToolchainError."""
    found = of_release(release)
    return Binaries(*(found[name] for name in NAMES))


def of_release(release: Release) -> dict[str, Path]:
    """The programs as they were built, by name."""
    built, oracle = build(release), build(pinned.oracle(release))
    return {name: built / name for name in NAMES} | {"kube-scheduler": oracle / "kube-scheduler"}


def find_kubectl() -> Path:
    """The kubectl that `find` finds; only a machine that can build nothing gets by with the one on its PATH."""
    try:
        return find().kubectl
    except ToolchainError:
        on_path = shutil.which("kubectl")
        if on_path is None:
            raise
        return Path(on_path)


def build(release: Release) -> Path:
    """The folder that holds the programs built from the Go module as it is now."""
    folder = cache_folder() / "controlplane" / source_hash(release)
    with locked(folder.with_suffix(".lock")):
        if not folder.is_dir():
            compile_into(folder, release)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Two runs at once build once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def compile_into(folder: Path, release: Release) -> None:
    """Compiles beside `folder` and renames at the end, so a folder that exists is complete."""
    go = find_go(cache_folder(), needed_by(release.module_file))
    print(f"building etcd and Kubernetes {release} with {go}, once; about five minutes on two cores", file=sys.stderr)  # noqa: T201
    unfinished = Path(tempfile.mkdtemp(prefix="build-", dir=folder.parent))
    log = folder.with_suffix(".log")
    try:
        module_file = substitutes.module_file(release, release.files, go, cache_folder())
        run_go(go, release, module_file, unfinished, log)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def run_go(go: Path, release: Release, module_file: Path, output: Path, log: Path) -> None:
    # -mod=readonly: the checksums decide what is built. -trimpath: no path of the machine in the binaries.
    command: list[str | Path] = [
        go,
        "build",
        "-mod=readonly",
        f"-modfile={module_file}",
        "-buildvcs=false",
        "-trimpath",
        "-ldflags",
        linker_flags(release),
    ]
    with log.open("w") as handle:
        finished = subprocess.run(
            [*command, "-o", f"{output}/", "./cmd/..."],
            cwd=MODULE,
            env=os.environ | GO_ENVIRONMENT,
            stdout=handle,
            stderr=subprocess.STDOUT,
            timeout=BUILD_SECONDS,
            check=False,
        )
    if finished.returncode:
        tail = " | ".join(log.read_text().strip().splitlines()[-3:])
        raise BuildError(f"go build ended with {finished.returncode}; all of it is in {log}; its end: {tail}")


if __name__ == "__main__":
    print(find().kubectl.parent)  # noqa: T201
