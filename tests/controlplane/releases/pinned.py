"""The releases of Kubernetes that the control plane can be built of, each pinned by a pair of Go module files.

The default release, which CI builds, is pinned by `go/go.mod` and `go/go.sum`. Every other one has `X.Y.Z.mod` and
`X.Y.Z.sum` in this folder, which take their place (`go build -modfile`): the five small programs in `go/cmd` are the
same for all. The checksums lie in the repository, so a build takes what was once tried, or fails.

`KUBERNETES_VERSION` chooses the release of a run:

    KUBERNETES_VERSION=1.37.2 pytest tests/e2e --server real

`python -m tests.controlplane.releases.pinned 1.38.0` pins a further release: it writes the two files with `go mod tidy`
(a minute, and it needs the Go module proxy). A test then asks for a row in `docs/compatibility.md`.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import total_ordering
from pathlib import Path
from typing import Final

from kscheduler.api.releases import VERSION, followed
from tests.controlplane.releases import substitutes
from tests.controlplane.toolchain import find_go, run_go

FOLDER: Final = Path(__file__).parent
MODULE: Final = FOLDER.parent / "go"
DEFAULT: Final = "1.36.3"
VARIABLE: Final = "KUBERNETES_VERSION"
UPGRADED_FROM: Final = "KUBERNETES_UPGRADED_FROM"
# Imported by the programs in go/cmd. The lines that are published with k8s.io/kubernetes name its other modules v0.0.0
# and replace them by folders of its own repository, which a module of somebody else has to replace by releases.
DIRECT: Final = ("k8s.io/component-base", "k8s.io/kubectl")
TIDY_SECONDS: Final = 900.0
# What the newest release asks for: Go downloads no module that asks for a newer Go than itself.
NEWEST_GO: Final = (1, 27)


class UnknownReleaseError(ValueError):
    """No module files pin this release; the message lists those that are pinned and says how to add one."""


@total_ordering
@dataclass(frozen=True)
class Release:
    """A release of Kubernetes, as in `1.36.3` or `1.38.0-beta.0`; ordered by number, what is not final before it is."""

    major: int
    minor: int
    patch: int
    prerelease: str = ""
    """`beta.0`, `rc.1`; empty for a release that is final."""

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}{self._suffix}"

    def __lt__(self, other: "Release") -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[int, int, int, bool, str]:
        return (self.major, self.minor, self.patch, not self.prerelease, self.prerelease)

    @property
    def _suffix(self) -> str:
        return f"-{self.prerelease}" if self.prerelease else ""

    @property
    def version(self) -> str:
        """`1.36`, without the patch."""
        return f"{self.major}.{self.minor}"

    @property
    def tag(self) -> str:
        """`v1.36.3`, the version of k8s.io/kubernetes."""
        return f"v{self}"

    @property
    def staging_tag(self) -> str:
        """`v0.36.3`, the version of the modules that are published out of Kubernetes' repository."""
        return f"v0.{self.minor}.{self.patch}{self._suffix}"

    @property
    def module_file(self) -> Path:
        """The go.mod of this release; its checksums lie beside it with the suffix `.sum`."""
        return MODULE / "go.mod" if str(self) == DEFAULT else FOLDER / f"{self}.mod"

    @property
    def files(self) -> tuple[Path, Path]:
        return self.module_file, self.module_file.with_suffix(".sum")


def parse(text: str) -> Release:
    """`1.36.3` or `v1.36.3`. Raises UnknownReleaseError."""
    match = re.fullmatch(r"v?(1)\.(\d+)\.(\d+)(?:-((?:alpha|beta|rc)\.\d+))?", text.strip())
    if not match:
        raise UnknownReleaseError(f"{text!r} is not a release of Kubernetes such as {DEFAULT}")
    return Release(int(match[1]), int(match[2]), int(match[3]), match[4] or "")


def all_pinned() -> list[Release]:
    """Every release that can be built, oldest first."""
    return sorted(parse(text) for text in (DEFAULT, *(path.stem for path in FOLDER.glob("*.mod"))))


def find(text: str) -> Release:
    """The release of this name. Raises UnknownReleaseError unless module files pin it."""
    release = parse(text)
    if release not in all_pinned():
        known = ", ".join(map(str, all_pinned()))
        advice = f"add it: python -m tests.controlplane.releases.pinned {release}"
        raise UnknownReleaseError(f"Kubernetes {release} is not among the pinned releases {known}; {advice}")
    return release


def chosen() -> Release:
    """The release that `KUBERNETES_VERSION` names, or the default one. Raises UnknownReleaseError."""
    return find(os.environ.get(VARIABLE) or DEFAULT)


def followed_version(release: Release) -> str:
    """The version whose rules kscheduler follows on an API server of this release: `1.36` or `1.37`."""
    return followed(release.tag) or VERSION


def oracle(release: Release) -> Release:
    """The newest pinned release of that version; with its kube-scheduler kscheduler is compared on this release."""
    return max(one for one in all_pinned() if one.version == followed_version(release))


def before(release: Release) -> Release | None:
    """The pinned release of the minor version before, from which clusters are upgraded to this one."""
    return next((one for one in all_pinned() if one.minor == release.minor - 1), None)


def upgraded_from() -> Release | None:
    """The release that `KUBERNETES_UPGRADED_FROM` names. Raises UnknownReleaseError."""
    name = os.environ.get(UPGRADED_FROM)
    return find(name) if name else None


def template(published: str, release: Release) -> str:
    """A module file for `go mod tidy` to complete, from the one that is published with k8s.io/kubernetes."""
    go_lines = re.findall(r"^(?:go|godebug) .*$", published, re.MULTILINE)
    etcd = re.search(r"^\s*go\.etcd\.io/etcd/server/v3 (v\S+)", published, re.MULTILINE)
    staging = re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", published, re.MULTILINE)
    if etcd is None or not staging:
        raise UnknownReleaseError(
            f"the module file of k8s.io/kubernetes {release.tag} names no etcd or no staging modules"
        )
    required = [f"k8s.io/kubernetes {release.tag}", f"go.etcd.io/etcd/server/v3 {etcd[1]}"]
    required += [f"{module} {release.staging_tag}" for module in DIRECT]
    replaced = [f"{module} => {module} {release.staging_tag}" for module in staging]
    blocks = [
        f"{name} (\n\t" + "\n\t".join(lines) + "\n)" for name, lines in (("require", required), ("replace", replaced))
    ]
    return "\n\n".join(("module kscheduler.invalid/controlplane", *go_lines, *blocks)) + "\n"


def pin(release: Release, go: Path) -> None:
    """Writes the two module files. Raises GoError."""
    module_file, sums = release.files
    download = ("mod", "download", "-json", f"k8s.io/kubernetes@{release.tag}")
    answer = json.loads(run_go(go, *download, folder=Path("/"), seconds=TIDY_SECONDS))
    written = template(Path(answer["GoMod"]).read_text(), release)
    module_file.write_text(written)
    sums.write_text("")
    with tempfile.TemporaryDirectory() as folder:
        tidied = substitutes.module_file(release, release.files, go, Path(folder))
        # -e: what only tests of Kubernetes import may not be published.
        run_go(go, "mod", "tidy", "-e", f"-modfile={tidied}", folder=MODULE, seconds=TIDY_SECONDS)
        if tidied != module_file:
            required, replaced = tidied.read_text().partition("\nreplace ")[0], written.partition("\nreplace ")[2]
            module_file.write_text(f"{required}\nreplace {replaced}")
            shutil.copy(tidied.with_suffix(".sum"), sums)


def main(names: Sequence[str]) -> None:
    from tests.controlplane.binaries import cache_folder  # it asks this module what it builds

    go = find_go(cache_folder(), NEWEST_GO)
    for release in map(parse, names):
        pin(release, go)
        print(f"{release}: {', '.join(str(path) for path in release.files)}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
