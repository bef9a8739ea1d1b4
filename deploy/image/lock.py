"""Write the lock files of the image again: `make lock`.

    deploy/image/requirements.lock   what the image holds: the project's dependencies and the extras in `EXTRAS`
    deploy/image/build.lock          what makes our own wheel and unpacks the others: the dependency group `image-build`

uv resolves for the image's Python on each architecture; the lock then names exactly one wheel per package and
architecture by its SHA-256, and nothing else: no source distribution, no wheel of another system, and no slower
pure-Python wheel where there is a compiled one (aiohttp has both). The files hold no index address: the hashes say what
is installed, wherever it comes from. Releases younger than `COOL_DOWN` are left out: most poisoned releases are found
and taken back within days.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path(__file__).parent
PYTHON: Final = (3, 13)
"""Of Debian 13, the image's base."""
GLIBC_MINOR: Final = 40
"""Debian 13 has 2.41; uv knows platforms up to this."""
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""Docker's names of the architectures, and the names in wheels."""
EXTRAS: Final = ("uvloop",)
COOL_DOWN: Final = "7 days"

LOCKS: Final[Mapping[str, tuple[str, ...]]] = {
    "requirements.lock": ("pyproject.toml", *(f"--extra={extra}" for extra in EXTRAS)),
    "build.lock": ("--group=image-build",),
}
HEADER: Final = """\
# Written by `make lock`; see deploy/image/lock.py.
# One wheel per package and architecture, for CPython {python} on Linux; install with
#   pip install --require-hashes --only-binary :all: --no-deps --requirement {name}
"""

Wheels = dict[tuple[str, str], dict[str, str]]
"""By name and version: file names of wheels, and their SHA-256."""


class LockError(Exception):
    """There is no lock that both architectures can use; the message says why."""


def tags(machine: str) -> list[Tag]:
    """What the image's Python can load, the best first."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 4, -1)]
    platforms += [f"manylinux{year}_{machine}" for year in ("2014", "2010", "1")] + [f"linux_{machine}"]
    interpreter = f"cp{PYTHON[0]}{PYTHON[1]}"
    return [*cpython_tags(PYTHON, platforms=platforms), *compatible_tags(PYTHON, interpreter, platforms)]


def best_wheel(files: Iterable[str], machine: str) -> str:
    """The file name that pip would take. Raises `LockError` if none can be loaded."""
    ranks = {tag: rank for rank, tag in enumerate(tags(machine))}
    ranked = {
        file: min((ranks[tag] for tag in parse_wheel_filename(file)[3] if tag in ranks), default=None) for file in files
    }
    usable = {file: rank for file, rank in ranked.items() if rank is not None}
    if not usable:
        raise LockError(f"no wheel for {machine} among {', '.join(ranked) or 'none at all'}")
    return min(usable, key=lambda file: (usable[file], file))


def resolve(arguments: Iterable[str], machine: str) -> Wheels:
    """Ask uv; one wheel per package. Raises `LockError`."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "pylock.toml"
        command = [str(Path(sys.executable).parent / "uv"), "pip", "compile", *arguments, "--quiet", "--no-config"]
        command += [f"--python-version={PYTHON[0]}.{PYTHON[1]}"]
        command += [f"--python-platform={machine}-manylinux_2_{GLIBC_MINOR}", "--only-binary=:all:"]
        command += [f"--exclude-newer={COOL_DOWN}", "--format=pylock.toml", f"--output-file={output}"]
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        if ended.returncode:
            raise LockError("uv found no solution; what it said is above")
        packages = tomllib.loads(output.read_text(encoding="utf-8"))["packages"]
    return {(one["name"], one["version"]): chosen(one, machine) for one in packages}


def chosen(package: Mapping[str, Any], machine: str) -> dict[str, str]:
    """The wheel's name and hash."""
    hashes = {one["url"].rpartition("/")[2]: one["hashes"]["sha256"] for one in package.get("wheels", ())}
    try:
        file = best_wheel(hashes, machine)
    except LockError as error:
        raise LockError(f"{package['name']} {package['version']}: {error}") from None
    return {file: hashes[file]}


def merged(by_machine: Mapping[str, Wheels]) -> Wheels:
    """One list for all architectures. Raises `LockError` if they need different packages or versions."""
    first, *others = by_machine
    for other in others:
        if different := by_machine[first].keys() ^ by_machine[other].keys():
            raise LockError(f"{first} and {other} do not agree on {', '.join(f'{n} {v}' for n, v in different)}")
    return {
        package: {file: digest for wheels in by_machine.values() for file, digest in wheels[package].items()}
        for package in sorted(by_machine[first])
    }


def text(name: str, wheels: Wheels) -> str:
    """The file."""
    lines = [HEADER.format(python=".".join(map(str, PYTHON)), name=name)]
    for (package, version), files in wheels.items():
        lines += [f"# {file}\n" for file in sorted(files)]
        hashes = " \\\n    ".join(f"--hash=sha256:{digest}" for _, digest in sorted(files.items()))
        lines.append(f"{package}=={version} \\\n    {hashes}\n")
    return "".join(lines)


def main() -> int:
    """Write both files; 1 and a line on stderr if that cannot be done."""
    try:
        for name, arguments in LOCKS.items():
            wheels = merged({machine: resolve(arguments, machine) for machine in MACHINES.values()})
            (FOLDER / name).write_text(text(name, wheels), encoding="utf-8")
            print(f"{name}: {len(wheels)} packages")
    except LockError as error:
        print(f"make lock: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
