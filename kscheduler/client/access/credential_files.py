"""Files with certificates, keys and tokens, which are mounted and rotated: whether one has changed, and may be read."""

import errno
import stat
from pathlib import Path

# Inode, size and time of the last change of the file behind all symlinks; `None`: it cannot be seen.
FileStamp = tuple[int, int, int] | None


def file_stamp(path: str) -> FileStamp:
    """The file's stamp as it is now."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_regular(path: str | Path) -> None:
    """Raises `OSError` for what is no regular file: a pipe or a device may keep its reader forever."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
