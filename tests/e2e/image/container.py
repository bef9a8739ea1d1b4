"""The image as a container: unpacked by umoci, run by runc, as strictly as the Deployment asks a kubelet to.

Its user, no capability, no way to get any, a root that cannot be written, namespaces of its own; the network alone is
this machine's, because the API server listens on loopback. What runs is the image's own command, with the port and the
address changed: many tests share them.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from deploy.image import debian_root
from tests.controlplane.process import Process

TOOLS: Final = ("umoci", "runc")
# Set by .ci/run, where nothing may be skipped for want of a tool.
CI: Final = "KSCHEDULER_CI"
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
OWN_VALUES: Final = {"--bind-address": "127.0.0.1", "--port": "0"}
# Election has tests of its own (`tests/e2e/election`), with rights for its Lease.
OWN_WORDS: Final = {"--leader-elect=true": "--leader-elect=false"}


def missing() -> str:
    """Why the image cannot be built and run here; empty if it can."""
    if reason := debian_root.missing_tool():
        return reason
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"{absent[0]} is not installed (apt-get install {' '.join(TOOLS)})" if absent else ""


def unpack(layout: Path, tag: str, bundle: Path) -> Path:
    """The root file system, unpacked by a program that is not ours."""
    subprocess.run(["umoci", "unpack", "--image", f"{layout}:{tag}", bundle], check=True, capture_output=True)
    return bundle / "rootfs"


class Container:
    """A container of an unpacked image; not yet started."""

    def __init__(
        self,
        bundle: Path,
        folder: Path,
        mounts: Mapping[str, Path],
        environment: Mapping[str, str],
        like: Mapping[str, Any] | None = None,
    ) -> None:
        """`mounts`: files and folders of this machine by their place in the container, where they cannot be written.
        `like`: a container of a manifest, whose arguments and user take the image's place.
        """
        self.folder = folder
        self._name = f"kscheduler-image-{os.getpid()}-{folder.name}"
        self._runc: tuple[str | Path, ...] = ("runc", "--root", folder / "state")
        self._bundle = folder / "bundle"
        self._bundle.mkdir()
        config = json.loads((bundle / "config.json").read_text())
        if like is not None:
            entry_point = config["process"]["args"][:1]
            config["process"]["args"] = [*entry_point, *like["args"]]
            config["process"]["user"] = {
                "uid": like["securityContext"]["runAsUser"],
                "gid": like["securityContext"]["runAsGroup"],
            }
        (self._bundle / "config.json").write_text(json.dumps(strict(config, bundle, mounts, environment)))
        command: list[str | Path] = [*self._runc, "run", "--bundle", self._bundle, self._name]
        self.process = Process("kscheduler in its image", command, folder / "kscheduler.log")

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *error: object) -> None:
        subprocess.run([*self._runc, "delete", "--force", self._name], check=False, capture_output=True)
        self.process.kill()

    @property
    def pid(self) -> int:
        """The scheduler's process id on this machine."""
        state = subprocess.run([*self._runc, "state", self._name], check=True, capture_output=True)
        return int(json.loads(state.stdout)["pid"])

    def status(self) -> dict[str, str]:
        """/proc/<pid>/status."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def written_files(self) -> list[str]:
        """Regular files in the container's own file systems that are open for writing, and whatever lies in memory."""
        found = []
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            target = str(link.readlink())
            flags = int(Path(f"/proc/{self.pid}/fdinfo/{link.name}").read_text().split()[3], 8)
            if flags & (os.O_WRONLY | os.O_RDWR) and target.startswith("/") and target != str(self.process.log):
                found.append(target)
        found = [target for target in found if not target.startswith("/dev/")]
        return found + [str(path) for path in Path(f"/proc/{self.pid}/root/dev/shm").iterdir()]


def strict(
    config: dict[str, Any], bundle: Path, mounts: Mapping[str, Path], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Umoci's translation of the image's configuration, with less of everything."""
    process = config["process"]
    process["terminal"] = False
    process["args"] = own_arguments(process["args"])
    process["env"] += [f"{name}={value}" for name, value in environment.items()]
    process["capabilities"] = {kind: [] for kind in process["capabilities"]}
    process["noNewPrivileges"] = True
    config["root"] = {"path": str(bundle / "rootfs"), "readonly": True}
    config["linux"] = {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]}
    kept = [one for one in config["mounts"] if one["destination"] in {"/proc", "/dev", "/dev/shm"}]
    own = [
        {"destination": place, "type": "bind", "source": str(source), "options": ["rbind", "ro", "nosuid", "nodev"]}
        for place, source in mounts.items()
    ]
    config["mounts"] = [*kept, *own]
    return config


def own_arguments(arguments: list[str]) -> list[str]:
    """The image's command with an address and a port that nobody else has, and without a Lease."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [OWN_VALUES.get(before, OWN_WORDS.get(word, word)) for before, word in pairs]


def service_account(folder: Path, kubeconfig: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Mounts and variables by which a kubelet tells a pod where its API server is, from a kubeconfig with a token."""
    tree = json.loads(kubeconfig.read_text())
    cluster, user = tree["clusters"][0]["cluster"], tree["users"][0]["user"]
    account = folder / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(user["token"])
    shutil.copy(cluster["certificate-authority"], account / "ca.crt")
    for path in (account, *account.iterdir()):
        os.chown(path, 65532, 65532)
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    return {ACCOUNT: account}, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
