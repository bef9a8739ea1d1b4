"""The bill of materials, of small roots: what is read from where, and that it is the same each time."""

import json
from pathlib import Path
from typing import Any

import pytest

from deploy.image import sbom

SITE = "opt/kscheduler/lib/python3.13/site-packages"
HASHES = {
    "a-b": {
        "a_b-1.0-cp313-cp313-manylinux_2_28_x86_64.whl": "1" * 64,
        "a_b-1.0-cp313-cp313-linux_aarch64.whl": "2" * 64,
    }
}


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    control = (
        "Package: libx1\nVersion: 1:2.3-4\nArchitecture: amd64\nMaintainer: X <x@example.org>\nDescription: x\n more\n"
    )
    put(tmp_path, "var/lib/dpkg/status.d/libx1", control)
    put(tmp_path, "var/lib/dpkg/status.d/libx1.md5sums", "0  usr/lib/libx\n")
    put(
        tmp_path,
        "usr/share/doc/libx1/copyright",
        "Format: https://x\n\nFiles: *\nLicense: GPL-2+\n text\n\nLicense: MIT\n",
    )
    put(
        tmp_path,
        f"{SITE}/a_b-1.0.dist-info/METADATA",
        "Name: A.b\nVersion: 1.0\nLicense-Expression: MIT OR Apache-2.0\n",
    )
    put(tmp_path, f"{SITE}/old-2.dist-info/METADATA", "Name: old\nVersion: 2\nLicense: BSD\n")
    classifiers = "Classifier: License :: OSI Approved :: MIT License\nClassifier: Typing :: Typed\n"
    put(tmp_path, f"{SITE}/older-3.dist-info/METADATA", f"Name: older\nVersion: 3\n{classifiers}")
    return tmp_path


def text_of(root: Path, architecture: str = "amd64") -> str:
    return sbom.document([root], HASHES, version="0.1.0", epoch=1_700_000_000, architecture=architecture)


def components(text: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(text)["components"]}


def test_the_document_fits_the_schema(root: Path) -> None:
    assert sbom.faults(text_of(root)) == ""


def test_a_document_that_does_not_is_reported(root: Path) -> None:
    assert "purrl" in sbom.faults(text_of(root).replace('"purl"', '"purrl"', 1))


def test_packages_of_both_kinds_have_purl_version_and_licences(root: Path) -> None:
    found = components(text_of(root))
    assert {name: one["purl"] for name, one in found.items()} == {
        "libx1": "pkg:deb/debian/libx1@1:2.3-4?arch=amd64&distro=debian-13",
        "a-b": "pkg:pypi/a-b@1.0",
        "old": "pkg:pypi/old@2",
        "older": "pkg:pypi/older@3",
    }
    assert found["a-b"]["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert [one["license"]["name"] for one in found["libx1"]["licenses"]] == ["GPL-2+", "MIT"]
    assert found["old"]["licenses"] == [{"license": {"name": "BSD"}}]
    assert found["older"]["licenses"] == [{"license": {"name": "MIT License"}}]


@pytest.mark.parametrize(("architecture", "digest"), [("amd64", "1"), ("arm64", "2")])
def test_the_hash_is_that_of_the_architectures_wheel(root: Path, architecture: str, digest: str) -> None:
    hashes = components(text_of(root, architecture))["a-b"]["hashes"]
    assert hashes == [{"alg": "SHA-256", "content": digest * 64}]


def test_the_same_content_gives_the_same_document_and_other_content_another_serial_number(root: Path) -> None:
    first = text_of(root)
    assert text_of(root) == first
    put(root, f"{SITE}/new-1.dist-info/METADATA", "Name: new\nVersion: 1\nLicense: MIT\n")
    assert json.loads(text_of(root))["serialNumber"] != json.loads(first)["serialNumber"]


def test_a_folder_that_is_no_image_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["sbom", str(tmp_path)])
    assert sbom.main() == 2
    assert "not an unpacked image" in capsys.readouterr().err
