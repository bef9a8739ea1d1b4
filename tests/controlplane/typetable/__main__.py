"""Prints the table."""

import shutil
import sys
import tempfile
from pathlib import Path

from kscheduler.simulation.kinds.resources import RESOURCES
from tests.controlplane.binaries import cache_folder
from tests.controlplane.releases.pinned import MODULE
from tests.controlplane.toolchain import find_go, run_go

COMPILE_SECONDS = 1800.0
ONLY_IN_REQUESTS = (
    "authentication.k8s.io/v1=TokenRequest",
    "autoscaling/v1=Scale",
    "policy/v1=Eviction",
    "v1=PodTemplate",
    "apps/v1=ControllerRevision",
    "batch/v1=CronJob",
    "autoscaling/v2=HorizontalPodAutoscaler",
)


def main() -> None:
    kinds = sorted({f"{resource.group_version}={resource.kind}" for resource in RESOURCES} | set(ONLY_IN_REQUESTS))
    with tempfile.TemporaryDirectory(prefix="kscheduler-typetable-") as folder:
        for name in ("go.mod", "go.sum"):
            shutil.copy(MODULE / name, folder)
        shutil.copy(Path(__file__).with_name("main.go.txt"), Path(folder, "main.go"))
        command = ("run", "-mod=mod", "-trimpath", ".", *kinds)
        sys.stdout.write(run_go(find_go(cache_folder()), *command, folder=Path(folder), seconds=COMPILE_SECONDS))


if __name__ == "__main__":
    main()
