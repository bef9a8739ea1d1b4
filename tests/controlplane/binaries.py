"""Where the real control plane's programs come from: `KUBEBUILDER_ASSETS`, or one build by the Go module in `go/`.

Users of envtest have `etcd`, `kube-apiserver` and `kubectl` in the folder that `KUBEBUILDER_ASSETS` names; what is
not there is built. A build is kept under the hash of everything that goes into it, in `$KSCHEDULER_CACHE` or
`~/.cache/kscheduler`, so it happens once per change of the Go module. It takes some five minutes on two cores when
Go's own cache is cold. `kubectl` is built too: a transcript must read the same on every machine, whatever kubectl
that one has.

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

from tests.controlplane.toolchain import ToolchainError, find_go

MODULE = Path(__file__).parent / "go"
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
VERSION = "v1.36.3"
# Without these kubectl takes the server for v0.0.0 and refuses to compare versions.
STAMPS = {"gitVersion": VERSION, "gitMajor": "1", "gitMinor": "36", "gitTreeState": "clean"}
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
    kubectl: Path


def cache_folder() -> Path:
    """`$KSCHEDULER_CACHE`, or `~/.cache/kscheduler`."""
    named = os.environ.get("KSCHEDULER_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "kscheduler"


def linker_flags() -> str:
    stamps = (f"-X k8s.io/component-base/version.{key}={value}" for key, value in STAMPS.items())
    return " ".join(("-s", "-w", *stamps))


def source_hash() -> str:
    """Changes with any file of the Go module, the linker's flags or the machine's architecture."""
    digest = hashlib.sha256(f"{platform.machine()} {linker_flags()}".encode())
    for path in sorted(p for p in MODULE.rglob("*") if p.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"\n{path.relative_to(MODULE)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def find() -> Binaries:
    """The five programs, built if need be. Raises BuildError or ToolchainError."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    found = {name: Path(assets, name) for name in NAMES if assets and Path(assets, name).is_file()}
    if len(found) < len(NAMES):
        built = build()
        found = {name: built / name for name in NAMES} | found
    return Binaries(*(found[name] for name in NAMES))


def find_kubectl() -> Path:
    """The kubectl that `find` finds; only a machine that can build nothing gets by with the one on its PATH."""
    try:
        return find().kubectl
    except ToolchainError:
        on_path = shutil.which("kubectl")
        if on_path is None:
            raise
        return Path(on_path)


def build() -> Path:
    """The folder that holds the programs built from the Go module as it is now."""
    folder = cache_folder() / "controlplane" / source_hash()
    with locked(cache_folder() / "controlplane" / "lock"):
        if not folder.is_dir():
            compile_into(folder)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Two runs at once build once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def compile_into(folder: Path) -> None:
    """Compiles beside `folder` and renames at the end, so a folder that exists is complete."""
    go = find_go(cache_folder())
    print(f"building etcd and Kubernetes {VERSION} with {go}, once; about five minutes on two cores", file=sys.stderr)  # noqa: T201
    unfinished = Path(tempfile.mkdtemp(prefix="build-", dir=folder.parent))
    log = folder.parent / "build.log"
    try:
        run_go(go, unfinished, log)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def run_go(go: Path, output: Path, log: Path) -> None:
    # -mod=readonly: go.sum decides what is built. -trimpath: no path of the machine in the binaries.
    command: list[str | Path] = [
        go,
        "build",
        "-mod=readonly",
        "-buildvcs=false",
        "-trimpath",
        "-ldflags",
        linker_flags(),
    ]
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    with log.open("w") as handle:
        finished = subprocess.run(
            [*command, "-o", f"{output}/", "./cmd/..."],
            cwd=MODULE,
            env=environment,
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
