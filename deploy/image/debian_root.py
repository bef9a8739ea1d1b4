"""A root of Debian packages that stands in for the base image where no registry can be reached.

The base, distroless python3-debian13, is Debian 13 packages unpacked without their scripts, with a user and nothing to
install more with. mmdebstrap downloads the same packages (apt checks Debian's signatures), and they are unpacked here
in the same way: no maintainer script runs, no dependency is added that a script would need (debconf, mawk, openssl),
and each package's control file lies in /var/lib/dpkg/status.d, where scanners look in distroless images. The versions
are those of the mirror on the day; the published image has those of the base's digest.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from deploy.image.install import INTERPRETER, BuildError

SUITE: Final = "trixie"
KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR: Final = "http://deb.debian.org"

PACKAGES: Final = (
    # what every program needs; base-files comes first, because it brings the links /bin, /lib and /lib64
    *("base-files", "netbase", "media-types", "tzdata", "tzdata-legacy", "ca-certificates"),
    *("libc6", "libc-bin", "libcrypt1", "libgcc-s1", "gcc-14-base", "libstdc++6", "libgomp1"),
    # what Python is linked with
    *("libssl3t64", "libzstd1", "zlib1g", "libbz2-1.0", "liblzma5", "libexpat1", "libffi8", "libuuid1"),
    *("libsqlite3-0", "libdb5.3t64", "libncursesw6", "libtinfo6", "libreadline8t64"),
    *("libcom-err2", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0"),
    *("libnsl2", "libtirpc3t64"),
    *("libpython3.13-minimal", "libpython3.13-stdlib", "python3.13-minimal"),
)
"""As in the base, but without its `python3.13-venv`."""

VARIABLES: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
    "LANG": "C.UTF-8",
}
"""What the base sets for each process."""

USERS: Final = (("root", 0, "/root"), ("nobody", 65534, "/nonexistent"), ("nonroot", 65532, "/home/nonroot"))
UNNEEDED: Final = ("usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/bug")


def missing_tool() -> str:
    """Why a root cannot be made here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can give files of the image to their owners"
    missing = [name for name in ("mmdebstrap", "dpkg-deb") if shutil.which(name) is None]
    return f"{missing[0]} is not installed (apt-get install mmdebstrap)" if missing else ""


def packages(cache: Path, architecture: str) -> list[Path]:
    """The packages' files, downloaded once into `cache`. Raises `BuildError`."""
    wanted = "\n".join((SUITE, MIRROR, architecture, *PACKAGES))
    folder = cache / f"debian-{architecture}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        _download(folder, architecture)
    found = {path.name.partition("_")[0]: path for path in folder.glob("*.deb")}
    return [found[name] for name in PACKAGES]


def _download(folder: Path, architecture: str) -> None:
    """Downloads beside `folder` and renames at the end, so a folder that exists is complete."""
    if reason := missing_tool():
        raise BuildError(reason)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        root, debs = Path(name, "root"), Path(name, "debs")
        command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=extract", f"--architectures={architecture}"]
        command += [f"--include={','.join(PACKAGES)}", "--skip=cleanup/apt/cache", f"--keyring={KEYRING}", SUITE]
        command += [str(root), f"deb {MIRROR}/debian {SUITE} main"]
        command += [f"deb {MIRROR}/debian {SUITE}-updates main", f"deb {MIRROR}/debian-security {SUITE}-security main"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise BuildError(f"mmdebstrap ended with {ended.returncode}: {ended.stderr.strip()}")
        debs.mkdir()
        for path in (root / "var/cache/apt/archives").glob("*.deb"):
            if path.name.partition("_")[0] in PACKAGES:
                path.rename(debs / path.name)
        debs.rename(folder)


def make(root: Path, debs: Iterable[Path]) -> None:
    """Unpack the packages into `root`, and add what distroless adds."""
    status = root / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    for path in debs:
        name = path.name.partition("_")[0]
        subprocess.run(["dpkg-deb", "--extract", path, root], check=True)
        control = subprocess.run(["dpkg-deb", "--field", path], capture_output=True, check=True).stdout
        (status / name).write_bytes(control)
    for name in UNNEEDED:
        shutil.rmtree(root / name, ignore_errors=True)
    _add_authorities(root)
    _add_users(root)
    for link in ("python", "python3"):
        (root / "usr/bin" / link).symlink_to(INTERPRETER)
    (root / "tmp").chmod(0o1777)


def python_version(root: Path) -> str:
    """The release of the interpreter in `root`; rebuilds of one architecture (`+b1`) count for nothing."""
    control = (root / "var/lib/dpkg/status.d" / "python3.13-minimal").read_text(encoding="utf-8")
    (version,) = re.findall(r"^Version: (\S+)$", control, re.MULTILINE)
    return re.sub(r"\+b\d+$", "", str(version))


def _add_authorities(root: Path) -> None:
    """One bundle, as `update-ca-certificates` makes it; that script itself needs a shell."""
    source = root / "usr/share/ca-certificates/mozilla"
    bundle = b"".join(path.read_bytes() for path in sorted(source.glob("*.crt")))
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_bytes(bundle)
    shutil.rmtree(root / "usr/share/ca-certificates")
    (root / "usr/sbin/update-ca-certificates").unlink()


def _add_users(root: Path) -> None:
    passwd = (f"{name}:x:{number}:{number}:{name}:{home}:/sbin/nologin\n" for name, number, home in USERS)
    (root / "etc/passwd").write_text("".join(passwd), encoding="utf-8")
    groups = (f"{name}:x:{number}:\n" for name, number, _ in USERS)
    (root / "etc/group").write_text("".join(groups), encoding="utf-8")
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n", encoding="utf-8")
    home = root / "home/nonroot"
    home.mkdir(mode=0o700, parents=True)
    os.chown(home, 65532, 65532)
