"""The steps of the image's build, for deploy/Dockerfile and for deploy/image/build.py, which has no container engine.

    fetch      download the wheels of both lock files into BUILD/wheels; any Python >= 3.11 with pip, and a network
    install    unpack them and our own wheel into /stage; the image's own Python, as root, and no network

`install` may run on a machine of another architecture than TARGETARCH: nothing of the wheels runs. Then the target's
standard library lies in BUILD/library, and this Python, of the same version, writes its bytecode: that has no
architecture.

`install` leaves a tree that is copied over the base: /stage/opt/kscheduler, a virtual environment without pip, and
bytecode for it and for the base's standard library, which Debian's packages and distroless images come without: nothing
can be written at run time, so each start would compile hundreds of modules again. All of it is the same for the same
inputs: in order, dated SOURCE_DATE_EPOCH, and with bytecode that is tied to no time stamp (PEP 552, unchecked: sources
in an image do not change). What a wheel brings and a service does not need (tests, stubs) is left out, in RECORD too.

Only the standard library: this file is all that the build stages have.
"""

import argparse
import csv
import io
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PYTHON = "3.13"
INTERPRETER = f"/usr/bin/python{PYTHON}"
HOME = "/opt/kscheduler"
"""The virtual environment's place in the image."""
LOCKS = ("requirements.lock", "build.lock")
FOREIGN_LIBRARY = "library"
"""The target's standard library in BUILD, where another architecture's Python does the work."""
GLIBC_MINOR = 41
"""Debian 13's: wheels for this glibc and older ones can be loaded."""
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
OLDEST_EPOCH = 315532800
"""1980, the first year that a wheel can hold."""

UNNEEDED_FOLDERS = frozenset({"tests", "__pycache__", "f2py", "_pyinstaller"})
"""Tests, and what numpy has for Fortran: a third of what the wheels hold."""
UNNEEDED_SUFFIXES = ("_test.py", ".pyi", ".pyx", ".pxd", ".h", ".c", ".a", ".md")
NO_BYTECODE = ("ensurepip", "idlelib", "turtledemo", "lib2to3", "pydoc_data", "test")
"""Parts of the standard library that no service imports."""

CONSOLE_SCRIPT = f"""\
#!{HOME}/bin/python3
import sys

from kscheduler.__main__ import main

sys.exit(main())
"""


class BuildError(Exception):
    """The image must not be built from this; the message says why."""


def pip_platform(architecture: str) -> list[str]:
    """Flags of pip for the image's Python on `architecture`: with them pip takes what the lock file names."""
    machine = MACHINES[architecture]
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC_MINOR, 4, -1)]
    platforms += [f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}"]
    flags = [f"--platform={platform}" for platform in platforms]
    flags += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    return [*flags, "--implementation=cp", f"--python-version={PYTHON}", "--only-binary=:all:"]


def fetch(build: Path, architecture: str) -> None:
    """Download every wheel of the lock files; pip refuses what has another hash."""
    locks = [f"--requirement={build / name}" for name in LOCKS]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", *pip_platform(architecture), *locks, f"--dest={build / 'wheels'}"]
    subprocess.run(command, check=True)


def install(build: Path, stage: Path, architecture: str, epoch: int) -> None:
    """Make the tree that is copied over the base."""
    home = stage / HOME.lstrip("/")
    packages = home / "lib" / f"python{PYTHON}" / "site-packages"
    packages.mkdir(parents=True)
    make_environment(home)
    own = own_wheel(build, epoch)
    pip_install(build, packages, architecture, "--require-hashes", f"--requirement={build / 'requirements.lock'}")
    pip_install(build, packages, architecture, str(own))
    for record in sorted(packages.glob("*.dist-info/RECORD")):
        leave_out_what_is_not_needed(packages, record)
    for left in sorted(packages.rglob("*"), reverse=True):  # folders that held nothing else
        if left.is_dir() and not any(left.iterdir()):
            left.rmdir()
    refuse_code_at_start(packages)
    compile_tree(packages, Path(HOME) / packages.relative_to(home), packages)
    library = Path(sysconfig.get_path("stdlib"))
    foreign = build / FOREIGN_LIBRARY
    compile_tree(foreign if foreign.is_dir() else library, library, stage / str(library).lstrip("/"))
    settle(stage, epoch)


def make_environment(home: Path) -> None:
    """What `python -m venv` writes, as text: it would name the paths of the build."""
    scripts = home / "bin"
    scripts.mkdir()
    (scripts / "python3").symlink_to(INTERPRETER)
    (scripts / "kscheduler").write_text(CONSOLE_SCRIPT, encoding="utf-8")
    (scripts / "kscheduler").chmod(0o755)
    version = ".".join(map(str, sys.version_info[:3]))
    settings = f"home = {Path(INTERPRETER).parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    (home / "pyvenv.cfg").write_text(settings, encoding="utf-8")


def pip(build: Path) -> list[str]:
    """pip, run from its wheel: it is installed nowhere. Isolated: no setting of the machine changes what it does."""
    (wheel,) = (build / "wheels").glob("pip-*.whl")
    return [
        sys.executable,
        str(wheel / "pip"),
        "--isolated",
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--quiet",
    ]


def environment(build: Path, **more: str) -> dict[str, str]:
    """All that pip and hatchling get to know of the machine. A fixed seed: no order of theirs is a matter of chance."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(build), "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", **more}


def pip_install(build: Path, into: Path, architecture: str, *what: str) -> None:
    """Unpack wheels that are already here; no index is asked, no dependency is looked for."""
    offline = ["--no-index", f"--find-links={build / 'wheels'}", "--no-deps", "--no-compile", "--no-warn-conflicts"]
    command = [*pip(build), "install", "--root-user-action=ignore", *offline, f"--target={into}"]
    subprocess.run([*command, *pip_platform(architecture), "--upgrade", *what], env=environment(build), check=True)
    shutil.rmtree(into / "bin", ignore_errors=True)  # console scripts of dependencies


def own_wheel(build: Path, epoch: int) -> Path:
    """The wheel of kscheduler."""
    (wheel,) = own_distributions(build, epoch, "wheel")
    return wheel


def own_distributions(build: Path, epoch: int, *targets: str) -> list[Path]:
    """Of kscheduler: `wheel`, `sdist`. Made by the locked hatchling from the sources in BUILD/source."""
    backend, made = build / "backend", build / "own"
    pip_install(build, backend, "amd64", "--require-hashes", f"--requirement={build / 'build.lock'}")
    variables = environment(build, PYTHONPATH=str(backend), SOURCE_DATE_EPOCH=str(epoch))
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(made)]
    command += [f"--target={target}" for target in targets]
    ended = subprocess.run(command, cwd=build / "source", env=variables, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise BuildError(f"hatchling ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return sorted(made.iterdir())


def leave_out_what_is_not_needed(packages: Path, record: Path) -> None:
    """Remove tests, stubs and sources of extensions, and their lines in RECORD; and where a wheel was unpacked from."""
    kept = io.StringIO()
    rows = csv.writer(kept, lineterminator="\n")
    with record.open(encoding="utf-8", newline="") as lines:
        for name, digest, size in sorted(csv.reader(lines)):
            file = packages / name
            if is_unneeded(Path(name)):
                file.unlink(missing_ok=True)
            elif file.exists():
                rows.writerow((name, digest, size))
    record.write_text(kept.getvalue(), encoding="utf-8")


def is_unneeded(name: Path) -> bool:
    """Whether a service can do without this file of a wheel. Licences stay wherever they are."""
    if name.name in {"direct_url.json", "REQUESTED"} or name.is_relative_to("../../bin"):
        return True  # how it was installed, with a path of the build; scripts of dependencies
    if any(part.endswith(".dist-info") for part in name.parts):
        return False
    return not UNNEEDED_FOLDERS.isdisjoint(name.parts[:-1]) or name.name.endswith(UNNEEDED_SUFFIXES)


def refuse_code_at_start(packages: Path) -> None:
    """Raise `BuildError` if a file would run at each start of Python, which is how a poisoned package gets a hold."""
    found = [path.name for path in packages.iterdir() if path.suffix == ".pth"]
    found += [f"{name}.py" for name in ("sitecustomize", "usercustomize") if (packages / f"{name}.py").exists()]
    if found:
        raise BuildError(f"Python would run {', '.join(sorted(found))} at each start")


def compile_tree(sources: Path, place: Path, into: Path) -> None:
    """Bytecode for every module in `sources`, whose place in the image is `place`, into the folders of `into`.

    In one process and in order: constants that two modules share are marked in the bytecode of the first.
    """
    for source in modules(sources):
        relative = source.relative_to(sources)
        compiled = into / relative.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(
            str(source),
            cfile=str(compiled),
            dfile=str(place / relative),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def modules(folder: Path) -> Iterator[Path]:
    """The sources that a service may import, in order."""
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0].removesuffix(".py") not in NO_BYTECODE:
            yield path


def settle(stage: Path, epoch: int) -> None:
    """One date and one owner for everything, and no permission that depends on the umask."""
    for path in [stage, *sorted(stage.rglob("*"))]:
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
        os.chown(path, 0, 0, follow_symlinks=False)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def main() -> int:
    """Run a step; the architecture and the date are the variables that BuildKit sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("fetch", "install"))
    parser.add_argument("--build", type=Path, default=Path("/build"), help="lock files, wheels and sources")
    parser.add_argument("--stage", type=Path, default=Path("/stage"), help="what is copied over the base")
    args = parser.parse_args()
    architecture = os.environ.get("TARGETARCH", "amd64")
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), OLDEST_EPOCH)
    try:
        if architecture not in MACHINES:
            raise BuildError(f"TARGETARCH {architecture}: the lock files are for {' and '.join(MACHINES)}")
        if args.step == "fetch":
            fetch(args.build, architecture)
        else:
            install(args.build, args.stage, architecture, epoch)
    except BuildError as error:
        print(f"{args.step}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
