"""The files of a release that need no image: wheel, source distribution, the chart's package, and archives.

Wheel and source distribution are made by the hatchling of deploy/image/build.lock, of a copy that holds what is
committed and nothing else. The chart's package is what `helm package` makes, but the same bytes each time: Helm writes
the date of each file on disk. tests/deploy/chart compares the two.
"""

import fnmatch
import gzip
import io
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from deploy.image import build, install
from deploy.image.install import BuildError

CHART: Final = build.ROOT / "deploy" / "helm" / "kscheduler"


def committed_files(folder: Path = build.ROOT) -> list[str]:
    """What git keeps below `folder`, relative to it. Raises `BuildError` where there is no git or no checkout."""
    command = ["git", "ls-files", "-z"]
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"a release is made of a git checkout: {error}") from error
    return sorted(name for name in ended.stdout.split("\0") if name and (folder / name).is_file())


def uncommitted() -> str:
    """What differs from the commit, as `git status` lists it; empty if nothing does."""
    command = ["git", "status", "--porcelain"]
    return subprocess.run(command, cwd=build.ROOT, capture_output=True, text=True, check=True).stdout


def python_distributions(output: Path, epoch: int, source: Path | None = None) -> list[Path]:
    """The wheel and the source distribution in `output`. `source`: an unpacked one; else what is committed."""
    with tempfile.TemporaryDirectory(prefix="kscheduler-release-") as name:
        folder = Path(name)
        shutil.copytree(build.wheels(build.own_architecture()), folder / "build")
        if source is None:
            for file in committed_files():
                (folder / "build/source" / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(build.ROOT / file, folder / "build/source" / file)
        else:
            shutil.copytree(source, folder / "build/source")
        made = install.own_distributions(folder / "build", epoch, "wheel", "sdist")
        return [Path(shutil.copy(path, output)) for path in made]


def chart_package(output: Path, epoch: int) -> Path:
    """The chart as Helm packages it: without what .helmignore names, below a folder of the chart's name."""
    described = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    lines = (CHART / ".helmignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    files = {
        f"{described['name']}/{name}": (CHART / name).read_bytes()
        for name in committed_files(CHART)
        if not any(_ignored(name, pattern) for pattern in patterns)
    }
    package = output / f"{described['name']}-{described['version']}.tgz"
    package.write_bytes(gzip.compress(archive(files, epoch), mtime=0))
    return package


def _ignored(name: str, pattern: str) -> bool:
    """The forms of .helmignore that ours uses: a folder of the chart (`ci/`), or a pattern for names. Others raise."""
    if not re.fullmatch(r"[\w.*~-]+/?", pattern):
        raise BuildError(f".helmignore: {pattern} is in a form that is not read here")
    parts = name.split("/")
    if pattern.endswith("/"):
        return pattern.removesuffix("/") in parts[:-1]
    return any(fnmatch.fnmatchcase(part, pattern) for part in parts)


def archive(files: Mapping[str, bytes], epoch: int) -> bytes:
    """A tar archive: in order, root's, readable by all, dated `epoch`."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as opened:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(content), epoch, 0o644
            opened.addfile(info, io.BytesIO(content))
    return written.getvalue()


def folder_archive(folder: Path, output: Path, epoch: int) -> Path:
    """All files of `folder` as a tar archive at `output`."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    output.write_bytes(archive(files, epoch))
    return output
