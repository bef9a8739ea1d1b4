"""Whether a file has changed since it was read, without reading it: certificates and keys that are mounted."""

from pathlib import Path

FileStamp = tuple[int, int, int] | None
"""Inode, size and time of the last change of the file behind all symlinks; `None`: it cannot be seen."""


def file_stamp(path: str) -> FileStamp:
    """The file's stamp as it is now."""
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
