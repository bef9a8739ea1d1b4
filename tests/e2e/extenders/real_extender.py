"""A real extender, unchanged: Alibaba's GPU sharing, built from its own module at a fixed commit.

It filters and binds pods that want `aliyun.com/gpu-mem`: memory that must come from one device of a node, which the
scheduler's own sums cannot tell. Nothing of it is kept in the repository: the source comes from the Go module proxy, or
from a checkout of that commit that `KSCHEDULER_EXTENDER_SOURCE` names. Its dependencies come from the proxy, as its
go.sum says.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.toolchain import GoError, ToolchainError, find_go, run_go

MODULE: Final = "github.com/AliyunContainerService/gpushare-scheduler-extender"
VERSION: Final = "v0.2.1-0.20230316121447-c0b61411cdda"
SOURCE: Final = "KSCHEDULER_EXTENDER_SOURCE"
RESOURCE, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
_DOWNLOAD_SECONDS, _BUILD_SECONDS = 120.0, 1800.0


class NoExtenderError(RuntimeError):
    """It cannot be built here; the message says why."""


def find() -> Path:
    """The program, built if need be. Raises `NoExtenderError`."""
    program = cache_folder() / "extenders" / f"gpushare-{VERSION}"
    with locked(program.with_suffix(".lock")):
        if not program.is_file():
            _build(program)
    return program


def _build(program: Path) -> None:
    try:
        go = find_go(cache_folder())
    except ToolchainError as error:
        raise NoExtenderError(str(error)) from None
    source = Path(os.environ[SOURCE]) if os.environ.get(SOURCE) else _downloaded(go)
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        # The module cache is read-only, and Go 1.26 writes what newer module files have besides: beside the source.
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(source / name, Path(folder, name))
        unfinished = Path(folder, "program")
        options = ("-mod=mod", f"-modfile={folder}/go.mod", "-buildvcs=false", "-trimpath", "-o", unfinished)
        try:
            run_go(go, "build", *options, "./cmd", folder=source, seconds=_BUILD_SECONDS)
        except GoError as error:
            raise NoExtenderError(f"{MODULE} does not build: {error}") from None
        unfinished.rename(program)


def _downloaded(go: Path) -> Path:
    """Its source in Go's module cache."""
    command = [str(go), "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    try:
        found = json.loads(answer.stdout)
    except ValueError:
        found = {"Error": answer.stderr.strip()}
    if "Dir" not in found:
        reason = str(found.get("Error", "")).replace("\n", " ").replace("\t", " ")
        raise NoExtenderError(f"the Go module proxy does not give {MODULE} ({reason}), and {SOURCE} names no checkout")
    return Path(found["Dir"])
