"""Directories as layers and an image as an OCI layout, written so that equal content gives equal bytes.

A layer is a tar archive in order of names, with numeric owners, no user names, and no date after SOURCE_DATE_EPOCH;
its compression has no date either. Descriptors and configuration are JSON with sorted keys. The layout follows the OCI
image specification 1.1, so that `skopeo copy oci:FOLDER docker://...` or `umoci unpack` can take it from there.
"""

import gzip
import hashlib
import io
import json
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

MEDIA: Final = "application/vnd.oci.image"
COMPRESSION: Final = 6
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Layer:
    """A compressed archive."""

    path: Path
    digest: str
    """SHA-256 of the compressed archive: its name in a registry."""
    diff_id: str
    """SHA-256 of the archive itself: the same wherever it is compressed."""
    size: int
    """Bytes, compressed."""
    unpacked: int
    """Bytes of the archive."""
    created_by: str


class _Hashed(io.RawIOBase):
    """Counts and hashes what passes through."""

    def __init__(self, under: Any) -> None:
        self._under = under
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self.size += len(data)
        self._under.write(data)
        return len(data)


def write_layer(tree: Path, path: Path, epoch: int, created_by: str) -> Layer:
    """All of `tree` as a layer. Raises `ValueError` for what an image must not hold: devices, setuid programs."""
    with path.open("wb") as file:
        compressed = _Hashed(file)
        # the name would be in the header
        with gzip.GzipFile("", "wb", COMPRESSION, compressed, mtime=0) as zipped:
            plain = _Hashed(zipped)
            with tarfile.open(fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT, bufsize=_CHUNK) as archive:
                for entry in sorted(_entries(tree)):
                    _add(archive, tree, entry, epoch)
    return Layer(path, compressed.digest, plain.digest, compressed.size, plain.size, created_by)


def _entries(tree: Path) -> Iterator[str]:
    return (str(path.relative_to(tree)) for path in tree.rglob("*"))


def _add(archive: tarfile.TarFile, tree: Path, name: str, epoch: int) -> None:
    path = tree / name
    info = archive.gettarinfo(path, name)
    if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        raise ValueError(f"/{name}: neither a file, a folder nor a link")
    if info.isreg() and info.mode & (stat.S_ISUID | stat.S_ISGID):
        raise ValueError(f"/{name}: a setuid or setgid program")
    info.uname = info.gname = ""
    info.mtime = min(int(info.mtime), epoch)
    if info.isreg():
        with path.open("rb") as content:
            archive.addfile(info, content)
    else:
        archive.addfile(info)


def write_layout(
    folder: Path, layers: Iterable[Layer], process: Mapping[str, Any], architecture: str, epoch: int, tag: str
) -> str:
    """The layout around `layers`, whose archives move into it. Returns the manifest's digest."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    listed = list(layers)
    for layer in listed:
        layer.path.rename(blobs / layer.digest.removeprefix("sha256:"))
    config = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": dict(process),
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in listed]},
        "history": [{"created": created, "created_by": layer.created_by} for layer in listed],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "config": _put(blobs, config, f"{MEDIA}.config.v1+json"),
        "layers": [
            {"mediaType": f"{MEDIA}.layer.v1.tar+gzip", "digest": layer.digest, "size": layer.size} for layer in listed
        ],
    }
    descriptor = _put(blobs, manifest, f"{MEDIA}.manifest.v1+json") | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": tag},
    }
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA}.index.v1+json", "manifests": [descriptor]}
    (folder / "index.json").write_bytes(_json(index))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(descriptor["digest"])


def join_layouts(folder: Path, layouts: Mapping[str, Path], tag: str) -> str:
    """One layout of several, by architecture: `tag` names an index of the images, which a node chooses from, and
    `tag`-ARCHITECTURE each of them, for programs that take no index. Returns the index's digest.
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    images = {}
    for architecture, layout in sorted(layouts.items()):
        (described,) = json.loads((layout / "index.json").read_bytes())["manifests"]
        images[architecture] = {name: value for name, value in described.items() if name != "annotations"}
        for blob in (layout / "blobs" / "sha256").iterdir():
            shutil.copy(blob, blobs / blob.name)
    media_type = f"{MEDIA}.index.v1+json"
    index = {"schemaVersion": 2, "mediaType": media_type, "manifests": list(images.values())}
    named = {tag: _put(blobs, index, media_type)}
    named |= {f"{tag}-{architecture}": image for architecture, image in images.items()}
    entries = [
        image | {"annotations": {"org.opencontainers.image.ref.name": reference}} for reference, image in named.items()
    ]
    (folder / "index.json").write_bytes(_json({"schemaVersion": 2, "mediaType": media_type, "manifests": entries}))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(named[tag]["digest"])


def _put(blobs: Path, value: Any, media_type: str) -> dict[str, Any]:
    """Store a JSON document; its descriptor."""
    data = _json(value)
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
