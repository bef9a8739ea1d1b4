"""Build the image without a container engine: `make image`, as root on Debian or Ubuntu.

    python -m deploy.image.build [--output build/image] [--revision COMMIT] [--architecture amd64]

The stages of deploy/Dockerfile are played on a root of Debian packages (`debian_root`) in place of its base: the same
files are copied, the same command runs, under chroot and without a network (a namespace of its own), and the final
stage says what the process is. For the other architecture its packages are unpacked and a root of this machine's
installs its wheels: nothing of the target runs, and what is written (files, bytecode) does not depend on who writes it.
The result is an OCI layout in OUTPUT/oci, and a bill of materials in OUTPUT/bom.cdx.json. Wheels and packages are
downloaded once, into $KSCHEDULER_CACHE or ~/.cache/kscheduler.
"""

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.image import debian_root, dockerfile, install, layers, sbom
from deploy.image.install import BuildError

ROOT: Final = Path(__file__).parents[2]
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
STAGE: Final = "application"
"""The stage of the Dockerfile that runs something."""


@dataclass(frozen=True)
class Built:
    """An image."""

    layout: Path
    bill_of_materials: Path
    digest: str
    """Of its manifest."""
    layers: tuple[layers.Layer, ...]
    architecture: str


def own_architecture() -> str:
    """This machine's, as images call it. Raises `BuildError` where it is none that there are wheels for."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise BuildError(f"images are built on {' or '.join(ARCHITECTURES)}, and this is {machine}")
    return ARCHITECTURES[machine]


def cache_folder() -> Path:
    """`$KSCHEDULER_CACHE`, or `~/.cache/kscheduler`."""
    named = os.environ.get("KSCHEDULER_CACHE")
    return (Path(named) if named else Path.home() / ".cache" / "kscheduler") / "image"


def build(output: Path, epoch: int, arguments: Mapping[str, str], architecture: str = "") -> Built:
    """Make the image in `output`, which must not exist; empty: for this machine's architecture. Raises `BuildError`."""
    if reason := debian_root.missing_tool():
        raise BuildError(reason)
    os.umask(0o022)
    own_machine = own_architecture()
    architecture = architecture or own_machine
    described = dockerfile.read(dockerfile.FILE.read_text(encoding="utf-8"))
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="kscheduler-image-") as name:
        root, base_archive, own_archive = (Path(name) / part for part in ("root", "base.tar.gz", "application.tar.gz"))
        root.mkdir()
        debian_root.make(root, debian_root.packages(cache_folder(), architecture))
        base = layers.write_layer(root, base_archive, epoch, f"Debian packages: {' '.join(debian_root.PACKAGES)}")
        # Where the image's own Python cannot run here, that of a like root of this architecture does the work.
        worker = root if architecture == own_machine else foreign_worker(Path(name) / "worker", root, own_machine)
        copy_context(described.stage(STAGE), worker, wheels(architecture))
        run_stage(described.stage(STAGE), worker, architecture, epoch)
        stage = worker / "stage"
        own = layers.write_layer(stage, own_archive, epoch, "deploy/image/install.py")
        bill = sbom.document(
            [root, stage], sbom.locked_hashes(), version=version(), epoch=epoch, architecture=architecture
        )
        (output / "bom.cdx.json").write_text(bill, encoding="utf-8")
        process = described.process(arguments, debian_root.VARIABLES)
        digest = layers.write_layout(output / "oci", (base, own), process, architecture, epoch, version())
    return Built(output / "oci", output / "bom.cdx.json", digest, (base, own), architecture)


def foreign_worker(worker: Path, target: Path, own_machine: str) -> Path:
    """A root that runs here, with the standard library of `target` to write its bytecode. Raises `BuildError`."""
    worker.mkdir()
    debian_root.make(worker, debian_root.packages(cache_folder(), own_machine))
    versions = [debian_root.python_version(root) for root in (worker, target)]
    if len(set(versions)) > 1:  # the mirror may be between two releases; bytecode is that of one
        raise BuildError(f"Debian has Python {versions[0]} for {own_machine}, and {versions[1]} for the target")
    library = Path("usr/lib") / f"python{install.PYTHON}"
    shutil.copytree(target / library, worker / "build" / install.FOREIGN_LIBRARY, symlinks=True)
    return worker


def version() -> str:
    """The project's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def wheels(architecture: str) -> Path:
    """The stage `wheels`: a folder with script, lock files and wheels, made once per content of the lock files."""
    inputs = [Path(__file__).with_name(name) for name in install.LOCKS]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()[:12]
    folder = cache_folder() / f"wheels-{architecture}-{key}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            unfinished = Path(name, "build")
            unfinished.mkdir()
            for path in inputs:
                shutil.copy(path, unfinished)
            install.fetch(unfinished, architecture)
            unfinished.rename(folder)
    shutil.copy(Path(install.__file__), folder)
    return folder


def copy_context(stage: dockerfile.Stage, root: Path, built: Path) -> None:
    """Each `COPY` of the stage; from another stage: what `wheels` made."""
    for instruction in stage.of("COPY"):
        *sources, target = instruction.words()
        into = root / target.lstrip("/")
        if instruction.flags():
            shutil.copytree(built, into, dirs_exist_ok=True)
            continue
        for name in sources:
            source = ROOT / name
            if source.is_dir():  # as Docker does: the folder's content
                shutil.copytree(source, into, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            else:
                into.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, into)


def run_stage(stage: dockerfile.Stage, root: Path, architecture: str, epoch: int) -> None:
    """Each `RUN` of the stage, in `root` and without a network. Raises `BuildError`."""
    devices = root / "dev"
    devices.mkdir(exist_ok=True)
    for number, device in ((3, "null"), (9, "urandom")):
        os.mknod(devices / device, 0o666 | 0o020000, os.makedev(1, number))
    variables = debian_root.VARIABLES | {"TARGETARCH": architecture, "SOURCE_DATE_EPOCH": str(epoch)}
    for instruction in stage.of("RUN"):
        chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
        command = ["unshare", "--net", chroot, str(root), *instruction.words()]
        ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise BuildError(
                f"{' '.join(instruction.words())}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}"
            )


def sha256(path: Path) -> str:
    """Of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_date_epoch() -> int:
    """$SOURCE_DATE_EPOCH, else the time of the last commit, else the oldest date that a wheel can hold."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return max(int(given), install.OLDEST_EPOCH)
    command = ["git", "log", "-1", "--format=%ct"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(ended.stdout) if ended.returncode == 0 and ended.stdout.strip() else install.OLDEST_EPOCH


def revision() -> str:
    """The commit, if this is a checkout."""
    ended = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip() if ended.returncode == 0 else "unknown"


def main() -> int:
    """Build and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/image"), help="replaced if it is there")
    parser.add_argument("--architecture", choices=sorted(install.MACHINES), default="", help="default: this machine's")
    parser.add_argument("--revision", default=revision(), help="for the label; default: the commit")
    args = parser.parse_args()
    try:
        shutil.rmtree(args.output, ignore_errors=True)
        arguments = {"VERSION": version(), "REVISION": args.revision}
        built = build(args.output, source_date_epoch(), arguments, args.architecture)
    except (BuildError, dockerfile.DockerfileError) as error:
        print(f"make image: {error}", file=sys.stderr)
        return 1
    for name, layer in zip(("base", "kscheduler"), built.layers, strict=True):
        print(f"{name:12} {layer.size / 1e6:6.1f} MB, unpacked {layer.unpacked / 1e6:6.1f} MB   {layer.diff_id}")
    print(f"{'manifest':12} {built.digest}")
    print(f"layout: {built.layout}   bill of materials: {built.bill_of_materials}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
