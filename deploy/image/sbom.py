"""What an image holds, as a CycloneDX 1.6 document in JSON.

    python -m deploy.image.sbom ROOT [--output FILE]     of an image that is unpacked at ROOT, whoever built it

Nothing is taken from lists of what should be there: Debian packages come from /var/lib/dpkg/status.d, where distroless
images and ours record them, Python packages from their `.dist-info`. The lock file adds the hash of the wheel that each
was unpacked from. The same image gives the same document: the serial number is made of the content, and the date is
SOURCE_DATE_EPOCH.
"""

import argparse
import email.parser
import email.policy
import os
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any, Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from deploy.image.install import MACHINES, OLDEST_EPOCH

SCHEMA: Final = SchemaVersion.V1_6
LOCK: Final = Path(__file__).with_name("requirements.lock")
OWN: Final = "kscheduler"
NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/kscheduler/kscheduler")
LONGEST_LICENCE_NAME: Final = 64
"""A longer `License` field is the licence's text."""

Hashes = Mapping[str, Mapping[str, str]]
"""SHA-256 by a package's name and the wheel's file name."""


def locked_hashes(lock: Path = LOCK) -> Hashes:
    """From the lock file: a comment per wheel, then the requirement with hashes in the same order."""
    hashes: dict[str, dict[str, str]] = {}
    files: list[str] = []
    found: list[str] = []
    for line in [*lock.read_text(encoding="utf-8").splitlines(), "#"]:
        if line.startswith("#") and found:
            hashes[str(canonicalize_name(files[0].partition("-")[0]))] = dict(zip(files, found, strict=True))
            files, found = [], []
        if line.startswith("# ") and line.endswith(".whl"):
            files.append(line.removeprefix("# "))
        found += re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
    return hashes


def document(roots: Iterable[Path], hashes: Hashes, *, version: str, epoch: int, architecture: str) -> str:
    """The bill of materials of what lies in `roots`, which together are the image."""
    components = [one for root in roots for one in (*debian(root), *python(root, hashes, architecture))]
    components.sort(key=lambda one: str(one.purl))
    image = Component(
        name=OWN,
        version=version,
        type=ComponentType.CONTAINER,
        bom_ref="image",
        purl=PackageURL("oci", None, OWN, None, {"arch": architecture, "tag": version}),
    )
    content = " ".join((version, architecture, *(str(one.purl) for one in components)))
    bom = Bom(
        components=components,
        metadata=BomMetaData(component=image, timestamp=datetime.fromtimestamp(epoch, UTC)),
        serial_number=uuid.uuid5(NAMESPACE, content),
    )
    bom.register_dependency(image, components)
    return make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string(indent=1) + "\n"


def debian(root: Path) -> Iterator[Component]:
    """A component per Debian package."""
    for path in sorted((root / "var/lib/dpkg/status.d").glob("*")):
        if path.suffix == ".md5sums":
            continue
        control = _headers(path)
        name, version = control["Package"], control["Version"]
        purl = PackageURL("deb", "debian", name, version, {"arch": control["Architecture"], "distro": "debian-13"})
        yield Component(
            name=name,
            version=version,
            bom_ref=str(purl),
            purl=purl,
            publisher=control["Maintainer"],
            licenses=licences(_debian_licences(root, name)),
        )


def _debian_licences(root: Path, package: str) -> list[str]:
    """The short names in a machine-readable copyright file (DEP 5); nothing for a file in prose."""
    path = root / "usr/share/doc" / package / "copyright"
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.startswith("Format:"):
        return []
    return sorted({name.strip() for name in re.findall(r"^License:[ \t]*(\S.*)$", text, re.MULTILINE)})


def python(root: Path, hashes: Hashes, architecture: str) -> Iterator[Component]:
    """A component per Python package, with the hash of its wheel."""
    for path in sorted((root / "opt" / OWN).glob("lib/python*/site-packages/*.dist-info/METADATA")):
        metadata = _headers(path)
        name, version = str(canonicalize_name(metadata["Name"])), metadata["Version"]
        purl = PackageURL("pypi", None, name, version)
        yield Component(
            name=name,
            version=version,
            type=ComponentType.APPLICATION if name == OWN else ComponentType.LIBRARY,
            bom_ref=str(purl),
            purl=purl,
            description=metadata["Summary"],
            hashes=[
                HashType(alg=HashAlgorithm.SHA_256, content=digest)
                for file, digest in hashes.get(name, {}).items()
                if file.endswith(("-any.whl", f"{MACHINES[architecture]}.whl"))
            ],
            licenses=licences(python_licences(metadata)),
        )


def python_licences(metadata: Message) -> list[str]:
    """The SPDX expression, or what there was before it: a name, or classifiers."""
    if expression := metadata["License-Expression"]:
        return [expression]
    name = str(metadata["License"] or "")
    if name and "\n" not in name and len(name) <= LONGEST_LICENCE_NAME:
        return [name]
    classifiers = (str(one) for one in metadata.get_all("Classifier", ()))
    return [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]


def licences(names: list[str]) -> list[License]:
    """One string may be an SPDX expression; of several each has to be a licence."""
    factory = LicenseFactory()
    if len(names) == 1:
        return [factory.make_from_string(names[0])]
    return [factory.make_with_name(name) for name in names]


def _headers(path: Path) -> Any:
    parser = email.parser.HeaderParser(policy=email.policy.compat32)
    return parser.parsestr(path.read_text(encoding="utf-8"))


def faults(text: str) -> str:
    """What CycloneDX's schema has against a document; empty if nothing."""
    error = JsonStrictValidator(SCHEMA).validate_str(text)
    return "" if error is None else str(error)


def main() -> int:
    """Print or write the document of an unpacked image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--architecture", choices=sorted(MACHINES), default="amd64")
    parser.add_argument("--output", type=Path, help="default: standard output")
    args = parser.parse_args()
    if not (args.root / "var/lib/dpkg/status.d").is_dir():
        print(f"{args.root}: there is no var/lib/dpkg/status.d: not an unpacked image", file=sys.stderr)
        return 2
    epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), OLDEST_EPOCH)
    version = next((one.version or "" for one in python(args.root, {}, args.architecture) if one.name == OWN), "")
    text = document([args.root], locked_hashes(), version=version, epoch=epoch, architecture=args.architecture)
    if error := faults(text):
        print(f"{args.root}: {error}", file=sys.stderr)
        return 1
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
