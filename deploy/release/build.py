"""Make a release of the commit that is checked out: `make release`, as root on Debian or Ubuntu. Nothing is pushed.

    python -m deploy.release.build [--output build/release] [--architectures amd64,arm64] [--builder URI]

    kscheduler-VERSION-py3-none-any.whl    and .cdx.json: what it needs
    kscheduler-VERSION.tar.gz              the sources
    kscheduler-VERSION.tgz                 the chart
    kscheduler-VERSION-image.tar           an OCI layout with an index of the architectures
    kscheduler-VERSION-image-*.cdx.json    what the image of each architecture holds
    SHA256SUMS, provenance.intoto.json     of all of these

Two runs on the same commit give the same bytes: all dates are the commit's ($SOURCE_DATE_EPOCH, if it is set). What is
not committed ends the command, because nobody else could make the same; and so does an architecture that cannot be
built here.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.image import build, dockerfile, install, layers, sbom
from deploy.image.install import BuildError
from deploy.release import distributions, provenance, wheel_sbom

SUMS: Final = "SHA256SUMS"
PROVENANCE: Final = "provenance.intoto.json"
SIGNING: Final = f"""\
Nothing is signed. To sign the statement, and with it each file:
  cosign attest-blob --statement {PROVENANCE} --bundle {PROVENANCE}.sigstore.json
"""


@dataclass(frozen=True)
class Release:
    """What `assemble` has made."""

    folder: Path
    files: tuple[Path, ...]
    """The subjects: all files but the checksums and the statement."""
    image_digest: str
    """Of the image index, by which nodes pull it."""


def build_images(folder: Path, architectures: Sequence[str], epoch: int, revision: str) -> list[build.Built]:
    """An image per architecture, below `folder`. Raises `BuildError` that says how to go without one."""
    arguments = {"VERSION": build.version(), "REVISION": revision}
    images = []
    for architecture in architectures:
        print(f"image for {architecture} ...", flush=True)
        try:
            images.append(build.build(folder / architecture, epoch, arguments, architecture))
        except (BuildError, OSError, subprocess.CalledProcessError) as error:
            rest = ",".join(one for one in architectures if one != architecture)
            without = f"\nARCHITECTURES={rest} makes a release without it" if rest else ""
            raise BuildError(f"the image for {architecture} cannot be built here: {error}{without}") from error
    return images


def assemble(output: Path, images: Sequence[build.Built], *, epoch: int, revision: str, builder: str) -> Release:
    """Everything of a release in `output`, which must not exist, around images that were built."""
    output.mkdir(parents=True)
    version = build.version()
    files = distributions.python_distributions(output, epoch)
    (wheel,) = (path for path in files if path.suffix == ".whl")
    files.append(distributions.chart_package(output, epoch))
    with tempfile.TemporaryDirectory(prefix="kscheduler-release-") as name:
        layouts = {image.architecture: image.layout for image in images}
        digest = layers.join_layouts(Path(name, "oci"), layouts, version)
        files.append(distributions.folder_archive(Path(name, "oci"), output / f"kscheduler-{version}-image.tar", epoch))
    bills = {f"kscheduler-{version}-image-{one.architecture}.cdx.json": one.bill_of_materials for one in images}
    files += [Path(shutil.copy(bill, output / name)) for name, bill in bills.items()]
    bill = output / f"{wheel.name}.cdx.json"
    bill.write_text(wheel_sbom.document(wheel, build.sha256(wheel), epoch), encoding="utf-8")
    files.append(bill)
    for path in files:
        if path.name.endswith(".cdx.json") and (fault := sbom.faults(path.read_text(encoding="utf-8"))):
            raise BuildError(f"{path.name}: {fault}")
    digests = {path.name: build.sha256(path) for path in files}
    lines = (f"{sha256}  {name}\n" for name, sha256 in sorted(digests.items()))
    (output / SUMS).write_text("".join(lines), encoding="utf-8")
    stated = provenance.statement(
        digests,
        {version: digest} | {f"{version}-{one.architecture}": one.digest for one in images},
        revision=revision,
        epoch=epoch,
        architectures=[one.architecture for one in images],
        builder=builder,
    )
    (output / PROVENANCE).write_text(stated, encoding="utf-8")
    return Release(output, tuple(sorted(files)), digest)


def make(output: Path, architectures: Sequence[str], builder: str) -> Release:
    """A release of the commit, in place of what lies at `output`, once it is whole. Raises `BuildError`."""
    if unknown := set(architectures) - set(install.MACHINES):
        raise BuildError(f"{', '.join(sorted(unknown))}: the lock files are for {' and '.join(install.MACHINES)}")
    distributions.committed_files()  # is this a checkout at all?
    if changed := distributions.uncommitted():
        raise BuildError(f"these files are not as in the commit; commit or remove them:\n{changed.rstrip()}")
    revision, epoch = build.revision(), build.source_date_epoch()
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{output.name}-", dir=output.parent) as name:
        images = build_images(Path(name, "images"), architectures, epoch, revision)
        made = assemble(Path(name, "release"), images, epoch=epoch, revision=revision, builder=builder)
        shutil.rmtree(output, ignore_errors=True)
        made.folder.rename(output)
    return Release(output, tuple(output / path.name for path in made.files), made.image_digest)


def main() -> int:
    """Make it, and say what came out and how it is signed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("build/release"), help="replaced if it is there")
    parser.add_argument("--architectures", default=",".join(install.MACHINES), help="of the image, with commas")
    parser.add_argument("--builder", default="", help="who builds, as a URI; default: somebody's machine")
    args = parser.parse_args()
    try:
        made = make(args.output, args.architectures.split(","), args.builder or provenance.LOCAL_BUILDER)
    except (BuildError, dockerfile.DockerfileError, OSError, subprocess.CalledProcessError) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 1
    print((made.folder / SUMS).read_text(encoding="utf-8"), end="")
    print(f"image {made.image_digest}\n\n{SIGNING}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
