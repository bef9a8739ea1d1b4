"""The image, built once a session and unpacked; without the tools the tests are skipped, but never in CI."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.image import build
from tests.e2e.image import container

EPOCH = 1_700_000_000
ARGUMENTS = {"VERSION": build.version(), "REVISION": "0123456789abcdef"}


@dataclass(frozen=True)
class Unpacked:
    """An image in a folder, and what it was built from."""

    built: build.Built
    bundle: Path

    @property
    def root(self) -> Path:
        """Its root file system."""
        return self.bundle / "rootfs"


@pytest.fixture(scope="session")
def image() -> Iterator[Unpacked]:
    if reason := container.missing():
        if os.environ.get(container.CI):
            pytest.fail(f"CI must run the image: {reason}")
        pytest.skip(f"the image is not built: {reason}")
    # not pytest's folder, which others keep out: the container's user has to get to the root
    with tempfile.TemporaryDirectory(prefix="kscheduler-e2e-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        built = build.build(folder / "image", EPOCH, ARGUMENTS)
        container.unpack(built.layout, build.version(), folder / "bundle")
        (folder / "bundle").chmod(0o755)
        yield Unpacked(built, folder / "bundle")
