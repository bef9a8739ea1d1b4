"""What the wheel needs to run, as a CycloneDX 1.6 document.

A wheel holds kscheduler alone and asks for ranges of its dependencies. The document names the releases that the image
has and the tests ran with, from deploy/image/requirements.lock: each with its licence, with every wheel that the lock
allows and its SHA-256, and with what needs what.
"""

import uuid
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import Final

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.image import build, install, lock, sbom

ENVIRONMENT: Final = {
    "python_version": install.PYTHON,
    "python_full_version": f"{install.PYTHON}.0",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
}
"""Markers are judged for the image's Python."""


def metadata(wheel: Path) -> Message:
    """METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (one for one in opened.namelist() if one.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(opened.read(name).decode())


def requirements(described: Message, extras: tuple[str, ...] = ()) -> set[str]:
    """The names of what a wheel needs, with `extras`."""
    wanted = (Requirement(str(line)) for line in described.get_all("Requires-Dist", ()))
    return {
        str(canonicalize_name(one.name))
        for one in wanted
        if one.marker is None or any(one.marker.evaluate(ENVIRONMENT | {"extra": extra}) for extra in ("", *extras))
    }


def document(wheel: Path, digest: str, epoch: int) -> str:
    """The bill of materials of our wheel, whose SHA-256 is `digest`."""
    own = metadata(wheel)
    version = str(own["Version"])
    ours = Component(
        name=sbom.OWN,
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref="wheel",
        purl=PackageURL("pypi", None, sbom.OWN, version),
        description=own["Summary"],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        licenses=sbom.licences(sbom.python_licences(own)),
    )
    files = build.wheels(build.own_architecture()) / "wheels"
    found: dict[str, tuple[Component, set[str]]] = {}
    for name, wheels in sbom.locked_hashes().items():
        # what a package says of itself is the same in the wheels of all architectures
        described = metadata(next(files / file for file in wheels if (files / file).is_file()))
        found[name] = (_component(name, described, wheels), requirements(described))
    components = {name: component for name, (component, _) in found.items()}
    content = " ".join((version, digest, *(str(one.purl) for one in components.values())))
    bom = Bom(
        components=components.values(),
        metadata=BomMetaData(component=ours, timestamp=datetime.fromtimestamp(epoch, UTC)),
        serial_number=uuid.uuid5(sbom.NAMESPACE, content),
    )
    bom.register_dependency(ours, [components[name] for name in sorted(requirements(own, lock.EXTRAS))])
    for component, needed in found.values():
        bom.register_dependency(component, [components[name] for name in sorted(needed & components.keys())])
    return make_outputter(bom, OutputFormat.JSON, sbom.SCHEMA).output_as_string(indent=1) + "\n"


def _component(name: str, described: Message, wheels: Mapping[str, str]) -> Component:
    version = str(described["Version"])
    purl = PackageURL("pypi", None, name, version)
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        description=described["Summary"],
        licenses=sbom.licences(sbom.python_licences(described)),
        external_references=[
            ExternalReference(
                type=ExternalReferenceType.DISTRIBUTION,
                url=XsUri(file),
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=wheel_digest)],
            )
            for file, wheel_digest in wheels.items()
        ],
    )
