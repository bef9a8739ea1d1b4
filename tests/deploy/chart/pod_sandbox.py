"""Becomes the process of a container, with its mounts: `unshare --mount python pod_sandbox.py SPEC.json`.

In a mount namespace of its own, /etc and /run are laid over by empty layers, so that mount points can be made there;
the machine's own files do not change. Then each volume is bound to its place, and the container's command takes over.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def enter(spec: dict[str, Any]) -> None:
    """Mounts, then the command; does not return."""
    layers = Path(spec["layers"])
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "layers", str(layers))
    (layers / "etc").mkdir()
    (layers / "work").mkdir()
    over = f"lowerdir=/etc,upperdir={layers / 'etc'},workdir={layers / 'work'}"
    mount("-t", "overlay", "etc", "-o", over, "/etc")
    mount("-t", "tmpfs", "run", "/run")
    hosts = "".join(f"{address} {name}\n" for name, address in spec["hosts"].items())
    Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
    for source, place in spec["mounts"]:
        Path(place).mkdir(parents=True, exist_ok=True)
        mount("--bind", source, place)
    os.execvpe(spec["command"][0], spec["command"], spec["environment"])


if __name__ == "__main__":
    enter(json.loads(Path(sys.argv[1]).read_text()))
