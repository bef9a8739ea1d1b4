"""What the image holds: the locked wheels, Debian's packages, and nothing to get a hold with."""

import gzip
import hashlib
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from deploy.image import build, dockerfile, install, sbom
from tests.e2e.image.conftest import ARGUMENTS, EPOCH, Unpacked

FOLDER = Path(install.__file__).parent
SITE = "opt/kscheduler/lib/python3.13/site-packages"


def blob(image: Unpacked, descriptor: dict[str, Any]) -> dict[str, Any]:
    path = image.built.layout / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")
    value: dict[str, Any] = json.loads(path.read_bytes())
    return value


def manifest(image: Unpacked) -> dict[str, Any]:
    (described,) = json.loads((image.built.layout / "index.json").read_bytes())["manifests"]
    return blob(image, described)


def config(image: Unpacked) -> dict[str, Any]:
    return blob(image, manifest(image)["config"])


def test_a_second_build_gives_the_same_bytes(image: Unpacked, tmp_path: Path) -> None:
    """In another folder, and for a user with another umask."""
    before = os.umask(0o077)
    try:
        again = build.build(tmp_path / "again", EPOCH, ARGUMENTS)
    finally:
        os.umask(before)
    assert [layer.digest for layer in again.layers] == [layer.digest for layer in image.built.layers]
    assert again.digest == image.built.digest
    assert again.bill_of_materials.read_bytes() == image.built.bill_of_materials.read_bytes()


def test_its_process_is_what_the_dockerfile_says(image: Unpacked) -> None:
    process = config(image)["config"]
    assert process["Entrypoint"] == ["/opt/kscheduler/bin/kscheduler"]
    assert process["User"] == "65532:65532"
    labels = process["Labels"]
    assert labels["org.opencontainers.image.revision"] == ARGUMENTS["REVISION"]
    assert labels["org.opencontainers.image.version"] == build.version()
    text = dockerfile.FILE.read_text()
    assert "PYTHONSAFEPATH=1" in process["Env"]
    assert all(word in text for word in process["Cmd"])


def test_there_is_no_shell_no_package_manager_and_no_pip(image: Unpacked) -> None:
    programs = {path.name for folder in ("usr/bin", "usr/sbin") for path in (image.root / folder).iterdir()}
    assert not programs & {"sh", "bash", "dash", "busybox", "perl", "apt-get", "dpkg", "openssl", "curl", "wget"}
    modules = {path.name for path in (image.root / SITE).iterdir()}
    assert not modules & {"pip", "setuptools", "wheel", "hatchling", "uv"}
    assert not (image.root / "usr/lib/python3/dist-packages").exists()


def test_nothing_runs_at_each_start_of_python(image: Unpacked) -> None:
    assert not list(image.root.rglob("*.pth"))
    assert not list((image.root / "opt").rglob("*customize.py"))


def test_no_file_is_setuid_and_the_users_own_files_are_none_of_the_program(image: Unpacked) -> None:
    for path in image.root.rglob("*"):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID), path
            assert status.st_uid == 0, path
            assert not status.st_mode & 0o022, path


def test_bytecode_is_there_for_each_module_and_is_never_checked_against_its_source(image: Unpacked) -> None:
    for folder in (SITE, "usr/lib/python3.13"):
        for compiled in (image.root / folder).rglob("*.pyc"):
            assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00", compiled  # PEP 552: by hash, unchecked
    for source in (image.root / SITE / "kscheduler").rglob("*.py"):
        assert (source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc").exists(), source
    assert (image.root / "usr/lib/python3.13/asyncio/__pycache__/base_events.cpython-313.pyc").exists()


def test_the_bill_of_materials_fits_its_schema_and_names_exactly_what_is_there(image: Unpacked) -> None:
    text = image.built.bill_of_materials.read_text()
    assert sbom.faults(text) == ""
    components = json.loads(text)["components"]
    by_kind = {
        kind: {one["name"] for one in components if one["purl"].startswith(f"pkg:{kind}/")} for kind in ("pypi", "deb")
    }
    installed = {path.name.partition("-")[0] for path in (image.root / SITE).glob("*.dist-info")}
    assert by_kind["pypi"] == {canonicalize_name(name) for name in installed}
    assert by_kind["pypi"] == set(sbom.locked_hashes()) | {"kscheduler"}
    assert by_kind["deb"] == {path.name for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
    for one in components:
        if one["purl"].startswith("pkg:pypi/"):
            assert one["licenses"], one["name"]
            assert len(one.get("hashes", ())) == (one["name"] != "kscheduler"), one["name"]


def test_the_bill_of_an_unpacked_image_is_the_one_that_was_built(
    image: Unpacked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "bom.json"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    monkeypatch.setattr("sys.argv", ["sbom", str(image.root), "--output", str(output)])
    assert sbom.main() == 0
    assert output.read_bytes() == image.built.bill_of_materials.read_bytes()


def test_layers_and_their_archives_have_the_digests_that_the_image_names(image: Unpacked) -> None:
    described = manifest(image)["layers"]
    named = config(image)["rootfs"]["diff_ids"]
    assert len(described) == len(named) == 2
    for layer, diff_id in zip(described, named, strict=True):
        compressed = (image.built.layout / "blobs" / "sha256" / layer["digest"].removeprefix("sha256:")).read_bytes()
        assert f"sha256:{hashlib.sha256(compressed).hexdigest()}" == layer["digest"]
        assert len(compressed) == layer["size"]
        assert f"sha256:{hashlib.sha256(gzip.decompress(compressed)).hexdigest()}" == diff_id


@pytest.mark.parametrize(("architecture", "machine"), [("amd64", 62), ("arm64", 183)])
def test_the_lock_files_give_whole_wheels_for_each_architecture(architecture: str, machine: int) -> None:
    """Downloaded by pip with `--require-hashes --only-binary :all: --no-deps`; `machine` is ELF's number."""
    wheels = list((build.wheels(architecture) / "wheels").glob("*.whl"))
    assert len(wheels) == sum(len(sbom.locked_hashes(FOLDER / name)) for name in install.LOCKS)
    found = 0
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".so") or ".so." in name:
                    found += 1
                    assert int.from_bytes(archive.read(name)[18:20], "little") == machine, f"{wheel.name}: {name}"
    assert found > 20
