"""Equal content gives equal bytes, and what an image must not hold is refused."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from deploy.image import layers

EPOCH = 1_700_000_000


def tree(folder: Path, *, names: tuple[str, ...] = ("b", "a/c", "a/d")) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "link").symlink_to("b")
    return folder


def members(layer: layers.Layer) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer.path.read_bytes()))) as archive:
        return archive.getmembers()


def test_order_of_creation_and_dates_after_the_epoch_make_no_difference(tmp_path: Path) -> None:
    first = tree(tmp_path / "first")
    second = tree(tmp_path / "second", names=("a/d", "a/c", "b"))
    os.utime(second / "b", (EPOCH + 5, EPOCH + 5))
    made = [layers.write_layer(one, tmp_path / f"{one.name}.tar.gz", EPOCH, "") for one in (first, second)]
    assert made[0].digest == made[1].digest
    assert made[0].diff_id == made[1].diff_id


def test_content_and_permissions_make_one(tmp_path: Path) -> None:
    first, second, third = (tree(tmp_path / name) for name in ("first", "second", "third"))
    (second / "b").write_text("other")
    (third / "b").chmod(0o700)
    made = [layers.write_layer(one, tmp_path / f"{one.name}.tar.gz", EPOCH, "") for one in (first, second, third)]
    assert len({layer.diff_id for layer in made}) == 3


def test_entries_are_in_order_owned_by_numbers_and_never_younger_than_the_epoch(tmp_path: Path) -> None:
    folder = tree(tmp_path / "tree")
    os.utime(folder / "b", (5, 5))
    found = members(layers.write_layer(folder, tmp_path / "layer.tar.gz", EPOCH, ""))
    assert [one.name for one in found] == ["a", "a/c", "a/d", "b", "link"]
    assert {(one.uname, one.gname) for one in found} == {("", "")}
    assert max(one.mtime for one in found) == EPOCH
    assert next(one for one in found if one.name == "b").mtime == 5


def test_a_setuid_program_and_a_pipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    program = tmp_path / "first" / "su"
    program.write_text("")
    program.chmod(0o4755)
    with pytest.raises(ValueError, match="/su: a setuid or setgid program"):
        layers.write_layer(tmp_path / "first", tmp_path / "layer", EPOCH, "")
    (tmp_path / "second").mkdir()
    os.mkfifo(tmp_path / "second" / "pipe")
    with pytest.raises(ValueError, match="/pipe: neither a file"):
        layers.write_layer(tmp_path / "second", tmp_path / "layer", EPOCH, "")


def test_a_layout_leads_from_the_index_to_each_layer_by_digest(tmp_path: Path) -> None:
    layer = layers.write_layer(tree(tmp_path / "tree"), tmp_path / "layer.tar.gz", EPOCH, "a test")
    digest = layers.write_layout(tmp_path / "oci", [layer], {"User": "1:1"}, "arm64", EPOCH, "1.0")
    blobs = tmp_path / "oci" / "blobs" / "sha256"
    for path in blobs.iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    (described,) = json.loads((tmp_path / "oci" / "index.json").read_text())["manifests"]
    assert described["digest"] == digest
    assert described["annotations"] == {"org.opencontainers.image.ref.name": "1.0"}
    manifest = json.loads((blobs / digest.removeprefix("sha256:")).read_text())
    config = json.loads((blobs / manifest["config"]["digest"].removeprefix("sha256:")).read_text())
    assert (config["architecture"], config["config"], config["created"]) == (
        "arm64",
        {"User": "1:1"},
        "2023-11-14T22:13:20Z",
    )
    assert config["rootfs"]["diff_ids"] == [layer.diff_id]
    assert [one["size"] for one in manifest["layers"]] == [layer.size]


def test_images_of_two_architectures_are_one_layout_with_an_index_and_a_name_for_each(tmp_path: Path) -> None:
    digests = {}
    for architecture in ("amd64", "arm64"):
        folder = tree(tmp_path / architecture, names=("b", architecture))
        layer = layers.write_layer(folder, tmp_path / f"{architecture}.tar.gz", EPOCH, "a test")
        place = tmp_path / f"oci-{architecture}"
        digests[architecture] = layers.write_layout(place, [layer], {"User": "1:1"}, architecture, EPOCH, "1.0")
    layouts = {architecture: tmp_path / f"oci-{architecture}" for architecture in ("arm64", "amd64")}
    digest = layers.join_layouts(tmp_path / "oci", layouts, "1.0")
    blobs = tmp_path / "oci" / "blobs" / "sha256"
    for path in blobs.iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    names = {
        one["annotations"]["org.opencontainers.image.ref.name"]: one["digest"]
        for one in json.loads((tmp_path / "oci" / "index.json").read_text())["manifests"]
    }
    assert names == {"1.0": digest, "1.0-amd64": digests["amd64"], "1.0-arm64": digests["arm64"]}
    index = json.loads((blobs / digest.removeprefix("sha256:")).read_text())
    assert index["mediaType"] == "application/vnd.oci.image.index.v1+json"
    chosen = [(one["platform"]["architecture"], one["digest"]) for one in index["manifests"]]
    assert chosen == sorted(digests.items())
    assert layers.join_layouts(tmp_path / "again", dict(reversed(layouts.items())), "1.0") == digest
