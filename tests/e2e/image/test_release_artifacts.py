"""A release, made of the image that the other tests run: each file is checked, and installed where that can be done.

The image for the other architecture is built here without running anything of it, and then run under qemu.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.image import build, install, layers, sbom
from deploy.release import build as release
from deploy.release import distributions
from tests.deploy import helm
from tests.e2e.image import container
from tests.e2e.image.conftest import ARGUMENTS, EPOCH, Unpacked

REVISION = ARGUMENTS["REVISION"]
BUILDER = "https://builder.example/1"


@pytest.fixture(scope="module", autouse=True)
def _of_a_checkout() -> None:
    """The sources of a release are what git keeps."""
    if not (build.ROOT / ".git").exists():
        pytest.skip("this is no git checkout")


@pytest.fixture(scope="module")
def other(image: Unpacked) -> Iterator[build.Built]:
    """The image for the architecture that this machine has not."""
    (architecture,) = set(install.MACHINES) - {image.built.architecture}
    with tempfile.TemporaryDirectory(prefix="kscheduler-e2e-other-") as name:
        yield build.build(Path(name, "image"), EPOCH, ARGUMENTS, architecture)


def made(folder: Path, images: list[build.Built]) -> release.Release:
    return release.assemble(folder, images, epoch=EPOCH, revision=REVISION, builder=BUILDER)


@pytest.fixture(scope="module")
def released(image: Unpacked, other: build.Built, tmp_path_factory: pytest.TempPathFactory) -> release.Release:
    return made(tmp_path_factory.mktemp("release") / "release", [image.built, other])


def file(released: release.Release, suffix: str) -> Path:
    (found,) = (path for path in released.files if path.name.endswith(suffix))
    return found


def sums(folder: Path) -> dict[str, str]:
    lines = (folder / release.SUMS).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def test_the_release_is_whole_and_its_checksums_are_those_of_its_files(released: release.Release) -> None:
    version = build.version()
    assert [path.name for path in released.files] == [
        f"kscheduler-{version}-image-amd64.cdx.json",
        f"kscheduler-{version}-image-arm64.cdx.json",
        f"kscheduler-{version}-image.tar",
        f"kscheduler-{version}-py3-none-any.whl",
        f"kscheduler-{version}-py3-none-any.whl.cdx.json",
        f"kscheduler-{version}.tar.gz",
        f"kscheduler-{version}.tgz",
    ]
    there = {path.name for path in released.folder.iterdir()}
    assert there == {path.name for path in released.files} | {release.SUMS, release.PROVENANCE}
    for name, digest in sums(released.folder).items():
        assert hashlib.sha256((released.folder / name).read_bytes()).hexdigest() == digest
    subprocess.run(["sha256sum", "--check", "--strict", release.SUMS], cwd=released.folder, check=True)


def test_the_statement_is_about_exactly_these_files_and_names_commit_builder_and_materials(
    released: release.Release,
) -> None:
    stated = json.loads((released.folder / release.PROVENANCE).read_text())
    assert stated["_type"] == "https://in-toto.io/Statement/v1"
    assert stated["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {one["name"]: one["digest"]["sha256"] for one in stated["subject"]} == sums(released.folder)
    definition, details = stated["predicate"]["buildDefinition"], stated["predicate"]["runDetails"]
    assert details["builder"] == {"id": BUILDER}
    byproducts = {one["name"]: f"sha256:{one['digest']['sha256']}" for one in details["byproducts"]}
    assert byproducts[build.version()] == released.image_digest
    materials = definition["resolvedDependencies"]
    assert materials[0]["digest"] == {"gitCommit": REVISION}
    digests = {one["name"]: one["digest"]["sha256"] for one in materials[1:]}
    for name in install.LOCKS:
        lock = Path(install.__file__).with_name(name)
        assert digests[f"deploy/image/{name}"] == hashlib.sha256(lock.read_bytes()).hexdigest()
        for wheels in sbom.locked_hashes(lock).values():
            assert wheels.items() <= digests.items(), "each wheel of both architectures"
    packages = {one["purl"] for bill in bills(released) for one in bill["components"]}
    named = {one["uri"] for one in materials if one.get("uri", "").startswith("pkg:deb/")}
    assert named == {purl for purl in packages if purl.startswith("pkg:deb/")}
    assert len({json.dumps(one) for one in materials}) == len(materials)


def bills(released: release.Release) -> list[dict[str, Any]]:
    """Of the images."""
    found = [path for path in released.files if "-image-" in path.name]
    return [json.loads(path.read_text()) for path in found]


def test_two_runs_give_the_same_bytes(
    released: release.Release, image: Unpacked, other: build.Built, tmp_path: Path
) -> None:
    """The image of this architecture is built again by another test."""
    if os.environ.get("KSCHEDULER_LONG") != "1":
        pytest.skip("KSCHEDULER_LONG=1 builds the image of the other architecture once more")
    before = os.umask(0o077)
    try:
        again = build.build(tmp_path / "image", EPOCH, ARGUMENTS, other.architecture)
        second = made(tmp_path / "release", [image.built, again])
    finally:
        os.umask(before)
    assert sums(second.folder) == sums(released.folder)
    for name in (release.SUMS, release.PROVENANCE):
        assert (second.folder / name).read_bytes() == (released.folder / name).read_bytes()


def test_the_wheel_installs_into_a_fresh_environment_and_runs(released: release.Release, tmp_path: Path) -> None:
    wheel = file(released, ".whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([tmp_path / "venv/bin/pip", "install", "--quiet", wheel], check=True)
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    for arguments in (["--version"], ["config", "check", str(config)]):
        command = [str(tmp_path / "venv/bin/kscheduler"), *arguments]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        if arguments == ["--version"]:
            assert ended.stdout.strip() == f"kscheduler {build.version()}"


def test_the_wheel_is_what_the_image_holds(released: release.Release, image: Unpacked) -> None:
    packages = image.root / "opt/kscheduler/lib/python3.13/site-packages"
    with zipfile.ZipFile(file(released, ".whl")) as archive:
        modules = [name for name in archive.namelist() if name.endswith(".py")]
        assert len(modules) > 100
        for name in modules:
            assert (packages / name).read_bytes() == archive.read(name), name


def test_the_source_distribution_holds_committed_files_and_gives_the_same_wheel(
    released: release.Release, tmp_path: Path
) -> None:
    with tarfile.open(file(released, ".tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    names = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert names - {"PKG-INFO"} <= set(distributions.committed_files())
    (tmp_path / "made").mkdir()
    (wheel,) = (
        path for path in distributions.python_distributions(tmp_path / "made", EPOCH, source) if path.suffix == ".whl"
    )
    assert wheel.read_bytes() == file(released, ".whl").read_bytes()


def test_the_chart_renders_the_released_image_by_digest(released: release.Release) -> None:
    values = {"image.registry": "registry.example/team", "image.digest": released.image_digest}
    flags = helm.value_arguments([], values)
    rendered = helm.objects(helm.run_helm("template", helm.RELEASE, file(released, ".tgz"), *flags))
    (deployment,) = (one for one in rendered if one["kind"] == "Deployment")
    (one,) = deployment["spec"]["template"]["spec"]["containers"]
    assert one["image"] == f"registry.example/team/kscheduler@{released.image_digest}"


def test_the_archive_is_a_layout_whose_index_names_an_image_for_each_architecture(
    released: release.Release, image: Unpacked, other: build.Built, tmp_path: Path
) -> None:
    with tarfile.open(file(released, "-image.tar")) as archive:
        archive.extractall(tmp_path, filter="data")
    blobs = tmp_path / "blobs" / "sha256"
    for path in blobs.iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    index = json.loads((blobs / released.image_digest.removeprefix("sha256:")).read_bytes())
    assert index["mediaType"] == f"{layers.MEDIA}.index.v1+json"
    digests = {one["platform"]["architecture"]: one["digest"] for one in index["manifests"]}
    assert digests == {one.architecture: one.digest for one in (image.built, other)}


def test_each_bill_of_materials_fits_its_schema_and_names_the_locked_releases(released: release.Release) -> None:
    for path in released.files:
        if path.name.endswith(".cdx.json"):
            assert sbom.faults(path.read_text()) == "", path.name
    wheel = json.loads(file(released, ".whl.cdx.json").read_text())
    digest = sums(released.folder)[file(released, ".whl").name]
    assert wheel["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    locked = sbom.locked_hashes()
    assert {one["name"] for one in wheel["components"]} == set(locked)
    for one in wheel["components"]:
        assert one["licenses"], one["name"]
        files = {link["url"]: link["hashes"][0]["content"] for link in one["externalReferences"]}
        assert files == locked[one["name"]]
    needed = {one["ref"]: set(one.get("dependsOn", ())) for one in wheel["dependencies"]}
    assert any(ref.startswith("pkg:pypi/numpy@") for ref in needed["wheel"])
    reached, waiting = set[str](), ["wheel"]
    while waiting:
        reached |= (found := needed[waiting.pop()] - reached)
        waiting += found
    assert reached == {one["bom-ref"] for one in wheel["components"]}, "nothing is locked that nobody needs"
    for bill, architecture in zip(bills(released), ("amd64", "arm64"), strict=True):
        machines = {purl["purl"].rpartition("arch=")[2].partition("&")[0] for purl in bill["components"]}
        assert architecture in machines
        assert not machines & (set(install.MACHINES) - {architecture})


def test_the_image_of_the_other_architecture_runs_on_it(other: build.Built, tmp_path: Path) -> None:
    """Under qemu; its bytecode, which this machine's Python wrote, is what its own Python writes."""
    emulator = shutil.which(f"qemu-{install.MACHINES[other.architecture]}-static")
    if emulator is None:
        if os.environ.get(container.CI):
            pytest.fail("CI must run the image of the other architecture: qemu-user-static is not installed")
        pytest.skip("qemu-user-static is not installed (apt-get install qemu-user-static)")
    root = container.unpack(other.layout, build.version(), tmp_path / "bundle")
    shutil.copy(emulator, root / "qemu")

    def run(*words: str) -> str:
        command = ["chroot", str(root), "/qemu", "/opt/kscheduler/bin/python3", "-B", *words]
        path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        return subprocess.run(command, env=path, capture_output=True, text=True, check=True).stdout

    assert run("-I", "/opt/kscheduler/bin/kscheduler", "--version") == f"kscheduler {build.version()}\n"
    (root / "config.yaml").write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    run("-I", "/opt/kscheduler/bin/kscheduler", "config", "check", "/config.yaml")
    (root / "compare.py").write_text(COMPARE)
    machine, compared, differing = run("/compare.py").split()
    assert machine == install.MACHINES[other.architecture]
    assert int(compared) > 50
    assert differing == "0"


COMPARE = """
import pathlib, platform, py_compile
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
site = pathlib.Path("/opt/kscheduler/lib/python3.13/site-packages")
folders = (pathlib.Path("/usr/lib/python3.13/asyncio"), site / "kscheduler/state", site / "numpy/linalg")
sources = [one for folder in folders for one in sorted(folder.rglob("*.py"))]
differing = 0
for source in sources:
    kept = source.parent / "__pycache__" / (source.stem + ".cpython-313.pyc")
    py_compile.compile(str(source), cfile="/tmp/new.pyc", dfile=str(source), doraise=True, invalidation_mode=mode)
    differing += pathlib.Path("/tmp/new.pyc").read_bytes() != kept.read_bytes()
print(platform.machine(), len(sources), differing)
"""
