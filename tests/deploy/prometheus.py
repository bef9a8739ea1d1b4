"""Prometheus and promtool: those on the PATH, or else Debian's package, unpacked into the cache and not installed.

Prometheus' Go module takes a quarter of an hour to build; the package is 30 MB, and apt checks its signature.
`python -m tests.deploy.prometheus` fetches it and prints where promtool is.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import cache_folder, locked

PROGRAMS: Final = ("prometheus", "promtool")
PACKAGE: Final = "prometheus"
FETCH_SECONDS: Final = 600.0
ADVICE: Final = "install prometheus and promtool, or run `apt-get update` and try again"


class MissingError(RuntimeError):
    """There is neither a Prometheus here nor a package of it."""


def find(program: str) -> Path:
    """`prometheus` or `promtool`. Raises `MissingError`."""
    on_path = shutil.which(program)
    return Path(on_path) if on_path else _unpacked() / "usr" / "bin" / program


def _unpacked() -> Path:
    """The folder with Debian's package in it."""
    folder = cache_folder() / "prometheus"
    with locked(cache_folder() / "prometheus.lock"):
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    """Unpacks beside the place and renames at the end, so a folder that exists is complete."""
    print("fetching Debian's package prometheus, once", file=sys.stderr)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="prometheus-", dir=cache_folder()) as text:
        place = Path(text)
        place.chmod(0o755)  # apt downloads as a user of its own
        try:
            _download(place)
        except subprocess.CalledProcessError:
            # A new machine has no lists of packages, or old ones.
            _run(place, "apt-get", "update")
            _download(place)
        (package,) = place.glob(f"{PACKAGE}_*.deb")
        _run(place, "dpkg", "-x", str(package), "unpacked")
        missing = [name for name in PROGRAMS if not (place / "unpacked" / "usr" / "bin" / name).is_file()]
        if missing:
            raise MissingError(f"{package.name} has no {', '.join(missing)}: {ADVICE}")
        (place / "unpacked").rename(folder)


def _download(place: Path) -> None:
    _run(place, "apt-get", "download", PACKAGE)


def _run(place: Path, *command: str) -> None:
    try:
        subprocess.run(command, cwd=place, check=True, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except FileNotFoundError as error:
        raise MissingError(f"no {command[0]} on this machine: {ADVICE}") from error


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C")
    print(find("promtool"))  # noqa: T201
