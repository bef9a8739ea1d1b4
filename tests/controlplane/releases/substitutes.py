"""What stands in for modules that a release names and the Go module proxy does not serve.

Releases before the final one may name modules that are published later. `SUBSTITUTES` says what is built in their
place: another version of the module, an empty module (where only tests import it), or one that is made here of the
packages of an older release, which the module was split from. The pinned module files name what the release names;
`module_file` copies them into the cache folder, with a `replace` for each substitute. A row goes as soon as the proxy
serves the module, and `python -m tests.controlplane.releases.pinned` then writes the checksums of the real one.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from tests.controlplane.toolchain import GoError, run_go

DOWNLOAD_SECONDS: Final = 600.0
# Go reads a module that names no version as one from before generics.
GO_LANGUAGE: Final = "1.26.0"


@dataclass(frozen=True)
class Version:
    """Another version of the same module."""

    version: str


@dataclass(frozen=True)
class Empty:
    """A module without packages."""


@dataclass(frozen=True)
class Split:
    """A module made of packages of another one, from which upstream has split it, with their import paths rewritten."""

    source: str
    version: str
    checksum: str
    """As in go.sum: what is downloaded is what was once tried."""
    folders: tuple[str, ...]
    left_out: tuple[str, ...]
    """Names of files, and of folders, that stayed in the other module."""
    renamed: Mapping[str, str]
    """Import paths, or their beginnings, and what became of them."""
    added: Mapping[str, str] = field(default_factory=dict)
    """Files that are written in addition: path and text."""


Substitute: TypeAlias = Version | Empty | Split

_V1: Final = "pkg/apis/apiextensions/v1"
_NULL: Final = "package {}\n\nvar nullLiteral = []byte(`null`)\n"

# By release and module.
SUBSTITUTES: Final[Mapping[str, Mapping[str, Substitute]]] = MappingProxyType(
    {
        "1.38.0-beta.0": {
            # A release of fixes; the proxy has the one before it.
            "sigs.k8s.io/structured-merge-diff/v7": Version("v7.0.0"),
            # Only tests import it.
            "k8s.io/ktesting": Empty(),
            # New in 1.38: the types and clients that were in apiextensions-apiserver, where aliases are left.
            "k8s.io/apiextensions-api": Split(
                source="k8s.io/apiextensions-apiserver",
                version="v0.37.2",
                checksum="h1:myaUiAlm1NRLYdpAvWYTqdgeiCepFupJiRFVVueMUYw=",
                folders=(_V1, f"{_V1}beta1", "pkg/client"),
                left_out=("conversion.go", "zz_generated.conversion.go", "clientset_test"),
                renamed={
                    "k8s.io/apiextensions-apiserver/pkg/": "k8s.io/apiextensions-api/pkg/",
                    "sigs.k8s.io/structured-merge-diff/v6/": "sigs.k8s.io/structured-merge-diff/v7/",
                },
                added={
                    # conversion.go has it; in 1.38 both modules do.
                    f"{_V1}/null_literal.go": _NULL.format("v1"),
                    f"{_V1}beta1/null_literal.go": _NULL.format("v1beta1"),
                },
            ),
        },
    }
)


def substitutes_of(release: object) -> Mapping[str, Substitute]:
    """By module; empty for a release that needs none."""
    return SUBSTITUTES.get(str(release), {})


def digest(release: object) -> bytes:
    """Changes with what is built in the place of modules; empty for a release that needs no substitutes."""
    found = substitutes_of(release)
    return repr(sorted(found.items(), key=lambda item: item[0])).encode() if found else b""


def module_file(release: object, files: tuple[Path, Path], go: Path, cache: Path) -> Path:
    """The go.mod to build with, its checksums beside it: the pinned one, or a copy with substitutes. Raises GoError."""
    if not substitutes_of(release):
        return files[0]
    content = b"\n".join((digest(release), *(path.read_bytes() for path in files)))
    folder = cache / "substitutes" / sha256(content).hexdigest()[:16]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="make-", dir=folder.parent))
        try:
            replaced = {name: _made(name, one, go, unfinished) for name, one in substitutes_of(release).items()}
            text = with_replacements(files[0].read_text(), replaced).replace(str(unfinished), str(folder))
            unfinished.joinpath("go.mod").write_text(text)
            shutil.copy(files[1], unfinished / "go.sum")
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder / "go.mod"


def with_replacements(text: str, replaced: Mapping[str, str]) -> str:
    """The module file with these replacements in the place of those that it has."""
    names = "|".join(map(re.escape, replaced))
    kept = re.sub(rf"^\t(?:{names}) => .*\n", "", text, flags=re.MULTILINE)
    return kept + "".join(f"\nreplace {name} => {by}\n" for name, by in sorted(replaced.items()))


def _made(name: str, substitute: Substitute, go: Path, folder: Path) -> str:
    """The right side of the `replace`. Raises GoError."""
    match substitute:
        case Version(version):
            return f"{name} {version}"
        case Empty():
            made = folder / name
            made.mkdir(parents=True)
        case Split():
            made = _split(substitute, go, folder / name)
    # Without requirements of its own: those of the module that is built count.
    made.joinpath("go.mod").write_text(f"module {name}\n\ngo {GO_LANGUAGE}\n")
    return str(made)


def _split(split: Split, go: Path, made: Path) -> Path:
    module = f"{split.source}@{split.version}"
    answer = run_go(go, "mod", "download", "-json", module, folder=Path("/"), seconds=DOWNLOAD_SECONDS)
    source = json.loads(answer)
    if source["Sum"] != split.checksum:
        raise GoError(f"{module} has the checksum {source['Sum']}, not {split.checksum}")
    root = Path(source["Dir"])
    for path in (path for part in split.folders for path in root.joinpath(part).rglob("*.go")):
        inside = path.relative_to(root)
        if not {*split.left_out} & {*inside.parts} and not path.name.endswith("_test.go"):
            _write(made / inside, _renamed(path.read_text(), split.renamed))
    for added, text in split.added.items():
        _write(made / added, text)
    return made


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for before, after in names.items():
        text = text.replace(f'"{before}', f'"{after}')
    return text


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
