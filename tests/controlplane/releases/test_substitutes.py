"""Modules that the proxy does not serve are replaced, in a copy of the module file, by what was once tried."""

import json
from pathlib import Path

import pytest

from tests.controlplane.releases import pinned, substitutes
from tests.controlplane.releases.pinned import Release
from tests.controlplane.releases.substitutes import Empty, Split, Version
from tests.controlplane.toolchain import GoError

RELEASE = Release(1, 99, 0, "alpha.1")
PINNED = """\
module kscheduler.invalid/controlplane

require k8s.io/types v0.99.0-alpha.1

replace (
	k8s.io/kept => k8s.io/kept v0.99.0-alpha.1
	k8s.io/types => k8s.io/types v0.99.0-alpha.1
)
"""
SPLIT = Split(
    source="k8s.io/whole",
    version="v0.98.0",
    checksum="h1:tried",
    folders=("pkg/types",),
    left_out=("conversion.go",),
    renamed={"k8s.io/whole/pkg/": "k8s.io/types/pkg/"},
    added={"pkg/types/more.go": "package types\n"},
)


@pytest.fixture(name="files")
def files_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    rows = {"k8s.io/types": SPLIT, "k8s.io/tests": Empty(), "example.com/fixed": Version("v1.0.0")}
    monkeypatch.setattr(substitutes, "SUBSTITUTES", {str(RELEASE): rows})
    source = tmp_path / "download" / "pkg" / "types"
    source.mkdir(parents=True)
    source.joinpath("types.go").write_text('package types\n\nimport "k8s.io/whole/pkg/other" // of k8s.io/whole/pkg/\n')
    for left_out in ("conversion.go", "types_test.go"):
        source.joinpath(left_out).write_text("package types\n")
    answer = json.dumps({"Sum": "h1:tried", "Dir": str(tmp_path / "download")})
    monkeypatch.setattr(substitutes, "run_go", lambda *_, **__: answer)
    files = tmp_path / "go.mod", tmp_path / "go.sum"
    files[0].write_text(PINNED)
    files[1].write_text("sums\n")
    return files


def test_a_release_without_substitutes_is_built_with_its_own_module_file(tmp_path: Path) -> None:
    default = pinned.find(pinned.DEFAULT)
    assert substitutes.module_file(default, default.files, tmp_path / "go", tmp_path) == default.module_file
    assert not substitutes.digest(default)


def test_each_substitute_replaces_its_module_in_a_copy(files: tuple[Path, Path], tmp_path: Path) -> None:
    made = substitutes.module_file(RELEASE, files, tmp_path / "go", tmp_path / "cache")
    text = made.read_text()
    assert "k8s.io/kept => k8s.io/kept v0.99.0-alpha.1" in text
    assert "k8s.io/types => k8s.io/types v0.99.0-alpha.1" not in text
    assert f"replace k8s.io/types => {made.parent}/k8s.io/types\n" in text
    assert f"replace k8s.io/tests => {made.parent}/k8s.io/tests\n" in text
    assert "replace example.com/fixed => example.com/fixed v1.0.0\n" in text
    assert made.with_suffix(".sum").read_text() == "sums\n"
    assert files[0].read_text() == PINNED


def test_a_split_module_has_the_packages_with_their_new_import_paths(files: tuple[Path, Path], tmp_path: Path) -> None:
    folder = substitutes.module_file(RELEASE, files, tmp_path / "go", tmp_path / "cache").parent / "k8s.io" / "types"
    assert sorted(path.name for path in folder.rglob("*.*")) == ["go.mod", "more.go", "types.go"]
    text = folder.joinpath("pkg", "types", "types.go").read_text()
    assert text == 'package types\n\nimport "k8s.io/types/pkg/other" // of k8s.io/whole/pkg/\n'
    assert folder.joinpath("go.mod").read_text().startswith("module k8s.io/types\n\ngo 1.")


def test_another_content_than_the_tried_one_is_refused_and_leaves_nothing(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(substitutes, "run_go", lambda *_, **__: json.dumps({"Sum": "h1:other", "Dir": str(tmp_path)}))
    with pytest.raises(GoError, match="checksum h1:other, not h1:tried"):
        substitutes.module_file(RELEASE, files, tmp_path / "go", tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*/*"))


def test_only_pinned_releases_have_substitutes() -> None:
    assert substitutes.SUBSTITUTES.keys() <= {str(release) for release in pinned.all_pinned()}
