"""How a release was made: an in-toto Statement v1 with SLSA's provenance v1 as its predicate, not signed.

Its subjects are the files of SHA256SUMS. Materials are the commit, each wheel of the lock files for the architectures
that were built, and each Debian package of the image by its SHA-256. It holds no time and no number of a run, so that a
second build of the commit by the same builder gives the same statement; who signs it adds both. docs/releases.md has
the commands.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from packageurl import PackageURL

from deploy.image import build, debian_root, install, sbom

STATEMENT: Final = "https://in-toto.io/Statement/v1"
PREDICATE: Final = "https://slsa.dev/provenance/v1"
REPOSITORY: Final = "https://github.com/kscheduler/kscheduler"
BUILD_TYPE: Final = f"{REPOSITORY}/blob/main/docs/releases.md#provenance"
LOCAL_BUILDER: Final = f"{REPOSITORY}/blob/main/docs/releases.md#a-builder-of-your-own"
"""Of a build on somebody's machine, which proves nothing about that machine."""


def statement(
    digests: Mapping[str, str],
    images: Mapping[str, str],
    *,
    revision: str,
    epoch: int,
    architectures: Sequence[str],
    builder: str,
) -> str:
    """The statement about files by their SHA-256; `images`: digests in the image's archive, by their names there."""
    source = {"uri": f"git+{REPOSITORY}", "digest": {"gitCommit": revision}}
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "source": source,
                "target": "release",
                "architectures": list(architectures),
            },
            "internalParameters": {"SOURCE_DATE_EPOCH": epoch},
            "resolvedDependencies": [source, *_unique(materials(architectures))],
        },
        "runDetails": {
            "builder": {"id": builder},
            "byproducts": [
                {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}} for name, digest in images.items()
            ],
        },
    }
    subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())]
    whole = {"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE, "predicate": predicate}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def materials(architectures: Iterable[str]) -> Iterator[dict[str, Any]]:
    """What the files were made of, as SLSA's resource descriptors."""
    for name in install.LOCKS:
        lock = Path(install.__file__).with_name(name)
        yield {"name": f"deploy/image/{name}", "digest": {"sha256": build.sha256(lock)}}
    machines = tuple(f"{install.MACHINES[one]}.whl" for one in architectures)
    for name in install.LOCKS:
        for package, wheels in sbom.locked_hashes(Path(install.__file__).with_name(name)).items():
            for file, digest in wheels.items():
                if file.endswith(("-any.whl", *machines)):
                    purl = PackageURL("pypi", None, package, file.split("-")[1], {"file_name": file})
                    yield {"uri": str(purl), "name": file, "digest": {"sha256": digest}}
    for architecture in architectures:
        for path in debian_root.packages(build.cache_folder(), architecture):
            package, version, machine = path.stem.split("_")
            qualifiers = {"arch": machine, "distro": "debian-13"}
            purl = PackageURL("deb", "debian", package, version.replace("%3a", ":"), qualifiers)
            yield {"uri": str(purl), "name": path.name, "digest": {"sha256": build.sha256(path)}}


def _unique(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Packages of all architectures, and packages of both lock files, are one material."""
    return list({json.dumps(one, sort_keys=True): one for one in found}.values())
