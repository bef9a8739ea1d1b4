"""The parts of a release that need no image: the chart's package, and what ends `make release`."""

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from deploy.image.install import BuildError
from deploy.release import build as release
from deploy.release import distributions

EPOCH = 1_700_000_000


def members(package: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(package.read_bytes()))) as archive:
        return archive.getmembers()


def test_the_charts_package_is_the_same_each_time_for_whoever_makes_it(tmp_path: Path) -> None:
    made = []
    for umask in (0o022, 0o077):
        before = os.umask(umask)
        try:
            folder = tmp_path / f"{umask:o}"
            folder.mkdir()
            made.append(distributions.chart_package(folder, EPOCH))
        finally:
            os.umask(before)
    assert made[0].read_bytes() == made[1].read_bytes()
    found = members(made[0])
    assert {(one.mtime, one.mode, one.uid, one.uname) for one in found} == {(EPOCH, 0o644, 0, "")}
    assert [one.name for one in found] == sorted(one.name for one in found)


def test_the_charts_package_holds_what_is_committed_and_helm_would_take(tmp_path: Path) -> None:
    names = {one.name for one in members(distributions.chart_package(tmp_path, EPOCH))}
    committed = {f"kscheduler/{name}" for name in distributions.committed_files(distributions.CHART)}
    assert names == {name for name in committed if not name.startswith("kscheduler/ci/")}
    assert "kscheduler/Chart.yaml" in names


@pytest.mark.parametrize(
    ("name", "pattern", "ignored"),
    [
        ("ci/replace.yaml", "ci/", True),
        ("templates/ci.yaml", "ci/", False),
        ("templates/a.yaml.orig", "*.orig", True),
        ("values.yaml~", "*~", True),
        ("values.yaml", "*.swp", False),
    ],
)
def test_helmignore_is_read_as_helm_reads_it(name: str, pattern: str, ignored: bool) -> None:
    assert distributions._ignored(name, pattern) is ignored


def test_a_form_of_helmignore_that_is_not_read_is_an_error_and_no_guess() -> None:
    with pytest.raises(BuildError, match=r"!values\.yaml is in a form that is not read"):
        distributions._ignored("values.yaml", "!values.yaml")


def test_a_folder_without_git_is_no_source_of_a_release(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="a release is made of a git checkout"):
        distributions.committed_files(tmp_path)


def test_an_architecture_without_a_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["build", f"--output={tmp_path / 'out'}", "--architectures=amd64,riscv64"])
    assert release.main() == 1
    assert "riscv64: the lock files are for amd64 and arm64" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("architecture", "without"), [("arm64", "amd64"), ("amd64", "arm64")])
def test_an_architecture_that_cannot_be_built_ends_the_release_and_says_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, without: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no mmdebstrap
    with pytest.raises(BuildError) as caught:
        release.build_images(tmp_path / "images", [architecture, without], EPOCH, "0" * 40)
    first, last = str(caught.value).splitlines()
    assert first.startswith(f"the image for {architecture} cannot be built here: ")
    assert last == f"ARCHITECTURES={without} makes a release without it"


def test_an_archive_depends_on_names_and_contents_only() -> None:
    files = {"b": b"2", "a/c": b"1"}
    first = distributions.archive(files, EPOCH)
    assert distributions.archive(dict(reversed(files.items())), EPOCH) == first
    assert hashlib.sha256(distributions.archive(files | {"b": b"3"}, EPOCH)).digest() != hashlib.sha256(first).digest()
