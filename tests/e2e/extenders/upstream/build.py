"""Builds Kubernetes' own test of extenders, its file as it is, with the decisions made by a program of our choice.

The test makes a scheduler in its own process (`InitTestSchedulerWithOptions`) and hands it three extenders. The helper
that it calls is built with one more line: `decidedElsewhere` (elsewhere.go) starts another scheduler with the extenders
of the options, and leaves a profile that no pod names to the one in the process. Nothing of Kubernetes is kept here:
the helper's source is changed on its way to the compiler.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.releases import pinned
from tests.controlplane.releases.pinned import MODULE
from tests.controlplane.toolchain import GoError, find_go, run_go

PACKAGE: Final = "k8s.io/kubernetes/test/integration/scheduler/extender"
TEST: Final = "TestSchedulerExtender"
HERE: Final = Path(__file__).parent
HELPER: Final = "test/integration/util/util.go"
_ADDED: Final = {
    "test/integration/util/elsewhere.go": "elsewhere.go",
    "pkg/scheduler/extenders_of.go": "extenders_of.go",
}
_BEFORE: Final = "\topts = append(opts, scheduler.WithKubeConfig(testCtx.KubeConfig))\n"
_LINE: Final = "\topts = decidedElsewhere(t, testCtx, opts)\n"
_BUILD_SECONDS: Final = 3600.0


def program() -> Path:
    """Where the compiled test is, or will be."""
    digest = hashlib.sha256(f"{pinned.DEFAULT} {_LINE}{_BEFORE}".encode())
    for path in (MODULE / "go.mod", MODULE / "go.sum", *sorted(HERE.glob("*.go"))):
        digest.update(path.read_bytes())
    return cache_folder() / "extenders" / f"upstream-{digest.hexdigest()[:16]}.test"


def find() -> Path:
    """The compiled test, built if need be: some ten minutes on two cores. Raises `GoError`."""
    found = program()
    with locked(found.with_suffix(".lock")):
        if not found.is_file():
            with tempfile.TemporaryDirectory(dir=found.parent) as folder:
                _build(find_go(cache_folder()), Path(folder), found)
    return found


def _build(go: Path, folder: Path, found: Path) -> None:
    # the compiler replaces no file of its module cache; a link to it is another path
    kubernetes = folder / "kubernetes"
    listing = ("list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
    kubernetes.symlink_to(run_go(go, *listing, folder=MODULE, seconds=_BUILD_SECONDS).strip())
    helper = (kubernetes / HELPER).read_text(encoding="utf-8")
    if helper.count(_BEFORE) != 1:
        raise GoError(f"{HELPER} is not the one that is known")
    (folder / "util.go").write_text(helper.replace(_BEFORE, _LINE + _BEFORE), encoding="utf-8")
    replaced = {str(kubernetes / HELPER): str(folder / "util.go")}
    replaced |= {str(kubernetes / path): str(HERE / name) for path, name in _ADDED.items()}
    (folder / "overlay.json").write_text(json.dumps({"Replace": replaced}))
    shutil.copyfile(MODULE / "go.sum", folder / "go.sum")
    replace = f"\nreplace k8s.io/kubernetes => {kubernetes}\n"
    (folder / "go.mod").write_text((MODULE / "go.mod").read_text() + replace)
    options = ["-mod=mod", f"-modfile={folder}/go.mod", f"-overlay={folder}/overlay.json", "-trimpath", "-vet=off"]
    compiled = folder / "compiled"
    run_go(go, "test", "-c", *options, "-o", compiled, PACKAGE, folder=MODULE, seconds=_BUILD_SECONDS)
    compiled.rename(found)
